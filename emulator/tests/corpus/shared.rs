//! Reductions, scans, histograms and transpositions through shared memory, and products of matrices.

use half::f16;
use tilewright_emulator::Launch;

use crate::device::Argument::{Floats, Integer, Pointer};
use crate::device::{Device, floats, grid, random};

#[test]
fn reduce() {
    let device = Device::new("cuda/reduce.90.ptx");
    // Small multiples of a quarter: sums are exact in any order.
    let values: Vec<f32> = random(1, 5000).iter().map(|x| (x % 64) as f32 / 4.0).collect();
    let (input, out) = (device.buffer(&values), device.buffer(&[0f32; 3]));
    device.launch("block_sums", grid(3, 256), &[Pointer(input), Pointer(out), Integer(5000)]);
    let expected: Vec<f32> = (0..3)
        .map(|block| values.iter().enumerate().filter(|(i, _)| i / 256 % 3 == block).map(|(_, x)| x).sum())
        .collect();
    assert_eq!(device.read::<f32>(out, 3), expected);

    let values: Vec<i32> = random(2, 3000).iter().map(|x| *x as i32).collect();
    let (input, out) = (device.buffer(&values), device.buffer(&[i32::MIN]));
    device.launch("maximum", grid(4, 128), &[Pointer(input), Pointer(out), Integer(3000)]);
    assert_eq!(device.read::<i32>(out, 1)[0], *values.iter().max().unwrap());
}

#[test]
fn scan() {
    let device = Device::new("cuda/scan.90.ptx");
    for threads in [32, 96, 1024] {
        let values: Vec<u32> = random(3, threads).iter().map(|x| *x as u32 % 1000).collect();
        let (input, out) = (device.buffer(&values), device.buffer(&vec![0u32; threads]));
        device.launch("scan", grid(1, threads as u32), &[Pointer(input), Pointer(out)]);
        let mut sum = 0;
        let expected: Vec<u32> = values
            .iter()
            .map(|x| {
                sum += x;
                sum
            })
            .collect();
        assert_eq!(device.read::<u32>(out, threads), expected);
    }
}

#[test]
fn histogram() {
    let device = Device::new("cuda/histogram.90.ptx");
    let classes: Vec<u8> = (0..=255u8).map(|x| x.wrapping_mul(7) ^ 3).collect();
    let (at, bytes) = device.emulator.variable(&device.module, "class_of").unwrap();
    assert_eq!(bytes, 256);
    device.emulator.write(at, &classes).unwrap();
    let values: Vec<u8> = random(4, 10_000).iter().map(|x| *x as u8).collect();
    let input = device.buffer(&values);
    let mut expected = [0u32; 65];
    values.iter().for_each(|x| expected[usize::from(classes[usize::from(*x)] % 64)] += 1);
    for launches in [40, 41] {
        let bins = device.buffer(&[0u32; 65]);
        device.launch("histogram", grid(5, 192), &[Pointer(input), Pointer(bins), Integer(10_000)]);
        expected[64] = launches;
        assert_eq!(device.read::<u32>(bins, 65), expected);
    }
}

#[test]
fn transpose() {
    let device = Device::new("cuda/transpose.90.ptx");
    let (rows, columns) = (70, 45);
    let values = floats(5, rows * columns);
    let (input, out) = (device.buffer(&values), device.buffer(&vec![0f32; rows * columns]));
    let launch =
        Launch { grid: [2, 3, 1], threads: [32, 8, 1], dynamic_shared: 32 * 33 * 4, ..Launch::default() };
    let arguments = [Pointer(input), Pointer(out), Integer(rows as i32), Integer(columns as i32)];
    device.launch("transpose", launch, &arguments);
    let expected: Vec<f32> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| (row, column)))
        .map(|(row, column)| values[row * columns + column])
        .collect();
    assert_eq!(device.read::<f32>(out, rows * columns), expected);

    let scale = [2.0, 4.0, 8.0, 16.0];
    let (input, out) = (device.buffer(&values[..128]), device.buffer(&[0f32; 128]));
    device.launch("turn", grid(1, 32), &[Pointer(input), Pointer(out), Floats(scale)]);
    let expected: Vec<f32> =
        values[..128].chunks(4).flat_map(|p| [3, 2, 1, 0].map(|i| p[i] * scale[3 - i])).collect();
    assert_eq!(device.read::<f32>(out, 128), expected);
}

#[test]
fn products() {
    let device = Device::new("cuda/mma.90.ptx");
    let depth = 80;
    let small = |seed, count| random(seed, count).iter().map(|x| (x % 16) as i32 - 8).collect::<Vec<_>>();
    let (a, b) = (small(6, 16 * depth), small(7, depth * 8));
    let bits =
        |values: &[i32]| values.iter().map(|x| f16::from_f32(*x as f32).to_bits()).collect::<Vec<u16>>();
    let out = device.buffer(&[0f32; 128]);
    let arguments = [
        Pointer(device.buffer(&bits(&a))),
        Pointer(device.buffer(&bits(&b))),
        Pointer(out),
        Integer(depth as i32),
    ];
    device.launch("product", grid(1, 32), &arguments);
    let product = |b: &dyn Fn(usize, usize) -> i32, depth: usize| {
        let element = |i: usize| (0..depth).map(|k| a[i / 8 * depth + k] * b(k, i % 8)).sum();
        (0..128).map(element).collect::<Vec<i32>>()
    };
    let expected: Vec<f32> = product(&|k, n| b[k * 8 + n], depth).iter().map(|x| *x as f32).collect();
    assert_eq!(device.read::<f32>(out, 128), expected);

    // B by columns here; 64 deep.
    let bytes = |values: &[i32]| values.iter().map(|x| *x as u8).collect::<Vec<u8>>();
    let out = device.buffer(&[0i32; 128]);
    let arguments = [
        Pointer(device.buffer(&bytes(&a[..16 * 64]))),
        Pointer(device.buffer(&bytes(&b[..64 * 8]))),
        Pointer(out),
        Integer(64),
    ];
    device.launch("bytes", grid(1, 32), &arguments);
    assert_eq!(device.read::<i32>(out, 128), product(&|k, n| b[n * 64 + k], 64));
}
