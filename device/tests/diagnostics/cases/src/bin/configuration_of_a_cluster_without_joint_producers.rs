//! Each producer has pipelines of its own: no CTA would copy its share to the others.
//~ joint producers copy to all CTAs of a cluster

use tilewright_device::kernel;
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

#[derive(Clone, Copy, Debug, Default)]
struct Apart;

impl Configuration for Apart {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 232 });
    const CLUSTER: u32 = 2;
}

#[kernel(program = WarpSpecialized<Apart>)]
fn refused() {}

fn main() {
    let _: unsafe fn(*const <refused as Kernel>::Args) = <refused as Kernel>::run;
}
