//! What `#[kernel]` and `kernels!` make, on the host.

use std::mem::{align_of_val, offset_of, size_of_val};

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::{Arch, Instance, Kernel, Program};
use tilewright_device::signature::Signature;
use tilewright_device::tile::{Element, GlobalMut};
use tilewright_device::{f16, kernel, kernels};

/// Runs the body in every thread.
struct Plain<const WARPS: u32>;

impl<const WARPS: u32> Program for Plain<WARPS> {
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = 32 * WARPS;

    unsafe fn run(body: impl FnOnce()) {
        body()
    }
}

/// A kernel with parameters.
#[kernel(program = P, shared = (N * T::BYTES) as u32, cluster = [2, 1, 1], min_ctas = 2, local = true,
    expects(x.rows() == N as u32, count < x.cols()))]
pub fn generic<P: Program, T, const N: usize>(mut x: GlobalMut<T, 2>, count: u32, by: f32)
where
    T: Element,
{
    let _ = (&mut x, count, by);
}

/// A kernel without.
#[kernel(threads = 64)]
fn plain(count: u32) {
    let _ = count;
}

/// A kernel without arguments either.
#[kernel(threads = 1, arch = Arch::Sm90a)]
fn nothing() {}

macro_rules! family {
    ($($element:ident $n:literal)*) => {
        kernels! { $( sm_90: [generic_ $element _ $n x 2]: generic<Plain<4>, $element, $n>; )* }
    };
}
family! { f16 64 f16 128 f32 64 }
kernels! { by_hand: generic<Plain<8>, f32, 32> }

fn launch<K: Kernel>() -> (Arch, u32, u32, [u32; 3], u32, bool) {
    (K::ARCH, K::THREADS, K::MIN_CTAS, K::CLUSTER, K::SHARED_BYTES, K::LOCAL)
}

#[test]
fn options_become_constants() {
    assert_eq!(launch::<generic<Plain<4>, f16, 64>>(), (Arch::Sm90a, 128, 2, [2, 1, 1], 128, true));
    assert_eq!(launch::<generic<Plain<8>, f32, 32>>(), (Arch::Sm90a, 256, 2, [2, 1, 1], 128, true));
    assert_eq!(launch::<plain>(), (Arch::Sm80, 64, 1, [1, 1, 1], 0, false));
    assert_eq!(launch::<nothing>(), (Arch::Sm90a, 1, 1, [1, 1, 1], 0, false));
}

#[test]
fn instances_have_names() {
    let names = [
        <generic<Plain<4>, f16, 64>>::NAME,
        <generic<Plain<4>, f16, 128>>::NAME,
        <generic<Plain<4>, f32, 64>>::NAME,
        <generic<Plain<8>, f32, 32>>::NAME,
        plain::NAME,
        nothing::NAME,
    ];
    let expected =
        ["generic_f16_64x2", "generic_f16_128x2", "generic_f32_64x2", "by_hand", "plain", "nothing"];
    assert_eq!(names, expected);
}

#[test]
fn arguments_are_one_block() {
    type Args = <generic<Plain<4>, f16, 64> as Kernel>::Args;
    let tensor = GlobalAbi { map: TensorMap::NONE, ..zeroed() };
    let args: Args = <generic<Plain<4>, f16, 64>>::pack((tensor, 3, 0.5));
    assert_eq!((args.count, args.by), (3, 0.5));
    assert_eq!(offset_of!(Args, x), 0);
    assert_eq!(align_of_val(&args), 64);
    assert_eq!(size_of_val(&args) % 16, 0);
    assert_eq!(size_of_val(&plain::pack((1,))), 16);
    assert_eq!(size_of_val(&nothing::pack(())), 16, "a kernel's parameter has a size");
}

#[test]
fn expectations_are_checked_in_turn() {
    type Generic = generic<Plain<4>, f16, 64>;
    let unmet = |shape, count| {
        let tensor = GlobalAbi { shape, ..zeroed() };
        Generic::unmet(&Generic::pack((tensor, count, 0.5))).map(|unmet| (unmet.text, unmet.parameters))
    };
    assert_eq!(unmet([64, 9], 8), None);
    assert_eq!(unmet([63, 9], 9), Some(("x.rows() == N as u32", &[0][..])));
    assert_eq!(unmet([64, 9], 9), Some(("count < x.cols()", &[1, 0][..])));
    assert_eq!(Generic::NAMES, ["x", "count", "by"]);
    assert!(plain::unmet(&plain::pack((1,))).is_none());
}

fn zeroed<T, const RANK: usize>() -> GlobalAbi<T, RANK> {
    // SAFETY: it is made of integers.
    unsafe { std::mem::zeroed() }
}
