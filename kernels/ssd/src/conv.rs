//! The depthwise causal convolution in front of the scan.

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Activation, Element, Fragment, FragmentLayout, Global, GlobalMut, Program, RowMajor, Threads, block_x,
    block_y, block_z, copy,
};

use crate::sequences::{Sequence, Sequences};

/// Channels of a warp: 8 neighbours a lane.
pub(crate) const CHANNELS: usize = 256;
/// A lane's channels are its own, in all rows.
pub(crate) type Lanes = Threads<1, 32, 8>;
/// One token's channels.
type Token<T> = Fragment<T, 1, CHANNELS, Lanes>;

/// y\[t\] = act(bias + Σ weight\[width - 1 - k\] x\[t - k\]) over 0 <= k < width, channel by channel; what precedes a sequence is `before`.
///
/// x and y \[matrices, rows, channels\], weight \[width, channels\] with a width of at most `TAPS`, bias \[1, channels\]; `before` and `after`
/// \[sequences, width - 1, channels\] are the inputs before the first token and the last ones, the latest last. They may be the same memory.
/// The activation is SiLU where `silu` is not 0. A bias, `before` and `after` without rows are not there. CTA (channels, rows, sequence) takes
/// `TILES` tiles of `M` tokens, one after the other.
#[kernel(program = P, min_ctas = if TAPS == 4 { 12 } else { 8 })]
pub fn causal_conv1d<P: Program, T: Element, const M: usize, const TAPS: usize, const TILES: usize>(
    x: Global<T, 3, RowMajor, 0>,
    weight: Global<T, 2, RowMajor, 0>,
    bias: Global<T, 2, RowMajor, 0>,
    before: Global<T, 3, RowMajor, 0>,
    mut y: GlobalMut<T, 3, RowMajor, 0>,
    mut after: GlobalMut<T, 3, RowMajor, 0>,
    sequences: Sequences,
    silu: u32,
) where
    Lanes: FragmentLayout<M, CHANNELS>,
{
    let (c, number) = (block_x(), block_z());
    let Sequence { matrix, first, rows, .. } = sequences.get(number);
    let (start, width) = (block_y() * (M * TILES) as u32, weight.rows());
    // Rows that are not there are zeros: also those before the first, whose numbers have wrapped.
    let at = |row: u32| {
        if row as i32 >= 0 {
            Token::<T>::load(x.tile([matrix, row, c]).of_rows(first, rows))
        } else {
            Token::load(before.tile([number, (width - 1).wrapping_add(row), c]))
        }
    };
    let (mut taps, mut past) = ([Token::zero(); TAPS], [Token::zero(); TAPS]);
    let mut k = 0;
    while k < TAPS {
        taps[k] = Token::<T>::load(weight.tile([(width - 1).wrapping_sub(k as u32), c])).to_f32();
        if k + 1 < TAPS && (start < rows) {
            past[k] = at(start.wrapping_sub(k as u32 + 1)).to_f32();
        }
        k += 1;
    }
    let bias = Token::<T>::load(bias.tile([0, c])).to_f32();
    let mut i = start / M as u32;
    let end = rows.min(start + (M * TILES) as u32);
    while i * (M as u32) < end {
        let tile = Fragment::<T, M, CHANNELS, Lanes>::load(x.tile([matrix, i, c]).of_rows(first, rows));
        let sums = convolved(&tile.to_f32(), &mut past, &taps, &bias);
        let sums = sums.map(|y| if silu != 0 { Activation::Silu.apply(y) } else { y });
        copy(sums.cast::<T>(), y.tile([matrix, i, c]).of_rows(first, rows));
        i += 1;
    }
    // The oldest first: where `after` is `before`, what is read lies behind what has been written.
    if block_y() == 0 && after.rows() > 0 {
        let mut row = 0;
        while row + 1 < width {
            copy(at((rows + row).wrapping_sub(width - 1)), after.tile([number, row, c]));
            row += 1;
        }
    }
}

/// The sums of a tile's tokens. `past` has the tokens before it, the latest first, and then those before its end.
#[inline(always)]
fn convolved<const M: usize, const TAPS: usize>(
    x: &Fragment<f32, M, CHANNELS, Lanes>,
    past: &mut [Token<f32>; TAPS],
    taps: &[Token<f32>; TAPS],
    bias: &Token<f32>,
) -> Fragment<f32, M, CHANNELS, Lanes>
where
    Lanes: FragmentLayout<M, CHANNELS>,
{
    let each = CHANNELS / 32;
    let mut sums = Fragment::<f32, M, CHANNELS, Lanes>::zero();
    let mut i = 0;
    while i < M * each {
        let (row, channel) = (i / each, i % each);
        let mut sum = bias.regs.get(channel);
        let mut k = 0;
        while k < TAPS {
            let x = if k <= row { x.regs.get(i - k * each) } else { past[k - row - 1].regs.get(channel) };
            sum += taps[k].regs.get(channel) * x;
            k += 1;
        }
        sums.regs.set(i, sum);
        i += 1;
    }
    let old = *past;
    let mut k = 0;
    while k < TAPS {
        let mut channel = 0;
        while channel < each {
            let x =
                if k < M { x.regs.get((M - 1 - k) * each + channel) } else { old[k - M].regs.get(channel) };
            past[k].regs.set(channel, x);
            channel += 1;
        }
        k += 1;
    }
    sums
}
