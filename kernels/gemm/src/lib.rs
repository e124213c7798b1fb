//! C = act(alpha A B + beta C + bias), one source for every architecture.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

mod list;

pub use list::{Activates, GEMM, GemmKernel};

use tilewright_device::kernel;
use tilewright_device::tile::{
    Cta, Element, Fragment, Gemm, Global, GlobalMut, Major, OutputLayout, Raster, RasterOrder, Schedule,
    Shared, copy, gemm as multiply,
};

/// C = act(alpha A B + beta C + bias) for a batch of matrices: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
///
/// Multiplies `T` in tiles of `BM` x `BN` x `BK`, accumulates in `f32`, stores `U`. The orders `OA`, `OB`, `OC` say which
/// dimension of each is contiguous. `bias` has C's shape with strides of 0 where it is broadcast, or no columns if there
/// is none; C is not read when `beta` is 0. Tiles are taken in the order of `order` by as many clusters of `SPLIT` CTAs as
/// the grid has, which divide the depth among themselves; `BOX` is how many lines of B and of C one TMA box takes.
///
/// # Safety
/// A, B, C and the bias, if there is one, have all matrices of `order`.
#[kernel(
    program = P,
    cluster = [SPLIT as u32, 1, 1],
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
) where
    Y: Gemm<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    let stages = cta.stages::<STAGES>();
    let a_s = stages.alloc::<Shared<T, BM, BK, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<U, BM, BN, _>();
    let mut split = cta.split_k::<BM, BN, _, SPLIT>();
    let mut pipe = cta.pipeline(stages);
    for at in Raster::persistent(order, SPLIT as u32) {
        let acc = pipe.run(
            split.steps(a.cols().div_ceil(BK as u32)),
            Fragment::<f32, BM, BN, _>::zero(),
            #[inline(always)]
            |s, k| {
                // SAFETY: the caller's, here and below.
                unsafe {
                    copy(a.tile_unchecked([at.batch, at.m, k]), a_s.at(s));
                    copy(b.tile_unchecked([at.batch, k, at.n]), b_s.at(s));
                }
            },
            #[inline(always)]
            |acc, s, _| multiply(Y::default(), a_s.at(s), b_s.at(s), acc),
        );
        let Some(acc) = split.reduce(acc) else { continue };
        let place = [at.batch, at.m, at.n];
        let mut acc = acc.map(|x| alpha * x);
        if beta != 0.0 {
            // SAFETY: as above.
            acc = acc.zip_global(unsafe { c.reader().tile_unchecked(place) }, |x, c| x + beta * c);
        }
        if bias.cols() > 0 {
            // SAFETY: as above.
            acc = acc.zip_global(unsafe { bias.tile_unchecked(place) }, |x, b| x + b);
        }
        // SAFETY: as above.
        let to = unsafe { c.tile_unchecked(place) };
        out.store(acc.map(|x| E::ACTIVATION.apply(x)).cast::<U>(), to);
    }
}

/// The compiled kernels.
#[cfg(all(feature = "build", not(target_arch = "nvptx64")))]
pub static KERNELS: tilewright_device::embedded::KernelSet = tilewright_device::include_kernels!();
