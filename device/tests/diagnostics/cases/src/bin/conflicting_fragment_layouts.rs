//! One accumulator cannot lie in two ways.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B, a2: A, b2: B) {
    let acc = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait();
    let _ = gemm(FullRow::<1>::default(), a2, b2, acc).wait(); //~ Layout == Warpgroups<1, 1>`
}

fn main() {
    let _: fn(_, _, _, _) = kernel;
}
