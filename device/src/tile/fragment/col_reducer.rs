//! Reductions of columns.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::cta::collective::{Collective, expect_all, meet};
use crate::tile::fragment::cols::Cols;
use crate::tile::fragment::{Fragment, passed};

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// Combines the values of every column by an associative and commutative `f`, beginning with `init`, which changes nothing: sums, maxima,
    /// pairs. Values of any type of up to 32 bytes.
    ///
    /// Each column must lie in one warp: in a FullCol policy of warps, or [`Threads`](crate::tile::Threads) of one warp.
    /// [`ColReducer`](crate::tile::ColReducer) takes others.
    #[inline(always)]
    pub fn reduce_cols(&self, init: T, f: impl Fn(T, T) -> T) -> Cols<T, M, N, L> {
        const {
            assert!(
                L::Rows::<u32>::LEN * 32 / L::ROW_LANES as usize == M,
                "columns are reduced where a warp holds them whole: use a FullCol policy of warps or a ColReducer"
            )
        };
        self.fold_cols(init, &f).across_lanes(&f)
    }

    /// Combines what this thread holds of every column, beginning with `init`.
    #[inline(always)]
    pub fn fold_cols<A: Copy>(&self, init: A, f: impl Fn(A, T) -> A) -> Cols<A, M, N, L> {
        let mut cols = Cols::<A, M, N, L>::splat(init);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let c = L::col(i);
            cols.regs.set(c, f(cols.regs.get(c), self.regs.get(i)));
            i += 1;
        }
        cols
    }
}

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Cols<T, M, N, L> {
    /// A thread's columns.
    const COUNT: usize = L::Regs::<u32>::LEN / L::Rows::<u32>::LEN;

    /// Combines the values that the lanes of a warp have of a column, by an associative and commutative `f`.
    #[inline(always)]
    fn across_lanes(mut self, f: &impl Fn(T, T) -> T) -> Self {
        if thread_x() < L::THREADS {
            let mut lane = L::ROW_LANES;
            while lane < 32 {
                let mut c = 0;
                while c < Self::COUNT {
                    let x = self.regs.get(c);
                    // SAFETY: all lanes of the warps that hold the fragment execute it.
                    self.regs.set(c, f(x, unsafe { passed::of_lane(x, lane) }));
                    c += 1;
                }
                lane *= 2;
            }
        }
        self
    }
}

/// Reduces columns wherever they lie: over a warp's lanes, and over warps of the CTA through shared memory, where a row of values lies
/// for each warp.
///
/// A reduction over warps takes two barriers; all threads of the program execute it alike. Every thread of a column gets the same result,
/// to the bit, and the same each time.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// y += the sums of the columns of x, of which each CTA has every so many rows.
/// fn sums(cta: &mut Cta<Simt<4>>, x: Global<f32, 2>, mut y: GlobalMut<f32, 2>) {
///     let mut cols = cta.col_reducer::<f32, Threads<4, 32, 4>, 16, 128>();
///     let mut all = Fragment::<f32, 16, 128, Threads<4, 32, 4>>::zero();
///     let mut rows = block_x();
///     while rows * 16 < x.rows() {
///         all = all + Fragment::load(x.tile([rows, block_y()]));
///         rows += grid_x();
///     }
///     atomic_add(cols.reduce_cols(&all, 0.0, |a, b| a + b), y.tile([0, block_y()]));
/// }
/// ```
pub struct ColReducer<P, T, L, const M: usize, const N: usize> {
    address: u32,
    kind: PhantomData<(P, T, L)>,
}

impl<P: Collective> Cta<P> {
    /// What reduces the columns of tiles of `M` x `N` to values of `T`, of up to 32 bytes, that are laid out by `L`.
    #[inline(always)]
    pub fn col_reducer<T: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        &mut self,
    ) -> ColReducer<P, T, L, M, N> {
        const { expect_all::<P>(L::THREADS) };
        let bytes = if L::THREADS == 32 { 0 } else { L::THREADS / 32 * N as u32 * passed::bytes::<T>() };
        ColReducer { address: self.reserve(bytes, 16), kind: PhantomData }
    }
}

impl<P: Collective, T: Copy, L: FragmentLayout<M, N>, const M: usize, const N: usize>
    ColReducer<P, T, L, M, N>
{
    /// Combines all elements of every column, beginning with `init`, which changes nothing: see [`Fragment::reduce_cols`].
    #[inline(always)]
    pub fn reduce_cols(
        &mut self,
        x: &Fragment<T, M, N, L>,
        init: T,
        f: impl Fn(T, T) -> T,
    ) -> Cols<T, M, N, L> {
        self.reduce(x.fold_cols(init, &f), f)
    }

    /// Combines the values that the threads of every column have.
    #[inline(always)]
    pub fn reduce(&mut self, cols: Cols<T, M, N, L>, f: impl Fn(T, T) -> T) -> Cols<T, M, N, L> {
        let thread = thread_x();
        let mut cols = cols.across_lanes(&f);
        if L::THREADS == 32 || thread >= P::CONSUMERS {
            return cols;
        }
        let place = |warp: u32, col: u32| self.address + (warp * N as u32 + col) * passed::bytes::<T>();
        // SAFETY: all threads of the program that compute execute it.
        let meet = || unsafe { meet::<P>() };
        // Behind the reads of the last reduction.
        meet();
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            if L::row(i) == 0 && thread % 32 < L::ROW_LANES {
                // SAFETY: the warp's value of this column is this lane's to write: the first of those that hold the column.
                unsafe { passed::store(place(thread / 32, L::coord(thread, i).1), cols.regs.get(L::col(i))) };
            }
            i += 1;
        }
        meet();
        let first = L::coord(thread / 32 * 32, 0).1;
        let (mut warp, mut begun) = (0, false);
        while warp < L::THREADS / 32 {
            // Warps with the same columns, in the same order in all threads.
            if L::coord(warp * 32, 0).1 == first {
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == 0 {
                        // SAFETY: stored before the barrier, and until the next reduction's first one nobody writes there.
                        let x: T = unsafe { passed::load(place(warp, L::coord(thread, i).1)) };
                        let c = L::col(i);
                        cols.regs.set(c, if begun { f(cols.regs.get(c), x) } else { x });
                    }
                    i += 1;
                }
                begun = true;
            }
            warp += 1;
        }
        cols
    }
}
