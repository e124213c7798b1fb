//! Results to compare with, in f64.

use rayon::prelude::*;

use crate::Real;

/// A matrix on the host.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a, T> {
    /// The elements, from the first of the matrix on.
    pub data: &'a [T],
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from a row to the next.
    pub row_stride: usize,
    /// Elements from a column to the next.
    pub col_stride: usize,
}

impl<'a, T: Real> Matrix<'a, T> {
    /// A matrix whose rows lie one behind the other.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Self {
        assert_eq!(data.len(), rows * cols, "a {rows} x {cols} matrix");
        Self { data, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// The transpose.
    pub fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    fn at(&self, row: usize, col: usize) -> f32 {
        self.data[row * self.row_stride + col * self.col_stride].to_f32()
    }
}

/// The given rows of `a * b`, one after the other. Products of two elements are exact in f64.
pub fn product<A: Real, B: Real>(a: Matrix<'_, A>, b: Matrix<'_, B>, rows: &[usize]) -> Vec<f64> {
    assert_eq!(a.cols, b.rows, "the inner dimensions of a product");
    /// Columns computed at a time: their sums stay in the L1 cache.
    const BLOCK: usize = 512;
    let (k, n) = (b.rows, b.cols);
    let mut packed = vec![0.0f32; k * n];
    if n > 0 {
        packed.par_chunks_mut(n).enumerate().for_each(|(row, out)| {
            out.iter_mut().enumerate().for_each(|(col, out)| *out = b.at(row, col));
        });
    }
    let mut out = vec![0.0f64; rows.len() * n];
    let blocks = n.div_ceil(BLOCK);
    let sums = (0..rows.len() * blocks).into_par_iter().map(|task| {
        let (row, start) = (rows[task / blocks], task % blocks * BLOCK);
        let end = n.min(start + BLOCK);
        let mut sums = vec![0.0f64; end - start];
        for inner in 0..k {
            let a = f64::from(a.at(row, inner));
            let line = &packed[inner * n + start..inner * n + end];
            for (sum, &b) in sums.iter_mut().zip(line) {
                *sum += a * f64::from(b);
            }
        }
        sums
    });
    let sums: Vec<_> = sums.collect();
    let mut rest = out.as_mut_slice();
    for part in sums {
        let (head, tail) = rest.split_at_mut(part.len());
        head.copy_from_slice(&part);
        rest = tail;
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
    assert_eq!(out.len(), reference.len(), "as many results as the reference has");
    let squares = out.par_iter().zip(reference).map(|(&x, &r)| ((f64::from(x.to_f32()) - r).powi(2), r * r));
    let (distance, length) = squares.reduce(|| (0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
    if distance == 0.0 { 0.0 } else { (distance / length).sqrt() }
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
        let (a, b) = (Matrix::row_major(&a, k, m).t(), Matrix::row_major(&b, n, k).t());
        let rows = [3, 0];
        let out = product(a, b, &rows);
        assert_eq!(out.len(), 2 * n);
        for (i, &row) in rows.iter().enumerate() {
            for col in 0..n {
                let sum: f64 = (0..k).map(|x| f64::from(a.at(row, x)) * f64::from(b.at(x, col))).sum();
                assert!((out[i * n + col] - sum).abs() < 1e-12);
            }
        }
        assert_eq!(product(a, b, &[]), []);
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
