//! Locks, queues and barriers of a grid.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, assert_close, floats, grid};

const FILE: &str = "cuda/locks.80.ptx";

#[test]
fn locks_guard() {
    Device::in_each_order(FILE, |device| {
        let values: Vec<f64> = floats(60, 20).iter().map(|x| f64::from(*x)).collect();
        let sums = device.buffer(&[0f64; 2]);
        let arguments = [Pointer(device.buffer(&[0i32])), Pointer(sums), Pointer(device.buffer(&values))];
        device.launch("spin", grid(20, 64), &arguments);
        let found = device.read::<f64>(sums, 2);
        assert_close(found[0], values.iter().sum(), 1e-12, "sum");
        assert_close(found[1], values.iter().map(|x| x * x).sum(), 1e-12, "squares");

        let (list, length) = (device.buffer(&[-1i32; 20]), device.buffer(&[0i32]));
        let counters = [device.buffer(&[0u32]), device.buffer(&[0u32])].map(Pointer);
        device.launch("ticket", grid(20, 32), &[&counters[..], &[Pointer(list), Pointer(length)]].concat());
        let mut found = device.read::<i32>(list, 20);
        found.sort_unstable();
        assert_eq!(found, (0..20).collect::<Vec<_>>());

        let sum = device.buffer(&[0i32]);
        device.launch("lanes", grid(3, 64), &[Pointer(device.buffer(&[0i32])), Pointer(sum)]);
        assert_eq!(device.read::<i32>(sum, 1), [3 * 64 * 65 / 2]);
    });
}

#[test]
fn all_blocks_wait_for_all() {
    Device::in_each_order(FILE, |device| {
        let (blocks, threads, rounds) = (6, 64, 5);
        let n = (blocks * threads) as usize;
        let mut expected: Vec<i32> = (0..n as i32).map(|i| i % 7).collect();
        let (a, b) = (device.buffer(&expected), device.buffer(&vec![0i32; n]));
        let arguments = [Pointer(device.buffer(&[0u32])), Pointer(a), Pointer(b), Integer(rounds)];
        device.launch("phases", grid(blocks, threads), &arguments);
        for _ in 0..rounds {
            expected = (0..n).map(|i| expected[(i + 1) % n] + expected[(i + n - 1) % n]).collect();
        }
        assert_eq!(device.read::<i32>(b, n), expected);
    });
}

#[test]
fn blocks_take_work() {
    Device::in_each_order(FILE, |device| {
        let n = 45;
        let mut items = vec![-1; n];
        items[0] = 0;
        let done = device.buffer(&vec![0i32; n]);
        let pointers =
            [device.buffer(&items), device.buffer(&[0u32]), device.buffer(&[1u32]), done].map(Pointer);
        device.launch("queue", grid(7, 32), &[&pointers[..], &[Integer(n as i32)]].concat());
        assert_eq!(device.read::<i32>(done, n), vec![1; n]);
    });
}

#[test]
fn the_largest_float() {
    Device::in_each_order(FILE, |device| {
        let values = floats(61, 500);
        let out = device.buffer(&[f32::NEG_INFINITY]);
        device.launch("most", grid(4, 128), &[Pointer(device.buffer(&values)), Pointer(out), Integer(500)]);
        assert_eq!(device.read::<f32>(out, 1)[0], values.iter().copied().fold(f32::MIN, f32::max));
    });
}

#[test]
fn no_more_than_two_are_inside() {
    Device::in_each_order(FILE, |device| {
        let counts = [(); 3].map(|()| device.buffer(&[0i32]));
        device.launch("semaphore", grid(1, 512), &counts.map(Pointer));
        let [inside, most, entered] = counts.map(|count| device.read::<i32>(count, 1)[0]);
        assert_eq!((inside, entered), (0, 16));
        assert!((1..=2).contains(&most), "{most}");
    });
}
