//! Calls, pointers to functions, switches, and variables of the module.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, grid, random};

fn fibonacci(n: i32) -> i32 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// As the kernel has it; `above` is the caller's variable.
fn chain(depth: i32, above: Option<&mut i32>) -> i32 {
    let mut own = depth * 10;
    if let Some(above) = above {
        *above += depth;
    }
    if depth > 0 {
        let below = chain(depth - 1, Some(&mut own));
        return below + own;
    }
    own
}

#[test]
fn calls() {
    let device = Device::new("cuda/functions.90.ptx");
    let out = device.buffer(&[0i32; 160]);
    device.launch("calls", grid(1, 32), &[Pointer(out)]);
    let mut expected = Vec::new();
    let each = |f: &dyn Fn(i32) -> i32| (0..32).map(f).collect::<Vec<_>>();
    // A pair (t, 2t) becomes (2t + 7, t + 0.5).
    expected.extend(each(&|t| (2 * t + 7) * 100 + (2 * t + 1) + t));
    expected.extend(each(&|t| (0..12).fold(0, |sum, i| sum * 3 + t + i)));
    expected.extend(each(&|t| fibonacci(t % 9)));
    expected.extend(each(&|t| chain(t % 5, None)));
    expected.extend(each(&|t| i32::from(t % 2 == 0)));
    assert_eq!(device.read::<i32>(out, 160), expected);

    let out = device.buffer(&[0i32; 32]);
    device.launch("pointers", grid(1, 32), &[Pointer(out)]);
    assert_eq!(device.read::<i32>(out, 32), each(&|t| [t + 5, t - 5, t * 5][t as usize % 3]));
}

#[test]
fn interpreter() {
    let device = Device::new("cuda/switch.90.ptx");
    let program: Vec<u8> = random(8, 61).iter().map(|x| (x % 14) as u8).collect();
    let out = device.buffer(&[0u32; 64]);
    let arguments = [Pointer(device.buffer(&program)), Integer(61), Pointer(out)];
    device.launch("interpret", grid(1, 64), &arguments);
    let run = |thread: usize| {
        let (mut a, mut b) = (thread as u32, 1u32);
        for i in 0..61 {
            match program[(i + thread) % 61] {
                0 => a = a.wrapping_add(b),
                1 => a ^= b << 3,
                2 => b = a.wrapping_sub(b),
                3 => a = a.wrapping_mul(2654435761),
                4 => b = a.reverse_bits(),
                5 => a = a.count_ones().wrapping_add(b),
                6 => a = a.rotate_left(7),
                7 => b = b / 3 + 1,
                8 => a = a.leading_zeros() ^ b,
                // Bytes 0, 4, 1 and 5 of both.
                9 => {
                    let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
                    a = u32::from_le_bytes([x[0], y[0], x[1], y[1]]);
                }
                10 => b = (b % 1000).wrapping_add(a),
                11 => a = (((u64::from(b) << 32 | u64::from(a)) << 5) >> 32) as u32,
                _ => a = !a,
            }
        }
        a ^ b
    };
    assert_eq!(device.read::<u32>(out, 64), (0..64).map(run).collect::<Vec<_>>());
}

#[test]
fn variables() {
    let device = Device::new("cuda/variables.90.ptx");
    let out = device.buffer(&[0f32; 8]);
    let read = || {
        device.launch("read", grid(1, 32), &[Pointer(out)]);
        device.read::<f32>(out, 8)
    };
    let lengths = [0.5 * 3.0, 1.5 * 5.0, -3.0 * 7.0, 1.25 + 3.0 + 4.0, -4.0 - 5.0 + 5.0];
    assert_eq!(read(), [&lengths[..], &[-2.5 + 35.0, 0.0, 4.0]].concat());
    // What the first launch left: the cursor is one further on, and the vector's last part is set.
    assert_eq!(read(), [&lengths[..], &[-2.5 + 35.0 + 5.0, 8.0, 4.0]].concat());
    let (at, bytes) = device.emulator.variable(&device.module, "counters").unwrap();
    assert_eq!((bytes, device.read::<i32>(at, 4)), (16, vec![10, 20, 35, 5]));
}
