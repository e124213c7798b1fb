//! Register arrays whose length follows from a tile's shape.
//!
//! The length of a fragment's register array is `M * N / threads`, which stable Rust cannot write as an
//! array length of const generics. It is put together from two tables instead: blocks of rows, and
//! registers of a block; each entry is a literal.

use core::marker::PhantomData;

use crate::arch::declare::refuse;

/// `LEN` values of `T`, one after the other.
///
/// # Safety
/// The type is `LEN` initialised values of `T` without padding, and nothing else.
pub unsafe trait Registers<T: Copy>: Copy {
    /// How many.
    const LEN: usize;

    /// All of them `x`.
    fn splat(x: T) -> Self;

    /// Refuses the kernel in which `i` is not known to be below `LEN`.
    #[doc(hidden)]
    #[inline(always)]
    fn expect(i: usize) {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(i < Self::LEN, "register {i} of {}", Self::LEN);
        if i >= Self::LEN {
            refuse!(
                "a register of a fragment is taken by a number that is not known, when compiling, to be one"
            );
        }
    }

    /// The value at `i`, a constant after unrolling. The builder refuses the kernel where it is not known to be below `LEN`.
    #[inline(always)]
    fn get(&self, i: usize) -> T {
        Self::expect(i);
        // SAFETY: `self` is LEN values of T and i is below LEN.
        unsafe { *(&raw const *self).cast::<T>().add(i) }
    }
    /// Replaces the value at `i`. The builder refuses the kernel where it is not known to be below `LEN`.
    #[inline(always)]
    fn set(&mut self, i: usize, x: T) {
        Self::expect(i);
        // SAFETY: as in `get`.
        unsafe { *(&raw mut *self).cast::<T>().add(i) = x }
    }
    /// The value at `i`, in place. The builder refuses the kernel where it is not known to be below `LEN`.
    #[inline(always)]
    fn get_mut(&mut self, i: usize) -> &mut T {
        Self::expect(i);
        // SAFETY: as in `get`; the borrow of `self` covers the value.
        unsafe { &mut *(&raw mut *self).cast::<T>().add(i) }
    }
}

// SAFETY: an array is its elements.
unsafe impl<T: Copy, const L: usize> Registers<T> for [T; L] {
    const LEN: usize = L;
    #[inline(always)]
    fn splat(x: T) -> Self {
        [x; L]
    }
}

/// Blocks `O` of registers `I`: the two tables put together.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Nested<O, I> {
    /// The blocks.
    pub blocks: O,
    _inner: PhantomData<I>,
}

impl<O, I> Nested<O, I> {
    /// These blocks.
    #[inline(always)]
    pub(crate) const fn of(blocks: O) -> Self {
        Nested { blocks, _inner: PhantomData }
    }
}

// SAFETY: O is O::LEN values of I, each of which is I::LEN values of T.
unsafe impl<T: Copy, I: Registers<T>, O: Registers<I>> Registers<T> for Nested<O, I> {
    const LEN: usize = O::LEN * I::LEN;
    #[inline(always)]
    fn splat(x: T) -> Self {
        Nested::of(O::splat(I::splat(x)))
    }
}

/// The blocks of 16 rows (mma.sync) or 64 rows (wgmma) that each of `W` units along M owns.
///
/// Implemented by [`RowsOf`] for the divisions in its table.
#[diagnostic::on_unimplemented(
    message = "{M} rows cannot be divided among {W} warps or warpgroups",
    label = "each warpgroup owns blocks of 64 rows, each warp blocks of 16"
)]
pub trait RowBlocks<const M: usize, const W: usize> {
    /// One `X` a block.
    type Of<X: Copy>: Registers<X>;
    /// Two values a block: the rows of a thread, which are 8 apart.
    type Rows<X: Copy>: Registers<X>;
}

/// The table of row blocks for units of `UNIT` rows.
pub struct RowsOf<const UNIT: usize>;

macro_rules! row_blocks {
    ($unit:literal: $($blocks:literal => [$(($m:literal, $w:literal)),* $(,)?];)*) => { $($(
        #[diagnostic::do_not_recommend]
        impl RowBlocks<$m, $w> for RowsOf<$unit> {
            type Of<X: Copy> = [X; $blocks];
            type Rows<X: Copy> = [X; 2 * $blocks];
        }
        const _: () = assert!($m == $unit * $w * $blocks);
    )*)* };
}
row_blocks! { 64:
    1 => [(64, 1), (128, 2), (192, 3), (256, 4)];
    2 => [(128, 1), (256, 2), (384, 3), (512, 4)];
    3 => [(192, 1), (384, 2)];
    4 => [(256, 1)];
}
row_blocks! { 16:
    1 => [(16, 1), (32, 2), (64, 4), (128, 8), (256, 16)];
    2 => [(32, 1), (64, 2), (128, 4), (256, 8), (512, 16)];
    3 => [(48, 1), (96, 2), (192, 4)];
    4 => [(64, 1), (128, 2), (256, 4)];
    8 => [(128, 1), (256, 2)];
}

/// The registers of one block of rows that holds `N / W` columns: half as many as columns.
///
/// Implemented by [`ColumnsOf`] for multiples of 8 columns up to 256.
#[diagnostic::on_unimplemented(
    message = "{N} columns cannot be divided among {W} warps or warpgroups",
    label = "each takes a multiple of 8 columns, at most 256"
)]
pub trait ColumnBlocks<const N: usize, const W: usize> {
    /// The registers.
    type Of<T: Copy>: Registers<T>;
}

/// The table of column blocks.
pub struct ColumnsOf;

/// Calls `$callback!` with each number of columns that one instruction takes.
macro_rules! for_each_width {
    ($callback:ident) => {
        $callback!(8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128
            136 144 152 160 168 176 184 192 200 208 216 224 232 240 248 256);
    };
}
pub(crate) use for_each_width;

macro_rules! column_blocks {
    ($($n:literal)*) => { $(
        #[diagnostic::do_not_recommend]
        impl ColumnBlocks<$n, 1> for ColumnsOf { type Of<T: Copy> = [T; $n / 2]; }
        #[diagnostic::do_not_recommend]
        impl ColumnBlocks<{ 2 * $n }, 2> for ColumnsOf { type Of<T: Copy> = [T; $n / 2]; }
        #[diagnostic::do_not_recommend]
        impl ColumnBlocks<{ 4 * $n }, 4> for ColumnsOf { type Of<T: Copy> = [T; $n / 2]; }
        #[diagnostic::do_not_recommend]
        impl ColumnBlocks<{ 8 * $n }, 8> for ColumnsOf { type Of<T: Copy> = [T; $n / 2]; }
    )* };
}
for_each_width!(column_blocks);
