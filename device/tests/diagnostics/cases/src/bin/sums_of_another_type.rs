//! Sums of f32, added to a tensor of f16: they would have to be rounded.

use tilewright_device::tile::*;

fn kernel(acc: Fragment<f32, 64, 64, warp::FullRow<4>>, c: &mut GlobalMut<f16, 2>) {
    atomic_add(acc, c.tile([0, 0])); //~ type mismatch
}

fn main() {
    let _: fn(_, _) = kernel;
}
