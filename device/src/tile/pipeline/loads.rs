//! Loads that run ahead, taken one by one: for loops that hold stages of several rings at a time.

use core::convert::identity;
use core::marker::PhantomData;

use crate::arch::declare::refuse;
use crate::arch::special::thread_x;
use crate::arch::warp::uniform;
use crate::arch::{mbarrier, sync, wgmma};
use crate::kernel::Arch;
use crate::layout::{Element, FragmentLayout, SharedLayout, Sum};
use crate::tile::copy::zeros::clear;
use crate::tile::cta::barriers::WARPGROUP;
use crate::tile::cta::collective::expect_policy;
use crate::tile::fragment::held::Held;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::part::Part;
use crate::tile::memory::shared::{Fill, Full, Ring, Shared};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::in_flight::{InFlight, Issued, Pending};
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::Schedule;

/// The loads of a loop through a [`Pipeline`].
///
/// Where a producer loads, making this loads everything; the threads that compute then take stage after stage.
/// In a loop of its own, [`Pipeline::run`] is shorter.
pub struct Loads<'p, P: Schedule, const N: usize, const PARTED: bool, I, F> {
    pub(in crate::tile) pipeline: &'p mut Pipeline<P, N, PARTED>,
    pub(in crate::tile) steps: I,
    pub(in crate::tile) load: F,
}

/// A stage's turn with those who compute: its tiles are full until it is given back.
#[must_use = "give the stage back when it has been read"]
pub struct Turn<const N: usize> {
    stage: u32,
    barrier: u32,
    phase: u32,
    pipeline: u32,
}

impl<const N: usize> Turn<N> {
    /// The stage, where its number is said anew.
    #[inline(always)]
    fn full_at(&self, stage: u32) -> Full<'_, N> {
        Full { stage, pipeline: Some(self.pipeline), turn: PhantomData }
    }
    /// The stage, full.
    #[inline(always)]
    pub fn full(&self) -> Full<'_, N> {
        self.full_at(self.stage)
    }
}

/// How gemms follow one another: see [`Loads::run_gemms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// A part's gemms are waited for before the next part's are issued. `early`: see [`Loads::run_ahead`].
    Waiting {
        /// Stages are waited for before the gemms of the one before are issued.
        early: bool,
    },
    /// A part's gemms are issued behind those of the part before, and only then are these waited for. Fills the tensor cores where
    /// gemms are short; takes the registers of what is prepared twice.
    Queued,
}

