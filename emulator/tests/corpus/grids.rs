//! Barriers of a whole grid.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, grid, random};

const FILE: &str = "cuda/grid.90.ptx";

#[test]
fn bytes_are_sorted() {
    Device::in_each_order(FILE, |device| {
        let n = 3000;
        let mut values: Vec<u8> = random(140, n).iter().map(|x| (x % 64) as u8).collect();
        let (bins, out) = (device.buffer(&[7u32; 64]), device.buffer(&vec![255u8; n]));
        let arguments = [Pointer(device.buffer(&values)), Pointer(bins), Pointer(out), Integer(n as i32)];
        device.launch("sort_bytes", grid(6, 96), &arguments);
        values.sort_unstable();
        assert_eq!(device.read::<u8>(out, n), values);
    });
}

#[test]
fn arrivals_and_waits() {
    Device::in_each_order(FILE, |device| {
        let n = 5 * 64;
        let [a, b] = [(); 2].map(|()| device.buffer(&vec![0i32; n]));
        let used = device.emulator.used();
        // The state of the barrier is one launch's alone.
        for _ in 0..2 {
            device.launch("split", grid(5, 64), &[Pointer(a), Pointer(b)]);
            let expected: Vec<i32> = (0..n).map(|i| (i * 1000 + (i + 40) % n * 3) as i32).collect();
            assert_eq!(device.read::<i32>(b, n), expected);
        }
        assert_eq!(device.emulator.used(), used);
    });
}
