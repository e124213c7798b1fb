//! A stage that is being filled is not read.

use tilewright_device::tile::*;

fn kernel(a: Global<f16, 2>, acc: Fragment<f32, 128, 128, FullRow<2>>) {
    let mut cta = Cta::<WarpSpecialized<TwoConsumers>>::enter();
    let a_s = cta.alloc::<Shared<f16, 128, 64, _, _>, 3>();
    let mut pipe = cta.pipeline::<3>();
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
    let _: fn(_, _) = kernel;
}
