//! Loops of gemms that each begin a sum of their own.

use crate::arch::special::thread_x;
use crate::arch::warp::uniform;
use crate::tile::cta::collective::expect_policy;
use crate::tile::fragment::Fragment;
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::gemm::Over;
use crate::tile::mma::in_flight::{Issued, Pending};
use crate::tile::pipeline::loads::Loads;
use crate::tile::pipeline::schedule::Schedule;
use crate::tile::pipeline::turns::Turns;

impl<P, const N: usize, const PARTED: bool, I, F> Loads<'_, P, N, PARTED, I, F>
where
    P: Schedule,
    I: Iterator<Item = u32>,
    F: for<'s> FnMut(Fill<'s, P, N>, u32),
{
    /// For each of `stages` stages, at least one, and each of its `blocks` blocks: `compute(operand, stage)` begins a sum, and
    /// `add(d, sum, beside, block)` takes it when it is done, where `prepare(stage, block)` makes the operand and what is beside it.
    ///
    /// While a block's gemms run, the next one's operand is prepared and the sum before it is added.
    #[inline(always)]
    pub fn run_apart<D, A, B, G: Pending>(
        &mut self,
        stages: u32,
        blocks: usize,
        d: D,
        prepare: impl Fn(Full<'_, N>, usize) -> (A, B),
        compute: impl Fn(A, Full<'_, N>) -> G,
        add: impl Fn(D, G::Done, B, usize) -> D,
    ) -> D {
        const { expect_policy::<P>(G::THREADS, G::ASYNCHRONOUS) };
        // Known to be the same in all lanes, as in `run_ahead`.
        (self.pipeline.stage, self.pipeline.phase) =
            (uniform(self.pipeline.stage), uniform(self.pipeline.phase));
        let (mut d, mut left) = (d, uniform(stages));
        let mut turn = self.acquire();
        let (mut operand, mut beside) = prepare(turn.full(), 0);
        loop {
            let mut gemms = compute(operand, Self::uniform_stage(&turn)).commit();
            let mut block = 1;
            while block < blocks {
                let (operand, next) = prepare(turn.full(), block);
                let (sum, later) = gemms.behind(compute(operand, Self::uniform_stage(&turn)), || {});
                d = add(d, sum, beside, block - 1);
                (gemms, beside) = (later, next);
                block += 1;
            }
            left -= 1;
            // None is in flight where the loop begins anew: ptxas would run them one by one.
            if left == 0 {
                let sum = gemms.wait();
                self.release(turn);
                return add(d, sum, beside, blocks - 1);
            }
            let next = self.acquire();
            let prepared = prepare(next.full(), 0);
            let sum = gemms.wait();
            self.release(turn);
            d = add(d, sum, beside, blocks - 1);
            (turn, (operand, beside)) = (next, prepared);
        }
    }

    /// As [`run_promoted`](Self::run_promoted), with registers for two sums: while a warpgroup adds one, the tensor cores have its next one's gemms, of up
    /// to four stages that follow each other.
    #[inline(always)]
    pub fn run_promoted_ahead<A, const R: usize, const C: usize, L: Accumulates<R, C>>(
        &mut self,
        stages: u32,
        mut beside: impl FnMut() -> A,
        compute: impl Fn(Full<'_, N>, Over<Fragment<f32, R, C, L>>) -> Issued<Fragment<f32, R, C, L>>,
        add: impl Fn(Fragment<f32, R, C, L>, &Fragment<f32, R, C, L>, A) -> Fragment<f32, R, C, L>,
    ) -> Fragment<f32, R, C, L> {
        const { expect_policy::<P>(L::THREADS, L::ASYNCHRONOUS) };
        // Known to be the same in all lanes, as in `run_ahead`.
        (self.pipeline.stage, self.pipeline.phase) =
            (uniform(self.pipeline.stage), uniform(self.pipeline.phase));
        let (mut d, mut sums) = (Fragment::zero(), [Fragment::zero(); 2]);
        let mut left = uniform(stages);
        // Every second warpgroup begins with fewer, so that the other has gemms while it waits for its last.
        let mut shifted = uniform(thread_x() / 128).is_multiple_of(2);
        while left > 0 {
            let run = match left {
                4.. if shifted => 4,
                2.. => 2,
                _ => 1,
            };
            shifted = true;
            // Each with code of its own, behind which none is in flight, as in `run_apart`.
            (d, sums) = match run {
                4 => self.run_of::<4, _, R, C, L>(d, sums, &mut beside, &compute, &add),
                2 => self.run_of::<2, _, R, C, L>(d, sums, &mut beside, &compute, &add),
                _ => self.run_of::<1, _, R, C, L>(d, sums, &mut beside, &compute, &add),
            };
            left -= run;
        }
        d
    }

    /// The sums of `RUN` stages, added to `d`: each in one of two fragments' registers, while the next one's gemms run.
    #[inline(always)]
    fn run_of<const RUN: usize, A, const R: usize, const C: usize, L: Accumulates<R, C>>(
        &mut self,
        mut d: Fragment<f32, R, C, L>,
        mut sums: [Fragment<f32, R, C, L>; 2],
        beside: &mut impl FnMut() -> A,
        compute: &impl Fn(Full<'_, N>, Over<Fragment<f32, R, C, L>>) -> Issued<Fragment<f32, R, C, L>>,
        add: &impl Fn(Fragment<f32, R, C, L>, &Fragment<f32, R, C, L>, A) -> Fragment<f32, R, C, L>,
    ) -> (Fragment<f32, R, C, L>, [Fragment<f32, R, C, L>; 2]) {
        let mut turn = self.acquire();
        let mut gemms = compute(Self::uniform_stage(&turn), Over(sums[0])).commit();
        let mut i = 1;
        while i < RUN {
            let next = self.acquire();
            let taken = beside();
            let (sum, later) = gemms.behind(compute(Self::uniform_stage(&next), Over(sums[i % 2])), || {});
            self.release(turn);
            d = added(add(d, &sum, taken));
            sums[1 - i % 2] = sum;
            (gemms, turn) = (later, next);
            i += 1;
        }
        let taken = beside();
        sums[1 - RUN % 2] = gemms.wait();
        self.release(turn);
        d = added(add(d, &sums[1 - RUN % 2], taken));
        (d, sums)
    }

    /// For each of `stages` stages: `compute(stage, sum)` begins a sum in the registers of the one before, and `add(d, sum, beside)` adds it to the accumulator,
    /// which it returns, when it is done, where `beside()` gives what is beside it while the gemms run. Where warpgroups take `turns`, a sum's gemms are issued
    /// behind those of the warpgroup before: those whose sums end at the same time leave the tensor cores idle while they add them up.
    ///
    /// One sum is in flight at a time; the CTA's other warpgroups fill the tensor cores while one adds.
    #[inline(always)]
    pub fn run_promoted<A, const R: usize, const C: usize, L: Accumulates<R, C>>(
        &mut self,
        stages: u32,
        turns: &Turns<P>,
        mut beside: impl FnMut() -> A,
        compute: impl Fn(Full<'_, N>, Over<Fragment<f32, R, C, L>>) -> Issued<Fragment<f32, R, C, L>>,
        add: impl Fn(Fragment<f32, R, C, L>, &Fragment<f32, R, C, L>, A) -> Fragment<f32, R, C, L>,
    ) -> Fragment<f32, R, C, L> {
        const { expect_policy::<P>(L::THREADS, L::ASYNCHRONOUS) };
        // Known to be the same in all lanes, as in `run_ahead`.
        (self.pipeline.stage, self.pipeline.phase) =
            (uniform(self.pipeline.stage), uniform(self.pipeline.phase));
        let (mut d, mut sum) = (Fragment::zero(), Fragment::zero());
        let (stages, mut step) = (uniform(stages), 0);
        while step < stages {
            let turn = self.acquire();
            turns.take();
            let gemms = compute(Self::uniform_stage(&turn), Over(sum)).commit();
            turns.pass();
            let taken = beside();
            sum = gemms.wait();
            self.release(turn);
            d = added(add(d, &sum, taken));
            step += 1;
        }
        d
    }
}

/// An accumulator to which a sum has been added, before the next gemms are issued in that sum's registers: else the compiler keeps it, in a copy that it makes under
/// these.
#[inline(always)]
fn added<const R: usize, const C: usize, L: Accumulates<R, C>>(
    mut d: Fragment<f32, R, C, L>,
) -> Fragment<f32, R, C, L> {
    // SAFETY: no gemm writes these registers.
    unsafe { L::touch(&mut d.regs) };
    d
}
