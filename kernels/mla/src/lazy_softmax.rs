//! The softmax of rows that come in blocks, with a reference that moves rarely.

use tilewright_device::arch::math::{ceil, ex2, fma, lg2, max as max_of, rcp};
use tilewright_device::arch::sync;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, OneWarpgroup, Operand, RowVector, Rows, copy,
};

use crate::rewrite::Met;

/// How far a row's maximum may pass its reference, in powers of two: exponentials stay below 2⁸, which f16 holds.
const SLACK: f32 = 8.0;
/// The highest sum of a thread's exponentials in a row of a block, and so the highest exponential, relative to a reference
/// that stays: f16 holds it, and sixteen times as much. Their sum is there anyway, their maximum would have to be computed.
const HIGHEST: f32 = 4096.0;
/// The reference of a row without scores: finite, so that no difference is NaN.
const NONE: f32 = -1e30;

/// A reference and the sum of exponentials of each row, over the blocks of scores that have come so far.
///
/// As [`OnlineSoftmax`](tilewright_device::tile::OnlineSoftmax), but exponentials are relative to an integer power of two that is moved only
/// when the row's maximum is 2⁸ times as large: rescaling is rare, and by exact powers of two.
///
/// The references are in shared memory: they are wanted once a block.
pub struct LazySoftmax<'s, const M: usize, const N: usize, L: FragmentLayout<M, N>> {
    scale: f32,
    reference: RowVector<'s, f32, M>,
    /// The references as they were when the block was expected.
    held: Rows<f32, M, N, L>,
    /// Of this thread's columns alone.
    sum: Rows<f32, M, N, L>,
}

impl<'s, const M: usize, const N: usize, L: FragmentLayout<M, N>> LazySoftmax<'s, M, N, L> {
    /// No scores yet; the softmax will be of `scale` times the scores, base 2. `reference` is for its own use.
    #[inline(always)]
    pub fn new(scale: f32, mut reference: RowVector<'s, f32, M>) -> Self {
        copy(Rows::<f32, M, N, L>::splat(NONE), reference.again());
        // SAFETY: the warps that hold the fragments execute it whole; each keeps the references of its own rows.
        unsafe { sync::sync_warp() };
        LazySoftmax { scale, reference, held: Rows::splat(NONE), sum: Rows::splat(0.0) }
    }

    /// Expects a block: before its scores are known, where there is time, such as between a gemm's instructions. Reads the
    /// references, and writes what to multiply earlier blocks' by if none moves.
    #[inline(always)]
    pub fn expect<T: Element>(&mut self, rescale: RowVector<'_, T, M>) {
        self.held = Rows::from_vector(self.reference.again());
        Rows::<f32, M, N, L>::splat(1.0).copy_alike(rescale);
    }

