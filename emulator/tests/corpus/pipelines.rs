//! Copies that run ahead of what uses them.

use tilewright_emulator::Launch;

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, assert_close, floats, grid};

const FILE: &str = "cuda/pipeline.80.ptx";

#[test]
fn products() {
    Device::in_each_order(FILE, |device| {
        let (m, n) = (64, 96);
        for k in [16, 32, 176] {
            let (a, b) = (floats(70, m * k), floats(71, k * n));
            let c = device.buffer(&vec![0f32; m * n]);
            let pointers = [device.buffer(&a), device.buffer(&b), c].map(Pointer);
            let launch = Launch {
                grid: [3, 2, 1],
                threads: [64, 1, 1],
                dynamic_shared: 4 * 3 * (32 * 20 + 16 * 32),
                ..Launch::default()
            };
            device.launch(
                "by_groups",
                launch,
                &[&pointers[..], &[Integer(n as i32), Integer(k as i32)]].concat(),
            );
            for (i, found) in device.read::<f32>(c, m * n).into_iter().enumerate() {
                let element = |x: usize| f64::from(a[i / n * k + x]) * f64::from(b[x * n + i % n]);
                assert_close(found.into(), (0..k).map(element).sum(), 1e-4, &format!("element {i} of {k}"));
            }
        }
    });
}

#[test]
fn producers_and_consumers() {
    Device::in_each_order(FILE, |device| {
        let tiles = 9;
        // Small whole numbers: sums are exact.
        let x: Vec<f32> = (0..64 * tiles).map(|i| (i * 31 % 17) as f32).collect();
        let y = device.buffer(&[0f32; 32]);
        device.launch("by_stages", grid(1, 64), &[Pointer(device.buffer(&x)), Pointer(y), Integer(tiles)]);
        let expected: Vec<f32> =
            (0..32).map(|i| x.chunks(64).map(|tile| 2.0 * tile[i] + tile[i + 32]).sum()).collect();
        assert_eq!(device.read::<f32>(y, 32), expected);
    });
}
