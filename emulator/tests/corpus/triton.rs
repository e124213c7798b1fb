//! What Triton makes of a product, a softmax, a normalisation, and a histogram with a scan.

use half::{bf16, f16};
use tilewright_emulator::Launch;

use crate::device::Argument::{Float, Integer, Pointer};
use crate::device::{Argument, Device, assert_close, floats, random};

/// Triton's kernels have their shared memory from the launch, and two pointers to scratch memory that most do not use.
fn launch(device: &Device, kernel: &str, grid: [u32; 3], arguments: &[Argument]) {
    launch_of(128, device, kernel, grid, arguments);
}

/// The same of so many threads.
pub fn launch_of(threads: u32, device: &Device, kernel: &str, grid: [u32; 3], arguments: &[Argument]) {
    let launch = Launch { grid, threads: [threads, 1, 1], dynamic_shared: 64 * 1024, ..Launch::default() };
    device.launch(kernel, launch, &[arguments, &[Pointer(0), Pointer(0)]].concat());
}

#[test]
fn matmul() {
    // By mma.sync and cp.async, and by wgmma.
    for file in ["triton/matmul.80.ptx", "triton/matmul.90.ptx"] {
        let device = Device::new(file);
        let (m, n, k) = (100, 72, 112);
        let halves = |seed, count| floats(seed, count).iter().map(|x| f16::from_f32(*x)).collect::<Vec<_>>();
        let (a, b) = (halves(12, m * k), halves(13, k * n));
        let bits = |values: &[f16]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        let c = device.buffer(&vec![0u16; m * n]);
        let arguments = [
            Pointer(device.buffer(&bits(&a))),
            Pointer(device.buffer(&bits(&b))),
            Pointer(c),
            Integer(m as i32),
            Integer(n as i32),
            Integer(k as i32),
        ];
        launch(&device, "matmul", [2, 2, 1], &arguments);
        for (i, found) in device.read::<u16>(c, m * n).into_iter().enumerate() {
            let (row, column) = (i / n, i % n);
            let expected: f64 = (0..k).map(|x| a[row * k + x].to_f64() * b[x * n + column].to_f64()).sum();
            assert_close(
                f16::from_bits(found).to_f64(),
                expected,
                1e-3,
                &format!("{file} ({row}, {column})"),
            );
        }
    }
}

#[test]
fn softmax() {
    let device = Device::new("triton/softmax.90.ptx");
    let (rows, width) = (5, 300);
    let x = floats(14, rows * width);
    let y = device.buffer(&vec![0f32; rows * width]);
    let arguments = [Pointer(device.buffer(&x)), Pointer(y), Integer(width as i32)];
    launch(&device, "softmax", [rows as u32, 1, 1], &arguments);
    let found = device.read::<f32>(y, rows * width);
    for (found, x) in found.chunks(width).zip(x.chunks(width)) {
        let total: f64 = x.iter().map(|x| f64::from(*x).exp()).sum();
        for (found, x) in found.iter().zip(x) {
            assert_close((*found).into(), f64::from(*x).exp() / total, 1e-6, "softmax");
        }
    }
}

#[test]
fn layernorm() {
    let device = Device::new("triton/layernorm.90.ptx");
    let (rows, width) = (4, 384);
    let x: Vec<bf16> = floats(15, rows * width).iter().map(|x| bf16::from_f32(*x)).collect();
    let (weight, bias) = (floats(16, width), floats(17, width));
    let y = device.buffer(&vec![0u16; rows * width]);
    let bits: Vec<u16> = x.iter().map(|x| x.to_bits()).collect();
    let arguments = [
        Pointer(device.buffer(&bits)),
        Pointer(device.buffer(&weight)),
        Pointer(device.buffer(&bias)),
        Pointer(y),
        Integer(width as i32),
        Float(1e-5),
    ];
    launch(&device, "layernorm", [rows as u32, 1, 1], &arguments);
    let found = device.read::<u16>(y, rows * width);
    for (found, x) in found.chunks(width).zip(x.chunks(width)) {
        let mean = x.iter().map(|x| x.to_f64()).sum::<f64>() / width as f64;
        let variance = x.iter().map(|x| (x.to_f64() - mean).powi(2)).sum::<f64>() / width as f64;
        for i in 0..width {
            let normal = (x[i].to_f64() - mean) / (variance + 1e-5).sqrt();
            let expected = normal * f64::from(weight[i]) + f64::from(bias[i]);
            assert_close(bf16::from_bits(found[i]).to_f64(), expected, 1.0 / 200.0, "layernorm");
        }
    }
}

#[test]
fn histogram_and_scan() {
    let device = Device::new("triton/count.90.ptx");
    let n = 700;
    let x: Vec<i32> = random(18, n).iter().map(|x| (x % 50) as i32).collect();
    let bins = device.buffer(&[0i32; 17]);
    launch(&device, "count", [3, 1, 1], &[Pointer(device.buffer(&x)), Pointer(bins), Integer(n as i32)]);
    let mut expected = [0; 17];
    x.iter().for_each(|x| expected[*x as usize % 16] += 1);
    expected[16] = x.chunks(256).map(|block| block.iter().sum::<i32>()).max().unwrap();
    assert_eq!(device.read::<i32>(bins, 17), expected);
}
