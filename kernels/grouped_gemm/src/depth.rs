//! C\[g\] = Aᵀ B over the rows of each group: what the gradient by a group's matrix is made of.

use tilewright_device::arch::special::trap;
use tilewright_device::tile::{
    Cta, Element, Fragment, FragmentLayout, Gemm, Global, GlobalMut, GlobalTileMut, Groups, InPlace, Major,
    OutputLayout, Schedule, Shared, atomic_add, copy, gemm as multiply,
};
use tilewright_device::{bf16, f16, kernel};

/// C\[g\] = A's rows of group g, transposed, times B's: A \[matrices, rows, M\], B \[matrices, rows, N\], C \[groups, M, N\].
///
/// Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `U`. `groups` says which rows are whose: they are the depth of its product. If `accumulate`
/// is not 0, the products are added to C, which is then of `f32`, and groups without rows leave theirs as it is. As many CTAs as the grid has take the tiles in turn.
///
/// # Safety
/// `groups` has its numbers where it says. A and B have all matrices that it names, C one for each group.
#[kernel(program = P)]
pub unsafe fn k_grouped_gemm<
    P: Schedule,
    Y,
    T: Element,
    U: Accumulates,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3>,
    b: Global<T, 3>,
    c: InPlace<GlobalMut<U, 3>>,
    groups: Groups,
    accumulate: u32,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BK, BM, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, _>();
    let mut pipe = cta.pipeline(stages);
    // SAFETY: the caller's, here and below.
    for at in unsafe { groups.products(a.cols().div_ceil(BM as u32)) } {
        if accumulate != 0 && at.rows == 0 {
            continue;
        }
        let whole = at.rows / BK as u32;
        let acc = pipe.run(
            0..at.rows.div_ceil(BK as u32),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: as above.
                unsafe {
                    copy(a.tile_unchecked([at.matrix, k, at.m]).of_rows(at.first, at.rows), a_s.at(s));
                    copy(b.tile_unchecked([at.matrix, k, at.n]).of_rows(at.first, at.rows), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, k| {
                if k == whole {
                    // By TMA rows of the next group have come too, and none of theirs may count, not even a NaN times 0.
                    // SAFETY: all threads that compute have the same tiles and steps, and the step's gemms are issued behind it.
                    unsafe {
                        cta.clear_from(s, &a_s, at.rows % BK as u32);
                        cta.clear_from(s, &b_s, at.rows % BK as u32);
                    }
                }
                multiply(Y::default(), a_s.at(s).t(), b_s.at(s), acc)
            },
        );
        if !cta.computes() {
            continue;
        }
        let mut c = c.get();
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked([at.group, at.m, at.n]) };
        match accumulate {
            0 => out.store_each(acc, |x| x, to),
            _ => U::add(acc, to),
        }
    }
}

/// An element type of C, and how products are added to it.
pub trait Accumulates: Element {
    /// Adds to a tile: of f32 alone.
    fn add<O: Major, L: FragmentLayout<M, N>, const BOX: usize, const M: usize, const N: usize>(
        sums: Fragment<f32, M, N, L>,
        to: GlobalTileMut<Self, 3, O, BOX>,
    );
}

impl Accumulates for f32 {
    #[inline(always)]
    fn add<O: Major, L: FragmentLayout<M, N>, const BOX: usize, const M: usize, const N: usize>(
        sums: Fragment<f32, M, N, L>,
        to: GlobalTileMut<f32, 3, O, BOX>,
    ) {
        // One CTA has the tile: the sums have the same bits in each launch.
        atomic_add(sums, to);
    }
}

macro_rules! stored_alone {
    ($($t:ident)*) => { $(
        impl Accumulates for $t {
            #[inline(always)]
            fn add<O: Major, L: FragmentLayout<M, N>, const BOX: usize, const M: usize, const N: usize>(
                _: Fragment<f32, M, N, L>,
                _: GlobalTileMut<$t, 3, O, BOX>,
            ) {
                trap();
            }
        }
    )* };
}
stored_alone!(f16 bf16);
