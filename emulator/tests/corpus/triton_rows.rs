//! Triton's norms and losses of rows.

use half::{bf16, f16};

use crate::attention::bits;
use crate::device::Argument::{Float, Integer, Pointer};
use crate::device::{Device, assert_close, floats, random};
use crate::triton::launch_of;

#[test]
fn rms_norm() {
    Device::in_each_order("triton/rms.90.ptx", |device| {
        let (rows, width) = (3, 500);
        let narrow = |seed, count| floats(seed, count).iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let bits = |values: &[bf16]| values.iter().map(|x| x.to_bits()).collect::<Vec<u16>>();
        let (x, residual, weight) =
            (narrow(120, rows * width), narrow(121, rows * width), narrow(122, width));
        let (sum, y) = (device.buffer(&bits(&residual)), device.buffer(&vec![0u16; rows * width]));
        let pointers = [device.buffer(&bits(&x)), sum, device.buffer(&bits(&weight)), y].map(Pointer);
        launch_of(
            128,
            device,
            "rms",
            [3, 1, 1],
            &[&pointers[..], &[Integer(width as i32), Float(1e-6)]].concat(),
        );
        let (found, sums) = (device.read::<u16>(y, rows * width), device.read::<u16>(sum, rows * width));
        for row in 0..rows {
            let at = |i: usize| row * width + i;
            // The sum is rounded before it is normalised.
            let both: Vec<f64> = (0..width)
                .map(|i| (bf16::from_f64(x[at(i)].to_f64() + residual[at(i)].to_f64())).to_f64())
                .collect();
            let mean = both.iter().map(|x| x * x).sum::<f64>() / width as f64;
            for i in 0..width {
                assert_eq!(bf16::from_bits(sums[at(i)]).to_f64(), both[i]);
                let expected = both[i] / (mean + 1e-6).sqrt() * weight[i].to_f64();
                assert_close(bf16::from_bits(found[at(i)]).to_f64(), expected, 1.0 / 250.0, "rms norm");
            }
        }
    });
}

#[test]
fn softmax_of_long_rows() {
    Device::in_each_order("triton/online.80.ptx", |device| {
        let (rows, width) = (2, 1900);
        let x: Vec<f32> = floats(123, rows * width).iter().map(|x| x * 5.0).collect();
        let y = device.buffer(&vec![0f32; rows * width]);
        let arguments = [Pointer(device.buffer(&x)), Pointer(y), Integer(width as i32)];
        launch_of(128, device, "online", [2, 1, 1], &arguments);
        let found = device.read::<f32>(y, rows * width);
        for (found, x) in found.chunks(width).zip(x.chunks(width)) {
            let total: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
            for (found, x) in found.iter().zip(x) {
                assert_close(f64::from(*found) * total, f64::from(*x).exp(), 1e-5, "softmax");
            }
        }
    });
}

#[test]
fn cross_entropy() {
    Device::in_each_order("triton/cross_entropy.90.ptx", |device| {
        let (rows, width) = (5, 333);
        let x: Vec<f16> = floats(124, rows * width).iter().map(|x| f16::from_f32(x * 3.0)).collect();
        let labels: Vec<i64> = random(125, rows).iter().map(|x| (x % width as u64) as i64).collect();
        let (logits, losses) = (device.buffer(&bits(&x)), device.buffer(&vec![0f32; rows]));
        let pointers = [logits, device.buffer(&labels), losses].map(Pointer);
        launch_of(
            256,
            device,
            "cross_entropy",
            [5, 1, 1],
            &[&pointers[..], &[Integer(width as i32)]].concat(),
        );
        let (gradients, losses) =
            (device.read::<u16>(logits, rows * width), device.read::<f32>(losses, rows));
        for (row, x) in x.chunks(width).enumerate() {
            let total: f64 = x.iter().map(|x| x.to_f64().exp()).sum();
            let label = labels[row] as usize;
            assert_close(losses[row].into(), total.ln() - x[label].to_f64(), 1e-5, "loss");
            for (i, x) in x.iter().enumerate() {
                let expected = x.to_f64().exp() / total - f64::from(i == label);
                let found = f16::from_bits(gradients[row * width + i]).to_f64();
                assert_close(found, expected, 1e-3, &format!("gradient ({row}, {i})"));
            }
        }
    });
}

#[test]
fn mean_and_variance() {
    // Lanes store to one place what differs in the last bits: one of them wins.
    Device::in_each_order("triton/moments.80.ptx", |device| {
        let (rows, width) = (3, 500);
        let x = floats(128, rows * width);
        let y = device.buffer(&vec![0f32; 2 * rows]);
        let arguments = [Pointer(device.buffer(&x)), Pointer(y), Integer(width as i32)];
        launch_of(128, device, "moments", [rows as u32, 1, 1], &arguments);
        let found = device.read::<f32>(y, 2 * rows);
        for (found, x) in found.chunks(2).zip(x.chunks(width)) {
            let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / width as f64;
            let variance = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / width as f64;
            assert_close(found[0].into(), mean, 1e-6, "mean");
            assert_close(found[1].into(), variance, 1e-6, "variance");
        }
    });
}

#[test]
fn sums_under_a_lock() {
    Device::in_each_order("triton/weight_gradient.90.ptx", |device| {
        let (rows, width) = (23, 200);
        let (x, dy) = (floats(126, rows * width), floats(127, rows * width));
        let dw = device.buffer(&vec![0f32; width]);
        let pointers = [device.buffer(&x), device.buffer(&dy), dw, device.buffer(&[0i32])].map(Pointer);
        let sizes = [Integer(rows as i32), Integer(width as i32)];
        launch_of(128, device, "weight_gradient", [6, 1, 1], &[&pointers[..], &sizes].concat());
        for (i, found) in device.read::<f32>(dw, width).into_iter().enumerate() {
            let product = |row: usize| f64::from(x[row * width + i]) * f64::from(dy[row * width + i]);
            assert_close(found.into(), (0..rows).map(product).sum(), 1e-5, &format!("column {i}"));
        }
    });
}
