//! Rows in shared memory.

use tilewright::{Device, Instance, SafeKernel, Tensor};
use tilewright_device::layout::Element;
use tilewright_device::tile::{RowOrder, Unmapped, UnmappedMut};
use tilewright_support::Real;
use tilewright_support::guarded::Guarded;
use tilewright_support::suite::Outcome;

use crate::launch;

type Held<T> = (Unmapped<T, 3>, Unmapped<i32, 3>, UnmappedMut<T, 3>, RowOrder);

/// Rows of several lengths up to `MOST`, with parts that no column reaches, and such that end inside a vector; several rows a CTA.
pub fn held<K, T: Real + Element, const MOST: usize, const RAGGED: bool>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Held<T>>,
{
    let rows = 7;
    let ragged = [MOST - 7, MOST - 9, MOST / 2 + 1, 33, 3, 1];
    let whole = [if RAGGED { MOST - 8 } else { MOST }, MOST / 2 + 8, MOST / 3 / 8 * 8, 64, 16, 8];
    for cols in whole.into_iter().chain(ragged.into_iter().filter(|_| RAGGED)) {
        // Small integers, whose sums are small too: all is exact in f16.
        let x: Vec<f32> = (0..rows * cols).map(|i| (i * 13 % 7) as f32 - 3.0).collect();
        let at: Vec<i32> = (0..rows).map(|row| (row * 911 % (cols + 1)) as i32 - 1).collect();
        let mut exact: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
        for (row, &place) in at.iter().enumerate() {
            if let Ok(place) = usize::try_from(place) {
                exact[row * cols + place] += x[row * cols..][..cols].iter().sum::<f32>();
            }
        }
        let x = Tensor::from_slice(device, &T::round(&x), &[1, rows, cols])?;
        let at = Tensor::from_slice(device, &at, &[1, rows, 1])?;
        let mut y = Guarded::<T>::new(device, [1, rows, cols], cols)?;
        let order = RowOrder::new(1, rows as u32, 1).expect("few tiles");
        let grid = [2 * K::CLUSTER[0] as usize, 1];
        launch::<K, _>(device, grid, (x.view(), at.view(), y.view_mut()?, order))?;
        let (y, outside) = y.read()?;
        assert!(T::widen(&y) == exact, "{cols} columns");
        assert_eq!(outside, 0, "{cols} columns: outside");
    }
    // A result with fewer columns: nothing is stored behind them.
    let (x, at) =
        (Tensor::filled(device, T::round(&[3.0])[0], &[1, 1, 64])?, Tensor::filled(device, -1, &[1, 1, 1])?);
    for cols in [64 - 8].into_iter().chain([59, 1].into_iter().filter(|_| RAGGED)) {
        let mut y = Guarded::<T>::new(device, [1, 1, cols], cols)?;
        let order = RowOrder::new(1, 1, 1).expect("a tile");
        launch::<K, _>(device, [K::CLUSTER[0] as usize, 1], (x.view(), at.view(), y.view_mut()?, order))?;
        let (y, outside) = y.read()?;
        assert!(T::widen(&y) == vec![6.0; cols] && outside == 0, "{cols} of 64 columns");
    }
    Ok(())
}

type Together<T> =
    (Unmapped<T, 3>, Unmapped<T, 3>, Unmapped<T, 3>, UnmappedMut<T, 3>, UnmappedMut<f32, 3>, RowOrder);

/// Two tensors' rows of several lengths up to `MOST`, several rows a CTA, with weights from any column on and without.
pub fn together<K, T: Real + Element, const MOST: usize, const RAGGED: bool>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Together<T>>,
{
    let rows = 11;
    let ragged = [MOST - 7, MOST - 9, MOST / 2 + 1, 257, 33, 7, 3, 1];
    let whole = [if RAGGED { MOST - 8 } else { MOST }, MOST / 2 + 8, 64, 8];
    for cols in whole.into_iter().chain(ragged.into_iter().filter(|_| RAGGED)) {
        // Small integers: all is exact in f16.
        let integers = |factor: usize, count: usize| -> Vec<f32> {
            (0..count).map(|i| (i * factor % 7) as f32 - 3.0).collect()
        };
        let (x, z) = (integers(13, rows * cols), integers(17, rows * cols));
        for weights in [cols, 0] {
            let w = integers(5, weights);
            let by = |col: usize| w.get(col).copied().unwrap_or(1.0);
            let exact: Vec<f32> = (0..rows * cols).map(|i| x[i] + z[i] * by(i % cols)).collect();
            let [x, z] = [&x, &z].map(|data| Tensor::from_slice(device, &T::round(data), &[1, rows, cols]));
            let (x, z) = (x?, z?);
            let w = Tensor::from_slice(device, &T::round(&w), &[1, 1, weights])?;
            let mut y = Guarded::<T>::new(device, [1, rows, cols], cols)?;
            let mut sums = Tensor::filled(device, f32::NAN, &[1, 3, cols])?;
            let order = RowOrder::new(1, rows as u32, 1).expect("few tiles");
            let grid = [3 * K::CLUSTER[0] as usize, 1];
            let arguments = (x.view(), z.view(), w.view(), y.view_mut()?, sums.view_mut(), order);
            launch::<K, _>(device, grid, arguments)?;
            let (y, outside) = y.read()?;
            assert!(T::widen(&y) == exact, "{cols} columns, {weights} weights");
            assert_eq!(outside, 0, "{cols} columns: outside");
            if !RAGGED {
                let sums = sums.to_vec()?;
                let sum = |rows: &[f32], col: usize| rows.iter().skip(col).step_by(cols).sum::<f32>();
                let z = T::widen(&z.to_vec()?);
                assert!((0..cols).all(|col| sum(&sums, col) == sum(&z, col)), "{cols} columns: sums");
            }
        }
    }
    Ok(())
}
