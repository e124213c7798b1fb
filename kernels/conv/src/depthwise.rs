//! A filter for each channel.

use tilewright_device::abi::{PassedAsIs, Plain};
use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{
    Access, ByElement, Cta, Element, Epilogue, Fragment, Global, GlobalMut, Linear, Patches, RowMajor,
    Shared, Simt, Tap, Threads, block_x, block_y, block_z, copy, grid_x, math,
};

/// Threads of a CTA.
pub const THREADS: usize = 256;
/// Channels of a thread.
pub const RUN: usize = 8;
/// Outputs of a thread, side by side.
pub const STRIP: usize = 4;
/// Channels of a CTA at most.
pub const CHANNELS: usize = 128;
/// Taps that shared memory holds at a time.
const TAPS: usize = 64;

/// Each thread holds rows of its own: row r is of thread r % [`THREADS`].
type Own = Threads<THREADS, 1, RUN>;
/// A run of channels in each thread.
type Run<T> = Fragment<T, THREADS, RUN, Own>;
/// Outputs of a CTA.
const OUTPUTS: usize = THREADS * STRIP;
/// The sums of each output of a thread's strip.
type Sums = Fragment<f32, OUTPUTS, RUN, Own>;

/// How a CTA's threads share out its outputs, and how they go over taps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StripOrder {
    /// Runs of channels side by side.
    pub by_runs: Division,
    /// Strips of a row.
    pub by_strips: Division,
    /// Rows, of all images one after the other.
    pub rows: u32,
    /// Pixels from an output to the next one of its row.
    pub stride: u32,
    /// Division by the rows of all of a filter's slices.
    pub by_lines: Division,
    /// Division by the rows of a slice.
    pub by_rows: Division,
    /// 1 where the taps of a filter's row lie from right to left.
    pub reversed: u32,
}

impl PassedAsIs for StripOrder {}

// SAFETY: numbers to calculate with.
unsafe impl Plain for StripOrder {}

/// y = act(Σ over taps of x w + bias + beta residual), channel by channel (Howard et al. 2017).
///
/// `w` is \[filter rows of all slices, filter columns, channels\], `y` \[images, height, width, 1, channels\], and the terms of the epilogue have
/// `y`'s shape. A thread takes [`STRIP`] outputs side by side and [`RUN`] channels of them, and reads the `N` pixels that `S` taps of a filter's row
/// see of them at once: the taps of `x` are every `S`-th. Outputs are `STRIDE` of the pixels apart; 0 stands for one tap and any stride. CTAs go over
/// rows of outputs, and the grid's other dimensions are columns of strips and blocks of channels.
#[kernel(program = Simt<8>, min_ctas = if N < 10 { 2 } else { 1 })]
pub fn conv_depthwise<A: Access, T: Element, const S: usize, const STRIDE: usize, const N: usize>(
    mut cta: Cta<Simt<8>>,
    x: Patches<T>,
    w: Global<T, 3, RowMajor, 0>,
    mut y: GlobalMut<T, 5, RowMajor, 0>,
    epilogue: Epilogue<ByElement<T, 5>, ByElement<T, 5>>,
    order: StripOrder,
) {
    const {
        assert!(
            S <= TAPS && N == if STRIDE == 0 { STRIP } else { (STRIP - 1) * STRIDE + S },
            "what a strip's taps see"
        )
    };
    let mut w_s = cta.scratch::<Shared<T, TAPS, CHANNELS, Linear>>();
    let [images, height, width, _, _] = y.shape();
    let (rest, run) = order.by_runs.of(thread_x());
    let (row, strip) = order.by_strips.of(rest);
    let column = (block_y() * order.by_strips.divisor + strip) * STRIP as u32;
    let first = block_z() * order.by_runs.divisor * RUN as u32;
    let channel = first + run * RUN as u32;
    let (steps, held) = (x.steps(), (TAPS / S) as u32);
    // Step by step down the filter's rows, then on to the next of its columns.
    let tap = |step: u32| {
        let (column, line) = order.by_lines.of(step);
        let (slice, row) = order.by_rows.of(line);
        Tap { slice, row, column, block: 0 }
    };
    let (mut begin, mut loaded) = (block_x() * order.rows, u32::MAX);
    while begin < images * height {
        let inside = row < order.rows && begin + row < images * height && column < width;
        let m = if inside { (begin + row) * width + column } else { u32::MAX };
        let (seen, mut sums) = (x.strip(m, channel), Sums::zero());
        let (mut k, mut at) = (0, Tap { slice: 0, row: 0, column: 0, block: 0 });
        while k < steps {
            if k % held == 0 && loaded != k {
                let taps = w.gather(|slot| {
                    let (step, s) = (k + slot / S as u32, slot % S as u32);
                    let (tap, s) = (tap(step), if order.reversed > 0 { S as u32 - 1 - s } else { s });
                    let live = step < steps && slot < held * S as u32;
                    live.then_some([x.line(tap), tap.column * S as u32 + s, first])
                });
                w_s.fetch(taps).wait();
                loaded = k;
            }
            let mut pixels = [Run::<T>::splat(T::ZERO); N];
            let mut i = 0;
            while i < N {
                let right = if STRIDE == 0 { i as u32 * order.stride } else { i as u32 };
                copy(seen.pixel::<A>(at, right), &mut pixels[i]);
                i += 1;
            }
            let mut s = 0;
            while s < S {
                let slot = k % held * S as u32 + s as u32;
                let weights = Run::<T>::load(w_s.full().pick(|_| [slot, run * RUN as u32])).to_f32();
                let mut p = 0;
                while p < STRIP {
                    let pixel = pixels[if STRIDE == 0 { p } else { p * STRIDE + s }].to_f32();
                    add(&mut sums, p, &pixel, &weights);
                    p += 1;
                }
                s += 1;
            }
            k += 1;
            at.row += 1;
            if at.row == order.by_rows.divisor {
                (at.row, at.slice) = (0, at.slice + 1);
            }
            if at.slice * order.by_rows.divisor == order.by_lines.divisor {
                (at.slice, at.column) = (0, at.column + 1);
            }
        }
        let place = |row: u32| {
            let [image, line, begin] = x.output(m)?;
            let column = begin + row / THREADS as u32;
            (column < width).then_some([image, line, column, 0, channel])
        };
        copy(epilogue.apply_at::<T, 5, OUTPUTS, RUN, _>(sums, place), y.scatter(place));
        begin += grid_x() * order.rows;
    }
}

/// Adds the products of a pixel and weights to the sums of the `p`-th output.
#[inline(always)]
fn add(sums: &mut Sums, p: usize, pixel: &Run<f32>, weights: &Run<f32>) {
    let mut e = 0;
    while e < RUN {
        let sum = math::fma(pixel.regs.get(e), weights.regs.get(e), sums.regs.get(p * RUN + e));
        sums.regs.set(p * RUN + e, sum);
        e += 1;
    }
}
