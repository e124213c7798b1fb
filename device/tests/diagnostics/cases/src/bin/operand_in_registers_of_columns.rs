//! A fragment that is shared out by columns is nobody's left operand.

use tilewright_device::tile::*;

type V<'s> = Src<'s, Shared<f16, 64, 128, Swizzle<128>>>;

fn kernel(p: Fragment<f32, 128, 64, FullRow<2>>, v: V) {
    let _ = gemm(FullCol::<2>::default(), p.cast::<f16>(), v, Fragment::<f32, 128, 128, _>::zero()).wait(); //~ each warp needs whole rows of A: use a FullRow policy
}

fn main() {
    let _: fn(_, _) = kernel;
}
