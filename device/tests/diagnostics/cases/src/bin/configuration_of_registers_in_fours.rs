//! The hardware allocates registers in eights.
//~ a thread's registers are a multiple of 8 from 24 to 256

use tilewright_device::kernel;
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

#[derive(Clone, Copy, Debug, Default)]
struct InFours;

impl Configuration for InFours {
    const CONSUMER_WARPGROUPS: u32 = 2;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 44, consumers: 228 });
}

#[kernel(program = WarpSpecialized<InFours>)]
fn refused() {}

fn main() {
    let _: unsafe fn(*const <refused as Kernel>::Args) = <refused as Kernel>::run;
}
