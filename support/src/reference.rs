//! Results to compare with, in f64.

use rayon::prelude::*;
use tilewright::quant::QuantizedWeights;

use crate::Real;

/// A matrix on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    /// Row-major.
    data: Vec<f32>,
}

impl Matrix {
    /// A matrix whose rows lie one behind the other.
    pub fn new<T: Real>(data: &[T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols, 1)
    }

    /// A matrix whose elements are `row_stride` apart from row to row, and `col_stride` from column to column.
    pub fn strided<T: Real>(
        data: &[T],
        rows: usize,
        cols: usize,
        row_stride: usize,
        col_stride: usize,
    ) -> Self {
        Self { rows, cols, data: gather(&T::widen(data), rows, cols, row_stride, col_stride) }
    }

    /// The transpose.
    pub fn t(&self) -> Self {
        let data = gather(&self.data, self.cols, self.rows, 1, self.cols);
        Self { rows: self.cols, cols: self.rows, data }
    }
}

fn gather(data: &[f32], rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Vec<f32> {
    let mut out = vec![0.0; rows * cols];
    out.par_chunks_mut(cols.max(1)).enumerate().for_each(|(row, out)| {
        for (col, out) in out.iter_mut().enumerate() {
            *out = data[row * row_stride + col * col_stride];
        }
    });
    out
}

/// The given rows of `a * b`, one after the other. Products of two elements are exact in f64.
pub fn product(a: &Matrix, b: &Matrix, rows: &[usize]) -> Vec<f64> {
    assert_eq!(a.cols, b.rows, "the inner dimensions of a product");
    /// Columns computed at a time: their sums stay in the L1 cache.
    const BLOCK: usize = 512;
    let (k, n) = (b.rows, b.cols);
    let blocks = n.div_ceil(BLOCK);
    let sums = (0..rows.len() * blocks).into_par_iter().flat_map_iter(|task| {
        let (row, start) = (rows[task / blocks], task % blocks * BLOCK);
        let end = n.min(start + BLOCK);
        let mut sums = vec![0.0f64; end - start];
        for (inner, &a) in a.data[row * k..(row + 1) * k].iter().enumerate() {
            let line = &b.data[inner * n + start..inner * n + end];
            for (sum, &b) in sums.iter_mut().zip(line) {
                *sum += f64::from(a) * f64::from(b);
            }
        }
        sums
    });
    sums.collect()
}

/// The given rows of `a * wᵀ`, one after the other, for the weights \[N, K\] that the codes stand for, which f32 need not hold.
pub fn dequantized_product(a: &Matrix, w: &QuantizedWeights, rows: &[usize]) -> Vec<f64> {
    let [n, k] = w.shape();
    assert_eq!(a.cols, k, "the inner dimensions of a product");
    let mut out = vec![0.0; rows.len() * n];
    let columns = (0..n).into_par_iter().map(|col| {
        let w = w.dequantize_row(col);
        let line = |row: usize| a.data[row * k..(row + 1) * k].iter();
        let sum = |&row: &usize| line(row).zip(&w).map(|(&a, &w)| f64::from(a) * w).sum::<f64>();
        rows.iter().map(sum).collect::<Vec<_>>()
    });
    for (col, sums) in columns.collect::<Vec<_>>().into_iter().enumerate() {
        for (row, sum) in sums.into_iter().enumerate() {
            out[row * n + col] = sum;
        }
    }
    out
}

/// At most `most` of `count` rows: all, or the first, the last, those around multiples of 64, and others between.
pub fn sample(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    let edges = [0, 1, 63, 64, 127, 128, 191, 192, 255, 256].into_iter().filter(|&row| row < count);
    let mut rows: Vec<_> =
        edges.chain([count - 1, count / 2, (count - count % 64).saturating_sub(1)]).take(most).collect();
    // A step that is coprime to powers of two reaches every place in a tile.
    let step = (count / most) | 1;
    rows.extend((0..most - rows.len()).map(|i| (i + 1) * step % count));
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// The rows of a row-major matrix.
pub fn pick<T: Copy>(data: &[T], cols: usize, rows: &[usize]) -> Vec<T> {
    rows.iter().flat_map(|&row| &data[row * cols..(row + 1) * cols]).copied().collect()
}

/// The distance of `out` from `reference`, relative to the length of the reference: 0 if both are 0, NaN if anything is.
pub fn relative_error<T: Real>(out: &[T], reference: &[f64]) -> f64 {
    distance(&T::widen(out), reference)
}

fn distance(out: &[f32], reference: &[f64]) -> f64 {
    assert_eq!(out.len(), reference.len(), "as many results as the reference has");
    let squares = out.par_iter().zip(reference).map(|(&x, &r)| ((f64::from(x) - r).powi(2), r * r));
    let (distance, length) = squares.reduce(|| (0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    if distance == 0.0 { 0.0 } else { (distance / length).sqrt() }
}

/// The error function by its series of positive terms (DLMF 7.6.2), which loses nothing to cancellation.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-17 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * std::f64::consts::FRAC_2_SQRT_PI
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::random::normal;

    #[test]
    fn products_agree_with_the_definition() {
        let (m, n, k) = (5, 700, 9);
        let (a, b) = (normal::<f16>(1, m * k), normal::<f32>(2, n * k));
        let at = |row: usize, col: usize| {
            (0..k).map(|x| a[x * m + row].to_f64() * f64::from(b[col * k + x])).sum()
        };
        let (left, right) = (Matrix::strided(&a, m, k, 1, m), Matrix::new(&b, n, k).t());
        assert_eq!(left, Matrix::new(&a, k, m).t());
        let rows = [3, 0];
        let out = product(&left, &right, &rows);
        assert_eq!(out.len(), 2 * n);
        for (i, &row) in rows.iter().enumerate() {
            for col in 0..n {
                let expected: f64 = at(row, col);
                assert!((out[i * n + col] - expected).abs() < 1e-12);
            }
        }
        assert!(product(&left, &right, &[]).is_empty());
    }

    #[test]
    fn dequantized_products_are_of_the_weights() {
        use tilewright::quant::{Format, Group, HalfType, Scheme, Zeros};
        let (m, n, k) = (4, 5, 70);
        let scheme =
            Scheme { format: Format::I4, group: Group::K32, zeros: Zeros::Packed, scales: HalfType::F16 };
        let (a, w) = (normal::<f16>(1, m * k), normal::<f32>(2, n * k));
        let w = QuantizedWeights::quantize("w", &w, [n, k], scheme).unwrap();
        let wide = w.dequantize();
        // Of few digits: f32 holds them, and the products agree but for the order of the sum.
        let narrow: Vec<f32> = wide.iter().map(|&w| w as f32).collect();
        assert!(wide.iter().zip(&narrow).all(|(&wide, &narrow)| wide == f64::from(narrow)));
        let (a, rows) = (Matrix::new(&a, m, k), [3, 1]);
        let expected = product(&a, &Matrix::new(&narrow, n, k).t(), &rows);
        let found = dequantized_product(&a, &w, &rows);
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-12), "{found:?} {expected:?}");
    }

    #[test]
    fn samples_are_rows_without_repeats() {
        for (count, most) in [(0, 8), (5, 8), (4097, 64), (100, 20), (17, 16), (300, 4)] {
            let rows = sample(count, most);
            assert!(rows.len() <= most && rows.iter().all(|&row| row < count), "{count} {most}: {rows:?}");
            assert!(rows.windows(2).all(|pair| pair[0] < pair[1]));
            assert!(rows.len() * 2 >= most.min(count), "{count} {most}: {rows:?}");
        }
        assert!(sample(4097, 64).contains(&4096));
    }

    #[test]
    fn errors_are_relative_and_see_nans() {
        assert_eq!(relative_error(&[3.0f32, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(relative_error(&[0.0f32], &[0.0]), 0.0);
        assert_eq!(relative_error(&[3.0f32, 5.0], &[3.0, 4.0]), 0.2);
        assert!(relative_error(&[f32::NAN, 4.0], &[3.0, 4.0]).is_nan());
        assert_eq!(pick(&[1, 2, 3, 4, 5, 6], 2, &[2, 0]), [5, 6, 1, 2]);
    }
}
