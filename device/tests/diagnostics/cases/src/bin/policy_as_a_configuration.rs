//! How warps divide a tile, where a schedule wants to know which warps there are.
//~ `Warpgroups<2, 1>` is not a configuration of warp specialisation

use tilewright_device::tile::*;

fn kernel<P: Schedule>(_: Cta<P>) {}

fn main() {
    let _: fn(_) = kernel::<WarpSpecialized<FullRow<2>>>; //~ E0277
}
