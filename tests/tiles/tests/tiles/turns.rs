//! Sums whose additions have an order.

use tilewright::{Device, Instance, Launch, Signature, Tensor};
use tilewright_device::tile::{Global, GlobalMut, RowMajor};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests::KERNELS;
use tilewright_tile_tests_device::sums::sums_of_fours;
use tilewright_tile_tests_device::turns::{COLS, ROWS};

use crate::launch;

/// The same bits as sums one after the other, of numbers whose sum depends on the order; of odd and even numbers of additions of `PARTS` blocks, and more tiles than an
/// H200 takes at a time.
pub fn added_one_by_one<K, const PARTS: usize>(device: &Device) -> Outcome
where
    K: Instance + Signature<Parameters = (Global<f32, 2, RowMajor, 0>, GlobalMut<f32, 2, RowMajor, 0>, u64)>,
{
    let values = [1e8f32, 1.0, -1e8, 3.25, 7.0, 1e-3];
    // As many CTAs as tiles, and fewer, which take several.
    for (tiles, additions, ctas) in
        [(7, 3, 7), (7, 3, 2), (5, 2, 2), (if device.is_emulator() { 5 } else { 300 }, 1, 132)]
    {
        let lines = additions * PARTS;
        let number = |i: usize| values[i / (ROWS * COLS) % values.len()] * (1 + i % 5) as f32;
        let x: Vec<f32> = (0..tiles * ROWS * COLS).map(number).collect();
        let x = Tensor::from_slice(device, &x, &[tiles * ROWS, COLS])?;
        let mut sums = Tensor::filled(device, 5.0f32, &[lines, ROWS * COLS])?;
        let counters = Tensor::<u32>::zeros(device, &[1 + additions])?;
        let (kernel, grid) = (device.kernel::<K>(&KERNELS)?, Launch::grid([ctas, 1, 1]));
        let arguments = (&x.view(), &mut sums.view_mut(), counters.address());
        // SAFETY: the counters are 0, this launch's alone, and live until its results are read.
        unsafe { kernel.launch_with(&device.default_stream(), &grid, arguments)? };
        let mut y = Tensor::filled(device, f32::NAN, &[ROWS, lines * COLS])?;
        launch::<sums_of_fours, _>(device, [lines, 1], (sums.view(), y.view_mut()))?;
        for (i, &found) in y.to_vec_on(&device.default_stream())?.iter().enumerate() {
            let (r, c) = (i / (lines * COLS), i % COLS);
            let right = (0..tiles).fold(5.0f32, |sum, tile| sum + number((tile * ROWS + r) * COLS + c));
            assert_eq!(
                found.to_bits(),
                right.to_bits(),
                "({r}, {c}) of {tiles} tiles, {lines} lines, {ctas} CTAs"
            );
        }
    }
    Ok(())
}
