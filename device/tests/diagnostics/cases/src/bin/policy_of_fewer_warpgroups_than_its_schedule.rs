//! A warpgroup that has no part of the tile.
//~ the policy has more or fewer warps than compute on the schedule

use tilewright_device::tile::*;

fn kernel(a: Global<f16, 2>, b: Global<f16, 2, ColMajor>) {
    let mut cta = Cta::<WarpSpecialized<ThreeConsumersThreeProducers>>::enter();
    let a_s = cta.alloc::<Shared<f16, 128, 64, _, _>, 3>();
    let b_s = cta.alloc::<Shared<f16, 64, 128, _, _>, 3>();
    let mut pipe = cta.pipeline::<3>();
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
    let _: fn(_, _) = kernel;
}
