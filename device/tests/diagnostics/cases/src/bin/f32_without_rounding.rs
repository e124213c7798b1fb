//! Tensor cores round f32, which a kernel says by its policy.
//~ f32 are multiplied by `Tf32<P>`, P a policy of `warp`, or exactly by `Threads<TY, TX, RUN>`

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f32, 64, 32, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f32, 32, 64, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(warp::Square::<2, 2>::default(), a, b, Fragment::<f32, 64, 64, _>::zero()).wait();
}

fn main() {
    let _: fn(_, _) = kernel;
}
