//! The gradients by dt, A and D, from sums of each block.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::tile::{
    Collective, Cta, Element, Fragment, Global, GlobalMut, Padded, RowMajor, Rows, Scan, Shared, Striped,
    block_x, block_y, block_z, copy, math,
};

use super::places::Sum;
use crate::sequences::{Sequence, Sequences};
use crate::steps::{HEADS, softplus};
use crate::tokens::BLOCK;

type ByHead = Fragment<f32, HEADS, 64, Striped<4>>;

/// The gradient by dt as it was given, and each block's part of those by A, D and dt's bias.
///
/// With G the gradient by the state, the gradient by dt\[t\] A is q\[t\] = <G\[t\], exp(dt\[t\] A) H\[t - 1\]>, and that by dt\[t\] is x\[t\] · G\[t\] B\[t\] + A q\[t\]. q is what comes over
/// the border before t, of four kinds of [`SUMS`](super::SUMS), each of them positive where x, B, C and dy are: nothing cancels that does not in q.
///
/// dt and `d_dt` \[matrices, rows, heads\]; `decay` (A) and `bias` \[heads, 1\]; `sums` \[matrices, tiles of columns, 5, heads, tokens\]; `lines` \[3, sequences, blocks, heads, 1\]: those by A,
/// D, the bias. dt is made of what was given as in [`chunk_steps`](fn@crate::chunk_steps). CTA (block of the sequence, heads, sequence).
#[kernel(program = P)]
pub fn steps_gradient<P: Collective, U: Element>(
    mut cta: Cta<P>,
    dt: Global<U, 3, RowMajor, 0>,
    decay: Global<f32, 2, RowMajor, 0>,
    bias: Global<f32, 2, RowMajor, 0>,
    sums: Global<f32, 5, RowMajor, 0>,
    mut d_dt: GlobalMut<U, 3, RowMajor, 0>,
    mut lines: GlobalMut<f32, 5, RowMajor, 0>,
    sequences: Sequences,
    softplus_first: u32,
    least: f32,
    most: f32,
) {
    let (block, heads, number) = (block_x(), block_y(), block_z());
    let Sequence { matrix, first, rows, block: first_block } = sequences.get(number);
    let left = rows.saturating_sub(block * BLOCK);
    let mut turned_s = cta.scratch::<Shared<f32, 64, HEADS, Padded>>();
    let mut back_s = cta.scratch::<Shared<f32, HEADS, 64, Padded>>();
    let by_token =
        Fragment::<U, 64, HEADS, Striped<4>>::load(dt.tile([matrix, block, heads]).of_rows(first, rows));
    copy(by_token.to_f32(), &mut turned_s);
    let decay = Rows::load(decay.tile([heads, 0]), 0.0);
    let bias = Rows::load(bias.tile([heads, 0]), 0.0);
    let given = ByHead::load(turned_s.full().t()).zip_rows(&bias, |dt, bias| dt + bias);
    // Of a block that is not there all is zeros.
    let of = |sum: Sum, inside: u32| {
        let (mut all, mut part) = (ByHead::zero(), 0);
        while part < sums.shape()[1] && left > 0 {
            let tile = sums.tile([matrix, part, sum as u32, heads, first_block + block]);
            all = all.zip(&ByHead::load(tile), |a, b| a + b);
            part += 1;
        }
        all.map_indexed(|_, token, x| if token < inside { x } else { 0.0 })
    };
    let total = |x: &ByHead| x.reduce_rows(0.0, |a, b| a + b);
    let whole = total(&of(Sum::Whole, BLOCK));
    let (before, _) = of(Sum::Behind, left).scan_rows(whole, Scan::Exclusive, |a, b| a + b);
    let crossing = of(Sum::Across, left).zip(&before, |a, b| a + b);
    let made = given.map(|dt| if softplus_first != 0 { softplus(dt) } else { dt });
    let cut = made.map(|dt| math::min_nan(math::max_nan(dt, least), most));
    let by_decay =
        crossing.zip(&cut, |q, dt| q * dt).map_indexed(|_, token, x| if token < left { x } else { 0.0 });
    let by_step = of(Sum::Weight, left).zip(&crossing.zip_rows(&decay, |q, a| q * a), |u, q| u + q);
    let by_given = by_step
        .zip(&made, |d, dt| if dt < least || dt > most { 0.0 } else { d })
        .zip(&given, |d, x| if softplus_first != 0 { d * math::rcp(1.0 + math::ex2(-x * LOG2_E)) } else { d })
        .map_indexed(|_, token, x| if token < left { x } else { 0.0 });
    let results = [total(&by_decay), total(&of(Sum::Skip, left)), total(&by_given)];
    let mut i = 0;
    while i < 3 {
        copy(results[i], lines.tile([i as u32, number, block, heads, 0]));
        i += 1;
    }
    copy(by_given, &mut back_s);
    let by_token = Fragment::<f32, 64, HEADS, Striped<4>>::load(back_s.full().t());
    copy(by_token.cast::<U>(), d_dt.tile([matrix, block, heads]).of_rows(first, rows));
}
