//! The pipelined loop: loads run ahead of computation by the stages of a ring.

use core::marker::PhantomData;
use core::ops::Range;

use super::schedule::Access;
use super::{
    Accumulator, Fill, Full, GlobalTile, Loads, Multistage, Pending, Schedule, WarpSpecialized, copy,
};
use crate::arch::special::thread_x;
use crate::arch::tma::Coords;
use crate::arch::warp::uniform;
use crate::arch::{cp_async, mbarrier, sync, wgmma};
use crate::layout::{Element, Major, SharedLayout};

/// The named barrier that the roles of a CTA meet at when a pipeline opens.
const OPENING: u32 = 0;

/// A ring of `N` stages on schedule `P`, with its position, which goes on from loop to loop.
///
/// If it is `PARTED`, each warpgroup that computes has its part of every stage: the rows that are its own by a FullRow policy.
pub struct Pipeline<P, const N: usize, const PARTED: bool = false> {
    pub(super) base: u32,
    /// Which of the CTA's pipelines it is.
    index: u32,
    pub(super) stage: u32,
    pub(super) phase: u32,
    /// The position of the next load where who computes also loads.
    ahead: (u32, u32),
    schedule: PhantomData<P>,
}

impl<P: Schedule, const N: usize, const PARTED: bool> Pipeline<P, N, PARTED> {
    /// Parts of a stage that are filled and left by themselves.
    pub(super) const PARTS: u32 = if PARTED { P::WARPGROUPS } else { 1 };

    #[inline(always)]
    pub(super) fn new(base: u32, index: u32) -> Self {
        const { assert!(N >= 1, "a pipeline has stages") };
        Pipeline { base, index, stage: 0, phase: 0, ahead: (0, 0), schedule: PhantomData }
    }

    /// The barrier of `part` that completes when the current stage is full.
    #[inline(always)]
    pub(super) fn full_part(&self, part: u32) -> u32 {
        self.base + (self.stage * Self::PARTS + part) * 8
    }
    /// The barrier of `part` that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(super) fn empty_part(&self, stage: u32, part: u32) -> u32 {
        self.base + ((N as u32 + stage) * Self::PARTS + part) * 8
    }
    /// The part that this thread computes with.
    #[inline(always)]
    pub(super) fn own_part(&self) -> u32 {
        if Self::PARTS == 1 { 0 } else { uniform(thread_x() / 128) }
    }

    /// Loads a stage for each of `steps`, in order; who computes takes them one after the other.
    #[inline(always)]
    pub fn loads<I, F>(&mut self, steps: I, load: F) -> Loads<'_, P, N, PARTED, I, F>
    where
        I: Iterator<Item = u32>,
        F: for<'s> FnMut(Fill<'s, P, N>, u32),
    {
        let mut loads = Loads { pipeline: self, steps, load };
        // SAFETY: all roles make it; stages are acquired through it.
        unsafe { P::begin(loads.pipeline, &mut loads.steps, &mut loads.load) };
        loads
    }

    /// The barrier that completes when the current stage is full.
    #[inline(always)]
    pub(super) fn full(&self) -> u32 {
        self.full_part(self.own_part())
    }
    /// The barrier that completes when the consumers have left `stage`.
    #[inline(always)]
    pub(super) fn empty(&self, stage: u32) -> u32 {
        self.empty_part(stage, self.own_part())
    }
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == N as u32 {
            self.stage = 0;
            self.phase ^= 1;
        }
    }
}

impl<P: Schedule, const N: usize> Pipeline<P, N> {
    /// For each k of `steps`: `load(stage, k)` fills a stage, `compute(d, stage, k)` reads it when it is full.
    ///
    /// Loads run up to `N - 1` steps ahead; one step's gemms run while the next step is issued. Returns
    /// the accumulator when all its gemms are done.
    #[inline(always)]
    pub fn run<D: Accumulator>(
        &mut self,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        P::run_pipeline(self, steps, d, load, compute)
    }
}

/// What a copy by TMA fills and completes on.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub(super) barrier: u32,
    pub(super) part: u32,
    pub(super) parts: u32,
}

impl<const W: usize, const PRODUCERS: usize> Schedule for WarpSpecialized<W, PRODUCERS> {
    type Ticket = Arrival;
    const CONSUMERS: u32 = 128 * W as u32;
    const WARPGROUPS: u32 = W as u32;

    /// A full and an empty barrier.
    const STAGE_BYTES: u32 = 2 * 8;

