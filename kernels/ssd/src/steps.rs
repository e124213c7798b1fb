//! Steps of time to what the scan takes of them.

use core::f32::consts::{LN_2, LOG2_E};

use tilewright_device::kernel;
use tilewright_device::tile::{
    Collective, Cta, Element, Fragment, Global, GlobalMut, Padded, RowMajor, Rows, Scan, Shared, Striped,
    block_x, block_y, block_z, copy, math,
};

use crate::sequences::{Sequence, Sequences};
use crate::tokens::{BLOCK, Value};

/// Heads of a CTA.
pub(crate) const HEADS: usize = 32;

/// A log2-decay that leaves nothing: smaller ones say no more, and their sums would be less exact.
const NOTHING_LEFT: f32 = -256.0;

/// ln(1 + eˣ).
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    let u = math::ex2(x * LOG2_E);
    // Where 1 + u would lose u's digits, the series.
    let small = u * (1.0 - u * (0.5 - u * (1.0 / 3.0 - 0.25 * u)));
    let large = math::lg2(1.0 + u) * LN_2;
    let y = if u < 0.03 { small } else { large };
    if x > 20.0 { x } else { y }
}

/// dt of what was given for it.
#[inline(always)]
pub(crate) fn step_of_time(dt: f32, softplus_first: bool, least: f32, most: f32) -> f32 {
    let dt = if softplus_first { softplus(dt) } else { dt };
    math::min_nan(math::max_nan(dt, least), most)
}

/// For each token of each head: dt = clamp(softplus(dt + bias)), and four values that the scan takes of it: a, the sum of
/// log2-decays of its block up to the token, a - log2(dt), dt 2^(a of the block's end - a), 2^a.
///
/// dt \[matrices, rows, heads\]; `decay` (A) and `bias` \[heads, 1\], `bias` without rows where there is none; softplus where `softplus` is not 0;
/// `steps` \[matrices, blocks, heads, 256\]. Tokens behind a sequence's end have a dt of 0. CTA (block of the sequence, heads, sequence).
#[kernel(program = P)]
pub fn chunk_steps<P: Collective, U: Element>(
    mut cta: Cta<P>,
    dt: Global<U, 3, RowMajor, 0>,
    decay: Global<f32, 2, RowMajor, 0>,
    bias: Global<f32, 2, RowMajor, 0>,
    mut steps: GlobalMut<f32, 4, RowMajor, 0>,
    sequences: Sequences,
    softplus_first: u32,
    least: f32,
    most: f32,
) {
    let (block, heads) = (block_x(), block_y());
    let Sequence { matrix, first, rows, block: first_block } = sequences.get(block_z());
    if block * BLOCK >= rows {
        return;
    }
    let left = rows - block * BLOCK;
    let mut turned_s = cta.scratch::<Shared<f32, 64, HEADS, Padded>>();
    let by_token =
        Fragment::<U, 64, HEADS, Striped<4>>::load(dt.tile([matrix, block, heads]).of_rows(first, rows));
    copy(by_token.to_f32(), &mut turned_s);
    let decay = Rows::load(decay.tile([heads, 0]), 0.0);
    let bias = Rows::load(bias.tile([heads, 0]), 0.0);
    let dt = Fragment::<f32, HEADS, 64, Striped<4>>::load(turned_s.full().t())
        .zip_rows(&bias, |dt, bias| dt + bias)
        .map(|dt| step_of_time(dt, softplus_first != 0, least, most))
        .map_indexed(|_, token, dt| if token < left { dt } else { 0.0 });
    let steps_of_logs = dt.zip_rows(&decay, |dt, decay| math::max_nan(dt * decay * LOG2_E, NOTHING_LEFT));
    let (sums, all) = steps_of_logs.scan_rows(Rows::splat(0.0), Scan::Inclusive, |a, b| a + b);
    let offsets = sums.zip(&dt, |sum, dt| sum - math::lg2(dt));
    let remains = dt.zip(&sums.zip_rows(&all, |sum, all| math::ex2(all - sum)), |dt, left| dt * left);
    let mut store = |value: Value, x| {
        copy::<Fragment<f32, HEADS, 64, Striped<4>>, _>(
            x,
            steps.tile([matrix, first_block + block, heads, value as u32]),
        );
    };
    store(Value::Sum, sums);
    store(Value::Offset, offsets);
    store(Value::Remains, remains);
    store(Value::Left, sums.map(math::ex2));
}
