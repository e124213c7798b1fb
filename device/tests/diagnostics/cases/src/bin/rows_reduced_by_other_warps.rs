//! A reduction of rows over more warps than the program has.
//~ the tile lies over more or fewer threads than compute
//~ go with a program of W warps, such as `Simt<W>`

use tilewright_device::tile::*;

type OverEight = Spread<8, 256, 32, 4>;

fn kernel(mut cta: Cta<Simt<4>>, x: Fragment<f32, 1, 8192, OverEight>) {
    cta.row_reducer::<OverEight, 1, 8192, 1>().reduce_rows(&x, 0.0, |a, b| a + b);
}

fn main() {
    let _: fn(_, _) = kernel;
}
