//! The gradients of the causal convolution.

use tilewright_device::arch::special::same_number;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, Global, GlobalMut, Program, RowMajor, Threads, block_x, block_y,
    block_z, copy, grid_y,
};

use super::gate::slope;
use crate::sequences::{Sequence, Sequences};

/// Tokens of a warp.
pub(crate) const TOKENS: usize = 128;
/// `EACH` neighbouring channels to a lane, its own in all rows: a warp has 32 `EACH` channels, of as many tokens at a time as a filter has taps.
pub(crate) type Lanes<const EACH: usize> = Threads<1, 32, EACH>;
type Rows<T, const M: usize, const N: usize, const EACH: usize> = Fragment<T, M, N, Lanes<EACH>>;

/// The gradients of [`causal_conv1d`](fn@crate::causal_conv1d) by x, by what was before it, and each tile's part of those by the weights and the bias.
///
/// With ds\[t\] = dy\[t\] act'(s\[t\]) of the sums s, dx\[t\] = Σ weight\[width - 1 - k\] ds\[t + k\] and d weight\[width - 1 - k\] = Σ ds\[t\] x\[t - k\] over 0 <= k < width. `d_after` is the
/// gradient by the last inputs, added to theirs; `d_before` that by the inputs before. `lines` \[width + 1, sequences · tiles, channels\]: of weights, of the bias. What has no rows is not there. A CTA
/// walks over `N` channels of its tokens from the end, `TAPS` at a time, and over as many behind them; those in front are on their way meanwhile.
#[kernel(program = P, min_ctas = if TAPS == 4 { 12 } else { 8 })]
pub fn causal_conv1d_gradient<P: Program, T: Element, const TAPS: usize, const N: usize, const EACH: usize>(
    x: Global<T, 3, RowMajor, 0>,
    weight: Global<T, 2, RowMajor, 0>,
    bias: Global<T, 2, RowMajor, 0>,
    before: Global<T, 3, RowMajor, 0>,
    dy: Global<T, 3, RowMajor, 0>,
    d_after: Global<T, 3, RowMajor, 0>,
    mut dx: GlobalMut<T, 3, RowMajor, 0>,
    mut d_before: GlobalMut<T, 3, RowMajor, 0>,
    mut lines: GlobalMut<f32, 3, RowMajor, 0>,
    sequences: Sequences,
    silu: u32,
) where
    Lanes<EACH>: FragmentLayout<TAPS, N> + FragmentLayout<1, N>,
{
    let (c, number) = (block_x(), block_z());
    let Sequence { matrix, first, rows, .. } = sequences.get(number);
    let width = weight.rows();
    let mut taps = [[0.0; EACH]; TAPS];
    let mut k = 0;
    while k < TAPS {
        let weights = Rows::<T, 1, N, EACH>::load(weight.tile([(width - 1).wrapping_sub(k as u32), c]));
        taps[k] = values(&weights)[0];
        k += 1;
    }
    let bias = values(&Rows::<T, 1, N, EACH>::load(bias.tile([0, c])))[0];
    // Of the tile in front of the first token: the numbers of rows that are not there have wrapped. Hidden, so that no loop holds addresses of what is
    // rarely read.
    let of_before = |row: usize| same_number(width - 1).wrapping_add(row as u32).wrapping_sub(TAPS as u32);
    let tokens = |i: i32| {
        if i >= 0 {
            return Rows::<T, TAPS, N, EACH>::load(
                x.tile([matrix, i.cast_unsigned(), c]).of_rows(first, rows),
            );
        }
        let (mut tokens, mut row) = ([[0.0; EACH]; TAPS], 0);
        while row < TAPS {
            tokens[row] = values(&Rows::<T, 1, N, EACH>::load(before.tile([number, of_before(row), c])))[0];
            row += 1;
        }
        fragment(&tokens).cast::<T>()
    };
    let gradients = |i: i32| {
        // None in front of the first.
        let count = if i >= 0 { rows } else { 0 };
        Rows::<T, TAPS, N, EACH>::load(dy.tile([matrix, i.max(0).cast_unsigned(), c]).of_rows(first, count))
    };

    let tiles = (TOKENS / TAPS) as u32;
    let start = (block_y() * tiles) as i32;
    let end = rows.div_ceil(TAPS as u32).min((block_y() + 1) * tiles) as i32;
    let (mut by_taps, mut by_bias) = ([[0.0; EACH]; TAPS], [0.0; EACH]);
    let (mut i, mut later) = (end, [[0.0; EACH]; TAPS]);
    let (mut x, mut next) = (values(&tokens(i)), tokens(i - 1));
    while i >= if start == 0 { -1 } else { start } {
        let (after_next, gradients) = (tokens(i - 2).anew(), gradients(i).anew());
        let (past, mut ds) = (values(&next), [[1.0; EACH]; TAPS]);
        if silu != 0 && i >= 0 {
            each::<TAPS, EACH>(|row, e| {
                let mut sum = bias[e];
                each::<TAPS, 1>(|k, _| sum += taps[k][e] * before_row([&past, &x], row, k)[e]);
                ds[row][e] = slope(sum);
            });
        }
        let gradients = values(&gradients);
        each::<TAPS, EACH>(|row, e| ds[row][e] *= gradients[row][e]);
        if i >= 0 && i < end {
            each::<TAPS, EACH>(|row, e| {
                by_bias[e] += ds[row][e];
                each::<TAPS, 1>(|k, _| by_taps[k][e] += ds[row][e] * before_row([&past, &x], row, k)[e]);
            });
        }
        if i < end {
            let mut all = [[0.0; EACH]; TAPS];
            // The rows of both that follow.
            each::<TAPS, EACH>(|row, e| {
                each::<TAPS, 1>(|k, _| {
                    all[row][e] += taps[k][e] * before_row([&ds, &later], row + k, TAPS)[e]
                });
            });
            // The last inputs, of which the first is in this row.
            let after = rows as i32 + 1 - width as i32 - i * TAPS as i32;
            if after < TAPS as i32 {
                each::<TAPS, 1>(|row, _| {
                    let place = [number, (row as i32 - after).cast_unsigned(), c];
                    let more = values(&Rows::<T, 1, N, EACH>::load(d_after.tile(place)))[0];
                    each::<EACH, 1>(|e, _| all[row][e] += more[e]);
                });
            }
            if i >= 0 {
                let to = dx.tile([matrix, i.cast_unsigned(), c]).of_rows(first, rows);
                copy(fragment::<TAPS, N, EACH>(&all).cast::<T>(), to);
            } else {
                each::<TAPS, 1>(|row, _| {
                    let to = d_before.tile([number, of_before(row), c]);
                    copy(fragment::<1, N, EACH>(&[all[row]]).cast::<T>(), to);
                });
            }
        }
        (x, next, later) = (past, after_next, ds);
        i -= 1;
    }
    let line = number * grid_y() + block_y();
    each::<TAPS, 1>(|k, _| {
        if (k as u32) < width {
            copy(fragment::<1, N, EACH>(&[by_taps[k]]), lines.tile([width - 1 - k as u32, line, c]));
        }
    });
    copy(fragment::<1, N, EACH>(&[by_bias]), lines.tile([width, line, c]));
}