    /// The exponentials of a block relative to the references as they are, and whether that is right for all rows of the
    /// warpgroup: if not, some reference has to move, and the block's [`exponentials`](Self::exponentials) are to be taken
    /// instead.
    ///
    /// Almost always it is right but for the first block, and nothing waits for the rows' maxima.
    #[inline(always)]
    fn within<T: Element>(&mut self, s: Fragment<f32, M, N, L>) -> (Operand<T, M, N, L>, bool, Met)
    where
        L: OneWarpgroup,
    {
        let scale = self.scale;
        let shift = self.held.map(|reference| -reference);
        let mut p = s;
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            p.regs.set(i, ex2(fma(s.regs.get(i), scale, shift.regs.get(L::row(i)))));
            i += 1;
        }
        // Begun with the first two elements of each row: nothing is added to zero.
        let (mut even, mut odd) = (Rows::splat(0.0), Rows::splat(0.0));
        let mut seen = [0; 2];
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (r, e) = (L::row(i), p.regs.get(i));
            let sum: &mut Rows<f32, M, N, L> = if i % 2 == 0 { &mut even } else { &mut odd };
            let begun = seen[i % 2] & 1 << r != 0;
            seen[i % 2] |= 1 << r;
            sum.regs.set(r, if begun { sum.regs.get(r) + e } else { e });
            i += 1;
        }
        let block = even.zip(&odd, |a, b| a + b);
        let mut beyond = false;
        let mut r = 0;
        while r < L::Rows::<f32>::LEN {
            beyond |= block.regs.get(r) > HIGHEST;
            r += 1;
        }
        let mut sum = self.sum.zip(&block, |a, b| a + b);
        sum.touch();
        // Packed under the last exponentials, not behind the barrier.
        let mut p = p.cast::<T>().operand();
        p.touch();
        let (met, beyond) = Met::any::<L>(beyond);
        self.sum = if beyond { self.sum } else { sum };
        (p, !beyond, met)
    }

    /// The exponentials of a block, and what to multiply earlier blocks' by: 1 but where the reference moved.
    #[inline(always)]
    fn exponentials(&mut self, s: Fragment<f32, M, N, L>) -> (Fragment<f32, M, N, L>, Rows<f32, M, N, L>) {
        let scale = self.scale;
        let old = self.held;
        // Two chains a row: the even and the odd columns.
        let (mut even, mut odd) = (Rows::splat(f32::NEG_INFINITY), Rows::splat(f32::NEG_INFINITY));
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let chain: &mut Rows<f32, M, N, L> = if i % 2 == 0 { &mut even } else { &mut odd };
            let r = L::row(i);
            chain.regs.set(r, max_of(chain.regs.get(r), s.regs.get(i)));
            i += 1;
        }
        let max = even.zip(&odd, max_of).across_lanes(max_of);
        // Both are computed: a branch would cost more.
        let mut up = max.map(|max| ceil(max * scale));
        up.touch();
        let mut reference = old;
        let mut r = 0;
        while r < L::Rows::<f32>::LEN {
            if max.regs.get(r) * scale > reference.regs.get(r) + SLACK {
                reference.regs.set(r, up.regs.get(r));
            }
            r += 1;
        }
        let rescale = old.zip(&reference, |old, new| ex2(old - new));
        // SAFETY: as in `new`; every lane has read the old ones.
        unsafe { sync::sync_warp() };
        copy(reference, self.reference.again());
        let (mut even, mut odd) = (self.sum.zip(&rescale, |sum, by| sum * by), Rows::splat(0.0));
        let mut p = s;
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let chain: &mut Rows<f32, M, N, L> = if i % 2 == 0 { &mut even } else { &mut odd };
            let r = L::row(i);
            let e = ex2(fma(s.regs.get(i), scale, -reference.regs.get(r)));
            p.regs.set(i, e);
            chain.regs.set(r, chain.regs.get(r) + e);
            i += 1;
        }
        self.sum = even.zip(&odd, |a, b| a + b);
        // Now, not where the next block needs them: the exponentials are not wanted any longer.
        self.sum.touch();
        (p, rescale)
    }

    /// The exponentials of a block as the next gemm's operand, when the warpgroup's warps have met. `moved` is given what to
    /// multiply earlier blocks' by, where that is not as was [expected](Self::expect).
    ///
    /// The scores of the item's `first` block have to move the references; those of another one that does are computed
    /// `again`, as exponentials have taken their place.
    #[inline(always)]
    pub fn weights<T: Element>(
        &mut self,
        mut s: Fragment<f32, M, N, L>,
        first: bool,
        again: impl FnOnce() -> Fragment<f32, M, N, L>,
        moved: impl Fn(Rows<f32, M, N, L>),
    ) -> (Operand<T, M, N, L>, Met)
    where
        L: OneWarpgroup,
    {
        if !first {
            let (p, right, met) = self.within(s);
            if right {
                return (p, met);
            }
            s = again();
        }
        let (p, rescale) = self.exponentials(s);
        moved(rescale);
        (p.cast::<T>().operand(), Met::now::<L>())
    }

    /// What to multiply the weighted sum by, 0 for rows without scores, and log2 of the sum of exponentials, -inf there.
    #[inline(always)]
    pub fn finish(mut self) -> (Rows<f32, M, N, L>, Rows<f32, M, N, L>) {
        let sum = self.sum.across_lanes(|a, b| a + b);
        let inverse = sum.map(|sum| if sum == 0.0 { 0.0 } else { rcp(sum) });
        let log = Rows::<f32, M, N, L>::from_vector(self.reference.again())
            .zip(&sum, |reference, sum| if sum == 0.0 { f32::NEG_INFINITY } else { reference + lg2(sum) });
        (inverse, log)
    }
}
