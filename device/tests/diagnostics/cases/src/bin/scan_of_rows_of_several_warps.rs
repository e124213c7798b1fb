//! A scan of rows that two warps hold between them.

use tilewright_device::tile::*;

type Tile = Fragment<f32, 64, 256, warp::FullCol<2>>;

fn kernel(x: Tile, carry: Rows<f32, 64, 256, warp::FullCol<2>>) {
    x.scan_rows(carry, Scan::Inclusive, |a, b| a + b); //~ rows are scanned where a warp or warpgroup holds them whole
}

fn main() {
    let _: fn(_, _) = kernel;
}
