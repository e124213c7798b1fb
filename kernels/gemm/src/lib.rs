//! C = act(alpha A B + beta C + bias), one source for every architecture.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod lines;
mod list;
mod stream;

pub use lines::{CopyLinesArgs, TILE, copy_lines};
pub use list::{Activates, COPIES, CopyKernel, GEMM, GemmKernel};
pub use stream::{GemmStreamArgs, gemm_stream};

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Early, Element, Fragment, Gemm, Global, GlobalMut, InPlace, Major, OutputLayout, RasterOrder,
    Schedule, Shared, copy, gemm as multiply,
};

/// C = act(alpha A B + beta C + bias) for a batch of matrices: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
///
/// Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `U`. The orders `OA`, `OB`, `OC` say which
/// dimension of each is contiguous. `bias` has C's shape with strides of 0 where it is broadcast, or no columns if there
/// is none; C is not read when `beta` is 0. Tiles are taken in the order of `order` by as many clusters of `SPLIT` CTAs as
/// the grid has, which divide the depth among themselves; `BOX` is how many lines of B and of C one TMA box takes. Where
/// `P` has clusters of its own, their CTAs take neighbours along M together, and share B's tiles.
///
/// If `constant` is not 0, no kernel that may still run writes A: a kernel that streams it begins before the preceding grid has ended.
///
/// Kernels that store C column-major, and whose warpgroups share tiles, take `lines` columns of B and C for each tile, `BN` or fewer; the next tile begins behind them. What TMA
/// finds outside of a tensor takes it longer than what is inside, so tiles beside each other have as many each.
///
/// Where `E` is gated, C \[batch, M / 2, N\] is act(gate) up of A's rows, which are gates and ups in turn, [`GATES`](tilewright_device::tile::GATES) of each; without bias and beta.
///
/// # Safety
/// A, B, C and the bias, if there is one, have all matrices of `order`. B's boxes have `lines` lines, or equal parts of them where a tile is several boxes.
#[kernel(
    program = P,
    cluster = [SPLIT as u32 * P::CLUSTER, 1, 1],
)]
pub unsafe fn gemm<
    P: Schedule,
    Y,
    T: Element,
    U: Element,
    E: Activates,
    OA: Major,
    OB: Major,
    OC: Major,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const STAGES: usize,
    const SPLIT: usize,
    const BOX: usize,
>(
    mut cta: Cta<P>,
    a: Global<T, 3, OA>,
    b: Global<T, 3, OB, BOX>,
    mut c: GlobalMut<U, 3, OC, BOX>,
    bias: Global<U, 3, OC>,
    order: RasterOrder,
    alpha: f32,
    beta: f32,
    constant: InPlace<u32>,
    lines: InPlace<u32>,
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, _>();
    // Those for few rows of A compute the transposed product: tiles may have fewer columns of B than they have room for.
    let shortens = const { shortens::<P, OC>() };
    let short = || shortens.then(|| lines.get());
    if shortens {
        stages.zero_lines(&mut cta, &b_s, lines.get());
    }
    // What they stream is the left operand. All threads meet behind it.
    let streams = const { SPLIT > 1 && !OC::ROW_MAJOR };
    let early = Early::<P, STAGES, SPLIT>::open(&mut cta, streams, constant);
    let mut split = cta.split_k::<BM, BN, _, SPLIT>();
    // SAFETY: the caller's.
    let mut ahead = unsafe { early.load(&split, order, a, &a_s) };
    let mut pipe = cta.pipeline(stages);
    let mut turns = cta.turns_of_tiles();
    let mut loads = 0;
    for at in cta.tiles(order, SPLIT as u32) {
        let steps = split.steps(a.cols().div_ceil(BK as u32));
        let (first, there) = (steps.start, steps.start + core::mem::take(&mut ahead));
        let acc = pipe.run_in_turn(
            &mut turns,
            steps,
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // Boxes outside are left out where every stage has been filled once. To ask costs other kernels more than the boxes take, or spills.
                let filled = P::APART && {
                    loads += 1;
                    loads > STAGES as u32
                };
                // SAFETY: the caller's, here and below. Rows of A and columns of B that are not there make elements of C that are not stored.
                unsafe {
                    if !streams || k >= there {
                        copy(a.tile_unchecked([at.batch, at.m, k]).own().rows_kept(filled), a_s.at(s));
                    }
                    let b = b.tile_unchecked([at.batch, k, at.n]).cols_kept(filled);
                    copy(b.short(short()), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, k| {
                if streams && k < there {
                    // SAFETY: of those that were loaded.
                    unsafe { early.wait(k - first) };
                }
                multiply(Y::default(), a_s.at(s), b_s.at(s), acc)
            },
        );
        let Some(acc) = acc.and_then(|acc| split.reduce(acc)) else { continue };
        let place = [at.batch, at.m, at.n];
        if E::PLAIN {
            // SAFETY: as above.
            let to = unsafe { c.tile_unchecked(place) };
            out.store_each(acc, |x| E::ACTIVATION.apply(alpha * x), to.short(short()));
            continue;
        }
        let mut acc = acc.map(|x| alpha * x);
        if E::GATED {
            // SAFETY: as above; the kernel has rows of tiles for all of A's.
            unsafe { acc.store_gated(&mut c, place, |x| E::ACTIVATION.apply(x)) };
            continue;
        }
        if beta != 0.0 {
            // SAFETY: as above.
            let from = unsafe { c.reader().tile_unchecked(place).short(short()) };
            acc = acc.zip_global(from, |x, c| x + beta * c);
        }
        if bias.cols() > 0 {
            // SAFETY: as above.
            let from = unsafe { bias.tile_unchecked(place).short(short()) };
            acc = acc.zip_global(from, |x, b| x + b);
        }
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked(place) };
        out.store(acc.map(|x| E::ACTIVATION.apply(x)).cast::<U>(), to.short(short()));
    }
}

/// Whether a kernel reads as many lines of B as it is told.
const fn shortens<P: Schedule, OC: Major>() -> bool {
    !OC::ROW_MAJOR && !P::APART
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
