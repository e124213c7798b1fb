//! A type that the tensor cores do not multiply.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f32, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f32, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(warp::FullRow::<4>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait(); //~ x 64 tile of `f32`
}

fn main() {
    let _: fn(_, _) = kernel;
}
