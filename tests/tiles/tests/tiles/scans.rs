//! Scans of rows and columns of any length, against a loop.

use tilewright::{Device, Instance, SafeKernel, Tensor};
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::scans::{Affine, FIRST, Tile, affine, of_one, then};

use crate::launch;

type Parameters = (Global<i32, 2>, GlobalMut<i32, 2>, GlobalMut<i32, 2>, u32);

/// What the elements of a line become, and what all of them come to.
fn scanned(line: impl Iterator<Item = i32>, exclusive: bool) -> (Vec<i32>, i32) {
    let mut carry: Affine = FIRST;
    let each = line.map(|x| {
        let before = carry;
        carry = then(carry, affine(x));
        of_one(if exclusive { before } else { carry })
    });
    (each.collect(), of_one(carry))
}

fn numbers(count: usize) -> Vec<i32> {
    (0..count).map(|i| (i * 7919 % 1009) as i32 - 500).collect()
}

pub fn rows<K: Instance + Tile + SafeKernel<Parameters = Parameters>>(device: &Device) -> Outcome {
    let [tile_rows, tile_cols] = K::TILE;
    for [rows, cols] in
        [[tile_rows, tile_cols], [tile_rows + 1, 2 * tile_cols + 3], [2, 1], [1, tile_cols - 1]]
    {
        let data = numbers(rows * cols);
        let x = Tensor::from_slice(device, &data, &[rows, cols])?;
        for exclusive in [false, true] {
            let mut y = Tensor::filled(device, -1, &[rows, cols])?;
            let mut all = Tensor::filled(device, -1, &[rows, 1])?;
            let arguments = (x.view(), y.view_mut(), all.view_mut(), u32::from(exclusive));
            launch::<K, _>(device, [rows.div_ceil(tile_rows), 1], arguments)?;
            let (y, all) = (y.to_vec()?, all.to_vec()?);
            for (r, row) in data.chunks(cols).enumerate() {
                let (right, total) = scanned(row.iter().copied(), exclusive);
                assert!(y[r * cols..][..cols] == right, "row {r} of {rows} x {cols}, exclusive: {exclusive}");
                assert_eq!(all[r], total, "row {r} of {rows} x {cols}, exclusive: {exclusive}");
            }
        }
    }
    Ok(())
}

pub fn cols<K: Instance + Tile + SafeKernel<Parameters = Parameters>>(device: &Device) -> Outcome {
    let [tile_rows, tile_cols] = K::TILE;
    for [rows, cols] in
        [[tile_rows, tile_cols], [2 * tile_rows + 3, tile_cols + 1], [1, 2], [tile_rows - 1, 1]]
    {
        let data = numbers(rows * cols);
        let x = Tensor::from_slice(device, &data, &[rows, cols])?;
        for exclusive in [false, true] {
            let mut y = Tensor::filled(device, -1, &[rows, cols])?;
            let mut all = Tensor::filled(device, -1, &[1, cols])?;
            let arguments = (x.view(), y.view_mut(), all.view_mut(), u32::from(exclusive));
            launch::<K, _>(device, [cols.div_ceil(tile_cols), 1], arguments)?;
            let (y, all) = (y.to_vec()?, all.to_vec()?);
            for (c, &sum) in all.iter().enumerate() {
                let (right, total) = scanned(data.iter().skip(c).step_by(cols).copied(), exclusive);
                let found: Vec<i32> = y.iter().skip(c).step_by(cols).copied().collect();
                assert!(found == right, "column {c} of {rows} x {cols}, exclusive: {exclusive}");
                assert_eq!(sum, total, "column {c} of {rows} x {cols}, exclusive: {exclusive}");
            }
        }
    }
    Ok(())
}
