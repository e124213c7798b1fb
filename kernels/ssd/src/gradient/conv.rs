//! The gradients of the causal convolution.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Element, Fragment, Global, GlobalMut, Program, RowMajor, Threads, block_x, block_y, block_z, copy, grid_y,
};

use super::gate::slope;
use crate::sequences::{Sequence, Sequences};

/// Tokens and channels of a warp: 4 neighbours a lane.
pub(crate) const TILE: [usize; 2] = [128, 128];
/// Tokens whose loads are in flight at a time.
const AHEAD: usize = 4;
type Token<T> = Fragment<T, 1, 128, Threads<1, 32, 4>>;

/// The gradients of [`causal_conv1d`](fn@crate::causal_conv1d) by x, by what was before it, and each tile's part of those by the weights and the bias.
///
/// With ds\[t\] = dy\[t\] act'(s\[t\]) of the sums s, dx\[t\] = Σ weight\[width - 1 - k\] ds\[t + k\] and d weight\[width - 1 - k\] = Σ ds\[t\] x\[t - k\] over 0 <= k < width. `d_after` is the
/// gradient by the last inputs, added to theirs; `d_before` that by the inputs before. `lines` \[width + 1, sequences · tiles, channels\]: of weights, of the bias. What has no rows is not there. A CTA
/// walks over its tokens from the end, and over `width - 1` behind them.
#[kernel(program = P, min_ctas = if TAPS == 4 { 12 } else { 8 })]
pub fn causal_conv1d_gradient<P: Program, T: Element, const TAPS: usize>(
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
) {
    let (c, number) = (block_x(), block_z());
    let Sequence { matrix, first, rows, .. } = sequences.get(number);
    let (width, line) = (weight.rows(), number * grid_y() + block_y());
    let start = block_y() * TILE[0] as u32;
    let end = rows.min(start + TILE[0] as u32);
    let mut taps = [Token::<f32>::zero(); TAPS];
    let mut k = 0;
    while k < TAPS {
        taps[k] = Token::<T>::load(weight.tile([(width - 1).wrapping_sub(k as u32), c])).to_f32();
        k += 1;
    }
    let bias = Token::<T>::load(bias.tile([0, c])).to_f32();
    // Rows that are not there are zeros: also those before the first, whose numbers have wrapped.
    let at = |row: i32| {
        let row = row.cast_unsigned();
        if row as i32 >= 0 {
            Token::<T>::load(x.tile([matrix, row, c]).of_rows(first, rows))
        } else {
            Token::load(before.tile([number, (width - 1).wrapping_add(row), c]))
        }
    };
    // x[t - k] and ds[t + k].
    let (mut past, mut later) = ([Token::<f32>::zero(); TAPS], [Token::<f32>::zero(); TAPS]);
    let (mut by_taps, mut by_bias) = ([Token::<f32>::zero(); TAPS], Token::<f32>::zero());
    let bottom = if start == 0 { 1 - width as i32 } else { start as i32 };
    let mut t = if start < rows || start == 0 { (end + width) as i32 - 2 } else { bottom - 1 };
    let mut k = 0;
    while k + 1 < TAPS {
        past[k + 1] = at(t - k as i32).to_f32();
        k += 1;
    }
    while t >= bottom {
        let (mut xs, mut dys) = ([Token::<T>::splat(T::ZERO); AHEAD], [Token::<T>::splat(T::ZERO); AHEAD]);
        let mut i = 0;
        while i < AHEAD {
            xs[i] = at(t - (TAPS + i) as i32 + 1);
            dys[i] = Token::load(dy.tile([matrix, (t - i as i32).cast_unsigned(), c]).of_rows(first, rows));
            i += 1;
        }
        let mut i = 0;
        while i < AHEAD {
            past = shifted_down(past, xs[i].to_f32());
            let mut ds = dys[i].to_f32();
            if silu != 0 {
                ds = ds.zip(&weighted(bias, &taps, &past), |dy, s| dy * slope(s));
            }
            later = shifted_up(later, if t >= 0 { ds } else { Token::zero() });
            if t < end as i32 && t >= bottom {
                if t >= 0 {
                    by_bias = by_bias.zip(&ds, |a, b| a + b);
                    let mut k = 0;
                    while k < TAPS {
                        by_taps[k] = by_taps[k].zip(&ds.zip(&past[k], |ds, x| ds * x), |a, b| a + b);
                        k += 1;
                    }
                }
                let row = t.cast_unsigned();
                let after = d_after.tile([number, row.wrapping_sub(rows).wrapping_add(width - 1), c]);
                let all = weighted(Token::<T>::load(after).to_f32(), &taps, &later).cast::<T>();
                if t >= 0 {
                    copy(all, dx.tile([matrix, row, c]).of_rows(first, rows));
                } else {
                    copy(all, d_before.tile([number, (width - 1).wrapping_add(row), c]));
                }
            }
            (t, i) = (t - 1, i + 1);
        }
    }
    let mut k = 0;
    while k < TAPS {
        if (k as u32) < width {
            copy(by_taps[k], lines.tile([width - 1 - k as u32, line, c]));
        }
        k += 1;
    }
    copy(by_bias, lines.tile([width, line, c]));
}

/// `sum` and all weights times what they weigh.
#[inline(always)]
fn weighted<const TAPS: usize>(
    mut sum: Token<f32>,
    taps: &[Token<f32>; TAPS],
    x: &[Token<f32>; TAPS],
) -> Token<f32> {
    let mut k = 0;
    while k < TAPS {
        sum = sum.zip(&taps[k].zip(&x[k], |w, x| w * x), |a, b| a + b);
        k += 1;
    }
    sum
}

/// The first is left out, and `last` follows the others.
#[inline(always)]
fn shifted_down<const TAPS: usize>(mut of: [Token<f32>; TAPS], last: Token<f32>) -> [Token<f32>; TAPS] {
    let mut k = 0;
    while k + 1 < TAPS {
        of[k] = of[k + 1];
        k += 1;
    }
    of[TAPS - 1] = last;
    of
}

/// The last is left out, and `first` precedes the others.
#[inline(always)]
fn shifted_up<const TAPS: usize>(mut of: [Token<f32>; TAPS], first: Token<f32>) -> [Token<f32>; TAPS] {
    let mut k = TAPS - 1;
    while k > 0 {
        of[k] = of[k - 1];
        k -= 1;
    }
    of[0] = first;
    of
}
