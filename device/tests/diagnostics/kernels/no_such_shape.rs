//! A product of 12 columns, which no instruction has: rustc finds that at eight places.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

use tilewright_device::kernel;
use tilewright_device::tile::*;

/// C = A B, with 12 columns.
#[kernel(program = WarpSpecialized<TwoConsumers>)]
pub fn product(
    mut cta: Cta<WarpSpecialized<TwoConsumers>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 12, _, _>>(&mut cta);
    let mut out = cta.output::<f16, 128, 12, FullRow<2>>();
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(64),
        Fragment::<f32, 128, 12, _>::zero(),
        #[inline(always)]
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        #[inline(always)]
        |acc, s, _| gemm(FullRow::<2>::default(), a_s.at(s), b_s.at(s), acc),
    );
    out.store(acc.cast::<f16>(), c.tile([0, 0]));
}
