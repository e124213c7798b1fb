//! Fragments that are turned, and tiles that are loaded turned.

use tilewright::{Device, Instance, SafeKernel, Tensor, f16};
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::transpositions::Turned;

use crate::launch;

pub fn turned<K>(device: &Device) -> Outcome
where
    K: Instance + Turned + SafeKernel<Parameters = (Global<f16, 2>, GlobalMut<f16, 2>, GlobalMut<f16, 2>)>,
{
    let [rows, cols] = K::TILE;
    let data: Vec<f16> = (0..rows * cols).map(|i| f16::from_bits(i as u16)).collect();
    let x = Tensor::from_slice(device, &data, &[rows, cols])?;
    let mut y = Tensor::filled(device, f16::NAN, &[cols, rows])?;
    let mut z = Tensor::filled(device, f16::NAN, &[rows, cols])?;
    launch::<K>(device, [1, 1], (x.view(), y.view_mut(), z.view_mut()))?;
    let bits = |data: Vec<f16>| data.into_iter().map(f16::to_bits).collect::<Vec<_>>();
    let turned: Vec<u16> = (0..rows * cols).map(|i| (i % rows * cols + i / rows) as u16).collect();
    assert_eq!(bits(y.to_vec()?), turned);
    assert_eq!(bits(z.to_vec()?), bits(data));
    Ok(())
}
