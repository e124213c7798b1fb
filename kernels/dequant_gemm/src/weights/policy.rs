//! How far the decoding of weights runs ahead of the tensor cores.

use tilewright_device::tile::Ahead;

/// How the gemms of a main loop over decoded weights follow one another.
///
/// The list names one for each tile: which is fastest depends on how long a part's gemms take beside its decoding, and how many
/// registers the sums leave.
pub trait Policy: Copy + Default + Send + Sync + 'static {
    /// How the gemms follow one another, for weights that are plain or not.
    fn ahead(plain: bool) -> Ahead;
}

/// A part's gemms are waited for before the next part's are issued, then the next stage is: where memory is the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wait;

/// The next stage is waited for before the gemms of this one are issued: where instructions are the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Early;

/// A part of plain weights is decoded and its gemms issued while those of the part before run: where these are short, and registers
/// are left for two parts. Others as [`Early`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue;

impl Policy for Wait {
    #[inline(always)]
    fn ahead(_: bool) -> Ahead {
        Ahead::Waiting { early: false }
    }
}

impl Policy for Early {
    #[inline(always)]
    fn ahead(_: bool) -> Ahead {
        Ahead::Waiting { early: true }
    }
}

impl Policy for Queue {
    #[inline(always)]
    fn ahead(plain: bool) -> Ahead {
        if plain { Ahead::Queued } else { Early::ahead(plain) }
    }
}