/// Calls `f` for each row and column.
#[inline(always)]
fn each<const M: usize, const N: usize>(mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i < M * N {
        f(i / N, i % N);
        i += 1;
    }
}

/// What lies `k` rows before a row of the second of two tiles that follow each other.
#[inline(always)]
fn before_row<const M: usize, const EACH: usize>(
    [first, second]: [&[[f32; EACH]; M]; 2],
    row: usize,
    k: usize,
) -> &[f32; EACH] {
    if k <= row { &second[row - k] } else { &first[M + row - k] }
}

/// What a lane has of rows.
#[inline(always)]
fn values<T: Element, const M: usize, const N: usize, const EACH: usize>(
    of: &Rows<T, M, N, EACH>,
) -> [[f32; EACH]; M]
where
    Lanes<EACH>: FragmentLayout<M, N>,
{
    let (of, mut values) = (of.to_f32(), [[0.0; EACH]; M]);
    each::<M, EACH>(|row, e| values[row][e] = of.regs.get(row * EACH + e));
    values
}

/// Rows of which a lane has these.
#[inline(always)]
fn fragment<const M: usize, const N: usize, const EACH: usize>(
    values: &[[f32; EACH]; M],
) -> Rows<f32, M, N, EACH>
where
    Lanes<EACH>: FragmentLayout<M, N>,
{
    let mut rows = Rows::<f32, M, N, EACH>::zero();
    each::<M, EACH>(|row, e| rows.regs.set(row * EACH + e, values[row][e]));
    rows
}
