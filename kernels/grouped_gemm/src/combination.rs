//! Rows put together from those of groups.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, InPlace, RowMajor, Rows, Striped, block_x, block_y,
    copy, for_each_row,
};

/// Threads of a CTA.
pub const COMBINE_THREADS: u32 = 128;
const WARPS: usize = COMBINE_THREADS as usize / 32;

/// Where the entries of each row lie.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Address of the places, `i32`: of the first row's entries, then of the second one's.
    pub address: u64,
    /// Entries of a row.
    pub each: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl PassedAsIs for Places {}

/// y\[row\] = the sum of weights\[row, i\] x\[places\[row, i\]\], in the order of i, in f32.
///
/// x \[entries, N\], y \[rows, N\], weights \[rows, entries of a row\]. Places that x has not add nothing. A warp takes `C` columns of a row: CTA
/// (rows in fours, columns).
///
/// # Safety
/// There are places for all rows of y.
#[kernel(program = P)]
pub unsafe fn combine<P: tilewright_device::kernel::Program, T: Element, const R: usize, const C: usize>(
    x: InPlace<Global<T, 2, RowMajor, 0>>,
    weights: InPlace<Global<f32, 2, RowMajor, 0>>,
    y: InPlace<GlobalMut<T, 2>>,
    places: Places,
) where
    Striped<WARPS>: FragmentLayout<R, C>,
{
    let (mut y, x, weights) = (y.get(), x.get(), weights.get());
    let (rows, first) = (y.rows(), block_x() * R as u32);
    let column = block_y() * C as u32;
    let mut sum = Fragment::<f32, R, C, Striped<WARPS>>::zero();
    let mut i = 0;
    while i < places.each {
        let place = |r: u32| {
            let row = first + r;
            let at = places.address + 4 * (row as u64 * places.each as u64 + i as u64);
            // SAFETY: read where y has the row alone.
            let place = unsafe { global::ld_global_u32_if(at as *const u32, row < rows) };
            (row < rows).then_some([place, column])
        };
        let part = Fragment::<T, R, C, Striped<WARPS>>::load(x.gather(place));
        let mut factors = Rows::<f32, R, C, Striped<WARPS>>::splat(0.0);
        for_each_row::<Striped<WARPS>, R, C>(|r, row, _| {
            // A place that x has not: what its weight is does not matter.
            let there = place(row).is_some_and(|[place, _]| place < x.rows());
            let weight = weights.tile([block_x(), i]).element::<R, 1>(row, 0);
            factors.regs.set(r, if there { weight } else { 0.0 });
        });
        sum = sum.add_scaled(&part.to_f32(), &factors);
        i += 1;
    }
    copy(sum.cast::<T>(), y.tile([block_x(), block_y()]));
}
