//! What the gradients know of each query.

use core::f32::consts::LOG2_E;

use tilewright_device::arch::shared;
use tilewright_device::arch::special::{block_x, block_y, block_z, thread_x_volatile};
use tilewright_device::arch::warp::uniform;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Element, Fragment, FragmentLayout, Global, GlobalMut, InPlace, Overlaps, RowMajor, Rows, Shared,
    SharedLayout, Src, Striped, Swizzle, for_each_row,
};

use super::ranges::{ALIGNED, Ranges};
use super::turns::Turns;
use super::wanted::Wanted;

/// Queries of a line of statistics.
pub const LINE: u32 = 16;
/// The statistics of 128 queries in shared memory: each line has two vectors of 16 values.
pub(crate) type StatsTile = Shared<f32, 8, 32, Swizzle<128>>;

/// Which of a query's values.
#[derive(Clone, Copy)]
pub(crate) enum Stat {
    /// The log-sum-exp of its scores to base 2; infinite where it sees no key, so that all weights are 0.
    LogSum,
    /// dO · O, which is what the softmax's gradient takes off each dP.
    Mean,
}

/// A value of each query of a fragment.
pub(crate) enum Values<const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    Cols(Cols<f32, M, N, L>),
    Rows(Rows<f32, M, N, L>),
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Values<M, N, L> {
    /// `f` of every element and its query's value.
    #[inline(always)]
    pub(crate) fn zip<X: Copy>(
        &self,
        of: Fragment<X, M, N, L>,
        f: impl Fn(X, f32) -> X,
    ) -> Fragment<X, M, N, L> {
        match self {
            Values::Cols(cols) => of.zip_cols(cols, f),
            Values::Rows(rows) => of.zip_rows(rows, f),
        }
    }
}

/// The statistics of a tile's queries.
#[derive(Clone, Copy)]
pub(crate) struct Stats(u32);

impl Stats {
    #[inline(always)]
    pub(crate) fn of(tile: Src<'_, StatsTile>) -> Self {
        Stats(tile.address())
    }

    /// One of the values of each query: of columns for tiles of keys, or else of rows.
    #[inline(always)]
    pub(crate) fn values<
        T: Element,
        W: Wanted<T, M, N, D>,
        const M: usize,
        const N: usize,
        const D: usize,
        L: FragmentLayout<M, N>,
    >(
        &self,
        stat: Stat,
    ) -> Values<M, N, L> {
        if W::OF_KEYS { Values::Cols(self.cols(stat)) } else { Values::Rows(self.rows(stat)) }
    }

    /// The values of a fragment's rows, which are queries.
    #[inline(always)]
    fn rows<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        stat: Stat,
    ) -> Rows<f32, M, N, L> {
        let mut rows = Rows::<f32, M, N, L>::splat(0.0);
        for_each_row::<L, M, N>(|r, row, _| {
            let byte = stat as u32 * 64 + row % LINE * 4;
            let at = self.0 + <Swizzle<128> as SharedLayout>::offset(8, 128, row / LINE, byte);
            // SAFETY: a full tile, of which this is an element.
            rows.regs.set(r, unsafe { shared::load_f32(at) });
        });
        rows
    }

    /// The values of a fragment's columns, which are queries.
    #[inline(always)]
    pub(crate) fn cols<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &self,
        stat: Stat,
    ) -> Cols<f32, M, N, L> {
        const { assert!(L::ROW_LANES == 4 && L::RUN == 2, "the lanes of a row hold 8 neighbouring columns") };
        // The thread's number is read anew, so that no address is held in registers over a loop. Its bytes among 8 columns' lie in one
        // piece of 16 or its neighbour, wherever the swizzle puts the two: what else it does is the same in all threads.
        let thread = thread_x_volatile();
        let own = thread % 4 * 8;
        let divided = L::THREADS > 128 && L::coord(128, 0).1 > 0;
        let first_line = if divided { uniform(L::coord(thread & !127, 0).1 / LINE) } else { 0 };
        let mut cols = Cols::<f32, M, N, L>::splat(0.0);
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            if L::row(i) == L::row(0) {
                let query = L::offset(i).1;
                let line = first_line + query / LINE;
                let at = line * 128 + ((stat as u32 * 64 + query % LINE * 4) ^ ((line & 6) * 16));
                // SAFETY: a full tile, of which these are two neighbours.
                let [x, y] = unsafe { shared::load_f32x2(self.0 + at + (own ^ ((line & 1) * 16))) };
                cols.regs.set(L::col(i), x);
                cols.regs.set(L::col(i + 1), y);
            }
            i += 2;
        }
        cols
    }
}

