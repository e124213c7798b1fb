//! A stage that all producers fill is of all warpgroups: none of them could compute a tile of its own.
//~ joint producers fill stages for all warpgroups together

use tilewright_device::kernel;
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

#[derive(Clone, Copy, Debug, Default)]
struct Apart;

impl Configuration for Apart {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Joint(4);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 56, consumers: 224 });
    const APART: bool = true;
}

#[kernel(program = WarpSpecialized<Apart>)]
fn refused() {}

fn main() {
    let _: unsafe fn(*const <refused as Kernel>::Args) = <refused as Kernel>::run;
}
