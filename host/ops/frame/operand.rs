//! How kernels read operands: in boxes by TMA, in pieces by `cp.async`.

use super::Rejection;
use crate::tensor::Reading;
use crate::{Arch, Error, Result};

/// Bytes of a piece, and to which TMA and `cp.async` want addresses and strides aligned.
pub(in crate::ops) const PIECE: u32 = 16;
/// Bytes of an element.
const ELEMENT: usize = 2;

/// What copies an operand to shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops) enum Copies {
    /// TMA, which cuts lines off where they end.
    Boxes,
    /// `cp.async`, which copies whole pieces.
    Pieces,
}

impl Copies {
    /// What kernels of an architecture copy with.
    pub(in crate::ops) fn of(arch: Arch) -> Self {
        match arch {
            Arch::Sm90a => Copies::Boxes,
            Arch::Sm80 => Copies::Pieces,
        }
    }
}

/// An operand of 16-bit elements, as a kernel reads it.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Operand {
    pub(in crate::ops) name: &'static str,
    /// How the tensor can be read in that order.
    pub(in crate::ops) reading: Reading,
    pub(in crate::ops) row_major: bool,
    /// Elements of a line.
    pub(in crate::ops) line: usize,
}

impl Operand {
    /// Checks that it can be copied so.
    pub(in crate::ops) fn check(&self, copies: Copies) -> Result<(), Rejection> {
        let &Operand { name: operand, reading, row_major, line } = self;
        if reading.align < PIECE {
            return Err(Rejection::Unaligned { operand, row_major });
        }
        match copies {
            Copies::Boxes if !reading.tma => Err(Rejection::NoMap { operand }),
            Copies::Pieces if !(line * ELEMENT).is_multiple_of(PIECE as usize) => {
                Err(Rejection::Ragged { operand })
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the driver made the tensor maps of a kernel that reads by TMA; `maps` are the arguments' flags.
pub(in crate::ops) fn expect_mapped(
    kernel: &'static str,
    arch: Arch,
    maps: impl IntoIterator<Item = u32>,
) -> Result<()> {
    if arch != Arch::Sm90a || maps.into_iter().all(|map| map == 1) {
        return Ok(());
    }
    let allowed = "one without TMA: the driver makes no tensor map of these views";
    Err(Error::argument("kernel", kernel, allowed))
}
