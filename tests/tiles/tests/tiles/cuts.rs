//! Tiles of two copies, and halves of fragments.

use tilewright::{Device, Instance, SafeKernel, Tensor, f16};
use tilewright_device::layout::RowMajor;
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::cuts::{Cut, N};

use crate::launch;

pub fn halves<K>(device: &Device) -> Outcome
where
    K: Instance + Cut + SafeKernel<Parameters = (Global<f16, 2, RowMajor, 16>, GlobalMut<f16, 2>)>,
{
    let [down, right] = K::EXCHANGED.map(usize::from);
    let data: Vec<f16> = (0..K::ROWS * N).map(|i| f16::from_bits(i as u16)).collect();
    let x = Tensor::from_slice(device, &data, &[K::ROWS, N])?;
    let mut y = Tensor::filled(device, f16::NAN, &[K::ROWS, N])?;
    launch::<K, _>(device, [1, 1], (x.view(), y.view_mut()))?;
    for (i, y) in y.to_vec()?.into_iter().enumerate() {
        let (row, col) = ((i / N + down * K::ROWS / 2) % K::ROWS, (i + right * N / 2) % N);
        assert_eq!(y.to_bits(), data[row * N + col].to_bits(), "row {}, column {}", i / N, i % N);
    }
    Ok(())
}
