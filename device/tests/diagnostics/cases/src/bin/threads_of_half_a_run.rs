//! Of 32 columns each of 16 threads has two, and is to access four at a time.
//~ a thread's columns are whole runs

use tilewright_device::tile::*;

fn kernel(x: GlobalTile<f32, 2>) {
    Fragment::<f32, 32, 32, Threads<16, 16, 4>>::load(x);
}

fn main() {
    let _: fn(_) = kernel;
}
