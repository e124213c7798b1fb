//! Which keys a row of queries sees.

use crate::abi::KernelArg;
use crate::tile::division::Division;

/// Rows are heads of one position after the other; the last position sees all keys, the one before it all but the last.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Causal {
    heads: Division,
    positions: u32,
}

impl Causal {
    /// For `heads` rows of each of `positions`; of 1 where every position sees all keys.
    pub const fn new(heads: u32, positions: u32) -> Self {
        Causal { heads: Division::by(heads), positions }
    }

    /// How many keys of block `j`, of `BN`, row `r` of tile `m` sees.
    #[inline(always)]
    pub fn seen<const BM: usize, const BN: usize>(&self, m: u32, j: u32, length: u32) -> impl Fn(u32) -> u32 {
        let (order, before) = (*self, length + 1 - j * BN as u32);
        move |r| {
            let position = order.heads.of(m * BM as u32 + r).0.min(order.positions - 1);
            (before + position).saturating_sub(order.positions)
        }
    }
}

impl KernelArg for Causal {
    type Abi = Self;
    #[inline(always)]
    unsafe fn load(at: *const Self) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { *at }
    }
}
