//! Threads read neighbours of B along N, and here they lie along K.
//~ products by `Threads` take B row-major

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f32, 128, 16, Swizzle<64>>>;
type B<'s> = Src<'s, Shared<f32, 16, 128, Linear, ColMajor>>;

fn kernel(a: A, b: B) {
    let _ = gemm(Threads::<16, 16, 4>, a, b, Fragment::<f32, 128, 128, _>::zero()).wait();
}

fn main() {
    let _: fn(_, _) = kernel;
}
