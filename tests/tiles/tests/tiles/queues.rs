//! CTAs take tiles from a queue.

use tilewright::{Device, Instance, Launch, Signature, Tensor};
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;
use tilewright_tile_tests::KERNELS;
use tilewright_tile_tests_device::queues::{COLS, ROWS};

/// Each tile of the list is taken once, by however many CTAs, in turn and by a counter; the others are left alone.
pub fn queued<K>(device: &Device) -> Outcome
where
    K: Instance + Signature<Parameters = (Global<f32, 2>, GlobalMut<f32, 2>, u64)>,
{
    let [rows, cols] = [9 * ROWS + 5, 4 * COLS];
    let data = normal::<f32>(1, rows * cols);
    let x = Tensor::from_slice(device, &data, &[rows, cols])?;
    let tiles = rows.div_ceil(ROWS);
    for ctas in [1, 3, 7, 100] {
        for counted in [false, true] {
            let counter = Tensor::<u32>::zeros(device, &[1])?;
            let mut y = Tensor::<f32>::zeros(device, &[rows, cols])?;
            let address = if counted { counter.address() } else { 0 };
            let kernel = device.kernel::<K>(&KERNELS)?;
            let arguments = (&x.view(), &mut y.view_mut(), address);
            // SAFETY: the counter is 0, this launch's alone, and lives until its results are read.
            unsafe { kernel.launch_with(&device.default_stream(), &Launch::grid([ctas, 1, 1]), arguments)? };
            let y = y.to_vec()?;
            for (row, (y, x)) in y.chunks(cols).zip(data.chunks(cols)).enumerate() {
                let taken = (tiles - 1 - row / ROWS).is_multiple_of(2);
                let right = if taken { y == x } else { y.iter().all(|&y| y == 0.0) };
                assert!(right, "row {row} of {ctas} CTAs, counted {counted}");
            }
            let left = counter.to_vec()?[0];
            let taken = tiles.div_ceil(2) * 4;
            // A CTA asks once more than it takes tiles beside its first.
            let asked = if counted { taken as u32..=taken as u32 + 2 * ctas } else { 0..=0 };
            assert!(asked.contains(&left), "{left} numbers asked for by {ctas} CTAs");
        }
    }
    Ok(())
}
