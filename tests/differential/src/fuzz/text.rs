//! A program's text.
//!
//! `%m0`, `%m1`, … are the lanes of the warp that go the way of a depth together: all at depth 0, those of a side or of a turn
//! inside of a branch or a loop. They are kept where something inside needs them: an instruction of several lanes, whose
//! lines call them `%M`, or an end of lanes.

use super::{Condition, Item, Trips};

/// The mask of the lanes that execute a line together.
pub(super) const MASK: &str = "%M";
/// The number of a line's labels.
pub(super) const LABEL: &str = "#";

/// The items as PTX.
pub(super) fn of(items: &[Item]) -> String {
    let mut writer = Writer::default();
    writer.items(items, 0);
    writer.text
}

/// Whether the lanes that go this way together must be known.
fn together(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Line(line) => line.contains(MASK),
        Item::End { .. } => true,
        Item::If { then, otherwise, .. } => together(then) || together(otherwise),
        Item::Loop { body, .. } => together(body),
    })
}

/// Whether lanes may end.
fn ends(items: &[Item]) -> bool {
    items.iter().any(|item| match item {
        Item::Line(_) => false,
        Item::End { .. } => true,
        Item::If { then, otherwise, .. } => ends(then) || ends(otherwise),
        Item::Loop { body, .. } => ends(body),
    })
}

#[derive(Default)]
struct Writer {
    text: String,
    labels: usize,
}

impl Writer {
    fn add(&mut self, lines: &str) {
        self.text.extend([lines, "\n"]);
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn items(&mut self, items: &[Item], depth: usize) {
        for item in items {
            match item {
                Item::Line(line) => {
                    let mut line = line.replace(MASK, &format!("%m{depth}"));
                    if line.contains(LABEL) {
                        line = line.replace(LABEL, &self.label().to_string());
                    }
                    self.add(&line);
                }
                Item::End { predicate, lanes } => self.add(&format!(
                    "and.b32 %w, %bit, {lanes};\nsetp.ne.and.b32 %q, %w, 0, {predicate};\n@%q exit;\n\
                     vote.sync.ballot.b32 %m{depth}, !%q, %m{depth};"
                )),
                Item::If { condition, then, otherwise } => self.branch(condition, then, otherwise, depth),
                Item::Loop { trips, leave, body } => self.turns(trips, leave.as_deref(), body, depth),
            }
            if matches!(item, Item::If { .. } | Item::Loop { .. }) && ends(std::slice::from_ref(item)) {
                // Of lanes that have ended nobody waits for, and they vote for nothing.
                self.add(&format!("vote.sync.ballot.b32 %m{depth}, %always, %m{depth};"));
            }
        }
    }

    fn branch(&mut self, condition: &Condition, then: &[Item], otherwise: &[Item], depth: usize) {
        let (label, masks, inside) = (self.label(), together(then) || together(otherwise), depth + 1);
        let predicate = match condition {
            Condition::Register(predicate) => {
                if masks {
                    self.add(&format!("vote.sync.ballot.b32 %m{inside}, {predicate}, %m{depth};"));
                }
                predicate
            }
            Condition::Lanes(lanes) => {
                self.add(&format!("and.b32 %w, %bit, {lanes};\nsetp.ne.u32 %q, %w, 0;"));
                if masks {
                    self.add(&format!("and.b32 %m{inside}, %m{depth}, {lanes};"));
                }
                "%q"
            }
        };
        self.add(&format!("@!{predicate} bra ELSE{label};"));
        self.items(then, inside);
        self.add(&format!("bra END{label};\nELSE{label}:"));
        if masks {
            self.add(&format!("not.b32 %m{inside}, %m{inside};\nand.b32 %m{inside}, %m{inside}, %m{depth};"));
        }
        self.items(otherwise, inside);
        self.add(&format!("END{label}:"));
    }

    fn turns(&mut self, trips: &Trips, leave: Option<&str>, body: &[Item], depth: usize) {
        let (label, masks, inside) = (self.label(), together(body), depth + 1);
        let end = match trips {
            Trips::All(trips) => trips.to_string(),
            Trips::Lane(register) => {
                self.add(&format!("and.b32 %c{depth}, {register}, 3;"));
                format!("%c{depth}")
            }
        };
        if masks {
            self.add(&format!("mov.b32 %m{inside}, %m{depth};"));
        }
        self.add(&format!("mov.u32 %n{depth}, 0;\nLOOP{label}:"));
        self.items(body, inside);
        let next = format!("add.u32 %n{depth}, %n{depth}, 1;\nsetp.lt.u32 %q, %n{depth}, {end};");
        let again = format!("@%q bra LOOP{label};\nEND{label}:");
        match leave {
            _ if masks => {
                self.add(&next);
                if let Some(leave) = leave {
                    self.add(&format!("not.pred %z, {leave};\nand.pred %q, %q, %z;"));
                }
                // All lanes that are in a loop without this take as many turns.
                if leave.is_some() || matches!(trips, Trips::Lane(_)) {
                    self.add(&format!("vote.sync.ballot.b32 %m{inside}, %q, %m{inside};"));
                }
                self.add(&again);
            }
            Some(leave) => self.add(&format!("@{leave} bra END{label};\n{next}\n{again}")),
            None => self.add(&format!("{next}\n{again}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_a_branch_know_their_lanes_only_where_they_need_them() {
        let sides = |line: &str| Item::If {
            condition: Condition::Register("%p0".into()),
            then: vec![Item::Line(line.into())],
            otherwise: Vec::new(),
        };
        assert!(!of(&[sides("nop;")]).contains("ballot"));
        let text = of(&[sides("bar.warp.sync %M;")]);
        assert!(text.contains("ballot.b32 %m1, %p0, %m0;") && text.contains("bar.warp.sync %m1;"), "{text}");
    }

    #[test]
    fn who_has_ended_is_in_no_mask_behind_the_branch() {
        let end = Item::End { predicate: "%p1".into(), lanes: 2 };
        let sides = Item::If { condition: Condition::Lanes(6), then: vec![end], otherwise: Vec::new() };
        let text = of(&[sides]);
        assert!(text.contains("and.b32 %m1, %m0, 6;"), "{text}");
        assert!(text.ends_with("END1:\nvote.sync.ballot.b32 %m0, %always, %m0;\n"), "{text}");
    }
}
