//! Making a program that shows something smaller.

use super::{Item, Program};

/// The smallest program found, by leaving parts out, for which `shows` still holds.
pub fn shrink(program: &Program, mut shows: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut length = best.lines().div_ceil(2);
    while length > 0 {
        let mut start = 0;
        while start < best.lines() {
            let smaller = Program { items: without(&best.items, start, start + length), ..best.clone() };
            if smaller.lines() < best.lines() && shows(&smaller) {
                best = smaller;
            } else {
                start += length;
            }
        }
        length = if length == 1 { 0 } else { length.div_ceil(2) };
    }
    best
}

/// The items without those numbered from `start` to `end`, a branch or loop before what it has inside; what is inside of
/// one that goes stays, in its place.
fn without(items: &[Item], start: usize, end: usize) -> Vec<Item> {
    fn part(items: &[Item], next: &mut usize, gone: &std::ops::Range<usize>) -> Vec<Item> {
        let mut kept = Vec::new();
        for item in items {
            let goes = gone.contains(next);
            *next += 1;
            match item {
                Item::Line(_) | Item::End { .. } if goes => {}
                Item::Line(_) | Item::End { .. } => kept.push(item.clone()),
                Item::If { condition, then, otherwise } => {
                    let (then, otherwise) = (part(then, next, gone), part(otherwise, next, gone));
                    if goes {
                        kept.extend(then.into_iter().chain(otherwise));
                    } else {
                        kept.push(Item::If { condition: condition.clone(), then, otherwise });
                    }
                }
                Item::Loop { trips, leave, body } => {
                    let body = part(body, next, gone);
                    if goes {
                        kept.extend(body);
                    } else {
                        kept.push(Item::Loop { trips: trips.clone(), leave: leave.clone(), body });
                    }
                }
            }
        }
        kept
    }
    part(items, &mut 0, &(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated;
    use crate::fuzz::{Condition, Trips, Vocabulary, group};
    use crate::random::Random;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let line = |text: &str| Item::Line(text.into());
        let inner = Item::If {
            condition: Condition::Register("%p0".into()),
            then: vec![line("b"), line("fault")],
            otherwise: vec![line("c")],
        };
        let body = vec![line("d"), inner, line("e")];
        let items = vec![line("a"), Item::Loop { trips: Trips::All(2), leave: None, body }, line("f")];
        let program = Program { seed: 0, items };
        assert_eq!(program.lines(), 9);
        let smallest = shrink(&program, |program| program.text().contains("fault"));
        assert_eq!(smallest.text(), "fault\n");
    }

    #[test]
    fn what_is_left_is_a_program() {
        let vocabulary = Vocabulary::default();
        for seed in 0..12 {
            let (program, mut random) = (Program::new(&vocabulary, seed), Random::new(seed));
            let smallest = shrink(&program, |program| {
                let outcome = emulated::run(&group(std::slice::from_ref(program))).remove(0);
                assert!(outcome.is_ok(), "{outcome:?}\n{}", program.text());
                !random.one_in(3)
            });
            assert!(smallest.lines() < program.lines());
        }
    }
}
