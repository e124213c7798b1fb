//! More warpgroups than the tile has blocks of rows.

use tilewright_device::tile::*;

type Acc = Fragment<f32, 128, 128, FullRow<3>>;

fn kernel(acc: Acc) { //~ 128 rows cannot be divided among 3 warps or warpgroups
    acc.cast::<f16>();
}

fn main() {
    let _: fn(_) = kernel;
}
