//! A stage that is being filled is not read.

use tilewright_device::tile::*;

fn kernel(
    mut cta: Cta<WarpSpecialized<TwoConsumers>>,
    a: Global<f16, 2>,
    acc: Fragment<f32, 128, 128, FullRow<2>>,
) {
    let stages = cta.stages::<3>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(
        0..a.cols(),
        acc,
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            gemm(FullRow::<2>::default(), a_s.at(s), a_s.at(s), acc).wait(); //~ A is an M x K tile of a full stage
        },
        |acc, _, _| acc,
    );
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
