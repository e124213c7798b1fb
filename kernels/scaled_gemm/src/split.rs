//! Matrices of f32 as numbers of tf32, two for each element.

use tilewright_device::arch::cvt::f32_to_tf32;
use tilewright_device::arch::special::{block_x, block_y};
use tilewright_device::kernel::Described;
use tilewright_device::layout::{FragmentLayout, Spread};
use tilewright_device::tile::{
    Collective, Cta, Fragment, Overlapped, Overlaps, Padded, Shared, Unmapped, UnmappedMut, copy,
};
use tilewright_device::{kernel, kernels};

/// Matrices that an operand is written as, side by side: the nearest numbers of tf32, twice, and what they leave, which is not the last one.
pub const PARTS: u32 = 3;

/// What the host chooses a kernel by that splits an operand.
#[derive(Clone, Copy, Debug)]
pub struct SplitKernel {
    /// Lines of the operand, and their elements, of a tile.
    pub tile: [u32; 2],
    /// Whether it reads the operand by its columns.
    pub by_columns: bool,
}

/// The nearest number of tf32, ties away from 0, and what it leaves of x, rounded alike; their sum differs from x by at most 2^-22 of it. What is not finite
/// leaves 0. The third is the first one, or 0 for an infinity, to be multiplied by what another number leaves: that may be 0.
#[inline(always)]
fn split(x: f32) -> [f32; 3] {
    let near = f32_to_tf32(x);
    // Numbers that would be rounded to infinity keep their upper bits, and so does what these leave: their sum is not to be infinite either.
    let upper = |x: f32| f32::from_bits(x.to_bits() & 0xffff_e000);
    let [high, low] =
        if near.is_finite() { [near, f32_to_tf32(x - near)] } else { [upper(x), upper(x - upper(x))] };
    // Upper bits alone might make a NaN infinite.
    let high = if x.is_nan() { f32::NAN } else { high };
    let infinite = x.abs() == f32::INFINITY;
    [high, if high.is_finite() { low } else { 0.0 }, if infinite { 0.0 } else { high }]
}

/// An operand \[lines, elements\] in three parts \[3, lines, elements of a part\]: part `low` is what the nearest numbers of tf32 leave, the others are these.
///
/// x has any strides; parts have no fewer elements than it, zeros behind its own. CTA (tile along the lines, along the elements).
#[kernel(program = P)]
pub fn split_rows<P: Overlaps, const M: usize, const N: usize>(
    x: Unmapped<f32, 2>,
    parts: UnmappedMut<f32, 3>,
    low: u32,
) where
    Spread<8, 32, 8, 4>: FragmentLayout<M, N>,
{
    const { assert!(P::THREADS == 256, "a warp for each line of a tile") };
    let place = [block_x(), block_y()];
    P::wait_for_preceding_grid();
    store(Fragment::<f32, M, N, Spread<8, 32, 8, 4>>::load(x.get().tile(place)), parts, low, place);
}

/// As [`split_rows`](fn@split_rows), of x \[elements, lines\], whose lines are neighbours: a tile goes through shared memory.
#[kernel(program = P)]
pub fn split_columns<P: Collective + Overlaps, const M: usize>(
    mut cta: Cta<P>,
    x: Unmapped<f32, 2>,
    parts: UnmappedMut<f32, 3>,
    low: u32,
) where
    Spread<8, 4, 16, 4>: FragmentLayout<M, M>,
{
    let mut tile = cta.scratch::<Shared<f32, M, M, Padded>>();
    let place = [block_x(), block_y()];
    P::wait_for_preceding_grid();
    let lines = Fragment::<f32, M, M, Spread<8, 4, 16, 4>>::load(x.get().tile([place[1], place[0]]));
    copy(lines, &mut tile);
    store(Fragment::<f32, M, M, Spread<8, 4, 16, 4>>::load(tile.full().t()), parts, low, place);
}

/// Stores a tile's three parts.
#[inline(always)]
fn store<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    x: Fragment<f32, M, N, L>,
    parts: UnmappedMut<f32, 3>,
    low: u32,
    [line, element]: [u32; 2],
) {
    let mut part = 0;
    while part < PARTS {
        let which = match part {
            _ if part == low => 1,
            part if part + 1 == PARTS => 0,
            _ => 2,
        };
        copy(x.map(|x| split(x)[which]), parts.get().tile([part, line, element]));
        part += 1;
    }
}

impl<P: Overlaps, const M: usize, const N: usize> Described for split_rows<P, M, N>
where
    Spread<8, 32, 8, 4>: FragmentLayout<M, N>,
{
    type Description = SplitKernel;
    const DESCRIPTION: SplitKernel = SplitKernel { tile: [M as u32, N as u32], by_columns: false };
}

impl<P: Collective + Overlaps, const M: usize> Described for split_columns<P, M>
where
    Spread<8, 4, 16, 4>: FragmentLayout<M, M>,
{
    type Description = SplitKernel;
    const DESCRIPTION: SplitKernel = SplitKernel { tile: [M as u32, M as u32], by_columns: true };
}

kernels! {
    /// The kernels that split operands of f32.
    pub static SPLIT: SplitKernel;

    sm_90: [split_rows_sm_90]: split_rows<Overlapped<8>, 8, 256>;
    sm_90: [split_columns_sm_90]: split_columns<Overlapped<8>, 64>;
}
