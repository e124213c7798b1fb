//! A row reduction where a row is shared out.

use tilewright_device::tile::*;

fn kernel(acc: Fragment<f32, 64, 256, FullCol<2>>) -> Rows<f32, 64, 256, FullCol<2>> {
    acc.reduce_rows(0.0, |a, b| a + b) //~ rows are reduced where a warp or warpgroup holds them whole: use Striped, a FullRow policy or a RowReducer
}

fn main() {
    let _: fn(_) -> _ = kernel;
}
