use super::*;
use crate::backend::fake;
use crate::{Device, Kernel, Launch, Stream};

/// A kernel as `#[kernel]` and `kernels!` make one.
macro_rules! kernel {
    ($Name:ident, $symbol:literal, $arch:expr, $cluster:expr, $shared:expr) => {
        struct $Name;
        impl Kernel for $Name {
            type Args = [u64; 2];
            const ARCH: Arch = $arch;
            const THREADS: u32 = 384;
            const MIN_CTAS: u32 = 1;
            const CLUSTER: [u32; 3] = $cluster;
            const SHARED_BYTES: u32 = $shared;
            const LOCAL: bool = false;
            unsafe fn run(_: *const Self::Args) {}
        }
        impl Instance for $Name {
            const NAME: &'static str = $symbol;
        }
    };
}
kernel!(Plain, "plain", Arch::Sm80, [1, 1, 1], 1024);
kernel!(Paired, "paired", Arch::Sm90a, [2, 1, 1], 2048);
kernel!(Large, "large", Arch::Sm80, [1, 1, 1], 1 << 20);
kernel!(Changed, "changed", Arch::Sm80, [1, 1, 1], 0);
kernel!(Absent, "absent", Arch::Sm80, [1, 1, 1], 0);
kernel!(Hopper, "plain", Arch::Sm90a, [1, 1, 1], 1024);

fn entry(name: &'static str, arch: Arch, cluster: [u32; 3], shared_bytes: u32) -> KernelEntry {
    let text = format!(".entry {name}");
    let ptx = miniz_oxide::deflate::compress_to_vec(text.as_bytes(), 6).leak();
    let ptx_bytes = text.len();
    KernelEntry {
        name,
        arch,
        threads: 384,
        min_ctas: 1,
        cluster,
        shared_bytes,
        registers: None,
        spilled: None,
        summary: "",
        ptx_bytes,
        ptx,
    }
}

fn set() -> &'static KernelSet {
    let entries = vec![
        entry("plain", Arch::Sm80, [1, 1, 1], 1024),
        entry("paired", Arch::Sm90a, [2, 1, 1], 2048),
        entry("large", Arch::Sm80, [1, 1, 1], 1 << 20),
        entry("changed", Arch::Sm80, [2, 1, 1], 0),
    ];
    // SAFETY: fake devices run nothing.
    Box::leak(Box::new(unsafe { KernelSet::new(entries.leak()) }))
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn a_kernel_is_loaded_once_and_launched_with_its_own_constants() {
    let (device, journal) = fake::device((9, 0));
    let stream = Stream::new(&device).unwrap();
    let set = set();
    let first = device.kernel::<Paired>(set).unwrap();
    let second = device.kernel::<Paired>(set).unwrap();
    assert_eq!(*journal.loads.lock().unwrap(), [("paired", ".entry paired".to_owned())]);
    assert_eq!((first.resident_ctas(), second.name()), (12, "paired"));

    let launch = Launch::grid([4, 3, 1]).pdl(true);
    // SAFETY: the fake device runs nothing.
    unsafe { second.launch_block(&stream, &launch, &[1u64, 2]) }.unwrap();
    let launches = journal.launches.lock().unwrap();
    let (config, arguments) = &launches[0];
    assert_eq!((config.grid, config.threads, config.cluster), ([4, 3, 1], 384, [2, 1, 1]));
    assert_eq!((config.shared_bytes, config.overlap_previous, config.stream), (2048, true, stream.id()));
    // SAFETY: a block of two numbers, which has no padding.
    let arguments: Vec<_> = arguments.iter().map(|byte| unsafe { byte.assume_init() }).collect();
    assert_eq!(arguments, [1u64, 2].map(u64::to_ne_bytes).concat());
}

#[test]
fn threads_that_ask_at_once_load_once() {
    let (device, journal) = fake::device((9, 0));
    let set = set();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| device.kernel::<Plain>(set).unwrap());
        }
    });
    assert_eq!(journal.loads.lock().unwrap().len(), 1);
}

#[test]
fn an_architecture_that_the_build_leaves_out_is_an_error_that_names_its_feature() {
    let (device, _) = fake::device((9, 0));
    let entries = Box::leak(Box::new([entry("plain", Arch::Sm80, [1, 1, 1], 1024)]));
    // SAFETY: fake devices run nothing.
    let set = Box::leak(Box::new(unsafe { KernelSet::new(entries) }));
    let error = message(device.kernel::<Hopper>(set));
    assert!(
        error.starts_with("no kernel `plain` for sm_90a: the build has no kernels for sm_90a"),
        "{error}"
    );
    assert!(error.contains("the feature `sm_90a`"), "{error}");
    assert!(device.kernel::<Plain>(set).is_ok());
}

#[test]
fn kernels_that_cannot_be_had_are_errors() {
    let (device, _) = fake::device((8, 6));
    let set = set();
    assert_eq!(
        message(device.kernel::<Absent>(set)),
        "no kernel `absent` for sm_80: it is not among the 4 kernels of the set; kernels! makes an entry of it"
    );
    assert_eq!(
        message(device.kernel::<Hopper>(set)),
        "no kernel `plain` for sm_90a: the set has it for sm_80; the builder was not asked for more"
    );
    assert_eq!(
        message(device.kernel::<Changed>(set)),
        "no kernel `changed` for sm_80: the set was built from another version of its source; build again"
    );
    assert_eq!(
        message(device.kernel::<Paired>(set)),
        "fake (compute capability 8.6) cannot be used: kernel `paired` is compiled for sm_90a"
    );
    assert_eq!(
        message(device.kernel::<Large>(set)),
        "fake (compute capability 8.6) cannot be used: kernel `large` needs 1048576 bytes of shared memory, of 65536"
    );
}

#[test]
fn grids_are_checked() {
    let (device, journal) = fake::device((9, 0));
    let stream = Stream::new(&device).unwrap();
    let kernel = device.kernel::<Paired>(set()).unwrap();
    for grid in [[3, 1, 1], [0, 1, 1], [2, 0, 1]] {
        // SAFETY: the fake device runs nothing.
        let text = message(unsafe { kernel.launch_block(&stream, &Launch::grid(grid), &[0u64; 2]) });
        let allowed = "of at least one CTA, in multiples of the cluster [2, 1, 1]";
        assert_eq!(text, format!("`grid` was {grid:?}; it must be {allowed}"));
    }
    assert!(journal.launches.lock().unwrap().is_empty());
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let (device, _) = fake::device((9, 0));
    let (other, _): (Device, _) = fake::device((9, 0));
    let kernel = device.kernel::<Plain>(set()).unwrap();
    let stream = Stream::new(&other).unwrap();
    // SAFETY: the fake device runs nothing.
    let text = message(unsafe { kernel.launch_block(&stream, &Launch::grid([1, 1, 1]), &[0u64; 2]) });
    assert_eq!(text, "`kernel` was on fake:0; it must be on fake:0, the device of this call");
}
