//! A row's threads exchange by shuffles, which do not leave the warp.
//~ a row of the grid lies in a warp, and all warps are full

use tilewright_device::tile::*;

fn kernel(x: GlobalTile<f32, 2>) {
    Fragment::<f32, 4, 64, Threads<1, 64>>::load(x);
}

fn main() {
    let _: fn(_) = kernel;
}
