//! Atomic additions, arithmetic of packed pairs, several accumulators; what a barrier orders.

use tilewright::{Device, Instance, SafeKernel, Tensor, bf16, f16};
use tilewright_device::layout::Element;
use tilewright_device::tile::{Global, GlobalMut};
use tilewright_support::Real;
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;
use tilewright_tile_tests_device::rows::Summed;
use tilewright_tile_tests_device::sums::{
    self, COLS, LINES, ROWS, ROWS_OF_FOURS, THREADS, WIDE, sums_of_fours, turned_round,
};

use crate::launch;

/// Rows, columns and unused elements behind each line: odd lines, whose pairs are not aligned, too.
const SHAPES: [[usize; 3]; 4] = [[96, 128, 0], [70, 65, 0], [33, 63, 2], [1, 1, 0]];

/// An element type with the number that it is, and the one that a number is rounded to once.
pub trait Exact: Real + Element {
    fn of(x: f64) -> Self;
    fn number(self) -> f64;
}

macro_rules! exact {
    ($($t:ty)*) => { $(
        impl Exact for $t {
            fn of(x: f64) -> Self {
                <$t>::from_f64(x)
            }
            fn number(self) -> f64 {
                self.into()
            }
        }
    )* };
}
exact!(f16 bf16);

impl Exact for f32 {
    fn of(x: f64) -> Self {
        x as f32
    }
    fn number(self) -> f64 {
        self.into()
    }
}

type Added<T> = (Global<T, 2>, GlobalMut<T, 2>, GlobalMut<T, 2>);

/// Sums of integers, which are exact in every type.
pub fn added<K, T: Exact>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = Added<T>>,
{
    for [rows, cols, unused] in SHAPES {
        let number = |i: usize| (i * 13 % 7) as f64 - 3.0;
        let x: Vec<T> = (0..rows * cols).map(|i| T::of(number(i))).collect();
        let x = Tensor::from_slice(device, &x, &[rows, cols])?;
        let (below, lines) = (rows.min(ROWS), LINES as usize);
        // What is there before counts too.
        let mut sums = Guarded::<T>::new(device, [1, below, cols], cols + unused)?;
        sums.write(&vec![T::of(5.0); below * cols])?;
        let mut by_row = Guarded::<T>::new(device, [1, lines, cols], cols + unused)?;
        by_row.write(&vec![T::of(-2.0); lines * cols])?;
        let y = (sums.view_mut()?.select(0, 0)?, by_row.view_mut()?.select(0, 0)?);
        launch::<K, _>(device, [rows.div_ceil(ROWS), cols.div_ceil(COLS)], (x.view(), y.0, y.1))?;
        let (sums, outside) = sums.read()?;
        for (i, &found) in sums.iter().enumerate() {
            let (r, c) = (i / cols, i % cols);
            let right = 5.0 + (r..rows).step_by(ROWS).map(|row| number(row * cols + c)).sum::<f64>();
            assert_eq!(found.number(), right, "({r}, {c}) of {rows} x {cols}, {unused} unused");
        }
        assert_eq!(outside, 0, "{rows} x {cols}, {unused} unused: outside");
        let (by_row, outside) = by_row.read()?;
        for (i, &found) in by_row.iter().enumerate() {
            let (r, c) = (i / cols, i % cols);
            let all = (r..rows).step_by(lines).map(|row| number(row * cols + c)).sum::<f64>();
            let right = if r + 1 < lines { all - 2.0 } else { -2.0 };
            assert_eq!(found.number(), right, "({r}, {c}) of {rows} x {cols} by rows, {unused} unused");
        }
        assert_eq!(outside, 0, "{rows} x {cols} by rows, {unused} unused: outside");
    }
    Ok(())
}

/// Sums of integers that are added, and read, in the order of registers.
pub fn added_in_fours(device: &Device) -> Outcome {
    let stream = device.default_stream();
    for [rows, cols] in [[384, 128], [300, 100], [1, 1]] {
        let number = |i: usize| (i * 13 % 7) as f32 - 3.0;
        let x: Vec<f32> = (0..rows * cols).map(number).collect();
        let x = Tensor::from_slice(device, &x, &[rows, cols])?;
        let (below, across) = (rows.min(ROWS_OF_FOURS), cols.div_ceil(COLS));
        let mut sums = Tensor::filled(device, 5.0f32, &[across, ROWS_OF_FOURS * COLS])?;
        let grid = [rows.div_ceil(ROWS_OF_FOURS), across];
        launch::<sums::added_in_fours, _>(device, grid, (x.view(), sums.view_mut()))?;
        let mut y = Tensor::filled(device, f32::NAN, &[below, cols])?;
        launch::<sums_of_fours, _>(device, [across, 1], (sums.view(), y.view_mut()))?;
        for (i, &found) in y.to_vec_on(&stream)?.iter().enumerate() {
            let (r, c) = (i / cols, i % cols);
            let right = 5.0 + (r..rows).step_by(ROWS_OF_FOURS).map(|row| number(row * cols + c)).sum::<f32>();
            assert_eq!(found, right, "({r}, {c}) of {rows} x {cols}");
        }
    }
    Ok(())
}

