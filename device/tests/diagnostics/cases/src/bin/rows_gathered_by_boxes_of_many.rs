//! Rows that TMA gathers, of a tensor whose boxes have 64.
//~ rows that TMA gathers are boxes of one line: make the tensor a `Global<T, RANK, RowMajor, 1>`

use tilewright_device::tile::*;

fn kernel(
    mut cta: Cta<WarpSpecialized<OneConsumer>>,
    a: Global<f16, 2>,
    acc: Fragment<f32, 64, 64, FullRow<1>>,
) {
    let stages = cta.stages::<4>();
    let a_s = stages.alloc::<Shared<f16, 64, 64, Swizzle<128>, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    pipe.run(0..a.cols(), acc, |s, k| copy(a.gather(|r| Some([2 * r, k])), a_s.at(s)), |acc, _, _| acc);
}

fn main() {
    let _: fn(_, _, _) = kernel;
}