    #[inline(always)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32) {
        // SAFETY: one thread initialises the barriers, and nobody uses them before the roles met; the
        // producer is one thread of its warp, the others have exited, so its warp counts whole.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                let (stages, leave) = if PARTED { (N * W, 1) } else { (N, W) };
                while stage < stages as u32 {
                    mbarrier::init(base + stage * 8, 1);
                    mbarrier::init(base + (stages as u32 + stage) * 8, leave as u32);
                    stage += 1;
                }
                sync::fence_mbarrier_init();
            }
            sync::barrier_sync(OPENING, Self::CONSUMERS + 32 * PRODUCERS as u32);
            sync::griddep_launch_dependents();
            sync::griddep_wait();
        }
    }

    #[inline(always)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe { copy::tma_load::<T, O, L, RANK, BOX, R, C>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn begin<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        let producer = thread_x().wrapping_sub(Self::CONSUMERS) / 32;
        if producer == pipeline.index % PRODUCERS as u32 {
            let parts = Pipeline::<Self, N, PARTED>::PARTS;
            for k in steps {
                let mut part = 0;
                while part < parts {
                    // SAFETY: an empty stage is this thread's until its full barrier completes.
                    unsafe {
                        mbarrier::wait(pipeline.empty_part(pipeline.stage, part), pipeline.phase ^ 1);
                        let ticket = Arrival { barrier: pipeline.full_part(part), part, parts };
                        load(Fill { stage: pipeline.stage, ticket, turn: PhantomData }, k);
                        mbarrier::arrive(ticket.barrier);
                    }
                    part += 1;
                }
                pipeline.advance();
            }
        }
    }

    #[inline(always)]
    unsafe fn acquire<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        // SAFETY: the barrier is initialised.
        unsafe { mbarrier::wait(pipeline.full(), pipeline.phase) }
    }

    #[inline(always)]
    unsafe fn release<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        stage: u32,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        if thread_x().is_multiple_of(128) {
            // SAFETY: one thread a consumer warpgroup releases, after the gemms that read the stage are done.
            unsafe { mbarrier::arrive(pipeline.empty(stage)) }
        }
    }

    #[inline(always)]
    fn run_pipeline<D: Accumulator, const N: usize>(
        pipeline: &mut Pipeline<Self, N>,
        steps: Range<u32>,
        d: D,
        mut load: impl for<'s> FnMut(Fill<'s, Self, N>, u32),
        mut compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        let mut d = d.start();
        let mut k = steps.start;
        // SAFETY: a full stage is read until its release, an empty one written until its barrier completes;
        // one thread a consumer warpgroup releases, after the gemms that read the stage are done.
        unsafe {
            if thread_x() < Self::CONSUMERS {
                let releases = thread_x().is_multiple_of(128);
                let mut last = None;
                // Registers like any other from here on: where no step is taken, constants would be written into
                // them beside the loop, and ptxas would then run its gemms one by one.
                d.touch();
                while k < steps.end {
                    mbarrier::wait(pipeline.full(), pipeline.phase);
                    d = compute(d, Full { stage: pipeline.stage, turn: PhantomData }, k);
                    wgmma::commit();
                    wgmma::wait::<1>();
                    if let Some(stage) = last
                        && releases
                    {
                        mbarrier::arrive(pipeline.empty(stage));
                    }
                    last = Some(pipeline.stage);
                    pipeline.advance();
                    k += 1;
                }
                d.settle();
                if let Some(stage) = last
                    && releases
                {
                    mbarrier::arrive(pipeline.empty(stage));
                }
            } else {
                Self::begin(pipeline, &mut { steps }, &mut load);
            }
            d.done()
        }
    }
}

impl<const W: usize, A: Access> Multistage<W, A> {
    /// Loads the next step, if there is one.
    ///
    /// # Safety
    /// All threads call it, as often.
    #[inline(always)]
    unsafe fn fill<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        let Some(k) = steps.next() else { return };
        let (stage, phase) = pipeline.ahead;
        // SAFETY: the stage is filled behind its empty barrier; every thread arrives once a turn, behind its copies.
        unsafe {
            wait(pipeline.empty(stage), phase ^ 1);
            load(Fill { stage, ticket: true, turn: PhantomData }, k);
            let barrier = pipeline.base + stage * 8;
            if A::VECTORS {
                cp_async::mbarrier_arrive_noinc_if(barrier, true)
            } else {
                mbarrier::arrive(barrier)
            }
        }
        pipeline.ahead = after::<N>(pipeline.ahead);
    }
}

/// The position after this one in a ring of `N` stages.
#[inline(always)]
fn after<const N: usize>((stage, phase): (u32, u32)) -> (u32, u32) {
    if stage + 1 == N as u32 { (0, phase ^ 1) } else { (stage + 1, phase) }
}

impl<const W: usize, A: Access> Schedule for Multistage<W, A> {
    /// False for the copies that would run ahead of the last step: they read nothing.
    type Ticket = bool;
    const CONSUMERS: u32 = 32 * W as u32;
    const WARPGROUPS: u32 = 1;

    /// A full barrier, at which every thread arrives, and an empty one, at which every warp does.
    const STAGE_BYTES: u32 = 2 * 8;