/// Products of integers, of a left operand that goes through one of two tiles in turn.
pub fn through_a_pair(device: &Device) -> Outcome {
    for depth in [128, 640, 200] {
        let number = |i: usize, by: usize| (i * by % 7) as f64 - 3.0;
        let matrix = |cols: usize, by: usize| {
            let data: Vec<f16> = (0..depth * cols).map(|i| f16::of(number(i, by))).collect();
            Tensor::from_slice(device, &data, &[depth, cols])
        };
        let (a, b) = (matrix(64, 13)?, matrix(128, 5)?);
        let mut c = Tensor::filled(device, f32::NAN, &[64, 128])?;
        launch::<sums::through_a_pair, _>(device, [1, 1], (a.view(), b.view(), c.view_mut()))?;
        for (i, &found) in c.to_vec()?.iter().enumerate() {
            let (row, col) = (i / 128, i % 128);
            let right: f64 = (0..depth).map(|k| number(k * 64 + row, 13) * number(k * 128 + col, 5)).sum();
            assert_eq!(found.number(), right, "({row}, {col}) of depth {depth}");
        }
    }
    Ok(())
}

pub fn added_integers<K: Instance + SafeKernel<Parameters = Added<i32>>>(device: &Device) -> Outcome {
    for [rows, cols, _] in SHAPES {
        let x: Vec<i32> = (0..rows * cols).map(|i| i as i32 * 0x1000_0001).collect();
        let (below, lines) = (rows.min(ROWS), LINES as usize);
        let mut y = Tensor::filled(device, i32::MAX, &[below, cols])?;
        let mut by_row = Tensor::filled(device, 1, &[lines, cols])?;
        let from = Tensor::from_slice(device, &x, &[rows, cols])?;
        let grid = [rows.div_ceil(ROWS), cols.div_ceil(COLS)];
        launch::<K, _>(device, grid, (from.view(), y.view_mut(), by_row.view_mut()))?;
        let sum = |first: i32, r: usize, step: usize, c: usize| {
            (r..rows).step_by(step).fold(first, |sum, row| sum.wrapping_add(x[row * cols + c]))
        };
        let of = |i: usize| (i / cols, i % cols);
        let right = (0..below * cols).map(|i| sum(i32::MAX, of(i).0, ROWS, of(i).1));
        assert!(y.to_vec()?.into_iter().eq(right), "{rows} x {cols}");
        let right = (0..lines * cols).map(|i| match of(i) {
            (r, _) if r + 1 == lines => 1,
            (r, c) => sum(1, r, lines, c),
        });
        assert!(by_row.to_vec()?.into_iter().eq(right), "{rows} x {cols} by rows");
    }
    Ok(())
}

/// Sums and products of numbers of which f64 holds each result exactly: rounded once.
pub fn arithmetic<K, T: Exact, const TILE: usize>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<T, 2>, Global<T, 2>, GlobalMut<T, 2>)>,
{
    let [rows, cols] = [32, 3 * TILE + 1];
    let (mut a, mut b) = (normal::<T>(1, rows * cols), normal::<T>(2, rows * cols));
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0].map(T::of);
    for (i, &x) in special.iter().enumerate() {
        for (j, &y) in special.iter().enumerate() {
            (a[i * 6 + j], b[i * 6 + j]) = (x, y);
        }
    }
    let shape = [rows, cols];
    let (from, by) = (Tensor::from_slice(device, &a, &shape)?, Tensor::from_slice(device, &b, &shape)?);
    let mut y = Tensor::filled(device, T::of(f64::NAN), &[5 * rows, cols])?;
    launch::<K, _>(device, [cols.div_ceil(TILE), 1], (from.view(), by.view(), y.view_mut()))?;
    let y = y.to_vec()?;
    for i in 0..rows * cols {
        let (a, b) = (a[i].number(), b[i].number());
        for (k, right) in [a + b, a - b, a * b, a * b + a, 0.75 * a].into_iter().enumerate() {
            let (found, right) = (y[k * rows * cols + i].number(), T::of(right).number());
            let same = found == right && found.is_sign_negative() == right.is_sign_negative();
            assert!(same || found.is_nan() && right.is_nan(), "{k}: {a}, {b}: {found} in place of {right}");
        }
    }
    Ok(())
}

