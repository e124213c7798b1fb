//! A thread has three runs of each row: what is half a row on lies in another register of another thread.

use tilewright_device::tile::*;

fn kernel(x: Fragment<f32, 8, 384, Striped<4>>) -> Fragment<f32, 8, 384, Striped<4>> {
    x.zip_halves(|a, b| (b, a)) //~ halves of rows meet where a thread has an even number of runs of a row, or one, in one warp
}

fn main() {
    let _: fn(_) -> _ = kernel;
}
