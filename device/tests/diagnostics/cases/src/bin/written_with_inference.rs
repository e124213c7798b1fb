//! The kernels of this package's library, whose bodies are instantiated here.

use cases::{annotated, chained, columns, gated, inferred};
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

/// Compiles a kernel's body, which the host never runs.
fn compiled<K: Kernel>() -> usize {
    let run: unsafe fn(*const K::Args) = <K as Kernel>::run;
    run as usize
}

fn main() {
    let all = [
        compiled::<inferred<WarpSpecialized<TwoConsumers>, FullRow<2>>>(),
        compiled::<inferred<Multistage<4>, warp::Square<2, 2>>>(),
        compiled::<annotated>(),
        compiled::<columns>(),
        compiled::<gated<WarpSpecialized<TwoConsumers>, FullRow<2>>>(),
        compiled::<gated<Multistage<4>, warp::FullRow<4>>>(),
        compiled::<chained<WarpSpecialized<TwoConsumers>, FullRow<2>>>(),
        compiled::<chained<Multistage<8>, warp::FullRow<8>>>(),
    ];
    assert!(all.iter().all(|&address| address != 0));
}
