//! What the lanes of a warp do together, alone and through cooperative groups.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, grid, random};

#[test]
fn votes_matches_and_reductions() {
    let device = Device::new("cuda/warps.90.ptx");
    let n = 64;
    let values: Vec<u32> = random(9, n).iter().map(|x| *x as u32 % 12).collect();
    let out = device.buffer(&vec![0u32; 8 * n]);
    device.launch("warps", grid(1, n as u32), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found = device.read::<u32>(out, 8 * n);
    let odd = values.iter().filter(|x| *x & 1 == 1).count() as u32;
    for t in 0..n {
        let (x, lane) = (values[t], t % 32);
        let warp = &values[t / 32 * 32..][..32];
        let mask = |holds: &dyn Fn(u32) -> bool| {
            warp.iter().enumerate().filter(|(_, x)| holds(**x)).fold(0u32, |mask, (i, _)| mask | 1 << i)
        };
        let same = mask(&|other| other == x);
        let any = u32::from(warp.contains(&9));
        let sum: u32 = warp.iter().sum();
        let xor = warp.iter().fold(0, |all, x| all ^ x << 8);
        // The eighth of the warp that a lane reads from, and where in it.
        let segment = lane / 8 * 8 + t / 2 % 8;
        let expected = [
            mask(&|x| x > 5) ^ any ^ 2,
            same,
            // All are below 100: they agree.
            u32::MAX.wrapping_add(1),
            sum ^ xor,
            warp[lane ^ 5] * 1000 + warp[segment],
            odd * 4 + 2,
            if x & 1 == 1 { mask(&|x| x & 1 == 1) } else { same },
            lane as u32 * 101 + 10_000 + 100_000 + 2_000_000,
        ];
        for (i, expected) in expected.iter().enumerate() {
            assert_eq!(found[i * n + t], *expected, "thread {t}, value {i}");
        }
    }
}

#[test]
fn tiles_and_coalesced_threads() {
    let device = Device::new("cuda/groups.90.ptx");
    let values: Vec<i32> = random(10, 256).iter().map(|x| (x % 97) as i32).collect();
    let out = device.buffer(&[0i32; 512]);
    device.launch("tiles", grid(1, 256), &[Pointer(device.buffer(&values)), Pointer(out)]);
    let found = device.read::<i32>(out, 512);
    for t in 0..256 {
        let tile = &values[t / 8 * 8..][..8];
        let before = if t % 8 > 0 { values[t - 1] } else { 0 };
        assert_eq!(found[t], tile.iter().sum::<i32>() * 100 + before, "thread {t}");
        let warp = &values[t / 32 * 32..][..32];
        let odd = |x: &&i32| **x & 1 == 1;
        let expected = match values[t] & 1 {
            1 => (warp[..t % 32].iter().filter(odd).count() * 1000 + warp.iter().filter(odd).count()) as i32,
            // Of the lanes that came this way.
            _ if warp.iter().any(|x| x & 1 == 0 && *x > 90) => -1,
            _ => -2,
        };
        assert_eq!(found[256 + t], expected, "thread {t}");
    }
}

#[test]
fn filter() {
    let device = Device::new("cuda/groups.90.ptx");
    let values: Vec<i32> = random(11, 1000).iter().map(|x| (x % 1000) as i32).collect();
    let (out, count) = (device.buffer(&[0i32; 1000]), device.buffer(&[0i32]));
    let arguments = [Pointer(device.buffer(&values)), Pointer(out), Pointer(count), Integer(1000)];
    device.launch("filter", grid(8, 128), &arguments);
    let mut expected: Vec<i32> = values.iter().copied().filter(|x| x % 3 == 0).collect();
    assert_eq!(device.read::<i32>(count, 1)[0] as usize, expected.len());
    let mut found = device.read::<i32>(out, expected.len());
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}
