//! A tile that no instruction covers.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 12, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 12, _>::zero()).wait(); //~ policy `Warpgroups<2, 1>` cannot compute a 128 x 12 x 64 tile
}

fn main() {
    let _: fn(_, _) = kernel;
}
