//! Triton's scans, sorts and reductions.

use half::f16;

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, assert_close, floats, random};
use crate::triton::launch_of;

#[test]
fn recurrence() {
    Device::in_each_order("triton/recurrence.90.ptx", |device| {
        let (rows, width) = (3, 400);
        let (a, b) = (floats(110, rows * width), floats(111, rows * width));
        let a: Vec<f32> = a.iter().map(|x| x / 2.0).collect();
        let y = device.buffer(&vec![0f32; rows * width]);
        let pointers = [device.buffer(&a), device.buffer(&b), y].map(Pointer);
        launch_of(128, device, "recurrence", [3, 1, 1], &[&pointers[..], &[Integer(width as i32)]].concat());
        for (i, found) in device.read::<f32>(y, rows * width).into_iter().enumerate() {
            let from = i / width * width;
            let expected = (from..=i).fold(0.0, |y, i| f64::from(a[i]) * y + f64::from(b[i]));
            assert_close(found.into(), expected, 1e-5, &format!("element {i}"));
        }
    });
}

#[test]
fn chained() {
    Device::in_each_order("triton/chained.90.ptx", |device| {
        let n = 2500;
        let x: Vec<i32> = random(112, n).iter().map(|x| *x as i32).collect();
        let tiles = n.div_ceil(256);
        let [y, sums, flags] = [n, tiles, tiles].map(|count| device.buffer(&vec![0i32; count]));
        let pointers = [device.buffer(&x), y, sums, flags].map(Pointer);
        launch_of(
            64,
            device,
            "chained",
            [tiles as u32, 1, 1],
            &[&pointers[..], &[Integer(n as i32)]].concat(),
        );
        let mut sum = 0i32;
        let expected: Vec<i32> = x
            .iter()
            .map(|x| {
                sum = sum.wrapping_add(*x);
                sum
            })
            .collect();
        assert!(device.read::<i32>(y, n) == expected);
    });
}

#[test]
fn sorts() {
    let falling = |x: &[f32]| {
        let mut x = x.to_vec();
        x.sort_by(|a, b| b.total_cmp(a));
        x
    };
    Device::in_each_order("triton/ordered.80.ptx", |device| {
        let x = floats(113, 256);
        let y = device.buffer(&[0f32; 256]);
        launch_of(64, device, "ordered", [1; 3], &[Pointer(device.buffer(&x)), Pointer(y)]);
        let expected: Vec<f32> = x.chunks(128).flat_map(falling).collect();
        assert_eq!(device.read::<f32>(y, 256), expected);
    });
    Device::in_each_order("triton/largest.80.ptx", |device| {
        let x: Vec<f32> = floats(114, 256).iter().map(|x| f16::from_f32(*x).to_f32()).collect();
        let bits: Vec<u16> = x.iter().map(|x| f16::from_f32(*x).to_bits()).collect();
        let y = device.buffer(&[0u16; 16]);
        launch_of(64, device, "largest", [1; 3], &[Pointer(device.buffer(&bits)), Pointer(y)]);
        let expected: Vec<f32> = x.chunks(128).flat_map(|row| falling(row)[..8].to_vec()).collect();
        let found: Vec<f32> = device.read::<u16>(y, 16).iter().map(|x| f16::from_bits(*x).to_f32()).collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn reductions() {
    Device::in_each_order("triton/reductions.90.ptx", |device| {
        let (rows, width) = (4, 430);
        // Of few values, so that the largest comes several times.
        let x: Vec<f32> = floats(115, rows * width).iter().map(|x| (x * 4.0).round()).collect();
        let (places, sums) = (device.buffer(&vec![0i32; 2 * rows]), device.buffer(&vec![0u32; rows]));
        let pointers = [device.buffer(&x), places, sums].map(Pointer);
        launch_of(128, device, "reductions", [4, 1, 1], &[&pointers[..], &[Integer(width as i32)]].concat());
        let (places, sums) = (device.read::<i32>(places, 2 * rows), device.read::<u32>(sums, rows));
        for (row, x) in x.chunks(width).enumerate() {
            let first = |of: f32| x.iter().position(|x| *x == of).map(|at| at as i32);
            let (most, least) =
                (x.iter().copied().fold(-9.0, f32::max), x.iter().copied().fold(9.0, f32::min));
            assert_eq!((Some(places[2 * row]), Some(places[2 * row + 1])), (first(most), first(least)));
            assert_eq!(sums[row], x.iter().fold(0, |all, x| all ^ x.to_bits()));
        }
    });
}
