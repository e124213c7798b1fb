//! Bulk copies.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, floats, grid, random};

const FILE: &str = "cuda/bulk.90.ptx";

#[test]
fn loads_run_ahead_and_stores_behind() {
    Device::in_each_order(FILE, |device| {
        for tiles in [1, 2, 7] {
            let x = floats(85, 256 * tiles);
            let y = device.buffer(&vec![0f32; 256 * tiles]);
            device.launch(
                "stream",
                grid(1, 96),
                &[Pointer(device.buffer(&x)), Pointer(y), Integer(tiles as i32)],
            );
            let expected: Vec<f32> = x.iter().map(|x| x.mul_add(2.0, 1.0)).collect();
            assert_eq!(device.read::<f32>(y, 256 * tiles), expected);
        }
    });
}

#[test]
fn copies_add() {
    Device::in_each_order(FILE, |device| {
        let x: Vec<i32> = random(86, 256 * 5).iter().map(|x| *x as i32).collect();
        let y = device.buffer(&vec![3i32; 256]);
        device.launch("add", grid(5, 64), &[Pointer(device.buffer(&x)), Pointer(y)]);
        let expected: Vec<i32> = (0..256)
            .map(|i| (0..5).fold(3i32, |sum, b| sum.wrapping_add(x[256 * b + i].wrapping_mul(i as i32 + 1))))
            .collect();
        assert_eq!(device.read::<i32>(y, 256), expected);
    });
}
