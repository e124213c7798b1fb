//! Softmax and norms of rows.

use half::{bf16, f16};
use tilewright_emulator::Launch;

use crate::device::Argument::{Float, Integer, Pointer};
use crate::device::{Device, assert_close, floats, grid};

#[test]
fn softmax() {
    Device::in_each_order("cuda/rows.90.ptx", |device| {
        // Rows shorter than the block, and longer ones.
        for (rows, width) in [(3, 77), (4, 1000)] {
            let x: Vec<f16> = floats(40, rows * width).iter().map(|x| f16::from_f32(4.0 * x)).collect();
            let bits: Vec<u16> = x.iter().map(|x| x.to_bits()).collect();
            let y = device.buffer(&vec![0u16; rows * width]);
            let arguments = [Pointer(device.buffer(&bits)), Pointer(y), Integer(width as i32)];
            device.launch("softmax", grid(rows as u32, 128), &arguments);
            let found = device.read::<u16>(y, rows * width);
            for (found, x) in found.chunks(width).zip(x.chunks(width)) {
                let total: f64 = x.iter().map(|x| x.to_f64().exp()).sum();
                for (found, x) in found.iter().zip(x) {
                    assert_close(f16::from_bits(*found).to_f64(), x.to_f64().exp() / total, 1e-3, "softmax");
                }
            }
        }
    });
}

#[test]
fn layer_norm() {
    Device::in_each_order("cuda/rows.90.ptx", |device| {
        let (rows, width) = (7, 300);
        let x: Vec<f32> = floats(41, rows * width).iter().map(|x| x + 10.0).collect();
        let (weight, bias) = (floats(42, width), floats(43, width));
        let y = device.buffer(&vec![0f32; rows * width]);
        let pointers = [device.buffer(&x), device.buffer(&weight), device.buffer(&bias), y].map(Pointer);
        let arguments =
            [&pointers[..], &[Integer(rows as i32), Integer(width as i32 / 4), Float(1e-5)]].concat();
        let launch = Launch { grid: [2, 1, 1], threads: [32, 4, 1], ..Launch::default() };
        device.launch("layer_norm", launch, &arguments);
        let found = device.read::<f32>(y, rows * width);
        for (found, x) in found.chunks(width).zip(x.chunks(width)) {
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64;
            let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / width as f64;
            for i in 0..width {
                let normal = (f64::from(x[i]) - mean) / (variance + 1e-5).sqrt();
                assert_close(
                    found[i].into(),
                    normal * f64::from(weight[i]) + f64::from(bias[i]),
                    1e-5,
                    "layer norm",
                );
            }
        }
    });
}

#[test]
fn rms_norm() {
    Device::in_each_order("cuda/rows.90.ptx", |device| {
        let (rows, width) = (3, 320);
        let narrow = |seed, count| floats(seed, count).iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let bits = |values: &[bf16]| values.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
        let (x, residual, weight) = (narrow(44, rows * width), narrow(45, rows * width), narrow(46, width));
        let sum = device.buffer(&bits(&residual));
        let y = device.buffer(&vec![0u16; rows * width]);
        let pointers = [device.buffer(&bits(&x)), sum, device.buffer(&bits(&weight)), y].map(Pointer);
        let launch = Launch { dynamic_shared: 4 * width as u32, ..grid(rows as u32, 96) };
        device.launch(
            "rms_norm",
            launch,
            &[&pointers[..], &[Integer(width as i32 / 2), Float(1e-6)]].concat(),
        );
        let (found, sums) = (device.read::<u16>(y, rows * width), device.read::<u16>(sum, rows * width));
        for row in 0..rows {
            let at = |i: usize| row * width + i;
            let both: Vec<f64> = (0..width).map(|i| x[at(i)].to_f64() + residual[at(i)].to_f64()).collect();
            let mean = both.iter().map(|x| x * x).sum::<f64>() / width as f64;
            for i in 0..width {
                let expected = both[i] / (mean + 1e-6).sqrt() * weight[i].to_f64();
                assert_close(bf16::from_bits(found[at(i)]).to_f64(), expected, 1.0 / 250.0, "rms norm");
                assert_close(bf16::from_bits(sums[at(i)]).to_f64(), both[i], 1.0 / 250.0, "sum");
            }
        }
    });
}
