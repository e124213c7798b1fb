//! Triton's products of tf32, bf16 and fp8, and its atomic operations and copies that add.

use half::{bf16, f16};
use tilewright_emulator::{DataType, Fill, Swizzle, TensorMap};

use crate::device::Argument::{Integer, Long, Map, Pointer};
use crate::device::{Device, floats, random};
use crate::triton::launch_of;

/// Whole numbers from -4 to 4: sums of their products are exact.
fn small(seed: u64, count: usize) -> Vec<i32> {
    random(seed, count).iter().map(|x| (x % 9) as i32 - 4).collect()
}

/// The bits of such a number in a format of so many bits of exponent and mantissa.
fn narrow(x: i32, exponent: u32, mantissa: u32) -> u8 {
    let magnitude = x.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let log = magnitude.ilog2();
    let bias = (1 << (exponent - 1)) - 1;
    let fraction = ((magnitude << mantissa) >> log) & ((1 << mantissa) - 1);
    (u32::from(x < 0) << 7 | (bias + log) << mantissa | fraction) as u8
}

/// Multiplies on each of these architectures, with operands that `put` makes.
fn multiplies(name: &str, archs: &[u32], [m, n, k]: [usize; 3], put: impl Fn(&Device, &[i32]) -> u64) {
    for arch in archs {
        Device::in_each_order(&format!("triton/{name}.{arch}.ptx"), |device| {
            let (a, b) = (small(150, m * k), small(151, n * k));
            let c = device.buffer(&vec![0f32; m * n]);
            let arguments =
                [Pointer(put(device, &a)), Pointer(put(device, &b)), Pointer(c), Integer(k as i32)];
            let threads = if m == 128 { 256 } else { 128 };
            launch_of(threads, device, "product", [1; 3], &arguments);
            let element = |i: usize| (0..k).map(|x| a[i / n * k + x] * b[i % n * k + x]).sum::<i32>() as f32;
            let expected: Vec<f32> = (0..m * n).map(element).collect();
            assert!(device.read::<f32>(c, m * n) == expected, "{name} on sm_{arch}");
        });
    }
}

#[test]
fn products() {
    multiplies("tf32", &[80, 90], [64, 32, 96], |device, x| {
        device.buffer(&x.iter().map(|x| *x as f32).collect::<Vec<_>>())
    });
    multiplies("bf16", &[90], [128, 64, 96], |device, x| {
        device.buffer(&x.iter().map(|x| bf16::from_f32(*x as f32).to_bits()).collect::<Vec<_>>())
    });
    multiplies("e4m3", &[90], [64, 32, 192], |device, x| {
        device.buffer(&x.iter().map(|x| narrow(*x, 4, 3)).collect::<Vec<_>>())
    });
    multiplies("e5m2", &[80], [64, 32, 192], |device, x| {
        device.buffer(&x.iter().map(|x| narrow(*x, 5, 2)).collect::<Vec<_>>())
    });
}

#[test]
fn floats_meet() {
    Device::in_each_order("triton/floats.90.ptx", |device| {
        let n = 500;
        let x: Vec<f32> = small(152, n).iter().map(|x| *x as f32 * 2.5 - 1.0).collect();
        let mut expected = [[0f32; 16], [f32::MIN; 16], [f32::MAX; 16]];
        let y = device.buffer(&expected.concat());
        launch_of(
            128,
            device,
            "floats",
            [4, 1, 1],
            &[Pointer(device.buffer(&x)), Pointer(y), Integer(n as i32)],
        );
        for (i, x) in x.iter().enumerate() {
            let class = i * 7 % 16;
            expected[0][class] += x;
            expected[1][class] = expected[1][class].max(*x);
            expected[2][class] = expected[2][class].min(*x);
        }
        assert_eq!(device.read::<f32>(y, 48), expected.concat());
    });
}

#[test]
fn halves_meet() {
    let check = |name: &str, to: fn(f32) -> u16| {
        Device::in_each_order(&format!("triton/{name}_sums.90.ptx"), |device| {
            let n = 450;
            let x = small(153, n);
            let y = device.buffer(&[0u16; 32]);
            let bits: Vec<u16> = x.iter().map(|x| to(*x as f32)).collect();
            launch_of(
                128,
                device,
                "halves",
                [4, 1, 1],
                &[Pointer(device.buffer(&bits)), Pointer(y), Integer(n as i32)],
            );
            let sum = |class: usize| x.iter().skip(class).step_by(32).sum::<i32>();
            let expected: Vec<u16> = (0..32).map(|class| to(sum(class) as f32)).collect();
            assert_eq!(device.read::<u16>(y, 32), expected, "{name}");
        });
    };
    check("fp16", |x| f16::from_f32(x).to_bits());
    check("bf16", |x| bf16::from_f32(x).to_bits());
}

#[test]
fn boxes_are_added() {
    Device::in_each_order("triton/boxes.90.ptx", |device| {
        let (rows, columns) = (100, 32);
        let (x, before) = (floats(154, 64 * columns), floats(155, rows * columns));
        let y = device.buffer(&before);
        let map = TensorMap {
            data: DataType::F32,
            rank: 2,
            address: y,
            shape: [columns as u64, rows as u64, 1, 1, 1],
            strides: [4 * columns as u64, 0, 0, 0],
            tile: [32, 64, 1, 1, 1],
            steps: [1; 5],
            swizzle: Swizzle::B128,
            fill: Fill::Zero,
            im2col: None,
        };
        let described =
            [Map(map), Integer(rows as i32), Integer(columns as i32), Long(columns as i64), Long(1)];
        launch_of(128, device, "boxes", [2, 1, 1], &[&[Pointer(device.buffer(&x))], &described[..]].concat());
        let expected: Vec<f32> =
            before.iter().enumerate().map(|(i, before)| before + x[i % (64 * columns)]).collect();
        assert_eq!(device.read::<f32>(y, rows * columns), expected);
    });
}
