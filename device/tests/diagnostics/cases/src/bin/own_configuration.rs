//! A kernel on a configuration of its author's.

use tilewright_device::kernel;
use tilewright_device::kernel::Kernel;
use tilewright_device::tile::*;

#[derive(Clone, Copy, Debug, Default)]
struct ThreeConsumers;

impl Configuration for ThreeConsumers {
    const CONSUMER_WARPGROUPS: u32 = 3;
    const PRODUCERS: Producers = Producers::Separate(1);
    const REGISTERS: Option<RegisterBudget> = Some(RegisterBudget { producers: 32, consumers: 160 });
}

#[kernel(program = WarpSpecialized<ThreeConsumers>)]
fn product(
    mut cta: Cta<WarpSpecialized<ThreeConsumers>>,
    a: Global<f16, 2>,
    b: Global<f16, 2, ColMajor>,
    mut c: GlobalMut<f16, 2>,
) {
    let stages = cta.stages::<2>();
    let a_s = stages.alloc::<Shared<f16, 192, 64, _, _>>(&mut cta);
    let b_s = stages.alloc::<Shared<f16, 64, 128, _, _>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let acc = pipe.run(
        0..a.cols().div_ceil(64),
        Fragment::<f32, 192, 128, _>::zero(),
        |s, k| {
            copy(a.tile([0, k]), a_s.at(s));
            copy(b.tile([k, 0]), b_s.at(s));
        },
        |acc, s, _| gemm(FullRow::<3>::default(), a_s.at(s), b_s.at(s), acc),
    );
    copy(acc.cast::<f16>(), c.tile([0, 0]));
}

fn main() {
    assert_eq!(<product as Kernel>::THREADS, 512);
    let _: unsafe fn(*const <product as Kernel>::Args) = <product as Kernel>::run;
}
