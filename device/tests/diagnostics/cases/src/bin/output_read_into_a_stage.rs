//! What the kernel writes, copied into a stage: no launch checks that TMA can read it.
//~ with a BOX of 0 it is read to registers alone

use tilewright_device::tile::*;

fn kernel(
    mut cta: Cta<WarpSpecialized<OneConsumer>>,
    c: GlobalMut<f16, 2>,
    acc: Fragment<f32, 64, 64, FullRow<1>>,
) {
    let stages = cta.stages::<4>();
    let c_s = stages.alloc::<Shared<f16, 64, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(0..c.rows(), acc, |s, k| copy(c.read([0, k]), c_s.at(s)), |acc, _, _| acc);
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
