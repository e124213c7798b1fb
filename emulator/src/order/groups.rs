//! Groups of asynchronous operations: committed together, and waited for in their order.

/// The groups of one engine of a warp.
///
/// Every lane has groups of its own. Here a commit has one number for all lanes that execute it, which is the time of
/// the operations before it; a wait is for the numbers that its lanes no longer have. So lanes that commit apart may
/// wait for each other's operations, which hides a missing wait and never accuses.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// The engine, once it was used.
    pub(super) agent: Option<u16>,
    /// Commits so far.
    committed: u32,
    /// Commits that a lane has not waited for, and those lanes.
    open: Vec<(u32, u32)>,
    /// Lanes that have operations without a commit.
    loose: u32,
}

impl Groups {
    /// Bytes that they take.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(self.open.as_slice()) as u64
    }

    /// Lanes issue operations; gives their time.
    pub(super) fn issue(&mut self, lanes: u32) -> u32 {
        self.loose |= lanes;
        self.committed + 1
    }

    pub(super) fn commit(&mut self, lanes: u32) {
        self.committed += 1;
        self.open.push((self.committed, lanes));
        self.loose &= !lanes;
    }

    /// Waits for all but the last `keep` groups of these lanes; gives the time that is complete.
    pub(super) fn wait(&mut self, lanes: u32, keep: u32) -> u32 {
        let mut kept = [0; 32];
        let mut completed = 0;
        for (number, members) in self.open.iter_mut().rev() {
            let here = *members & lanes;
            for lane in (0..32).filter(|lane| here >> lane & 1 != 0) {
                kept[lane] += 1;
                if kept[lane] > keep {
                    *members &= !(1 << lane);
                    completed = completed.max(*number);
                }
            }
        }
        self.open.retain(|(_, members)| *members != 0);
        completed
    }

    /// The time of all operations so far; later ones have a later time.
    pub(super) fn mark(&mut self) -> u32 {
        self.committed += 1;
        self.committed
    }

    /// Whether one of these lanes has operations that it did not wait for.
    pub(super) fn has(&self, lanes: u32) -> bool {
        self.loose & lanes != 0 || self.open.iter().any(|(_, members)| members & lanes != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Groups;

    #[test]
    fn a_wait_leaves_the_last_groups() {
        let mut groups = Groups::default();
        assert_eq!(groups.issue(!0), 1);
        groups.commit(!0);
        assert_eq!(groups.issue(1), 2);
        groups.commit(!0);
        assert_eq!(groups.wait(!0, 2), 0);
        assert_eq!(groups.wait(!0, 1), 1);
        assert!(groups.has(1));
        assert_eq!(groups.wait(1, 0), 2);
        assert!(!groups.has(1) && groups.has(2));
        assert_eq!(groups.issue(1), 3);
        assert!(groups.has(1));
    }
}
