//! A policy that is a parameter: nobody knows how it wants its operands.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel<P: Gemm<f16, 128, 128, 64>>(a: A, b: B) {
    let _ = gemm(P::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait(); //~ <P as Gemm<f16, 128, 128, 64>>::A == Swizzle<128>`
}

fn main() {
    let _: fn(_, _) = kernel::<FullRow<2>>;
}
