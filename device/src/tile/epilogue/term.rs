//! Tensors that an epilogue reads beside the accumulator: biases, residuals, scales.

use crate::abi::{GlobalAbi, KernelArg};
use crate::arch::special::thread_x;
use crate::arch::warp::shfl_idx_f32;
use crate::layout::{ColMajor, Element, FragmentLayout, Major, RowMajor};
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::global::Global;

/// One number for each element of a result that is divided into tiles, in a tensor of `RANK` dimensions or nowhere.
///
/// The host passes a tensor without rows and columns where a kernel is to do without it: then every number is the `neutral`
/// one of the operation.
pub trait Term<const RANK: usize>: KernelArg + Copy {
    /// The term of the result's columns from `first` on.
    fn beyond_column(self, first: u32) -> Self;

    /// The number of all elements of the tile at `place`, if they are known to have one.
    fn only(self, place: [u32; RANK], neutral: f32) -> Option<f32>;

    /// `f` of every element of the tile at `place`, and of the term's number there.
    fn zip<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: [u32; RANK],
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L>;

    /// `f` of every element of a tile whose row r lies at `place(r)`, and of the term's number there; nothing is read for rows without a place.
    fn zip_at<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: impl Fn(u32) -> Option<[u32; RANK]>,
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L>;

    /// `f` of the element `x` at (row, column) of the tile at `place`, if tiles are of `R` x `C`.
    fn zip_one<const R: usize, const C: usize>(
        self,
        x: f32,
        place: [u32; RANK],
        at: (u32, u32),
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> f32;
}

/// No tensor, and no code for one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Absent;

/// A tensor of the result's shape. Strides may be zero: a row, a column or a scalar that is broadcast.
pub struct ByElement<T, const RANK: usize, O = RowMajor>(Global<T, RANK, O>);

/// A tensor of one column: a number for each row of the result.
pub struct ByRow<T, const RANK: usize>(Global<T, RANK, ColMajor>);

/// A tensor of one row: a number for each column of the result. What is broadcast to the result's shape is read for each of its rows as a
/// [`ByElement`]; this is read once.
pub struct ByColumn<T, const RANK: usize>(Global<T, RANK, RowMajor, 0>);

impl<T, const RANK: usize> Clone for ByColumn<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for ByColumn<T, RANK> {}

impl<T: Element, const RANK: usize> KernelArg for ByColumn<T, RANK> {
    type Abi = GlobalAbi<T, RANK>;
    #[inline(always)]
    unsafe fn load(at: *const Self::Abi) -> Self {
        // SAFETY: passed on to the caller.
        ByColumn(unsafe { KernelArg::load(at) })
    }
}

impl<T, const RANK: usize, O> Clone for ByElement<T, RANK, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize, O> Copy for ByElement<T, RANK, O> {}

impl<T, const RANK: usize> Clone for ByRow<T, RANK> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const RANK: usize> Copy for ByRow<T, RANK> {}

impl KernelArg for Absent {
    type Abi = ();
    #[inline(always)]
    unsafe fn load(_: *const ()) -> Self {
        Absent
    }
}

impl<T: Element, const RANK: usize, O: Major> KernelArg for ByElement<T, RANK, O> {
    type Abi = GlobalAbi<T, RANK>;
    #[inline(always)]
    unsafe fn load(at: *const Self::Abi) -> Self {
        // SAFETY: passed on to the caller.
        ByElement(unsafe { KernelArg::load(at) })
    }
}

impl<T: Element, const RANK: usize> KernelArg for ByRow<T, RANK> {
    type Abi = GlobalAbi<T, RANK>;
    #[inline(always)]
    unsafe fn load(at: *const Self::Abi) -> Self {
        // SAFETY: passed on to the caller.
        ByRow(unsafe { KernelArg::load(at) })
    }
}

impl<const RANK: usize> Term<RANK> for Absent {
    #[inline(always)]
    fn beyond_column(self, _: u32) -> Self {
        self
    }

    #[inline(always)]
    fn only(self, _: [u32; RANK], neutral: f32) -> Option<f32> {
        Some(neutral)
    }

    #[inline(always)]
    fn zip<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        _: [u32; RANK],
        _: f32,
        _: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        tile
    }

    #[inline(always)]
    fn zip_at<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        _: impl Fn(u32) -> Option<[u32; RANK]>,
        _: f32,
        _: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        tile
    }

    #[inline(always)]
    fn zip_one<const R: usize, const C: usize>(
        self,
        x: f32,
        _: [u32; RANK],
        _: (u32, u32),
        _: f32,
        _: impl Fn(f32, f32) -> f32,
    ) -> f32 {
        x
    }
}

impl<T: Element, const RANK: usize, O: Major> Term<RANK> for ByElement<T, RANK, O> {
    #[inline(always)]
    fn beyond_column(self, first: u32) -> Self {
        ByElement(self.0.beyond_column(first))
    }

    #[inline(always)]
    fn only(self, _: [u32; RANK], neutral: f32) -> Option<f32> {
        (self.0.cols() == 0).then_some(neutral)
    }

