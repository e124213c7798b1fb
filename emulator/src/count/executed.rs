//! Instructions by their class.

use std::ops::{AddAssign, Index};

use crate::program::class::Class;

/// How often something was executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    /// Once for a warp.
    pub warps: u64,
    /// Once for every lane that took part.
    pub lanes: u64,
}

impl AddAssign for Executed {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        self.warps += other.warps;
        self.lanes += other.lanes;
    }
}

/// Instructions by their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes([Executed; Class::ALL.len()]);

impl Classes {
    /// Counts an instruction of a warp.
    #[inline(always)]
    pub(crate) fn count(&mut self, class: Class, lanes: u32) {
        // Mostly all of them, and to count bits is slow without an instruction for it.
        let lanes = if lanes == u32::MAX { u32::BITS } else { lanes.count_ones() };
        self.0[class as usize] += Executed { warps: 1, lanes: lanes.into() };
    }

    /// All of them.
    pub fn total(&self) -> Executed {
        self.0.iter().fold(Executed::default(), |mut total, &of| {
            total += of;
            total
        })
    }
}

impl Index<Class> for Classes {
    type Output = Executed;

    fn index(&self, class: Class) -> &Executed {
        &self.0[class as usize]
    }
}

impl AddAssign for Classes {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(into, from)| *into += from);
    }
}
