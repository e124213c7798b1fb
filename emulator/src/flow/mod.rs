//! What can be known of a kernel's registers before it runs.
//!
//! Two things about registers can go wrong that only show when a kernel runs: a value is used that nobody wrote, and a
//! register is touched while a product of a warpgroup is in flight that uses it. Most registers cannot have either, and
//! it is known here which can: the others cost nothing.

mod assigned;
mod blocks;
mod products;
mod set;

use crate::program::Coded;
use crate::program::register::Register;
use crate::program::watched::{Files, Watched};
use set::Set;

/// What registers times blocks may be: so many bits are a GiB.
const MOST: usize = 1 << 33;

/// Finds the registers to watch, and marks the instructions that touch them. `known` are the registers that have a
/// value when the kernel starts, which nobody writes; `starts` are where the kernel and its functions begin, with the
/// registers that have a value there too.
pub(crate) fn watch(
    code: &mut [Coded],
    registers: [u32; 3],
    known: &[Register],
    starts: &[(u32, Vec<Register>)],
) -> Result<Watched, String> {
    let files = Files { registers };
    let blocks = blocks::blocks(code, starts.iter().map(|(start, _)| *start as usize));
    // Each block has a set of the registers.
    let bits = blocks.len().saturating_mul(files.count());
    if bits > MOST {
        return Err(format!(
            "a kernel of {} registers in {} blocks of instructions is too large to be analysed: their product is more than {MOST}",
            files.count(),
            blocks.len()
        ));
    }
    let set = |registers: &mut dyn Iterator<Item = &Register>| {
        let mut set = Set::new(files.count());
        registers.for_each(|&register| set.insert(files.number(register)));
        set
    };
    let starts: Vec<_> = starts
        .iter()
        .map(|(start, parameters)| (*start as usize, set(&mut known.iter().chain(parameters))))
        .collect();
    let products = products::registers(code, files, &set(&mut known.iter()));
    let doubtful = assigned::doubtful(code, files, &starts, &blocks);
    let mut slots = vec![None; files.count()];
    let mut states = Vec::new();
    for (number, slot) in slots.iter_mut().enumerate() {
        if doubtful.contains(number) || products.contains(number) {
            *slot = Some(states.len() as u32);
            states.push(doubtful.contains(number));
        }
    }
    let watched = Watched { registers, slots, doubtful: states };
    for coded in code {
        let (mut touches, mut doubtful) = (false, false);
        let mut touch = |register| {
            if let Some(slot) = watched.slot(register) {
                touches = true;
                doubtful |= watched.doubtful[slot];
            }
        };
        coded.guard.iter().for_each(|guard| touch(Register::P(guard.predicate)));
        coded.op.registers(&mut |_, register| touch(register));
        (coded.watched, coded.doubtful) = (touches, doubtful);
    }
    Ok(watched)
}
