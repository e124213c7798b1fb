//! Registers of asynchronous products: accumulators, fragments of A, and what is copied from and to them.

use super::set::Set;
use crate::program::Coded;
use crate::program::op::Op;
use crate::program::operand::WgmmaA;
use crate::program::register::Register;
use crate::program::watched::Files;

/// Those registers, without the ones in `known`.
pub(super) fn registers(code: &[Coded], files: Files, known: &Set) -> Set {
    let mut found = Set::new(files.count());
    for coded in code {
        if let Op::Wgmma(product) = &coded.op {
            let a = match &product.a {
                WgmmaA::Registers(a) => a.as_slice(),
                WgmmaA::Shared(_) => &[],
            };
            a.iter().chain(&product.d).for_each(|&r| found.insert(files.number(Register::R(r))));
        }
    }
    let number = |r| files.number(Register::R(r));
    let mut copies: Vec<_> = code
        .iter()
        .filter_map(|coded| match coded.op {
            Op::Move32(d, a) => Some((number(d), number(a))),
            _ => None,
        })
        .filter(|&(_, a)| !known.contains(a))
        .collect();
    // Chains of copies are followed until nothing is left to follow.
    loop {
        let before = copies.len();
        copies.retain(|&(d, a)| {
            let connected = found.contains(d) || found.contains(a);
            if connected {
                found.insert(d);
                found.insert(a);
            }
            !connected
        });
        if copies.len() == before {
            return found;
        }
    }
}