    #[inline(always)]
    fn zip<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: [u32; RANK],
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        if self.0.cols() == 0 {
            return tile;
        }
        tile.zip_global(self.0.tile(place), f)
    }

    #[inline(always)]
    fn zip_at<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: impl Fn(u32) -> Option<[u32; RANK]>,
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        if self.0.cols() == 0 {
            return tile;
        }
        let numbers = Fragment::<T, M, N, L>::load(self.0.of_any_order().gather(place));
        tile.zip(&numbers.to_f32(), f)
    }

    #[inline(always)]
    fn zip_one<const R: usize, const C: usize>(
        self,
        x: f32,
        place: [u32; RANK],
        (row, column): (u32, u32),
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> f32 {
        if self.0.cols() == 0 {
            return x;
        }
        f(x, self.0.tile(place).element::<R, C>(row, column).to_f32())
    }
}

impl<T: Element, const RANK: usize> ByRow<T, RANK> {
    /// The tile of the one column that belongs to the result's tile at `place`.
    #[inline(always)]
    fn column(mut place: [u32; RANK]) -> [u32; RANK] {
        place[RANK - 1] = 0;
        place
    }

    #[inline(always)]
    fn or(neutral: f32) -> T {
        T::from_f32x2(neutral, neutral)[0]
    }
}

impl<T: Element, const RANK: usize> Term<RANK> for ByRow<T, RANK> {
    #[inline(always)]
    fn beyond_column(self, _: u32) -> Self {
        self
    }

    #[inline(always)]
    fn only(self, place: [u32; RANK], neutral: f32) -> Option<f32> {
        if self.0.cols() == 0 {
            return Some(neutral);
        }
        let column = self.0.tile(Self::column(place)).window(1, 1);
        (column.row_stride == 0).then(|| column.read(0, 0).to_f32())
    }

    #[inline(always)]
    fn zip<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: [u32; RANK],
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        let rows = Rows::<T, M, N, L>::load(self.0.tile(Self::column(place)), Self::or(neutral));
        tile.zip_rows(&rows.map(T::to_f32), f)
    }

    #[inline(always)]
    fn zip_at<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: impl Fn(u32) -> Option<[u32; RANK]>,
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        let rows = Rows::<f32, M, N, L>::indexed(|row| match place(row) {
            Some(index) => self.0.tile(Self::column(index)).element::<1, 1>(0, 0).to_f32(),
            None => neutral,
        });
        tile.zip_rows(&rows, f)
    }

    #[inline(always)]
    fn zip_one<const R: usize, const C: usize>(
        self,
        x: f32,
        place: [u32; RANK],
        (row, _): (u32, u32),
        neutral: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> f32 {
        let column = self.0.tile(Self::column(place)).window(R, 1);
        let number = column.read(row, 0).to_f32();
        f(x, if row < column.rows { number } else { neutral })
    }
}

impl<T: Element, const RANK: usize> ByColumn<T, RANK> {
    /// The place in the one row that belongs to a place of the result.
    #[inline(always)]
    fn row(mut place: [u32; RANK]) -> [u32; RANK] {
        place[RANK - 2] = 0;
        place
    }
}

impl<T: Element, const RANK: usize> Term<RANK> for ByColumn<T, RANK> {
    #[inline(always)]
    fn beyond_column(self, first: u32) -> Self {
        ByColumn(self.0.beyond_column(first))
    }

    #[inline(always)]
    fn only(self, place: [u32; RANK], neutral: f32) -> Option<f32> {
        if self.0.cols() == 0 {
            return Some(neutral);
        }
        let row = self.0.tile(Self::row(place)).window(1, 1);
        (row.col_stride == 0).then(|| row.read(0, 0).to_f32())
    }

    #[inline(always)]
    fn zip<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: [u32; RANK],
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        if self.0.cols() == 0 {
            return tile;
        }
        let row = self.0.tile(Self::row(place)).window(1, N);
        if row.col_stride == 0 {
            let one = row.read(0, 0).to_f32();
            return tile.map(|x| f(x, one));
        }
        // Each lane loads one of 32 columns, and those that hold them ask it: loads of its own would be many and take a register each.
        const { assert!(N <= 256, "a lane has up to eight columns") };
        let mut mine = [0.0; 8];
        let mut part = 0;
        while part < const { N.div_ceil(32) } {
            mine[part] = row.read(0, 32 * part as u32 + thread_x() % 32).to_f32();
            part += 1;
        }
        let cols = Cols::<f32, M, N, L>::indexed(
            #[inline(always)]
            |col| {
                let mut number = 0.0;
                let mut part = 0;
                while part < const { N.div_ceil(32) } {
                    // SAFETY: whole warps apply an epilogue.
                    let asked = unsafe { shfl_idx_f32(mine[part], col % 32) };
                    // Known where the kernel is compiled, in the layouts of accumulators.
                    number = if col / 32 == part as u32 { asked } else { number };
                    part += 1;
                }
                number
            },
        );
        tile.zip_cols(&cols, f)
    }

    #[inline(always)]
    fn zip_at<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        tile: Fragment<f32, M, N, L>,
        place: impl Fn(u32) -> Option<[u32; RANK]>,
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> Fragment<f32, M, N, L> {
        if self.0.cols() == 0 {
            return tile;
        }
        let numbers = Fragment::<T, M, N, L>::load(self.0.gather(|row| place(row).map(Self::row)));
        tile.zip(&numbers.to_f32(), f)
    }

    #[inline(always)]
    fn zip_one<const R: usize, const C: usize>(
        self,
        x: f32,
        place: [u32; RANK],
        (_, column): (u32, u32),
        _: f32,
        f: impl Fn(f32, f32) -> f32,
    ) -> f32 {
        if self.0.cols() == 0 {
            return x;
        }
        f(x, self.0.tile(Self::row(place)).element::<1, C>(0, column).to_f32())
    }
}
