//! A second CTA would hand out the same shared memory and the same barriers.

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<4>>) {
    let mut again = Cta::<Multistage<4>>::enter(); //~ call to unsafe function
    cta.reserve(16, 16);
    again.reserve(16, 16);
}

fn main() {
    let _: fn(_) = kernel;
}
