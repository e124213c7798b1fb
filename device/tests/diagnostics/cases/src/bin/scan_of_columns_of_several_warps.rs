//! A scan of columns that four warps hold between them.

use tilewright_device::tile::*;

type Tile = Fragment<f32, 64, 64, warp::FullRow<4>>;

fn kernel(x: Tile, carry: Cols<f32, 64, 64, warp::FullRow<4>>) {
    x.scan_cols(carry, Scan::Exclusive, |a, b| a + b); //~ columns are scanned where a warp holds them whole: use a FullCol policy of warps or a ColScanner
}

fn main() {
    let _: fn(_, _) = kernel;
}
