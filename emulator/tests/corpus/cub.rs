//! Blocks of CUB.

use crate::device::Argument::Pointer;
use crate::device::{Device, floats, grid, random};

const FILE: &str = "cuda/cub.90.ptx";

#[test]
fn sorts() {
    Device::in_each_order(FILE, |device| {
        // Some keys are equal: their values stay in order.
        let keys: Vec<f32> = floats(90, 128).iter().map(|x| (x * 20.0).round() / 4.0 + 0.0).collect();
        let order: Vec<i32> = (0..128).collect();
        let (sorted, values) = (device.buffer(&keys), device.buffer(&order));
        device.launch("radix_sort", grid(1, 64), &[Pointer(sorted), Pointer(values)]);
        let mut expected = order;
        expected.sort_by(|a, b| keys[*b as usize].total_cmp(&keys[*a as usize]));
        assert_eq!(device.read::<i32>(values, 128), expected);
        let expected: Vec<f32> = expected.iter().map(|i| keys[*i as usize]).collect();
        assert_eq!(device.read::<f32>(sorted, 128), expected);

        let mut keys = random(91, 128);
        let sorted = device.buffer(&keys);
        device.launch("merge_sort", grid(1, 64), &[Pointer(sorted)]);
        keys.sort_by_key(|key| *key as i64);
        assert_eq!(device.read::<u64>(sorted, 128), keys);
    });
}

#[test]
fn scans_reductions_and_histograms() {
    Device::in_each_order(FILE, |device| {
        // Quarters: sums are exact in any order.
        let x: Vec<f64> = random(92, 64).iter().map(|x| (x % 4096) as f64 / 4.0 - 512.0).collect();
        let (out, most) = (device.buffer(&[0f64; 64]), device.buffer(&[0f64]));
        device.launch(
            "scan_and_reduce",
            grid(1, 64),
            &[Pointer(device.buffer(&x)), Pointer(out), Pointer(most)],
        );
        let expected: Vec<f64> = (0..64).map(|i| x[..i].iter().sum()).collect();
        assert_eq!(device.read::<f64>(out, 64), expected);
        assert_eq!(device.read::<f64>(most, 1)[0], x.iter().copied().fold(f64::MIN, f64::max));

        let values: Vec<u8> = random(93, 128).iter().map(|x| (x % 32) as u8).collect();
        let bins = device.buffer(&[0u32; 32]);
        device.launch("histogram", grid(1, 64), &[Pointer(device.buffer(&values)), Pointer(bins)]);
        let expected: Vec<u32> =
            (0..32).map(|bin| values.iter().filter(|x| **x == bin).count() as u32).collect();
        assert_eq!(device.read::<u32>(bins, 32), expected);
    });
}
