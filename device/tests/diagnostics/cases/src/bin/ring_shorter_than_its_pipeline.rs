//! A ring that has fewer tiles than the pipeline has stages that asks for one.

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<4>>, a: Global<f16, 2>, acc: Fragment<f32, 128, 64, warp::FullRow<4>>) {
    let (three, four) = (cta.stages::<3>(), cta.stages::<4>());
    let a_s = three.alloc::<Shared<f16, 128, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(four);
    pipe.run(
        0..a.cols(),
        acc,
        |s, k| copy(a.tile([0, k]), a_s.at(s)), //~ a ring has as many tiles as the pipeline that fills it has stages
        |acc, _, _| acc,
    );
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
