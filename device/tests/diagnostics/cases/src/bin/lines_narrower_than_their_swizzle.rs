//! A tile whose lines do not fill the swizzle that the gemm chose by its depth.
//~ a tile's contiguous dimension must fill its swizzle: a multiple of 64 elements

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<WarpSpecialized<TwoConsumers>>, a: Global<f16, 2>, b: Global<f16, 2, RowMajor>) {
    let stages = cta.stages::<3>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 96, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(
        0..a.cols(),
        Fragment::<f32, 128, 96, _>::zero(),
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        |acc, s, _| gemm(FullRow::<2>::default(), a_s.at(s), b_s.at(s), acc),
    );
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
