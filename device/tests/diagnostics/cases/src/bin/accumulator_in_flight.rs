//! An accumulator in flight goes into no other gemm before it is waited for.

use tilewright_device::tile::*;

type A<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;
type B<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>, ColMajor>>;

fn kernel(a: A, b: B, a2: A, b2: B) {
    let acc = gemm(FullRow::<2>::default(), a, b, Fragment::<f32, 128, 128, _>::zero()).commit();
    let _ = gemm(FullRow::<2>::default(), a2, b2, acc); //~ one in flight must be waited for
}

fn main() {
    let _: fn(_, _, _, _) = kernel;
}
