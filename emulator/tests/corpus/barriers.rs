//! Without any one of its barriers, fences and waits each of these kernels is accused; with all of them it is not.

use tilewright_emulator::{Fault, FaultKind, Launch, Module, Schedule};

use crate::device::Argument::{Float, Integer, Pointer};
use crate::device::{Argument, Device, FOLDER, floats, grid};

/// What orders threads, and what they wait for.
const ORDERING: [&str; 9] = [
    "bar.sync",
    "bar.warp.sync",
    "barrier.",
    "membar",
    "fence",
    "cp.async.wait_group",
    "cp.async.bulk.wait_group",
    "wgmma.wait_group",
    "wgmma.fence",
];

/// A kernel with its launch and, of a device, its arguments.
type Case = (&'static str, &'static str, Launch, fn(&Device) -> Vec<Argument>);

/// So many numbers.
fn numbers(device: &Device, count: usize) -> Argument {
    Pointer(device.buffer(&floats(130, count)))
}

fn cases() -> [Case; 14] {
    let cluster = |size, threads| Launch { cluster: [size, 1, 1], ..grid(size, threads) };
    let shared = |launch| Launch { dynamic_shared: 16 * 1024, ..launch };
    [
        ("cuda/bitonic.90.ptx", "sort_block", grid(1, 512), |d| vec![numbers(d, 1024), numbers(d, 1024)]),
        ("cuda/radix.90.ptx", "count", grid(2, 256), |d| {
            vec![numbers(d, 512), numbers(d, 32), Integer(512), Integer(4)]
        }),
        ("cuda/radix.90.ptx", "offsets", grid(1, 64), |d| vec![numbers(d, 200), Integer(200)]),
        ("cuda/radix.90.ptx", "scatter", grid(1, 256), |d| {
            let offsets: Vec<u32> = (0..16).map(|i| 256 * i).collect();
            let (keys, to) = (numbers(d, 256), [numbers(d, 4096), numbers(d, 4096)]);
            vec![keys, keys, Pointer(d.buffer(&offsets)), to[0], to[1], Integer(256), Integer(20)]
        }),
        ("cuda/rows.90.ptx", "softmax", grid(1, 96), |d| {
            vec![numbers(d, 200), numbers(d, 200), Integer(400)]
        }),
        ("cuda/rows.90.ptx", "rms_norm", shared(grid(1, 96)), |d| {
            let [x, residual, weight, y] = [(); 4].map(|()| numbers(d, 200));
            vec![x, residual, weight, y, Integer(200), Float(1e-5)]
        }),
        ("cuda/flash.80.ptx", "attention", grid(1, 128), |d| {
            let [q, k, v, o] = [(); 4].map(|()| numbers(d, 128 * 16));
            vec![q, k, v, o, Integer(32), Integer(128), Float(0.1), Integer(0)]
        }),
        ("cuda/clusters.90.ptx", "histogram", cluster(4, 64), |d| {
            vec![numbers(d, 256), numbers(d, 256), Integer(1024)]
        }),
        ("cuda/clusters.90.ptx", "normalize", cluster(8, 64), |d| {
            vec![numbers(d, 600), numbers(d, 600), Integer(600)]
        }),
        ("cuda/clusters.90.ptx", "exchange", cluster(2, 64), |d| vec![numbers(d, 128), numbers(d, 128)]),
        ("cuda/grid.90.ptx", "split", grid(3, 64), |d| vec![numbers(d, 192), numbers(d, 192)]),
        ("cuda/bulk.90.ptx", "add", grid(1, 64), |d| vec![numbers(d, 256), numbers(d, 256)]),
        ("cuda/cub.90.ptx", "radix_sort", grid(1, 64), |d| vec![numbers(d, 128), numbers(d, 128)]),
        ("triton/recurrence.90.ptx", "recurrence", shared(grid(1, 128)), |d| {
            let [a, b, y] = [(); 3].map(|()| numbers(d, 400));
            vec![a, b, y, Integer(400), Pointer(0), Pointer(0)]
        }),
    ]
}

/// What the kernel of this text is accused of, in the first order in which it is.
fn accused(text: &str, (file, kernel, launch, arguments): &Case) -> Option<Fault> {
    let module = Module::load(text).unwrap_or_else(|error| panic!("{file}: {error}"));
    [Schedule::Fixed, Schedule::Random(1), Schedule::Random(2)].into_iter().find_map(|schedule| {
        let device = Device::of(module.clone(), schedule);
        let arguments = arguments(&device);
        device.try_launch(kernel, *launch, &arguments).err()
    })
}

#[test]
fn every_barrier_is_needed() {
    let mut deleted = 0;
    for case in cases() {
        let (file, kernel, ..) = case;
        let text = std::fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
        assert_eq!(accused(&text, &case), None, "{file} as it is");
        let lines: Vec<&str> = text.lines().collect();
        let start = lines.iter().position(|line| line.contains(&format!(".entry {kernel}("))).unwrap();
        let end = lines[start..].iter().position(|line| line.starts_with('}')).unwrap() + start;
        for line in start..end {
            let instruction = lines[line].trim_start();
            if ORDERING.iter().any(|ordering| instruction.starts_with(ordering)) {
                let mut left = lines.clone();
                left[line] = "";
                let fault = accused(&left.join("\n"), &case);
                let kind = fault.as_ref().map(|fault| fault.kind);
                let known = [
                    FaultKind::Race,
                    FaultKind::Deadlock,
                    FaultKind::Uninitialized,
                    FaultKind::Misuse,
                    FaultKind::Address,
                ];
                assert!(
                    kind.is_some_and(|kind| known.contains(&kind)),
                    "{file} without line {}, {instruction}: {fault:?}",
                    line + 1
                );
                deleted += 1;
            }
        }
    }
    assert!(deleted > 40, "{deleted}");
}
