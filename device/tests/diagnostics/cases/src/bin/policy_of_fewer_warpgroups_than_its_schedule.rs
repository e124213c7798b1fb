//! A warpgroup that has no part of the tile.
//~ the policy has more or fewer warps than compute on the schedule

use tilewright_device::tile::*;

fn kernel(
    mut cta: Cta<WarpSpecialized<ThreeConsumersThreeProducers>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
) {
    let stages = cta.stages::<3>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(
        0..a.cols(),
        Fragment::<f32, 128, 128, _>::zero(),
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