/// The statistics of all queries: of 16 each their log-sum-exps to base 2, then their dO · O. And zeros where the gradients of queries are summed up.
///
/// O and dO \[batch, heads, queries, DV\], `lse` \[batch, heads, queries, 1\] in natural logarithms, `stats` \[batch, heads, lines, 32\], `sums`
/// \[batch, heads, 16 lines, D\], without rows where nothing is summed up; `turns` counts what is added to them. CTA (`M` queries, head, sequence), which takes
/// `N` columns at a time.
#[kernel(program = P)]
pub fn query_stats<P: Overlaps, T: Element, const M: usize, const N: usize>(
    o: InPlace<Global<T, 4, RowMajor, 0>>,
    d_o: InPlace<Global<T, 4, RowMajor, 0>>,
    lse: InPlace<Global<f32, 4, RowMajor, 0>>,
    stats: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    sums: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    ranges: InPlace<Ranges>,
    turns: Turns,
) where
    Striped<4>: FragmentLayout<M, N>,
{
    const { assert!(ALIGNED.is_multiple_of(M as u32), "sums are of whole tiles") };
    P::wait_for_preceding_grid();
    let (tile, head) = (block_x(), block_y());
    let of = ranges.get().sequence(block_z());
    let first = tile * M as u32;
    turns.clear_front();
    if first >= of.queries.next_multiple_of(ALIGNED) {
        return;
    }
    let (o, d_o) = (o.get(), d_o.get());
    let vectors = o.has_vectors() && d_o.has_vectors();
    let mut means = Rows::<f32, M, N, Striped<4>>::splat(0.0);
    let mut column = 0;
    while column * (N as u32) < o.cols() {
        let place = [of.matrix, head, tile, column];
        let [o, d_o] = [o, d_o].map(
            #[inline(always)]
            |of_all| of_all.tile(place).of_rows(of.first_query, of.queries),
        );
        // Those of a tile that reaches outside wait for each other, unless they are vectors.
        let products = if vectors {
            products::<T, M, N>(Fragment::load_rows(o, T::ZERO), Fragment::load_rows(d_o, T::ZERO))
        } else {
            products::<T, M, N>(Fragment::load(o), Fragment::load(d_o))
        };
        means = means.zip(&products, |x, y| x + y);
        column += 1;
    }
    let lse = lse.get().tile([of.matrix, head, 0, 0]).of_rows(of.first_query, of.queries);
    let to = stats.get().tile([of.matrix, head, 0, 0]).of_rows(of.first_line, u32::MAX);
    means.for_each(|row, is_first, mean| {
        let query = first + row;
        if is_first {
            let log = lse.element::<1, 1>(query, 0);
            let sees = query < of.queries && log != f32::NEG_INFINITY;
            let (line, column) = (query / LINE, query % LINE);
            to.put::<8, 32>(line, column, if sees { log * LOG2_E } else { f32::INFINITY });
            to.put::<8, 32>(line, column + LINE, mean);
        }
    });
    turns.clear(&of, head, first);
    let mut sums = sums.get();
    let (mut column, columns) = (0, if sums.rows() > 0 { sums.shape()[3] } else { 0 });
    while column * (N as u32) < columns {
        let place = sums.tile([of.matrix, head, tile, column]).of_rows(of.first_line * LINE, u32::MAX);
        Fragment::<f32, M, N, Striped<4>>::zero().store_rows(place);
        column += 1;
    }
}

/// The sums of rows' products.
#[inline(always)]
fn products<T: Element, const M: usize, const N: usize>(
    o: Fragment<T, M, N, Striped<4>>,
    d_o: Fragment<T, M, N, Striped<4>>,
) -> Rows<f32, M, N, Striped<4>>
where
    Striped<4>: FragmentLayout<M, N>,
{
    o.to_f32().zip(&d_o.to_f32(), |x, y| x * y).reduce_rows(0.0, |x, y| x + y)
}
