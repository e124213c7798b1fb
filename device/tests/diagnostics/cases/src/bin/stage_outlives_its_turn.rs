//! A stage is another one's after its turn: it is not kept.

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<4>>, a: Global<f16, 2>) {
    let stages = cta.stages::<3>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let mut kept = None;
    pipe.run(
        0..a.cols(),
        Fragment::<f32, 128, 64, warp::FullRow<4>>::zero(),
        |s, k| copy(a.tile([0, k]), a_s.at(s)),
        |acc, s, _| {
            kept = Some(s); //~ borrowed data escapes outside of closure
            acc
        },
    );
}

fn main() {
    let _: fn(_, _) = kernel;
}
