//! The softmax of rows that come in blocks.

use crate::arch::math::{ex2, fma, lg2, max as max_of, rcp};
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::{Fragment, Rows};

/// Maximum and sum of exponentials of each row, over the blocks of scores that have come so far
/// (Milakov & Gimelshein 2018). Scores are in units of log2(e) / `scale`.
pub struct OnlineSoftmax<const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    scale: f32,
    /// What exponentials are multiplied by, to base 2.
    raised: f32,
    max: Rows<f32, M, N, L>,
    /// Of this thread's columns alone.
    sum: Rows<f32, M, N, L>,
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> OnlineSoftmax<M, N, L> {
    /// No scores yet; the softmax will be of `scale` times the scores, base 2.
    #[inline(always)]
    pub fn new(scale: f32) -> Self {
        Self::raised(scale, 0.0)
    }

    /// The same with exponentials 2^`by` times as large, for types that have few small numbers. So is their sum, by which the weighted sum is divided; its
    /// logarithm is that of the exponentials as they are.
    #[inline(always)]
    pub fn raised(scale: f32, by: f32) -> Self {
        OnlineSoftmax { scale, raised: by, max: Rows::splat(f32::NEG_INFINITY), sum: Rows::splat(0.0) }
    }

    /// The rows' maxima with this block's.
    #[inline(always)]
    pub fn maximum(&self, s: &Fragment<f32, M, N, L>) -> Rows<f32, M, N, L> {
        // Two chains a row: the even and the odd columns.
        let (mut even, mut odd) = (self.max, Rows::splat(f32::NEG_INFINITY));
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let chain: &mut Rows<f32, M, N, L> = if i % 2 == 0 { &mut even } else { &mut odd };
            let r = L::row(i);
            chain.regs.set(r, max_of(chain.regs.get(r), s.regs.get(i)));
            i += 1;
        }
        even.zip(&odd, max_of).across_lanes(max_of)
    }

    /// The exponentials of a block, whose rows have the new maxima, and what to multiply earlier blocks' by.
    #[inline(always)]
    pub fn exponentials(
        &mut self,
        s: Fragment<f32, M, N, L>,
        max: Rows<f32, M, N, L>,
    ) -> (Fragment<f32, M, N, L>, Rows<f32, M, N, L>) {
        let scale = self.scale;
        // A row without any score: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
        let shift = max.map(|max| if max == f32::NEG_INFINITY { 0.0 } else { -(max * scale) });
        let rescale = self.max.zip(&shift, |old, shift| ex2(fma(old, scale, shift)));
        let by = self.raised;
        // Known when the kernel is compiled.
        let shift = if by == 0.0 { shift } else { shift.map(|shift| shift + by) };
        self.max = max;
        let (mut even, mut odd) = (self.sum.zip(&rescale, |sum, by| sum * by), Rows::splat(0.0));
        let mut p = s;
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let chain: &mut Rows<f32, M, N, L> = if i % 2 == 0 { &mut even } else { &mut odd };
            let r = L::row(i);
            let e = ex2(fma(s.regs.get(i), scale, shift.regs.get(r)));
            p.regs.set(i, e);
            chain.regs.set(r, chain.regs.get(r) + e);
            i += 1;
        }
        self.sum = even.zip(&odd, |a, b| a + b);
        (p, rescale)
    }

    /// As [`finish`](Self::finish), with one more score in each row, which has no part in the weighted sum: a sink. It is given as a logarithm to
    /// base 2, -inf where there is none.
    #[inline(always)]
    pub fn finish_with(self, sink: &Rows<f32, M, N, L>) -> (Rows<f32, M, N, L>, Rows<f32, M, N, L>) {
        let sum = self.sum.across_lanes(|a, b| a + b);
        let (scale, by) = (self.scale, self.raised);
        let max = self.max.map(|max| lowered(max * scale, by));
        let new = max.zip(sink, max_of);
        // Without any score: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
        let shift = new.map(|new| if new == f32::NEG_INFINITY { 0.0 } else { -new });
        let rescale = max.zip(&shift, |max, shift| ex2(max + shift));
        let sum = sum.zip(&rescale, |sum, by| sum * by);
        let sum = sum.zip(&sink.zip(&shift, |sink, shift| ex2(sink + shift)), |sum, sink| sum + sink);
        let inverse = sum.zip(&rescale, |sum, by| if sum == 0.0 { 0.0 } else { by * rcp(sum) });
        let log = new.zip(&sum, |new, sum| if sum == 0.0 { f32::NEG_INFINITY } else { new + lg2(sum) });
        (inverse, log)
    }

    /// What to multiply the weighted sum by, 0 for rows without scores, and log2 of the sum of exponentials, -inf there.
    #[inline(always)]
    pub fn finish(self) -> (Rows<f32, M, N, L>, Rows<f32, M, N, L>) {
        let sum = self.sum.across_lanes(|a, b| a + b);
        let inverse = sum.map(|sum| if sum == 0.0 { 0.0 } else { rcp(sum) });
        let (scale, by) = (self.scale, self.raised);
        let log = self.max.zip(&sum, |max, sum| {
            if sum == 0.0 { f32::NEG_INFINITY } else { lowered(max * scale, by) + lg2(sum) }
        });
        (inverse, log)
    }
}

/// The logarithm that a sum of raised exponentials counts from.
#[inline(always)]
fn lowered(max: f32, by: f32) -> f32 {
    if by == 0.0 { max } else { max - by }
}
