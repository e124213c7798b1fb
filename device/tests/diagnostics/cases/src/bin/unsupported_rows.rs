//! A tile that no instruction covers.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 100, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 100, 128, _>::zero()).wait(); //~ policy `Warpgroups<2, 1>` cannot compute a 100 x
}

fn main() {
    let _: fn(_, _) = kernel;
}
