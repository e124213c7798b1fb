//! A row that lanes cannot share evenly.

use tilewright_device::tile::*;

fn kernel(x: GlobalTile<f32, 2>) {
    let _ = Fragment::<f32, 4, 1000, Striped<4>>::load(x); //~ a row of 1000 elements cannot be striped over lanes
}

fn main() {
    let _: fn(_) = kernel;
}
