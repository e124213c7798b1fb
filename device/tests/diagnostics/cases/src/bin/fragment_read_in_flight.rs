//! Committing a gemm is not yet waiting for it.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B) -> Fragment<f16, 128, 128, FullRow<2>> {
    let acc = gemm(FullRow::<2>::default(), a, b, Fragment::zero()).commit();
    acc.cast::<f16>() //~ no method named `cast` found for struct `InFlight<
}

fn main() {
    let _: fn(_, _) -> _ = kernel;
}
