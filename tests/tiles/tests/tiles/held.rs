//! Rows in shared memory.

use tilewright::{Device, Instance, SafeKernel, Tensor};
use tilewright_device::tile::{Global, GlobalMut, RowOrder};
use tilewright_support::suite::Outcome;

use crate::launch;

type Held = (Global<f32, 3>, Global<f32, 3>, Global<i32, 3>, GlobalMut<f32, 3>, RowOrder);

/// Rows of several lengths up to `MOST`, with parts that no column reaches; several tiles a CTA.
pub fn held<K: Instance + SafeKernel<Parameters = Held>, const MOST: usize>(device: &Device) -> Outcome {
    let rows = 7;
    for cols in [MOST, MOST - 4, MOST / 2 + 4, MOST / 3 / 4 * 4, 8, 4] {
        // Small integers: every sum is exact.
        let x: Vec<f32> = (0..rows * cols).map(|i| (i * 37 % 101) as f32 - 50.0).collect();
        let w: Vec<f32> = (0..cols).map(|i| (i % 5) as f32).collect();
        let at: Vec<i32> = (0..rows).map(|row| (row * 911 % (cols + 1)) as i32 - 1).collect();
        let mut exact: Vec<f32> = (0..rows * cols).map(|i| (x[i] + 1.0) * w[i % cols]).collect();
        for (row, &place) in at.iter().enumerate() {
            if let Ok(place) = usize::try_from(place) {
                exact[row * cols + place] += x[row * cols..][..cols].iter().sum::<f32>();
            }
        }
        let (x, w, at) = (
            Tensor::from_slice(device, &x, &[1, rows, cols])?,
            Tensor::from_slice(device, &w, &[1, 1, cols])?,
            Tensor::from_slice(device, &at, &[1, rows, 1])?,
        );
        let mut y = Tensor::filled(device, f32::NAN, &[1, rows, cols])?;
        let order = RowOrder::new(1, rows as u32, 1).expect("few tiles");
        let grid = [2 * K::CLUSTER[0] as usize, 1];
        launch::<K>(device, grid, (x.view(), w.view(), at.view(), y.view_mut(), order))?;
        assert!(y.to_vec()? == exact, "{cols} columns");
    }
    Ok(())
}
