//! Products of tf32 read both operands along K, and here B's neighbours lie along N.
//~ products of tf32 take operands that are contiguous along K: A row-major, B column-major

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f32, 64, 32, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f32, 32, 64, Swizzle<128>, RowMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(Tf32::<warp::Square<2, 2>>::default(), a, b, Fragment::<f32, 64, 64, _>::zero()).wait();
}

fn main() {
    let _: fn(_, _) = kernel;
}
