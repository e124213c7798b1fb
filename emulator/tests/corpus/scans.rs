//! Scans of a grid in one pass.

use crate::device::Argument::{Integer, Pointer};
use crate::device::{Device, grid, random};

/// Elements of a tile.
const TILE: usize = 512;

fn scanned(values: &[u32]) -> Vec<u32> {
    let sums = values.iter().scan(0u32, |sum, x| {
        *sum = sum.wrapping_add(*x);
        Some(*sum)
    });
    sums.collect()
}

#[test]
fn blocks_look_back() {
    Device::in_each_order("cuda/lookback.90.ptx", |device| {
        // More tiles than a warp looks at together.
        for n in [1, TILE, 40 * TILE + 77] {
            let tiles = n.div_ceil(TILE);
            let values: Vec<u32> = random(31, n).iter().map(|x| *x as u32).collect();
            let (input, expected) = (device.buffer(&values), scanned(&values));
            let launch = |kernel: &str, status: &[u64]| {
                let (out, tickets) = (device.buffer(&vec![0u32; n]), device.buffer(&[0u32]));
                let status = status.iter().map(|at| Pointer(*at));
                let arguments: Vec<_> = [Pointer(input), Pointer(out)]
                    .into_iter()
                    .chain(status)
                    .chain([Pointer(tickets), Integer(n as i32)])
                    .collect();
                device.launch(kernel, grid(tiles as u32, 128), &arguments);
                assert!(device.read::<u32>(out, n) == expected, "{kernel} of {n}");
            };
            launch("in_one_word", &[device.buffer(&vec![0u64; tiles])]);
            launch("beside", &[(); 3].map(|()| device.buffer(&vec![0u32; tiles])));
        }
    });
}
