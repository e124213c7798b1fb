//! Rows that lie over more warps than there are.
//~ the rows lie over more threads than the schedule has

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<2>>, rows: Rows<f32, 64, 64, warp::FullRow<4>>) {
    copy(rows, &mut cta.row_scratch::<64>());
}

fn main() {
    let _: fn(_, _) = kernel;
}
