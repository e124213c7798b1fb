//! Rows by a list of indices, of which some are outside.

use tilewright::{Device, Instance, SafeKernel, Tensor, f16};
use tilewright_device::layout::{ColMajor, Element, RowMajor};
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::Real;
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::gathers::{COLS, Indices, ROWS, TILE};

use crate::{launch, random};

/// As many indices of `rows` rows: some twice, some of no row.
fn indices(count: usize, rows: usize) -> Vec<i32> {
    let each = |i: usize| match i % 11 {
        3 => -1,
        5 => rows as i32,
        7 => i32::MIN,
        8 => i32::MAX,
        _ => (i * 5 % rows) as i32,
    };
    (0..count).map(each).collect()
}

/// The row at an index; nothing outside.
fn row<T>(of: &[T], cols: usize, index: i32) -> Option<&[T]> {
    of.chunks(cols).nth(usize::try_from(index).ok()?)
}

type Product = (Global<f16, 2, RowMajor, 1>, Indices, Global<f16, 2, ColMajor>, GlobalMut<f32, 2>);

pub fn products<K: Instance + SafeKernel<Parameters = Product>>(device: &Device) -> Outcome {
    for [rows, m, n, k] in [[64, 64, 64, 64], [7, 130, 72, 200], [300, 1, 8, 8], [3, 65, 200, 520]] {
        let (a, b) = (normal::<f16>(1, rows * k), normal::<f16>(2, n * k));
        let index = indices(m, rows);
        let zeros = vec![f16::ZERO; k];
        let gathered: Vec<f16> =
            index.iter().flat_map(|&i| row(&a, k, i).unwrap_or(&zeros)).copied().collect();
        let every: Vec<usize> = (0..m).collect();
        let expected = product(&Matrix::new(&gathered, m, k), &Matrix::new(&b, n, k).t(), &every);
        let (a, b) = (Tensor::from_slice(device, &a, &[rows, k])?, Tensor::from_slice(device, &b, &[n, k])?);
        let index = Tensor::from_slice(device, &index, &[1, m])?;
        let mut guarded = Guarded::<f32>::new(device, [1, m, n], n + 3)?;
        let c = guarded.view_mut()?.select(0, 0)?;
        let arguments = (a.view(), index.view(), b.view().transpose(0, 1)?, c);
        launch::<K, _>(device, [m.div_ceil(TILE), n.div_ceil(TILE)], arguments)?;
        let (c, outside) = guarded.read()?;
        let error = relative_error(&c, &expected);
        assert!(error < 1e-5, "{m} of {rows} rows, {n} x {k}: relative error {error:e}");
        assert_eq!(outside, 0, "{m} of {rows} rows, {n} x {k}: stores outside");
    }
    Ok(())
}

type Rows<T> = (Global<T, 3, RowMajor, 0>, Indices, GlobalMut<T, 2>, u32);

pub fn rows<K, T: Real + Element>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Rows<T>>,
{
    // Lines of every alignment, from any column on: also from behind the last.
    for [rows, m, cols, unused, from] in
        [[64, 32, 128, 0, 0], [9, 70, 300, 0, 8], [9, 40, 129, 7, 1], [5, 33, 260, 4, 3], [1, 11, 4, 0, 4]]
    {
        let memory = random::<T>(device, [1, rows, cols], unused)?;
        let x = memory.view().narrow(2, 0, cols)?;
        let (data, index) = (x.to_vec()?, indices(m, rows));
        let indices = Tensor::from_slice(device, &index, &[1, m])?;
        let mut guarded = Guarded::<T>::new(device, [1, m, cols], cols + unused)?;
        let y = guarded.view_mut()?.select(0, 0)?;
        launch::<K, _>(
            device,
            [m.div_ceil(ROWS), cols.div_ceil(COLS)],
            (&x, indices.view(), y, from as u32),
        )?;
        let (y, outside) = guarded.read()?;
        for (r, found) in y.chunks(cols).enumerate() {
            let of = row(&data, cols, index[r]).unwrap_or_default();
            let right: Vec<T> = (from..from + cols).map(|c| of.get(c).copied().unwrap_or(T::ZERO)).collect();
            assert!(found == right, "row {r} of {m} from {rows} x {cols}, column {from}, {unused} unused");
        }
        assert_eq!(outside, 0, "{m} from {rows} x {cols}: stores outside");
    }
    Ok(())
}

type Greatest = (Global<f32, 2>, Global<f16, 2>, GlobalMut<f16, 2>, u32);

pub fn greatest<K: Instance + SafeKernel<Parameters = Greatest>>(device: &Device) -> Outcome {
    named_by::<K>(device, [64, 128, 128], 0)?;
    named_by::<K>(device, [33, 100, 77], 0)?;
    // The row beside its own is another thread's.
    let stopped = named_by::<K>(&Device::emulator_with_seed(1), [64, 128, 128], 1);
    let error = stopped.err().ok_or("another thread's row is read")?;
    assert!(error.message().is_some_and(|said| said.contains("trap")), "{error:?}");
    Ok(())
}

fn named_by<K: Instance + SafeKernel<Parameters = Greatest>>(
    device: &Device,
    [m, rows, cols]: [usize; 3],
    apart: u32,
) -> Outcome {
    let (s, x) = (normal::<f32>(1, m * COLS), normal::<f16>(2, rows * cols));
    // Names no row behind the last.
    let s: Vec<f32> = s.iter().enumerate().map(|(i, &s)| if i % COLS < rows { s } else { -100.0 }).collect();
    let greatest = |s: &[f32]| (1..COLS).fold(0, |most, col| if s[col] > s[most] { col } else { most });
    let right = s.chunks(COLS).flat_map(|s| &x[greatest(s) * cols..][..cols]);
    let right: Vec<f16> = right.copied().collect();
    let (s, x) =
        (Tensor::from_slice(device, &s, &[m, COLS])?, Tensor::from_slice(device, &x, &[rows, cols])?);
    let mut y = Tensor::filled(device, f16::NAN, &[m, cols])?;
    launch::<K, _>(device, [m.div_ceil(ROWS), 1], (s.view(), x.view(), y.view_mut(), apart))?;
    assert!(y.to_vec()? == right, "{m} of {rows} x {cols}");
    Ok(())
}
