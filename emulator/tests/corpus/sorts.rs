//! Sorts.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, floats, grid, random};

#[test]
fn bitonic() {
    Device::in_each_order("cuda/bitonic.90.ptx", |device| {
        let keys = floats(32, 2048);
        let order: Vec<i32> = (0..2048).collect();
        let (sorted, values) = (device.buffer(&keys), device.buffer(&order));
        device.launch("sort_block", grid(2, 512), &[Pointer(sorted), Pointer(values)]);
        let (sorted, values) = (device.read::<f32>(sorted, 2048), device.read::<i32>(values, 2048));
        for block in 0..2 {
            let here = 1024 * block..1024 * (block + 1);
            let mut expected = keys[here.clone()].to_vec();
            expected.sort_by(f32::total_cmp);
            assert_eq!(sorted[here.clone()], expected);
            for i in here {
                assert_eq!(keys[values[i] as usize], sorted[i]);
            }
        }

        let mut keys = random(33, 1024);
        let sorted = device.buffer(&keys);
        for size in (1..=10).map(|log| 1 << log) {
            for step in (0..10).rev().map(|log| 1 << log).filter(|step| *step < size) {
                device.launch("step", grid(4, 128), &[Pointer(sorted), Integer(size), Integer(step)]);
            }
        }
        keys.sort_unstable();
        assert_eq!(device.read::<u64>(sorted, 1024), keys);

        let keys: Vec<u16> = random(34, 192).iter().map(|x| *x as u16).collect();
        let sorted = device.buffer(&keys);
        device.launch("sort_warps", grid(2, 96), &[Pointer(sorted)]);
        for (found, keys) in device.read::<u16>(sorted, 192).chunks(32).zip(keys.chunks(32)) {
            let mut expected: Vec<i16> = keys.iter().map(|key| *key as i16).collect();
            expected.sort_unstable();
            assert_eq!(found.iter().map(|key| *key as i16).collect::<Vec<_>>(), expected);
        }
    });
}

#[test]
fn radix() {
    Device::in_each_order("cuda/radix.90.ptx", |device| {
        // With many keys that are equal, of which the order stays.
        let n = 3000;
        let keys: Vec<u32> = random(35, n).iter().map(|x| *x as u32 % 700 * 0x0010_0401).collect();
        let blocks = n.div_ceil(256) as u32;
        let counts = device.buffer(&vec![0u32; 16 * blocks as usize]);
        let order: Vec<u32> = (0..n as u32).collect();
        let mut from = [device.buffer(&keys), device.buffer(&order)];
        let mut to = [device.buffer(&vec![0u32; n]), device.buffer(&vec![0u32; n])];
        let count = Integer(n as i32);
        for shift in (0..32).step_by(4).map(Integer) {
            device.launch("count", grid(blocks, 256), &[Pointer(from[0]), Pointer(counts), count, shift]);
            device.launch("offsets", grid(1, 128), &[Pointer(counts), Integer(16 * blocks as i32)]);
            let pointers = [from[0], from[1], counts, to[0], to[1]].map(Pointer);
            device.launch("scatter", grid(blocks, 256), &[&pointers[..], &[count, shift]].concat());
            std::mem::swap(&mut from, &mut to);
        }
        let mut expected = order;
        expected.sort_by_key(|i| keys[*i as usize]);
        assert_eq!(device.read::<u32>(from[1], n), expected);
        let expected: Vec<u32> = expected.iter().map(|i| keys[*i as usize]).collect();
        assert_eq!(device.read::<u32>(from[0], n), expected);
    });
}
