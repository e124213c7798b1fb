//! A fragment that lies over more warps than store it.
//~ the policy has more or fewer warps than compute on the schedule

use tilewright_device::tile::*;

fn kernel(mut cta: Cta<Multistage<2>>, c: GlobalTileMut<f16, 2>) {
    let mut out = cta.output::<f16, 64, 64, warp::FullRow<4>>();
    out.store(Fragment::splat(f16::ONE), c);
}

fn main() {
    let _: fn(_, _) = kernel;
}
