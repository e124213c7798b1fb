//! A column reduction where a column is shared out.

use tilewright_device::tile::*;

fn kernel(x: Fragment<f32, 64, 64, warp::FullRow<4>>) {
    x.reduce_cols(0.0, |a, b| a + b); //~ columns are reduced where a warp holds them whole: use a FullCol policy of warps or a ColReducer
}

fn main() {
    let _: fn(_) = kernel;
}
