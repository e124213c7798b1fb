//! Sums of a grid in one pass.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, assert_close, floats, grid};

#[test]
fn the_last_block_adds_the_parts() {
    Device::in_each_order("cuda/sums.90.ptx", |device| {
        for (kernel, blocks, threads, n) in [
            ("fenced", 13, 96, 10_007),
            ("released", 13, 96, 10_007),
            ("fenced", 1, 32, 5),
            ("released", 40, 256, 3),
        ] {
            let x = floats(30, n);
            let (parts, count, out) =
                (device.buffer(&vec![f64::NAN; blocks]), device.buffer(&[0u32]), device.buffer(&[0f64]));
            let arguments =
                [Pointer(device.buffer(&x)), Pointer(parts), Pointer(count), Pointer(out), Integer(n as i32)];
            device.launch(kernel, grid(blocks as u32, threads), &arguments);
            let expected: f64 = x.iter().map(|x| f64::from(*x)).sum();
            assert_close(device.read::<f64>(out, 1)[0], expected, 1e-12, kernel);
        }
    });
}
