//! Two warpgroups of 240 registers and one of 40: the last to take theirs would wait for ever.
//~ the roles take more registers than the launch gives the CTA

use tilewright_device::kernel;
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

#[derive(Clone, Copy, Debug, Default)]
struct Greedy;

impl Configuration for Greedy {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 40, consumers: 240 });
}

#[kernel(program = WarpSpecialized<Greedy>)]
fn refused() {}

fn main() {
    let _: unsafe fn(*const <refused as Kernel>::Args) = <refused as Kernel>::run;
}
