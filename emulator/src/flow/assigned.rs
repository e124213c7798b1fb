//! Registers that may be read before they are written.
//!
//! A forward analysis of what must have been assigned. A value that is computed from one that nobody wrote counts as
//! one that nobody wrote: a compiler may move such a computation to where its result is not used.

use std::collections::BTreeSet;

use super::blocks::Block;
use super::set::Set;
use crate::program::Coded;
use crate::program::access::Access;
use crate::program::register::Register;
use crate::program::undefined::Undefined;
use crate::program::watched::Files;

/// The registers that some instruction reads and that may have no value there. `starts` are instructions where it
/// begins, each with the registers that have a value there.
pub(super) fn doubtful(code: &[Coded], files: Files, starts: &[(usize, Set)], blocks: &[Block]) -> Set {
    let mut found = Set::new(files.count());
    let before = before(code, files, starts, blocks);
    for (block, mut assigned) in blocks.iter().zip(before) {
        for coded in &code[block.code.clone()] {
            let mut read = |register| {
                let number = files.number(register);
                if !assigned.contains(number) {
                    found.insert(number);
                }
            };
            if let Some(guard) = coded.guard {
                read(Register::P(guard.predicate));
            }
            coded.op.registers(&mut |access, register| {
                if access == Access::Read {
                    read(register);
                }
            });
            execute(coded, files, &mut assigned);
        }
    }
    found
}

/// What is assigned at the start of each block, on all ways to it.
fn before(code: &[Coded], files: Files, starts: &[(usize, Set)], blocks: &[Block]) -> Vec<Set> {
    let mut before = vec![Set::full(files.count()); blocks.len()];
    for (start, assigned) in starts {
        if let Ok(block) = blocks.binary_search_by_key(start, |block| block.code.start) {
            before[block] = assigned.clone();
        }
    }
    // Mostly forward: a pass or two more for each level of loops.
    let mut changed: BTreeSet<usize> = (0..blocks.len()).collect();
    let mut i = 0;
    while let Some(&next) = changed.range(i..).next().or_else(|| changed.first()) {
        changed.remove(&next);
        let block = &blocks[next];
        let mut assigned = before[next].clone();
        code[block.code.clone()].iter().for_each(|coded| execute(coded, files, &mut assigned));
        changed.extend(block.next.iter().filter(|&&after| before[after].intersect(&assigned)));
        i = next + 1;
    }
    before
}

fn execute(coded: &Coded, files: Files, assigned: &mut Set) {
    let (mut all, mut any) = (true, false);
    coded.op.registers(&mut |access, register| {
        let number = files.number(register);
        match access {
            Access::Read => {
                all &= assigned.contains(number);
                any |= assigned.contains(number);
            }
            Access::Write => {
                let value = match coded.op.undefined() {
                    Undefined::Used => true,
                    Undefined::PassedOn
                    | Undefined::Chosen
                    | Undefined::Exchanged
                    | Undefined::Multiplied => all,
                    Undefined::Joined => any,
                };
                // Where the guard is false, the register keeps what it had.
                assigned.set(number, value && (coded.guard.is_none() || assigned.contains(number)));
            }
        }
    });
}
