//! Atomic operations, and what one block hands to another.

use half::{bf16, f16};

use crate::device::Argument::Pointer;
use crate::device::{Device, grid};

#[test]
fn every_type() {
    let device = Device::new("cuda/atomics.90.ptx");
    // The structure of the kernel: `sum64` at 24, `tickets` at 48, `vector` at 64, `exchanged` at 80.
    let totals = device.buffer(&[0u8; 96]);
    device.launch("atomics", grid(3, 64), &[Pointer(totals)]);
    let words = device.read::<u32>(totals, 24);
    let n = 192u32;
    assert_eq!(words[0], 2 * n);
    assert_eq!((words[1] as i32, words[2]), (-191, 191));
    assert_eq!((words[3], words[4]), (u32::MAX, n % 100));
    assert_eq!(f32::from_bits(words[5]), 0.5 * n as f32);
    let wide = device.read::<u64>(totals + 24, 3);
    assert_eq!(f64::from_bits(wide[0]), 0.25 * f64::from(n));
    assert_eq!((wide[1], wide[2]), (u64::from(n) << 33, 191 << 40));
    let halves = device.read::<u16>(totals + 48, 8);
    assert_eq!(u32::from(halves[0]), n, "tickets");
    let half = |i: usize| f16::from_bits(halves[i]).to_f32();
    assert_eq!([half(2), half(3), half(4)], [192.0, 96.0, 384.0]);
    let brain = |i: usize| bf16::from_bits(halves[i]).to_f32();
    assert_eq!([brain(6), brain(7)], [48.0, 96.0]);
    let vector = device.read::<f32>(totals + 64, 4);
    let expected = [1.0, 2.0, 3.0, 4.0].map(|x| x * n as f32);
    assert_eq!(vector, expected);
    assert_eq!(words[20], 77);
}

#[test]
fn one_block_waits_for_another() {
    let device = Device::new("cuda/atomics.90.ptx");
    let (data, flag, out) = (device.buffer(&[0i32; 64]), device.buffer(&[0i32]), device.buffer(&[0i32; 65]));
    device.launch("handover", grid(2, 64), &[Pointer(data), Pointer(flag), Pointer(out)]);
    let expected: Vec<i32> = (0..64).map(|t| t * 3 + 1).chain([1 + 5]).collect();
    assert_eq!(device.read::<i32>(out, 65), expected);
    assert_eq!(device.read::<i32>(flag, 1), [15]);
}
