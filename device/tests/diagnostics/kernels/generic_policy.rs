//! Two products of a policy that is a parameter read one tile, and no bound says how it lies.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use tilewright_device::kernel;
use tilewright_device::tile::*;

/// C = A B and E = A D, of which the first is stored.
#[kernel(program = P)]
pub fn products<P: Schedule, Y>(
    mut cta: Cta<P>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    d: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
) where
    Y: Gemm<f16, 128, 128, 64, D: OutputLayout<128, 128>>,
    Y: Gemm<f16, 128, 64, 64>,
{
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
    let d_s = stages.alloc::<Shared<f16, 64, 64, _, _>>(&mut cta);
    let mut out = cta.output::<f16, 128, 128, _>();
    let mut pipe = cta.pipeline(stages);
    let (product, _) = pipe.run(
        0..a.cols().div_ceil(64),
        (Fragment::<f32, 128, 128, _>::zero(), Fragment::<f32, 128, 64, _>::zero()),
        #[inline(always)]
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
            copy(d.tile([k, 0]), d_s.at(s));
        },
        #[inline(always)]
        |(x, y), s, _| {
            let x = gemm(Y::default(), a_s.at(s), b_s.at(s), x);
            (x, gemm(Y::default(), a_s.at(s), d_s.at(s), y))
        },
    );
    out.store(product.cast::<f16>(), c.tile([0, 0]));
}

tilewright_device::kernels! {
    sm_90: products_90: products<WarpSpecialized<TwoConsumers>, FullRow<2>>;
}
