//! A tensor that is declared to be read to registers alone, copied into a stage: no launch checks that it can be.
//~ a tensor with a BOX of 0 is read to registers alone, not into stages

use tilewright_device::tile::*;

fn kernel(
    mut cta: Cta<Multistage<4>>,
    a: Global<f16, 2, RowMajor, 0>,
    acc: Fragment<f32, 128, 64, warp::FullRow<4>>,
) {
    let stages = cta.stages::<4>();
    let a_s = stages.alloc::<Shared<f16, 128, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(0..a.cols(), acc, |s, k| copy(a.tile([0, k]), a_s.at(s)), |acc, _, _| acc);
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
