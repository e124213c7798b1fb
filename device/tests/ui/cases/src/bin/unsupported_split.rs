//! More warpgroups than the tile has blocks of rows.

use tilewright_device::tile::*;

fn kernel(acc: Fragment<f32, 128, 128, FullRow<3>>) -> Fragment<f16, 128, 128, FullRow<3>> {
    acc.cast()
}

fn main() {
    let _: fn(_) -> _ = kernel;
}
