//! Hand-written kernels, described as `#[kernel]` and the builder describe theirs.

use std::marker::PhantomData;

use half::f16;
use miniz_oxide::deflate::compress_to_vec;
use tilewright::{Arch, Instance, Kernel, KernelEntry, KernelSet};
use tilewright_device::abi::{GlobalAbi, GlobalArg, KernelArg};

macro_rules! kernels {
    ($($(#[$doc:meta])* $Name:ident $symbol:literal $arch:ident $threads:literal $cluster:expr, $shared:literal $Args:ty;)*) => { $(
        $(#[$doc])*
        pub struct $Name;
        impl Kernel for $Name {
            type Args = $Args;
            const ARCH: Arch = Arch::$arch;
            const THREADS: u32 = $threads;
            const MIN_CTAS: u32 = 1;
            const CLUSTER: [u32; 3] = $cluster;
            const SHARED_BYTES: u32 = $shared;
            const LOCAL: bool = false;
            unsafe fn run(_: *const $Args) {}
        }
        impl Instance for $Name {
            const NAME: &'static str = $symbol;
        }
    )* };
}
kernels! {
    Mark "mark" Sm80 64 [1, 1, 1], 0 Output;
    Spin "spin" Sm80 64 [1, 1, 1], 0 Output;
    Rank "rank" Sm90a 32 [2, 1, 1], 0 Output;
    Fetch "fetch" Sm90a 128 [1, 1, 1], 65536 FetchArgs;
}

#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Output {
    pub address: u64,
    pub value: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct FetchArgs {
    pub tensor: GlobalAbi<f16, 3>,
    pub out: u64,
    pub coordinates: [u32; 3],
}

/// A parameter of three dimensions whose boxes are 64 lines of 64 elements.
pub struct Boxes<const ROW_MAJOR: bool>(PhantomData<f16>);

impl<const ROW_MAJOR: bool> KernelArg for Boxes<ROW_MAJOR> {
    type Abi = GlobalAbi<f16, 3>;
    unsafe fn load(_: *const Self::Abi) -> Self {
        Self(PhantomData)
    }
}

impl<const ROW_MAJOR: bool> GlobalArg<3> for Boxes<ROW_MAJOR> {
    type Element = f16;
    const ROW_MAJOR: bool = ROW_MAJOR;
    const BOX_ROWS: u32 = 64;
}

/// What the builder would write about the kernel.
pub fn entry<K: Instance>(ptx: &str) -> KernelEntry {
    KernelEntry {
        name: K::NAME,
        arch: K::ARCH,
        threads: K::THREADS,
        min_ctas: K::MIN_CTAS,
        cluster: K::CLUSTER,
        shared_bytes: K::SHARED_BYTES,
        registers: None,
        spilled: None,
        summary: "as the builder says",
        ptx_bytes: ptx.len(),
        ptx: compress_to_vec(ptx.as_bytes(), 6).leak(),
    }
}

/// A set that is loaded anew, unlike other tests'.
pub fn set() -> &'static KernelSet {
    let entries = vec![
        entry::<Mark>(include_str!("mark.ptx")),
        entry::<Spin>(include_str!("spin.ptx")),
        entry::<Rank>(include_str!("rank.ptx")),
        entry::<Fetch>(include_str!("fetch.ptx")),
    ];
    // SAFETY: the texts are those of these kernels.
    Box::leak(Box::new(unsafe { KernelSet::new(entries.leak()) }))
}
