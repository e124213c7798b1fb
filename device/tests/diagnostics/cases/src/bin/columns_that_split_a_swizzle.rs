//! N is contiguous, and a warpgroup's columns begin in the middle of a swizzled span.
//~ where N is contiguous in B, a warpgroup takes a multiple of 64 columns

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 64, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 192, Swizzle<128>, RowMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(FullCol::<2>::default(), a, b, Fragment::<f32, 64, 192, _>::zero()).wait();
}

fn main() {
    let _: fn(_, _) = kernel;
}