impl<P, const N: usize, const PARTED: bool, I, F> Loads<'_, P, N, PARTED, I, F>
where
    P: Schedule,
    I: Iterator<Item = u32>,
    F: for<'s> FnMut(Fill<'s, P, N>, u32),
{
    /// The turn of the next stage, not waited for.
    #[inline(always)]
    fn next(&self) -> Turn<N> {
        Turn {
            stage: self.pipeline.stage,
            barrier: self.pipeline.full(),
            phase: self.pipeline.phase,
            pipeline: self.pipeline.index,
        }
    }

    /// Waits for the next stage. For threads that compute: [`Cta::computes`](crate::tile::Cta::computes).
    #[inline(always)]
    pub fn acquire(&mut self) -> Turn<N> {
        if thread_x() >= P::CONSUMERS {
            refuse!(
                "threads that only load take a stage: leave them out by `if !cta.computes()` behind `loads`"
            );
        }
        let turn = self.next();
        // SAFETY: `Turn`s are made here alone, and given back once.
        unsafe { P::acquire(self.pipeline, &mut self.steps, &mut self.load) };
        self.pipeline.advance();
        turn
    }

    /// Zeros in a stage's tile of `ring`, in its rows from `first` on: what lies in a cache behind a sequence's end may be
    /// anything, and even a NaN with a weight of 0 makes NaN.
    ///
    /// All threads that compute call it alike; no gemm in flight reads the stage.
    #[inline(always)]
    pub fn clear_from<T: Element, S: SharedLayout, const R: usize, const C: usize>(
        &self,
        turn: &Turn<N>,
        ring: &Ring<Shared<T, R, C, S>, N>,
        first: u32,
    ) {
        clear::<P, T, S, R, C, N>(turn.full(), ring, first);
    }

    /// The same for the stage that is taken next, for which it waits.
    #[inline(always)]
    pub fn clear_next_from<T: Element, S: SharedLayout, const R: usize, const C: usize>(
        &mut self,
        ring: &Ring<Shared<T, R, C, S>, N>,
        first: u32,
    ) {
        if thread_x() >= P::CONSUMERS || first >= R as u32 {
            return;
        }
        let turn = self.next();
        // SAFETY: as in `acquire`, which comes again to the same stage.
        unsafe { P::acquire(self.pipeline, &mut self.steps, &mut self.load) };
        self.clear_from(&turn, ring, first);
    }

    /// Gives back a stage that no gemm in flight reads.
    #[inline(always)]
    pub fn release(&mut self, turn: Turn<N>) {
        // SAFETY: as in `acquire`.
        unsafe { P::release(self.pipeline, turn.stage, &mut self.steps, &mut self.load) }
    }

    /// The same of a stage that threads have read by themselves, and not their gemms alone: one of them says for its warpgroup that it has been read.
    #[inline(always)]
    pub fn release_read(&mut self, turn: Turn<N>) {
        if matches!(P::ARCH, Arch::Sm90a) {
            // SAFETY: whole warpgroups come here, as threads that compute do.
            unsafe { sync::bar_sync(WARPGROUP.of(thread_x() / 128), 128) };
        }
        self.release(turn);
    }

    /// For each of `stages` stages and each of its `parts` parts, at least one of both: `prepare(stage, part)` makes what
    /// `compute(prepared, stage, part, d)` takes in registers, while the gemms of the part before run.
    ///
    /// Returns the accumulator when all its gemms are done. With `early`, the wait for a stage comes before the gemms of the one
    /// before are issued: ptxas then puts the wait for those behind more of what is prepared, which pays where they are long.
    #[inline(always)]
    pub fn run_ahead<D, A, G: Pending<Done = D>>(
        &mut self,
        stages: u32,
        (parts, early): (u32, bool),
        d: D,
        prepare: impl Fn(Full<'_, N>, Part) -> A,
        compute: impl Fn(A, Full<'_, N>, Part, D) -> G,
    ) -> D {
        const { expect_policy::<P>(G::THREADS, G::ASYNCHRONOUS) };
        // Known to be the same in all lanes: so are then the turns of the loop, and the stages' addresses.
        (self.pipeline.stage, self.pipeline.phase) =
            (uniform(self.pipeline.stage), uniform(self.pipeline.phase));
        let (mut d, mut left) = (d, uniform(stages * parts));
        let mut even = (self.acquire(), 0);
        // SAFETY: here and in the steps, parts are counted below `parts`.
        let nth = identity(
            #[inline(always)]
            |part| unsafe { Part::new_unchecked(part, parts) },
        );
        let mut ready = prepare(even.0.full(), nth(0));
        // An even number of steps at a time, a stage's where it has so many parts: what is prepared under a gemm lies in other
        // registers than what that gemm reads.
        let turn = if parts.is_multiple_of(2) { parts } else { 2 };
        while left > turn {
            let mut i = 0;
            while i < turn {
                (d, even, ready) = self.step_ahead((parts, early), even, ready, d, &prepare, &compute);
                i += 1;
            }
            left -= turn;
        }
        // With an even number of parts, `parts - 1` steps and the last gemm are left. The count is a constant, so no branch joins in
        // front of the last gemms: ptxas would merge the registers of both ways there.
        if parts.is_multiple_of(2) {
            let mut i = 1;
            while i < parts {
                (d, even, ready) = self.step_ahead((parts, early), even, ready, d, &prepare, &compute);
                i += 1;
            }
        } else if left == 2 {
            (d, even, ready) = self.step_ahead((parts, early), even, ready, d, &prepare, &compute);
        }
        d = compute(ready, even.0.full(), nth(even.1), d).wait();
        self.release(even.0);
        d
    }

    /// As [`run_ahead`](Self::run_ahead) where `compute` issues gemms and nothing else, as far ahead as `ahead` says.
    #[inline(always)]
    pub fn run_gemms<A, S: Sum, const M: usize, const C: usize, L: Accumulates<M, C>, H: Held>(
        &mut self,
        stages: u32,
        parts: u32,
        ahead: Ahead,
        d: Fragment<S, M, C, L>,
        prepare: impl Fn(Full<'_, N>, Part) -> A,
        compute: impl Fn(A, Full<'_, N>, Part, Issued<Fragment<S, M, C, L>>) -> Issued<Fragment<S, M, C, L>, H>,
    ) -> Fragment<S, M, C, L> {
        match ahead {
            Ahead::Queued => self.run_queued(stages, parts, d, prepare, compute),
            Ahead::Waiting { early } => self.run_ahead(
                stages,
                (parts, early),
                d,
                prepare,
                #[inline(always)]
                |ready, stage, part, d| compute(ready, stage, part, Issued(d, ())),
            ),
        }
    }

    /// See [`Ahead::Queued`].
    #[inline(always)]
    fn run_queued<A, S: Sum, const M: usize, const C: usize, L: Accumulates<M, C>, H: Held>(
        &mut self,
        stages: u32,
        parts: u32,
        d: Fragment<S, M, C, L>,
        prepare: impl Fn(Full<'_, N>, Part) -> A,
        compute: impl Fn(A, Full<'_, N>, Part, Issued<Fragment<S, M, C, L>>) -> Issued<Fragment<S, M, C, L>, H>,
    ) -> Fragment<S, M, C, L> {
        const { expect_policy::<P>(L::THREADS, L::ASYNCHRONOUS) };
        (self.pipeline.stage, self.pipeline.phase) =
            (uniform(self.pipeline.stage), uniform(self.pipeline.phase));
        let mut left = uniform(stages * parts);
        let mut turn = self.acquire();
        // SAFETY: here and in the steps, parts are counted below `parts`.
        let first = unsafe { Part::new_unchecked(0, parts) };
        let ready = prepare(turn.full(), first);
        let mut d = Issued(d, ());
        // SAFETY: no gemm is in flight. The registers are written here, not between the gemms.
        unsafe { d.touch() };
        let mut gemms = compute(ready, Self::full(&turn, parts), first, d);
        let in_flight = L::ASYNCHRONOUS && thread_x() < L::THREADS;
        if in_flight {
            // SAFETY: consumer warpgroups execute a kernel's tile operations converged.
            unsafe { wgmma::commit() };
        }
        // A stage's parts at a time: what is prepared under a gemm lies in other registers than what that gemm reads.
        while left > parts {
            let mut part = 0;
            while part < parts {
                (gemms, turn) = self.step_queued((part, parts), gemms, turn, &prepare, &compute);
                part += 1;
            }
            left -= parts;
        }
        let mut part = 0;
        while part + 1 < parts {
            (gemms, turn) = self.step_queued((part, parts), gemms, turn, &prepare, &compute);
            part += 1;
        }
        // SAFETY: as above; then the gemms are done.
        let d = unsafe {
            if in_flight {
                gemms.settle();
            }
            gemms.done()
        };
        self.release(turn);
        d
    }

    /// Prepares what follows a stage's `part`-th part, issues its gemms behind those in flight, and waits for these.
    #[inline(always)]
    fn step_queued<A, S: Sum, const M: usize, const C: usize, L: Accumulates<M, C>, H: Held>(
        &mut self,
        (part, parts): (u32, u32),
        Issued(d, mut held): Issued<Fragment<S, M, C, L>, H>,
        turn: Turn<N>,
        prepare: &impl Fn(Full<'_, N>, Part) -> A,
        compute: &impl Fn(A, Full<'_, N>, Part, Issued<Fragment<S, M, C, L>>) -> Issued<Fragment<S, M, C, L>, H>,
    ) -> (Issued<Fragment<S, M, C, L>, H>, Turn<N>) {
        let (next, last) = if part + 1 == parts { (self.acquire(), Some(turn)) } else { (turn, None) };
        // SAFETY: the part is below `parts`, or the first.
        let part = unsafe { Part::new_unchecked(if last.is_some() { 0 } else { part + 1 }, parts) };
        let ready = prepare(next.full(), part);
        let gemms = compute(ready, Self::full(&next, parts), part, Issued(d, ()));
        if L::ASYNCHRONOUS && thread_x() < L::THREADS {
            // SAFETY: consumer warpgroups execute a kernel's tile operations converged; all groups but the one that is committed
            // here are waited for, and those that read `held` are older.
            unsafe {
                wgmma::commit();
                wgmma::wait::<1>();
                held.keep();
            }
        }
        if let Some(last) = last {
            self.release(last);
        }
        (gemms, next)
    }

    /// The stage, known to be the same in all lanes: ptxas then keeps gemms' descriptors in uniform registers.
    #[inline(always)]
    pub(in crate::tile) fn uniform_stage(turn: &Turn<N>) -> Full<'_, N> {
        turn.full_at(uniform(turn.stage))
    }

    /// The same, but where stages have an odd number of parts: there ptxas would also run the gemms one by one.
    #[inline(always)]
    fn full(turn: &Turn<N>, parts: u32) -> Full<'_, N> {
        if parts.is_multiple_of(2) { Self::uniform_stage(turn) } else { turn.full() }
    }

    #[inline(always)]
    fn step_ahead<D, A, G: Pending<Done = D>>(
        &mut self,
        (parts, early): (u32, bool),
        (turn, part): (Turn<N>, u32),
        ready: A,
        d: D,
        prepare: &impl Fn(Full<'_, N>, Part) -> A,
        compute: &impl Fn(A, Full<'_, N>, Part, D) -> G,
    ) -> (D, (Turn<N>, u32), A) {
        // SAFETY: parts are counted below `parts`.
        let nth = identity(
            #[inline(always)]
            |part| unsafe { Part::new_unchecked(part, parts) },
        );
        if part + 1 == parts {
            let first = early.then(
                #[inline(always)]
                || self.acquire(),
            );
            let gemms = compute(ready, Self::full(&turn, parts), nth(part), d).commit();
            let next = match first {
                Some(next) => next,
                None => self.acquire(),
            };
            let prepared = prepare(next.full(), nth(0));
            let d = gemms.wait();
            self.release(turn);
            (d, (next, 0), prepared)
        } else {
            let gemms = compute(ready, Self::full(&turn, parts), nth(part), d).commit();
            let prepared = prepare(turn.full(), nth(part + 1));
            (gemms.wait(), (turn, part + 1), prepared)
        }
    }

    /// Waits for the gemms that read the stage, and gives it back.
    ///
    /// `before` is computed before the wait: ptxas moves a wait above what does not depend on it, but not out of the
    /// block that another test of the stage's barrier, long over, begins.
    #[inline(always)]
    pub fn finish<D: Pending, const M: usize, const C: usize, L: FragmentLayout<M, C>>(
        &mut self,
        turn: Turn<N>,
        gemms: InFlight<D>,
        before: &mut Rows<f32, M, C, L>,
    ) -> D::Done {
        const { expect_policy::<P>(D::THREADS, D::ASYNCHRONOUS) };
        if D::ASYNCHRONOUS && thread_x() < D::THREADS {
            before.touch();
            // Not for ever: when another warp of the warpgroup has given the stage back, its next phase may have completed.
            let mut tests = 0;
            // SAFETY: the barrier is initialised.
            while tests < 2 && !unsafe { mbarrier::test_wait(turn.barrier, turn.phase) } {
                tests += 1;
            }
        }
        let done = gemms.wait();
        self.release(turn);
        done
    }
}
