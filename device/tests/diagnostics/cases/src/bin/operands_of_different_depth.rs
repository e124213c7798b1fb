//! The depths of A and B differ.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 32, 128, Swizzle<64>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait(); //~ is not the right operand of a 128 x
}

fn main() {
    let _: fn(_, _) = kernel;
}
