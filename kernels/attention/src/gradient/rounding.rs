//! The gradients of queries that tiles of keys have summed up.

use tilewright_device::arch::special::{block_x, block_y, block_z};
use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, GlobalMut, InPlace, Overlaps, RowMajor, copy,
};

use super::ranges::Ranges;
use super::side::sums_of;

/// dQ = factor times the sums, rounded: \[batch, heads, queries, `PARTS` `D`\], of sums that lie in blocks of `BN` queries, the parts of their columns one behind
/// the other, as `Z` leaves each. CTA (block and, faster, part; head; sequence).
#[kernel(program = P)]
pub fn round_sums<P: Overlaps, T: Element, Z, const BN: usize, const D: usize, const PARTS: usize>(
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    d_q: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    factor: f32,
) where
    Z: FragmentLayout<BN, D>,
{
    P::wait_for_preceding_grid();
    let (block, part, head) = (block_x() / PARTS as u32, block_x() % PARTS as u32, block_y());
    let of = ranges.get().sequence(block_z());
    if block * BN as u32 >= of.queries {
        return;
    }
    let at = sums_of::<BN>(&sums.get(), &of, head, block).wrapping_add(part as usize * BN * D);
    // SAFETY: the host gives memory for the sums of whole blocks, of all columns one after the other.
    let sum = unsafe { Fragment::<f32, BN, D, Z>::of_sums(at) };
    let to = d_q.get().tile([of.matrix, head, block, part]).of_rows(of.first_query, of.queries);
    copy(sum.map(|x| x * factor).cast::<T>(), to);
}
