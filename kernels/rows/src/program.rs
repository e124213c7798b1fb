//! What row-wise kernels are told by types: their programs, what they load ahead, what they add.

use tilewright_device::tile::{Collective, Overlaps};

/// Warps that all do the same, on any architecture.
pub trait RowProgram: Collective + Overlaps {}

impl<P: Collective + Overlaps> RowProgram for P {}

/// What a CTA loads while it computes a tile.
pub trait Prefetch: Copy + 'static {
    /// Whether that is the next tile.
    const NEXT: bool;
    /// Whether it takes tiles until none is left; else one, in a grid of as many CTAs as tiles.
    const PERSISTENT: bool;
}

/// The next tile: memory works while the CTA computes, and registers hold two tiles.
#[derive(Clone, Copy)]
pub struct NextTile;

/// Nothing: for tiles of which registers hold one.
#[derive(Clone, Copy)]
pub struct Nothing;

/// Nothing: a CTA takes one tile and ends. An SM holds more such CTAs, of which some load while others compute.
#[derive(Clone, Copy)]
pub struct OneTile;

impl Prefetch for NextTile {
    const NEXT: bool = true;
    const PERSISTENT: bool = true;
}

impl Prefetch for Nothing {
    const NEXT: bool = false;
    const PERSISTENT: bool = true;
}

impl Prefetch for OneTile {
    const NEXT: bool = false;
    const PERSISTENT: bool = false;
}

/// CTAs of so many threads that an SM is to hold, if it has registers for `all` threads with what they have loaded.
pub const fn resident(threads: u32, all: u32) -> u32 {
    if threads < all { all / threads } else { 1 }
}

/// The same where shared memory holds rows, of which threads have so many bytes in registers at a time: of ragged rows as many CTAs as there is room
/// for, since they compute for longer than memory takes.
pub const fn resident_held(threads: u32, bytes: usize, ragged: bool) -> u32 {
    match ragged {
        // Of two tensors shared memory has room for 22 warps, which would leave each 80 registers.
        true if threads < 256 && bytes >= 64 * threads as usize => resident(threads, 640),
        true if bytes > 16 * threads as usize => resident(threads, if threads < 256 { 768 } else { 512 }),
        true => resident(threads, 1024),
        false => 1,
    }
}

/// What is added to rows before they are normalised.
pub trait Residual: Copy + 'static {
    /// Whether there is something.
    const ADDED: bool;
    /// In kernels' names.
    const NAME: &'static str;
}

/// Nothing is added.
#[derive(Clone, Copy)]
pub struct NoResidual;

/// The rows of another tensor; the sum is a result too.
#[derive(Clone, Copy)]
pub struct Added;

impl Residual for NoResidual {
    const ADDED: bool = false;
    const NAME: &'static str = "rows";
}

impl Residual for Added {
    const ADDED: bool = true;
    const NAME: &'static str = "sums";
}
