//! What blocks of a cluster do together.

use tilewright_emulator::Launch;

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, assert_close, floats, grid, random};

const FILE: &str = "cuda/clusters.90.ptx";

fn clusters(size: u32, count: u32, threads: u32) -> Launch {
    Launch { cluster: [size, 1, 1], ..grid(size * count, threads) }
}

#[test]
fn histogram() {
    Device::in_each_order(FILE, |device| {
        let values: Vec<u8> = random(80, 3000).iter().map(|x| (x % 199) as u8).collect();
        let bins = device.buffer(&[0u32; 256]);
        let arguments = [Pointer(device.buffer(&values)), Pointer(bins), Integer(3000)];
        device.launch("histogram", clusters(4, 2, 96), &arguments);
        let mut expected = vec![0; 256];
        values.iter().for_each(|x| expected[usize::from(*x)] += 1);
        assert_eq!(device.read::<u32>(bins, 256), expected);
    });
}

#[test]
fn sums() {
    Device::in_each_order(FILE, |device| {
        let (rows, width) = (2, 1500);
        let x: Vec<f32> = floats(81, rows * width).iter().map(|x| x + 3.0).collect();
        let y = device.buffer(&vec![0f32; rows * width]);
        device.launch(
            "normalize",
            clusters(8, 2, 64),
            &[Pointer(device.buffer(&x)), Pointer(y), Integer(width as i32)],
        );
        let found = device.read::<f32>(y, rows * width);
        for (found, x) in found.chunks(width).zip(x.chunks(width)) {
            let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
            for (found, x) in found.iter().zip(x) {
                assert_close(f64::from(*found) * sum, f64::from(*x), 1e-5, "normalize");
            }
        }
    });
}

#[test]
fn exchange() {
    Device::in_each_order(FILE, |device| {
        let values: Vec<i32> = random(82, 256).iter().map(|x| *x as i32 >> 4).collect();
        let out = device.buffer(&[0i32; 256]);
        device.launch("exchange", clusters(2, 2, 64), &[Pointer(device.buffer(&values)), Pointer(out)]);
        let expected: Vec<i32> =
            (0..256).map(|i| 2 * values[i] + values[((i / 64) ^ 1) * 64 + 63 - i % 64]).collect();
        assert_eq!(device.read::<i32>(out, 256), expected);
    });
}
