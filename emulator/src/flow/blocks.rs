//! Instructions that are executed one after the other, and where they lead.

use std::ops::Range;

use crate::program::Coded;
use crate::program::op::Op;

/// Some instructions, and the blocks that may follow.
pub(super) struct Block {
    pub(super) code: Range<usize>,
    pub(super) next: Vec<usize>,
}

/// The blocks of a kernel and its functions, which begin at `starts`, in the order of the code.
pub(super) fn blocks(code: &[Coded], starts: impl Iterator<Item = usize>) -> Vec<Block> {
    let mut begins = vec![false; code.len() + 1];
    begins[0] = true;
    starts.for_each(|start| begins[start] = true);
    for (pc, coded) in code.iter().enumerate() {
        let (targets, _) = after(coded);
        for target in targets {
            begins[target] = true;
        }
        if ends(coded) {
            begins[pc + 1] = true;
        }
    }
    let starts: Vec<_> = (0..code.len()).filter(|&pc| begins[pc]).collect();
    // By instruction: the block that it begins, or is in.
    let mut block_of = vec![0; code.len()];
    for (block, &start) in starts.iter().enumerate() {
        let end = starts.get(block + 1).copied().unwrap_or(code.len());
        block_of[start..end].fill(block);
    }
    let block = |(index, &start): (usize, &usize)| {
        let end = starts.get(index + 1).copied().unwrap_or(code.len());
        let (targets, goes_on) = after(&code[end - 1]);
        let mut next: Vec<_> = targets.map(|target| block_of[target]).collect();
        if goes_on && end < code.len() {
            next.push(index + 1);
        }
        Block { code: start..end, next }
    };
    starts.iter().enumerate().map(block).collect()
}

fn ends(coded: &Coded) -> bool {
    matches!(coded.op, Op::Branch { .. } | Op::BranchIndexed { .. } | Op::Return | Op::Exit | Op::Trap)
}

/// Where an instruction may jump to within its function, and whether it may go on to the next, as a call does.
fn after(coded: &Coded) -> (impl Iterator<Item = usize> + use<'_>, bool) {
    let targets = match &coded.op {
        Op::Branch { target } => std::slice::from_ref(target),
        Op::BranchIndexed { targets, .. } => targets,
        _ => &[],
    };
    (targets.iter().map(|&target| target as usize), coded.guard.is_some() || !ends(coded))
}
