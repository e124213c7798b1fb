//! Pairs and halves of rows.

use tilewright::{Device, Instance, SafeKernel, Tensor};
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::neighbours::{Neighbours, mixed};

use crate::launch;

pub fn mixed_rows<K>(device: &Device) -> Outcome
where
    K: Instance
        + Neighbours
        + SafeKernel<Parameters = (Global<f32, 2>, GlobalMut<i32, 2>, GlobalMut<i32, 2>)>,
{
    let [tile_rows, cols] = K::TILE;
    let rows = tile_rows + 1;
    let data: Vec<f32> = (0..rows * cols).map(|i| (i * 37 % 1013) as f32).collect();
    let x = Tensor::from_slice(device, &data, &[rows, cols])?;
    let mut pairs = Tensor::filled(device, -1, &[rows, cols])?;
    let mut halves = Tensor::filled(device, -1, &[rows, cols])?;
    let grid = [rows.div_ceil(tile_rows), 1];
    launch::<K, _>(device, grid, (x.view(), pairs.view_mut(), halves.view_mut()))?;
    let (pairs, halves) = (pairs.to_vec()?, halves.to_vec()?);
    for (r, row) in data.chunks(cols).enumerate() {
        let (found, half) = (&pairs[r * cols..][..cols], cols / 2);
        for i in 0..half {
            let (a, b) = mixed(row[2 * i], row[2 * i + 1]);
            assert_eq!(found[2 * i..][..2], [a, b], "pair {i} of row {r}");
            let (a, b) = mixed(row[i], row[i + half]);
            let found = [halves[r * cols + i], halves[r * cols + i + half]];
            assert_eq!(found, [a, b], "elements {i} of row {r}'s halves");
        }
    }
    Ok(())
}
