//! What becomes of sums: numbers of C's type.

use tilewright_device::abi::{KernelArg, StridedAbi};
use tilewright_device::arch::special::{thread_x, thread_x_volatile};
use tilewright_device::arch::warp;
use tilewright_device::layout::{Registers, Sum};
use tilewright_device::tile::{
    Absent, Element, F8E4M3, Fragment, FragmentLayout, GlobalMut, InPlace, Major, Output, OutputLayout,
    Unmapped, UnmappedMut, math,
};
use tilewright_device::{bf16, f16};

/// The matrix that is written.
type C<U, O, const BOX: usize> = InPlace<GlobalMut<U, 2, O, BOX>>;

/// An element type of C: what becomes of sums of `S`.
pub trait Stored<S: Sum>: Element {
    /// The bias's element type.
    type Bias: Element;
    /// What the epilogue rounds to: this type, or f32 where more follows.
    type Finished: Element;
    /// What rounding takes beside the numbers.
    type Rounding: KernelArg + Copy;

    /// Stores numbers, as `apply` makes them of sums, rounded; or the sums themselves. The tile of C is that at `place`, of which each has `lines` lines, if any are named.
    fn store<O: Major, const M: usize, const N: usize, const BOX: usize, L: OutputLayout<M, N>>(
        sums: Fragment<S, M, N, L>,
        apply: impl FnOnce(Fragment<f32, M, N, L>) -> Fragment<Self::Finished, M, N, L>,
        rounding: Self::Rounding,
        out: &mut Output<Self, M, N, L>,
        c: C<Self, O, BOX>,
        place: [u32; 2],
        lines: Option<u32>,
    );
}

macro_rules! numbers {
    ($($t:ident)*) => { $(
        impl<S: Sum> Stored<S> for $t {
            type Bias = $t;
            type Finished = $t;
            type Rounding = Absent;

            #[inline(always)]
            fn store<O: Major, const M: usize, const N: usize, const BOX: usize, L: OutputLayout<M, N>>(
                sums: Fragment<S, M, N, L>,
                apply: impl FnOnce(Fragment<f32, M, N, L>) -> Fragment<Self::Finished, M, N, L>,
                _: Absent,
                out: &mut Output<Self, M, N, L>,
                c: C<Self, O, BOX>,
                place: [u32; 2],
                lines: Option<u32>,
            ) {
                out.store(apply(sums.to_f32()), c.get().tile(place).short(lines));
            }
        }
    )* };
}
numbers!(f16 bf16 f32);

impl Stored<i32> for i32 {
    type Bias = i32;
    type Finished = i32;
    type Rounding = Absent;

    #[inline(always)]
    fn store<O: Major, const M: usize, const N: usize, const BOX: usize, L: OutputLayout<M, N>>(
        sums: Fragment<i32, M, N, L>,
        _: impl FnOnce(Fragment<f32, M, N, L>) -> Fragment<i32, M, N, L>,
        _: Absent,
        out: &mut Output<Self, M, N, L>,
        c: C<Self, O, BOX>,
        place: [u32; 2],
        lines: Option<u32>,
    ) {
        out.store(sums, c.get().tile(place).short(lines));
    }
}

impl Stored<f32> for F8E4M3 {
    type Bias = bf16;
    type Finished = f32;
    type Rounding = ToRange;

    #[inline(always)]
    fn store<O: Major, const M: usize, const N: usize, const BOX: usize, L: OutputLayout<M, N>>(
        sums: Fragment<f32, M, N, L>,
        apply: impl FnOnce(Fragment<f32, M, N, L>) -> Fragment<Self::Finished, M, N, L>,
        rounding: ToRange,
        out: &mut Output<Self, M, N, L>,
        c: C<Self, O, BOX>,
        place: [u32; 2],
        lines: Option<u32>,
    ) {
        let numbers = apply(sums);
        // Tiles with fewer lines have fewer columns: C is column-major then.
        let each = [M as u32, lines.unwrap_or(N as u32)];
        let shape = c.get().shape();
        let inside = [0, 1].map(|i| shape[i].saturating_sub(place[i] * each[i]).min(each[i]));
        rounding.measure(&numbers, inside);
        let scale = rounding.scale();
        out.store_each(numbers, |x| x * scale, c.get().tile(place).short(lines));
    }
}

/// How numbers are brought to the range of 8 bits: a factor of them all, and where their largest magnitude goes.
#[derive(Clone, Copy)]
pub struct ToRange {
    scale: Unmapped<f32, 2>,
    amax: UnmappedMut<f32, 2>,
}

/// A [`ToRange`] as the host passes it: matrices of one element, or without rows and columns where the kernel is to do without.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ToRangeAbi {
    /// What numbers are multiplied by before they are rounded.
    pub scale: StridedAbi<(), 2>,
    /// What becomes the largest of itself and the magnitudes of numbers before that.
    pub amax: StridedAbi<(), 2>,
}

impl KernelArg for ToRange {
    type Abi = ToRangeAbi;

    #[inline(always)]
    unsafe fn load(at: *const ToRangeAbi) -> Self {
        // SAFETY: the fields of an initialised parameter, as the caller says. The element's type is no part of their layout.
        unsafe {
            ToRange {
                scale: KernelArg::load((&raw const (*at).scale).cast()),
                amax: KernelArg::load((&raw const (*at).amax).cast()),
            }
        }
    }
}

impl ToRange {
    /// The factor; 1 if none is given.
    #[inline(always)]
    fn scale(self) -> f32 {
        let scale = self.scale.get();
        if scale.cols() == 0 { 1.0 } else { scale.tile([0, 0]).element::<1, 1>(0, 0) }
    }

    /// Takes the numbers of a tile into account that are among its first rows and columns, so many, where their largest magnitude is asked for: NaN if one is.
    #[inline(always)]
    fn measure<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        numbers: &Fragment<f32, M, N, L>,
        [rows, cols]: [u32; 2],
    ) {
        let mut amax = self.amax.get();
        if amax.rows() == 0 || thread_x() >= L::THREADS {
            return;
        }
        // What lies outside need not be 0: a scale may be infinite.
        let most = if rows >= M as u32 && cols >= N as u32 {
            largest(numbers, |_, _| true)
        } else {
            let first = L::coord(thread_x_volatile(), 0);
            let (rows, cols) = (rows.saturating_sub(first.0), cols.saturating_sub(first.1));
            largest(numbers, |row, col| row < rows && col < cols)
        };
        // Bits of numbers without a sign are ordered as they are.
        // SAFETY: all lanes of the warps that hold the tile are here.
        let most = f32::from_bits(unsafe { warp::redux_max_u32(most.to_bits()) });
        if thread_x().is_multiple_of(32) {
            amax.tile([0, 0]).raise::<1, 1>(0, 0, most);
        }
    }
}

/// The largest magnitude of this thread's elements that `counts` says count, by their distance from the first one; or NaN.
#[inline(always)]
fn largest<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    numbers: &Fragment<f32, M, N, L>,
    counts: impl Fn(u32, u32) -> bool,
) -> f32 {
    let (mut most, mut i) = (0.0, 0);
    while i < L::Regs::<f32>::LEN {
        let (row, col) = L::offset(i);
        let size = if counts(row, col) { numbers.regs.get(i).abs() } else { 0.0 };
        most = math::max_nan(most, size);
        i += 1;
    }
    most
}
