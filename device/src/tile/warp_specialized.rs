//! Rings that producer warps fill by TMA.

use core::marker::PhantomData;
use core::ops::Range;

use super::{
    Accumulator, Fill, Full, GlobalTile, PagedTile, Pending, Pipeline, Schedule, WarpSpecialized, copy,
};
use crate::arch::special::{same_number, thread_x};
use crate::arch::tma::Coords;
use crate::arch::{mbarrier, shared, sync, wgmma};
use crate::layout::{Element, Major, SharedLayout};

/// The named barrier that the roles of a CTA meet at when a pipeline opens.
const OPENING: u32 = 0;
/// The one that a producer waits at for those who compute.
const FOLLOWING: u32 = 14;

/// What a copy by TMA fills and completes on.
#[derive(Clone, Copy)]
pub struct Arrival {
    pub(super) barrier: u32,
    pub(super) part: u32,
    pub(super) parts: u32,
}

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize>
    Schedule for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    type Ticket = Arrival;
    const CONSUMERS: u32 = 128 * W as u32;
    const WARPGROUPS: u32 = W as u32;

    /// A full and an empty barrier.
    const STAGE_BYTES: u32 = 2 * 8;
    const CLUSTER: u32 = CLUSTER as u32;

    #[inline(always)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32) {
        // SAFETY: one thread initialises the barriers, and nobody uses them before the roles met; the
        // producer is one thread of its warp, the others have exited, so its warp counts whole.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                let (stages, leave) = if PARTED { (N * W, 1) } else { (N, W) };
                let (fill, leave) = if JOINT { (PRODUCERS, 4 * leave * CLUSTER) } else { (1, leave) };
                while stage < stages as u32 {
                    mbarrier::init(base + stage * 8, fill as u32);
                    mbarrier::init(base + (stages as u32 + stage) * 8, leave as u32);
                    stage += 1;
                }
                sync::fence_mbarrier_init();
            }
            const { assert!(CLUSTER == 1 || JOINT, "joint producers copy to all CTAs of a cluster") };
            if CLUSTER == 1 {
                sync::barrier_sync(OPENING, Self::CONSUMERS + 32 * PRODUCERS as u32);
            } else {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
            sync::griddep_launch_dependents();
            // Joint producers before the last copy what no kernel writes: they need not wait for the one in front.
            let last = Self::CONSUMERS + 32 * (PRODUCERS as u32 - 1);
            if !JOINT || thread_x() < Self::CONSUMERS || thread_x() >= last {
                sync::griddep_wait();
            }
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
        // Of a joint stage's tiles, the last producer copies those that TMA has boxes for.
        let (part, parts) = match JOINT {
            true if part + 1 < parts => return,
            true => (0, 1),
            false => (part, parts),
        };
        // SAFETY: passed on.
        unsafe { copy::tma_load::<T, O, L, RANK, BOX, R, C, CLUSTER>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        Arrival { barrier, .. }: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { copy::paged_tma::<T, L, BOX, R, C>(from, to, barrier) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, Arrival { barrier, .. }: Arrival) {
        // SAFETY: passed on.
        unsafe { copy::bulk(from, to, bytes, barrier) }
    }

    #[inline(always)]
    fn share(Arrival { part, parts, .. }: Arrival) -> (u32, u32) {
        if JOINT { (part, parts) } else { (0, 1) }
    }

    #[inline(always)]
    unsafe fn follow<const N: usize, const PARTED: bool>(pipeline: &Pipeline<Self, N, PARTED>) {
        let producer = thread_x().wrapping_sub(Self::CONSUMERS) / 32;
        if thread_x() < Self::CONSUMERS || producer == pipeline.index % PRODUCERS as u32 {
            // SAFETY: the producer is one thread of its warp, the others have exited, so its warp counts whole.
            unsafe { sync::barrier_sync(FOLLOWING, Self::CONSUMERS + 32) }
        }
    }

    #[inline(always)]
    unsafe fn begin<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    ) {
        let producer = thread_x().wrapping_sub(Self::CONSUMERS) / 32;
        const { assert!(!JOINT || !PARTED, "a joint stage has no parts") };
        if JOINT {
            if producer < PRODUCERS as u32 {
                for k in steps {
                    // SAFETY: as below; the stage is full when all producers have arrived, and their copies.
                    unsafe {
                        mbarrier::wait(pipeline.empty(pipeline.stage), pipeline.phase ^ 1);
                        let ticket =
                            Arrival { barrier: pipeline.full(), part: producer, parts: PRODUCERS as u32 };
                        load(Fill { stage: pipeline.stage, ticket, turn: PhantomData }, k);
                        mbarrier::arrive(ticket.barrier);
                    }
                    pipeline.advance();
                }
            }
        } else if producer == pipeline.index % PRODUCERS as u32 {
            let parts = Pipeline::<Self, N, PARTED>::PARTS;
            for k in steps {
                // Parts in a loop that is not unrolled: their boxes' coordinates are not all in registers at a time.
                let (mut part, end) = (0, if PARTED { same_number(parts) } else { parts });
                while part < end {
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
        // SAFETY: one thread a consumer warpgroup releases, after the gemms that read the stage are done; or one of each warp,
        // behind whose barrier its other lanes' reads are done too.
        unsafe {
            if JOINT {
                sync::sync_warp();
                let lane = thread_x() % 32;
                if CLUSTER == 1 {
                    mbarrier::arrive_if(pipeline.empty(stage), lane == 0);
                } else if lane < CLUSTER as u32 {
                    // Each lane at another CTA's: all of them copy to this stage.
                    mbarrier::arrive_remote(shared::mapa(pipeline.empty(stage), lane));
                }
            } else if thread_x().is_multiple_of(128) {
                mbarrier::arrive(pipeline.empty(stage))
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
        const { assert!(!JOINT, "`run` gives stages back by warpgroups") };
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
