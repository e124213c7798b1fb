//! A stage that gemms may be reading is not written.

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<4>>, a: Global<f16, 2>) {
    let stages = cta.stages::<3>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(
        0..a.cols(),
        Fragment::<f32, 128, 64, warp::FullRow<4>>::zero(),
        |s, k| copy(a.tile([0, k]), a_s.at(s)),
        |acc, s, k| {
            copy(a.tile([0, k]), a_s.at(s)); //~ expected struct `Dst<
            acc
        },
    );
}

fn main() {
    let _: fn(_, _) = kernel;
}
