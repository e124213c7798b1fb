//! Two products of a policy that is a parameter read one tile: the bounds say how it lies.

use tilewright_device::tile::*;

type Tile<'s> = Src<'s, Shared<f16, 128, 64, Swizzle<128>>>;

fn kernel<P>(a: Tile, b: Tile, c: Tile, d: Tile)
where
    P: Gemm<f16, 128, 128, 64, A = Swizzle<128>, B = Swizzle<128>>,
    P: Gemm<f16, 64, 64, 128, A = Swizzle<128>, B = Swizzle<128>>,
{
    let _ = gemm(P::default(), a, b.t(), Fragment::<f32, 128, 128, _>::zero()).wait();
    let _ = gemm(P::default(), c.t(), d, Fragment::<f32, 64, 64, _>::zero()).wait();
}

fn main() {
    let _: fn(_, _, _, _) = kernel::<FullRow<1>>;
}