    #[inline(always)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32) {
        // SAFETY: one thread initialises the barriers, and nobody uses them before all threads met.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                while stage < N as u32 {
                    mbarrier::init(base + stage * 8, Self::CONSUMERS);
                    mbarrier::init(base + (N as u32 + stage) * 8, W as u32);
                    stage += 1;
                }
            }
            sync::syncthreads();
        }
    }

    #[inline(always)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        live: bool,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe {
            if A::VECTORS {
                copy::vector_load::<T, O, L, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            } else {
                copy::element_load::<T, O, L, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            }
        }
    }

    #[inline(always)]
    unsafe fn begin<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        let mut ahead = 0;
        // A ring of one stage is filled when all have left it.
        while ahead < if N == 1 { 1 } else { N - 1 } {
            // SAFETY: passed on.
            unsafe { Self::fill(pipeline, steps, load) };
            ahead += 1;
        }
    }

    #[inline(always)]
    unsafe fn acquire<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        _: &mut impl Iterator<Item = u32>,
        _: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        // SAFETY: the barrier is initialised.
        unsafe { wait(pipeline.full(), pipeline.phase) }
    }

    #[inline(always)]
    unsafe fn release<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        stage: u32,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        // SAFETY: the warp's barrier puts its reads before its arrival.
        unsafe {
            sync::sync_warp();
            mbarrier::arrive_if(pipeline.empty(stage), thread_x().is_multiple_of(32));
            if N > 1 {
                Self::fill(pipeline, steps, load)
            }
        }
    }

    #[inline(always)]
    fn run_pipeline<D: Accumulator, const N: usize>(
        pipeline: &mut Pipeline<Self, N>,
        steps: Range<u32>,
        d: D,
        mut load: impl for<'s> FnMut(Fill<'s, Self, N>, u32),
        mut compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        let mut d = d.start();
        let releases = thread_x().is_multiple_of(32);
        // No branch around the copies: their addresses are computed between the gemm's instructions.
        let mut fill = |stage: u32, barrier: u32, k: u32| {
            let live = k < steps.end;
            load(Fill { stage, ticket: live, turn: PhantomData }, if live { k } else { steps.end - 1 });
            // SAFETY: every thread arrives once a turn, behind its copies.
            unsafe {
                if A::VECTORS {
                    cp_async::mbarrier_arrive_noinc_if(barrier, live)
                } else {
                    mbarrier::arrive_if(barrier, live)
                }
            }
        };
        let mut k = steps.start;
        // SAFETY: a stage is read behind its full barrier, where every thread has arrived with its copies of this turn;
        // it is filled again behind its empty barrier, where every warp has arrived after its last read, which
        // the warp's barrier puts before the arrival of its first lane. Steps alone count turns: both barriers
        // complete once for each, and neither can run two phases ahead of a thread whose arrival it needs. Copies that are
        // not live write zeros to a stage that all have left, in a turn that is not begun: a thread fills the
        // same pieces of a tile in every turn, waits for its copies below, and only then arrives for that turn.
        unsafe {
            if k < steps.end {
                let (mut ahead, mut stage, mut phase) = (0, pipeline.stage, pipeline.phase);
                while ahead < N as u32 - 1 {
                    wait(pipeline.empty(stage), phase ^ 1);
                    fill(stage, pipeline.base + stage * 8, k + ahead);
                    (stage, phase) = if stage + 1 == N as u32 { (0, phase ^ 1) } else { (stage + 1, phase) };
                    ahead += 1;
                }
            }
            // The stage of the step before is the one to fill.
            let mut free = if pipeline.stage == 0 {
                (N as u32 - 1, pipeline.phase ^ 1)
            } else {
                (pipeline.stage - 1, pipeline.phase)
            };
            while k < steps.end {
                wait_both((pipeline.full(), pipeline.phase), (pipeline.empty(free.0), free.1));
                d = compute(d, Full { stage: pipeline.stage, turn: PhantomData }, k);
                sync::sync_warp();
                mbarrier::arrive_if(pipeline.empty(pipeline.stage), releases);
                fill(free.0, pipeline.base + free.0 * 8, k + N as u32 - 1);
                free = (pipeline.stage, pipeline.phase);
                pipeline.advance();
                k += 1;
            }
            cp_async::wait_all();
            d.settle();
            d.done()
        }
    }
}

/// Waits until the phase of this parity of an mbarrier has completed.
///
/// # Safety
/// As for [`mbarrier::test_wait`].
#[inline(always)]
unsafe fn wait(barrier: u32, parity: u32) {
    // SAFETY: the caller's.
    while !unsafe { mbarrier::test_wait(barrier, parity) } {}
}

/// Waits for two mbarriers.
///
/// # Safety
/// As for [`mbarrier::test_wait`].
#[inline(always)]
unsafe fn wait_both(a: (u32, u32), b: (u32, u32)) {
    // SAFETY: the caller's.
    while !unsafe { mbarrier::test_wait(a.0, a.1) & mbarrier::test_wait(b.0, b.1) } {}
}
