//! Rings that producer warps fill by TMA.

use core::ops::Range;

use crate::arch::special::{same_number, thread_x};
use crate::arch::tma::Coords;
use crate::arch::{mbarrier, shared, sync, wgmma};
use crate::kernel::{Arch, Program};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::copy::arrival::Arrival;
use crate::tile::copy::{load, paged};
use crate::tile::cta::barriers::{FOLLOWING, OPENING};
use crate::tile::cta::collective::Collective;
use crate::tile::memory::global::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::in_flight::{Accumulator, Pending};
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::{Reads, Schedule};

/// Hopper: `W` consumer warpgroups, and behind them a producer warpgroup, of which one thread in each of `PRODUCERS` warps
/// issues TMA, for one pipeline after the other.
///
/// If `JOINT`, all producers fill every stage together, for stages of many copies; and consumers give them back warp by warp,
/// because their threads read them too, not their gemms alone. Of those, all but the last begin before the preceding grid has
/// ended (programmatic dependent launch): what they copy, bytes, no kernel writes. `CTAS` is how many CTAs share an SM.
///
/// With joint producers, `CLUSTER` CTAs may take tiles that differ in what is copied as bytes alone: of every tile that TMA has boxes
/// for, each copies its share to all of them (multicast), so that it is read from the L2 cache once. They load the same steps, and the
/// kernel's `cluster` is `[P::CLUSTER, 1, 1]`.
///
/// The body is instantiated twice, once for each role; tile operations with side effects test the
/// role, which the compiler folds in each copy. The producer gives registers to the consumers (`setmaxnreg`).
#[derive(Clone, Copy, Debug, Default)]
pub struct WarpSpecialized<
    const W: usize,
    const PRODUCERS: usize = 1,
    const JOINT: bool = false,
    const CTAS: usize = 1,
    const CLUSTER: usize = 1,
>;

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize>
    Program for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = 128 * (W as u32 + 1);
    const COMPUTING: u32 = 128 * W as u32;
    const CTAS: u32 = CTAS as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        const { assert!(W >= 1 && W <= 4, "1 to 4 consumer warpgroups") };
        const {
            assert!(
                CTAS == 1 || CTAS == 2 && W == 1,
                "an SM holds two CTAs of one consumer warpgroup, or one"
            )
        };
        const { assert!(PRODUCERS >= 1 && PRODUCERS <= 4, "1 to 4 producer warps") };
        let consumers = 128 * W as u32;
        let thread = thread_x();
        // SAFETY: every warp of a warpgroup executes the same setmaxnreg once; the amounts sum to what the
        // launch allocated: 168 * 384 = 128 * (40 + 2 * 232) = 128 * (56 + 2 * 224), 128 * 512 = 128 * (32 + 3 * 160),
        // 96 * 640 = 128 * (64 + 4 * 104); where an SM holds two, 128 * 256 >= 128 * (40 + 208).
        unsafe {
            if thread >= consumers {
                match (W, JOINT) {
                    (2, true) => sync::setmaxnreg_dec::<56>(),
                    (2, false) => sync::setmaxnreg_dec::<40>(),
                    (3, _) => sync::setmaxnreg_dec::<32>(),
                    (4, _) => sync::setmaxnreg_dec::<64>(),
                    _ if CTAS == 2 => sync::setmaxnreg_dec::<40>(),
                    _ => {}
                }
                if (thread - consumers).is_multiple_of(32) && thread < consumers + 32 * PRODUCERS as u32 {
                    body();
                    leave::<CLUSTER>();
                }
            } else {
                match (W, JOINT) {
                    (2, true) => sync::setmaxnreg_inc::<224>(),
                    (2, false) => sync::setmaxnreg_inc::<232>(),
                    (3, _) => sync::setmaxnreg_inc::<160>(),
                    (4, _) => sync::setmaxnreg_inc::<104>(),
                    _ if CTAS == 2 => sync::setmaxnreg_inc::<208>(),
                    _ => {}
                }
                body();
                leave::<CLUSTER>();
            }
        }
    }
}

/// Waits for the cluster's other CTAs, which may copy to this one's memory and arrive at its barriers until then.
///
/// # Safety
/// All threads execute it that have not exited.
#[inline(always)]
unsafe fn leave<const CLUSTER: usize>() {
    if CLUSTER > 1 {
        // SAFETY: the caller's.
        unsafe {
            sync::cluster_arrive_release();
            sync::cluster_wait();
        }
    }
}

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize>
    Collective for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    const CONSUMERS: u32 = 128 * W as u32;
    const WARPGROUPS: u32 = W as u32;
    const CLUSTER: u32 = CLUSTER as u32;
}

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize>
    Loader for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    type Ticket = Arrival;

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
        unsafe { load::tma_load::<T, O, L, RANK, BOX, R, C, CLUSTER>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        Arrival { barrier, .. }: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { paged::paged_tma::<T, L, BOX, R, C>(from, to, barrier) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, Arrival { barrier, .. }: Arrival) {
        // SAFETY: passed on.
        unsafe { load::bulk(from, to, bytes, barrier) }
    }

    #[inline(always)]
    fn share(Arrival { part, parts, .. }: Arrival) -> (u32, u32) {
        if JOINT { (part, parts) } else { (0, 1) }
    }
}

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize>
    Schedule for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
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
                sync::barrier_sync(OPENING.get::<0>(), Self::CONSUMERS + 32 * PRODUCERS as u32);
            } else {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
            sync::griddep_launch_dependents();
            // Joint producers before the last copy what no kernel writes: they need not wait for the preceding grid.
            let last = Self::CONSUMERS + 32 * (PRODUCERS as u32 - 1);
            if !JOINT || thread_x() < Self::CONSUMERS || thread_x() >= last {
                sync::griddep_wait();
            }
        }
    }

    #[inline(always)]
    unsafe fn follow<const N: usize, const PARTED: bool>(pipeline: &Pipeline<Self, N, PARTED>) {
        let producer = thread_x().wrapping_sub(Self::CONSUMERS) / 32;
        if thread_x() < Self::CONSUMERS || producer == pipeline.index % PRODUCERS as u32 {
            // SAFETY: the producer is one thread of its warp, the others have exited, so its warp counts whole.
            unsafe { sync::barrier_sync(FOLLOWING.get::<0>(), Self::CONSUMERS + 32) }
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
                        load(pipeline.fill(pipeline.stage, ticket), k);
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
                        load(pipeline.fill(pipeline.stage, ticket), k);
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
        const {
            assert!(
                D::Issued::ASYNCHRONOUS,
                "a warpgroup's stages are read by its `wgmma`: policies of `warp` go with `Multistage`"
            )
        };
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
                    d = compute(d, pipeline.read(), k);
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

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize> Reads
    for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    const ANY_STRIDES: bool = false;
}