/// C = A B by four accumulators.
pub fn wide_products<K>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<f16, 2>, Global<f16, 2>, GlobalMut<f32, 2>)>,
{
    for [m, k] in [[64, 64], [70, 200], [1, 520]] {
        let (a, b) = (normal::<f16>(1, m * k), normal::<f16>(2, k * WIDE));
        let every: Vec<usize> = (0..m).collect();
        let expected = product(&Matrix::new(&a, m, k), &Matrix::new(&b, k, WIDE), &every);
        let (a, b) = (Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &b, &[k, WIDE])?);
        let mut c = Tensor::filled(device, f32::NAN, &[m, WIDE])?;
        launch::<K, _>(device, [m.div_ceil(64), 1], (a.view(), b.view(), c.view_mut()))?;
        let error = relative_error(&c.to_vec()?, &expected);
        assert!(error < 1e-5, "{m} x {k}: relative error {error:e}");
    }
    Ok(())
}

/// More tiles than a ring has stages, of which one is as good as several.
pub fn summed<K>(device: &Device) -> Outcome
where
    K: Instance + SafeKernel<Parameters = (Global<f16, 2>, GlobalMut<f32, 2>)>,
{
    for [rows, tiles] in [[64, 1], [128, 2], [64, 7]] {
        let data: Vec<i32> = (0..rows * tiles * 64).map(|i| (i * 7 % 31) as i32 - 15).collect();
        let values: Vec<f16> = data.iter().map(|&x| f16::from_f32(x as f32)).collect();
        let x = Tensor::from_slice(device, &values, &[rows, tiles * 64])?;
        let mut y = Tensor::filled(device, f32::NAN, &[rows, 64])?;
        launch::<K, _>(device, [rows / 64, 1], (x.view(), y.view_mut()))?;
        let sum = |row: &[i32], col: usize| row.iter().skip(col).step_by(64).sum::<i32>() as f32;
        let sums = data.chunks(tiles * 64).flat_map(|row| (0..64).map(move |col| sum(row, col)));
        assert!(y.to_vec()?.into_iter().eq(sums), "{rows} rows, {tiles} tiles");
    }
    Ok(())
}

/// What other threads of the CTA wrote is read behind a barrier.
pub fn behind_a_barrier(device: &Device) -> Outcome {
    let (ctas, threads) = (3, THREADS as usize);
    let data: Vec<i32> = (0..ctas * threads).map(|i| i as i32).collect();
    let shape = [ctas, threads];
    let x = Tensor::from_slice(device, &data, &shape)?;
    let (mut y, mut z) = (Tensor::filled(device, -1, &shape)?, Tensor::filled(device, -1, &shape)?);
    launch::<turned_round, _>(device, [ctas, 1], (x.view(), y.view_mut(), z.view_mut()))?;
    let right: Vec<i32> = data.chunks(threads).flat_map(|row| row.iter().rev()).copied().collect();
    assert!(y.to_vec()? == data && z.to_vec()? == right);
    Ok(())
}

/// Sums and greatest elements of columns, of which two CTAs have every other tile.
pub fn of_columns<K>(device: &Device) -> Outcome
where
    K: Instance
        + Summed
        + SafeKernel<Parameters = (Global<i32, 2>, GlobalMut<i32, 2>, GlobalMut<i32, 2>, GlobalMut<i32, 2>)>,
{
    let [tile_rows, tile_cols] = K::TILE;
    for [rows, cols] in [[3 * tile_rows + 1, tile_cols], [tile_rows - 1, tile_cols + 3], [1, 1]] {
        let data: Vec<i32> = (0..rows * cols).map(|i| (i * 7919 % 10007) as i32).collect();
        let x = Tensor::from_slice(device, &data, &[rows, cols])?;
        let mut y = Tensor::filled(device, -1, &[2, cols])?;
        let mut most = Tensor::filled(device, 0, &[2, cols])?;
        // The last row of a tile has none. Of three columns the first is copied to and the second added to.
        let mut numbers = Tensor::filled(device, 0, &[tile_rows - 1, 3])?;
        let grid = [cols.div_ceil(tile_cols), 2];
        let arguments = (x.view(), y.view_mut(), most.view_mut(), numbers.view_mut());
        launch::<K, _>(device, grid, arguments)?;
        let ctas = grid.iter().product::<usize>() as i32;
        let right = (1..tile_rows as i32).flat_map(|row| [-row, row * ctas, 0]);
        assert!(numbers.to_vec()?.into_iter().eq(right), "numbers of {tile_rows} rows, {ctas} times");
        let (y, most) = (y.to_vec()?, most.to_vec()?);
        for c in 0..cols {
            let of = |cta: usize| {
                let own = move |r: &usize| r / tile_rows % 2 == cta;
                (0..rows).filter(own).map(|r| data[r * cols + c]).collect::<Vec<_>>()
            };
            let right = [0, 1].map(|cta| of(cta).iter().sum::<i32>());
            assert_eq!([y[c], y[cols + c]], right, "column {c} of {rows} x {cols}");
            let right: i32 = [0, 1].iter().map(|&cta| of(cta).into_iter().max().unwrap_or(0)).sum();
            assert_eq!([most[c], most[cols + c]], [right; 2], "greatest of column {c} of {rows} x {cols}");
        }
    }
    Ok(())
}
