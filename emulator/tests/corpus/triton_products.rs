//! Triton's products of matrices, by TMA, in parts, and of bytes.

use half::f16;
use tilewright_emulator::{DataType, Fill, Launch, Swizzle, TensorMap};

use crate::attention::bits;
use crate::device::Argument::{Integer, Long, Map, Pointer};
use crate::device::{Argument, Device, assert_close, floats, grid, random};
use crate::triton::launch_of;

fn halves(seed: u64, count: usize) -> Vec<f16> {
    floats(seed, count).iter().map(|x| f16::from_f32(*x)).collect()
}

/// A matrix as Triton's host describes it: the map, its extents, and its strides in elements.
fn described(address: u64, rows: usize, columns: usize, tile: [u32; 2], swizzle: Swizzle) -> [Argument; 5] {
    let map = TensorMap {
        data: DataType::F16,
        rank: 2,
        address,
        shape: [columns as u64, rows as u64, 1, 1, 1],
        strides: [2 * columns as u64, 0, 0, 0],
        tile: [tile[1], tile[0], 1, 1, 1],
        steps: [1; 5],
        swizzle,
        fill: Fill::Zero,
        im2col: None,
    };
    [Map(map), Integer(rows as i32), Integer(columns as i32), Long(columns as i64), Long(1)]
}

#[test]
fn of_tensors_that_the_host_describes() {
    Device::in_each_order("triton/described.90.ptx", |device| {
        // Not all of the last tiles is inside.
        let (m, n, k) = (100, 72, 112);
        let (a, b) = (halves(100, m * k), halves(101, k * n));
        let c = device.buffer(&vec![0u16; m * n]);
        let arguments = [
            described(device.buffer(&bits(&a)), m, k, [64, 32], Swizzle::B64),
            described(device.buffer(&bits(&b)), k, n, [32, 64], Swizzle::B128),
            described(c, m, n, [64, 64], Swizzle::B128),
        ]
        .concat();
        launch_of(128, device, "described", [2, 2, 1], &[&arguments[..], &[Integer(k as i32)]].concat());
        for (i, found) in device.read::<u16>(c, m * n).into_iter().enumerate() {
            let expected: f64 = (0..k).map(|x| a[i / n * k + x].to_f64() * b[x * n + i % n].to_f64()).sum();
            assert_close(f16::from_bits(found).to_f64(), expected, 1e-3, &format!("element {i}"));
        }
    });
}

#[test]
fn of_tensors_that_the_kernel_describes() {
    Device::in_each_order("triton/persistent.90.ptx", |device| {
        // Three CTAs for four tiles.
        let (m, n, k, ctas) = (96, 80, 64, 3);
        let (a, b) = (halves(106, m * k), halves(107, n * k));
        let c = device.buffer(&vec![0u16; m * n]);
        let pointers = [device.buffer(&bits(&a)), device.buffer(&bits(&b)), c].map(Pointer);
        let sizes = [m, n, k].map(|size| Integer(size as i32));
        // Where each CTA keeps its three maps.
        let scratch = device.buffer(&vec![0xcdu8; 3 * 128 * ctas]);
        let launch = Launch { dynamic_shared: 33 * 1024, ..grid(ctas as u32, 128) };
        let arguments = [&pointers[..], &sizes, &[Pointer(scratch), Pointer(0)]].concat();
        device.launch("persistent", launch, &arguments);
        for (i, found) in device.read::<u16>(c, m * n).into_iter().enumerate() {
            let expected: f64 = (0..k).map(|x| a[i / n * k + x].to_f64() * b[i % n * k + x].to_f64()).sum();
            assert_close(f16::from_bits(found).to_f64(), expected, 1e-3, &format!("element {i}"));
        }
    });
}

#[test]
fn in_parts() {
    for arch in [80, 90] {
        Device::in_each_order(&format!("triton/in_parts.{arch}.ptx"), |device| {
            let (m, n, k) = (80, 48, 208);
            let (a, b) = (halves(102, m * k), halves(103, k * n));
            let c = device.buffer(&vec![0f32; m * n]);
            let pointers = [device.buffer(&bits(&a)), device.buffer(&bits(&b)), c].map(Pointer);
            let sizes = [m, n, k].map(|size| Integer(size as i32));
            launch_of(128, device, "in_parts", [2, 2, 3], &[pointers, sizes].concat());
            for (i, found) in device.read::<f32>(c, m * n).into_iter().enumerate() {
                let expected: f64 =
                    (0..k).map(|x| a[i / n * k + x].to_f64() * b[x * n + i % n].to_f64()).sum();
                assert_close(found.into(), expected, 1e-5, &format!("sm_{arch}, element {i}"));
            }
        });
    }
}

#[test]
fn of_bytes() {
    Device::in_each_order("triton/of_bytes.80.ptx", |device| {
        let (m, n, k) = (64, 128, 192);
        let bytes = |seed, count| random(seed, count).iter().map(|x| *x as u8).collect::<Vec<_>>();
        let (a, b) = (bytes(104, m * k), bytes(105, n * k));
        let c = device.buffer(&vec![0i32; m * n]);
        let pointers = [device.buffer(&a), device.buffer(&b), c].map(Pointer);
        launch_of(
            128,
            device,
            "of_bytes",
            [1, 2, 1],
            &[&pointers[..], &[Integer(n as i32), Integer(k as i32)]].concat(),
        );
        let signed = |x: u8| i32::from(x as i8);
        let element = |i: usize| (0..k).map(|x| signed(a[i / n * k + x]) * signed(b[i % n * k + x])).sum();
        let expected: Vec<i32> = (0..m * n).map(element).collect();
        assert!(device.read::<i32>(c, m * n) == expected);
    });
}
