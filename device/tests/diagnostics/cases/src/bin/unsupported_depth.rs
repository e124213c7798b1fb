//! A tile that no instruction covers.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 48, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 48, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).wait(); //~ x 48 tile of
}

fn main() {
    let _: fn(_, _) = kernel;
}
