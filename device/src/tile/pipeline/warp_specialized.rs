//! Rings that producer warps fill by TMA.

use core::marker::PhantomData;
use core::ops::Range;

use crate::arch::special::{same_number, thread_x};
use crate::arch::tma::Coords;
use crate::arch::{mbarrier, shared, sync, warp, wgmma};
use crate::kernel::{Arch, Copies, Program};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::copy::arrival::Arrival;
use crate::tile::copy::{gather, load, paged, patches};
use crate::tile::cta::barriers::{FOLLOWING, OPENING};
use crate::tile::cta::collective::Collective;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global_tile::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::patches::PatchTile;
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::in_flight::{Accumulator, Pending};
use crate::tile::pipeline::configuration::{Configuration, Derived, OfConsumers, OfProducers};
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::{Reads, Schedule};

/// Hopper: consumer warpgroups, and behind them a producer warpgroup, of which one thread of each producer warp issues TMA. How many
/// there are of each, and with how many registers, `C` says: see [`Configuration`].
///
/// The body is instantiated twice, once for each role; tile operations with side effects test the
/// role, which the compiler folds in each copy. The producer gives registers to the consumers (`setmaxnreg`).
#[derive(Clone, Copy, Debug, Default)]
pub struct WarpSpecialized<C>(PhantomData<C>);

impl<C: Configuration> WarpSpecialized<C> {
    /// Producer warps.
    const PRODUCERS: u32 = C::PRODUCERS.warps();
    /// Whether all of them fill every stage.
    const JOINT: bool = C::PRODUCERS.joint();

    /// Which part of a tile, of how many, a producer with this share of a stage copies by TMA: of a joint stage the last one all, the
    /// others nothing.
    #[inline(always)]
    fn boxes(part: u32, parts: u32) -> Option<(u32, u32)> {
        match Self::JOINT {
            true if part + 1 < parts => None,
            true => Some((0, 1)),
            false => Some((part, parts)),
        }
    }
}

impl<C: Configuration> Program for WarpSpecialized<C> {
    const ARCH: Arch = Arch::Sm90a;
    const THREADS: u32 = C::THREADS;
    const COMPUTING: u32 = 128 * C::CONSUMER_WARPGROUPS;
    const CTAS: u32 = C::CTAS_PER_SM;
    const COPIES: Copies = Copies::Boxes;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        const { C::FIT };
        let thread = thread_x();
        // SAFETY: every warp of a warpgroup executes the same setmaxnreg once, and the amounts fit the launch; whole warps elect.
        unsafe {
            if thread >= Self::CONSUMERS {
                match C::CONSUMER_WARPGROUPS {
                    1 if C::REGISTERS.is_none() => {}
                    _ => sync::setmaxnreg_dec::<OfProducers<C>>(),
                }
                let alone = || if C::ELECTS { warp::elect_one() } else { thread.is_multiple_of(32) };
                if thread < Self::CONSUMERS + 32 * Self::PRODUCERS && alone() {
                    body();
                    leave::<Self>();
                }
            } else {
                match C::CONSUMER_WARPGROUPS {
                    1 if C::REGISTERS.is_none() => {}
                    _ => sync::setmaxnreg_inc::<OfConsumers<C>>(),
                }
                body();
                leave::<Self>();
            }
        }
    }
}

/// Waits for the cluster's other CTAs, which may copy to this one's memory and arrive at its barriers until then.
///
/// # Safety
/// All threads execute it that have not exited.
#[inline(always)]
unsafe fn leave<P: Collective>() {
    if P::CLUSTER > 1 {
        // SAFETY: the caller's.
        unsafe {
            sync::cluster_arrive_release();
            sync::cluster_wait();
        }
    }
}

impl<C: Configuration> Collective for WarpSpecialized<C> {
    const WARPGROUPS: u32 = C::CONSUMER_WARPGROUPS;
    const CLUSTER: u32 = C::CLUSTER;
    const APART: bool = C::APART;
}

impl<C: Configuration> Loader for WarpSpecialized<C> {
    type Ticket = Arrival;

    #[inline(always)]
    fn on_barrier(barrier: u32) -> Arrival {
        Arrival::new(barrier)
    }

    #[inline(always)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const ROWS: usize, const COLS: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords,
    {
        let Some((part, parts)) = Self::boxes(part, parts) else { return };
        // SAFETY: passed on.
        unsafe { load::tma_load::<Self, T, O, L, RANK, BOX, ROWS, COLS>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn load_paged<
        T: Element,
        L: SharedLayout,
        const BOX: usize,
        const ROWS: usize,
        const COLS: usize,
    >(
        from: PagedTile<T, BOX>,
        to: u32,
        Arrival { barrier, .. }: Arrival,
    ) {
        // SAFETY: passed on.
        unsafe { paged::paged_tma::<T, L, BOX, ROWS, COLS>(from, to, barrier) }
    }

    #[inline(always)]
    unsafe fn load_gathered<
        T,
        L,
        F,
        const RANK: usize,
        const BOX: usize,
        const ROWS: usize,
        const COLS: usize,
    >(
        from: Gathered<T, RANK, BOX, F>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) where
        T: Element,
        L: SharedLayout,
        F: Fn(u32) -> Option<[u32; RANK]>,
        [u32; RANK]: Coords,
    {
        let Some((part, parts)) = Self::boxes(part, parts) else { return };
        // SAFETY: passed on.
        unsafe { gather::gathered_tma::<T, L, F, RANK, BOX, ROWS, COLS>(from, to, barrier, part, parts) }
    }

    #[inline(always)]
    unsafe fn load_patches<T: Element, L: SharedLayout, const ROWS: usize, const COLS: usize>(
        from: PatchTile<T>,
        to: u32,
        Arrival { barrier, part, parts }: Arrival,
    ) {
        let Some((_, parts)) = Self::boxes(part, parts) else { return };
        // SAFETY: passed on.
        unsafe { patches::patches_tma::<T, L, ROWS, COLS>(from, to, barrier, parts) }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, Arrival { barrier, .. }: Arrival) {
        // SAFETY: passed on.
        unsafe { load::bulk(from, to, bytes, barrier) }
    }

    #[inline(always)]
    fn share(Arrival { part, parts, .. }: Arrival) -> (u32, u32) {
        if Self::JOINT { (part, parts) } else { (0, 1) }
    }
}

impl<C: Configuration> Schedule for WarpSpecialized<C> {
    /// A full and an empty barrier.
    const STAGE_BYTES: u32 = 2 * 8;

    #[inline(always)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32) {
        // SAFETY: one thread initialises the barriers, and nobody uses them before the roles met; the
        // producer is one thread of its warp, the others have exited, so its warp counts whole.
        unsafe {
            if thread_x() == 0 {
                let mut stage = 0;
                // Those that read a stage: all consumer warpgroups, or the one whose tile it is of.
                let (n, warpgroups) = (N as u32, if C::APART { 1 } else { Self::WARPGROUPS });
                let (stages, leave) = if PARTED { (n * warpgroups, 1) } else { (n, warpgroups) };
                let (fill, leave) = if Self::JOINT {
                    (Self::PRODUCERS, 4 * leave * Self::CLUSTER * mbarrier::arrivals(32))
                } else {
                    (1, leave * Self::CLUSTER * mbarrier::arrivals(128))
                };
                while stage < stages {
                    mbarrier::init(base + stage * 8, fill);
                    mbarrier::init(base + (stages + stage) * 8, leave);
                    stage += 1;
                }
                sync::fence_mbarrier_init();
            }
            if Self::CLUSTER == 1 {
                sync::barrier_sync(OPENING.get::<0>(), Self::CONSUMERS + 32 * Self::PRODUCERS);
            } else {
                sync::cluster_arrive_release();
                sync::cluster_wait();
            }
            sync::griddep_launch_dependents();
            // Joint producers before the last copy what no kernel writes: they need not wait for the preceding grid.
            let last = Self::CONSUMERS + 32 * (Self::PRODUCERS - 1);
            if !Self::JOINT || thread_x() < Self::CONSUMERS || thread_x() >= last {
                sync::griddep_wait();
            }
        }
    }

    #[inline(always)]
    unsafe fn follow<const N: usize, const PARTED: bool>(pipeline: &Pipeline<Self, N, PARTED>) {
        let producer = thread_x().wrapping_sub(Self::CONSUMERS) / 32;
        if thread_x() < Self::CONSUMERS || producer == pipeline.index % Self::PRODUCERS {
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
        const { assert!(!Self::JOINT || !PARTED, "a joint stage has no parts") };
        if Self::JOINT {
            if producer < Self::PRODUCERS {
                for k in steps {
                    // SAFETY: as below; the stage is full when all producers have arrived, and their copies.
                    unsafe {
                        mbarrier::wait(pipeline.empty(pipeline.stage), pipeline.phase ^ 1);
                        let ticket =
                            Arrival { barrier: pipeline.full(), part: producer, parts: Self::PRODUCERS };
                        load(pipeline.fill(pipeline.stage, ticket), k);
                        mbarrier::arrive(ticket.barrier);
                    }
                    pipeline.advance();
                }
            }
        } else if producer == pipeline.index % Self::PRODUCERS {
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
            if Self::JOINT {
                sync::sync_warp();
                let lane = thread_x() % 32;
                if Self::CLUSTER == 1 {
                    mbarrier::arrive_if(pipeline.empty(stage), mbarrier::arrives(lane, 32));
                } else if mbarrier::EVERY_LANE {
                    let mut cta = 0;
                    while cta < Self::CLUSTER {
                        mbarrier::arrive_remote(shared::mapa(pipeline.empty(stage), cta));
                        cta += 1;
                    }
                } else if lane < Self::CLUSTER {
                    // Each lane at another CTA's: all of them copy to this stage.
                    mbarrier::arrive_remote(shared::mapa(pipeline.empty(stage), lane));
                }
            } else {
                let leave = Leave::new(pipeline);
                if leave.arrives {
                    leave.stage(pipeline, stage)
                }
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
        issued: impl FnOnce(),
    ) -> D {
        const { assert!(!Self::JOINT, "`run` gives stages back by warpgroups") };
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
                let leave = Leave::new(pipeline);
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
                        && leave.arrives
                    {
                        leave.stage(pipeline, stage);
                    }
                    last = Some(pipeline.stage);
                    pipeline.advance();
                    k += 1;
                }
                issued();
                d.settle();
                if let Some(stage) = last
                    && leave.arrives
                {
                    leave.stage(pipeline, stage);
                }
            } else {
                Self::begin(pipeline, &mut { steps }, &mut load);
            }
            d.done()
        }
    }
}

/// How a warpgroup gives stages back: one thread arrives at each CTA's barriers that copies to them.
#[derive(Clone, Copy)]
struct Leave {
    /// Whether this thread does.
    arrives: bool,
    /// The first stage's empty barrier in the CTA where this thread arrives, where a cluster has several.
    remote: u32,
}

impl Leave {
    #[inline(always)]
    fn new<P: Collective, const N: usize, const PARTED: bool>(pipeline: &Pipeline<P, N, PARTED>) -> Self {
        let thread = thread_x();
        if P::CLUSTER == 1 || mbarrier::EVERY_LANE {
            return Leave { arrives: mbarrier::arrives(thread, 128), remote: 0 };
        }
        let arrives = thread % 128 < P::CLUSTER;
        Leave { arrives, remote: shared::mapa(pipeline.empty(0), if arrives { thread % 128 } else { 0 }) }
    }

    /// # Safety
    /// Those of the warpgroup's threads that arrive execute it after its last reads of the stage, which it acquired.
    #[inline(always)]
    unsafe fn stage<P: Collective, const N: usize, const PARTED: bool>(
        self,
        pipeline: &Pipeline<P, N, PARTED>,
        stage: u32,
    ) {
        // SAFETY: the caller's.
        unsafe {
            if P::CLUSTER == 1 {
                mbarrier::arrive(pipeline.empty(stage))
            } else if mbarrier::EVERY_LANE {
                let mut cta = 0;
                while cta < P::CLUSTER {
                    mbarrier::arrive_remote(shared::mapa(pipeline.empty(stage), cta));
                    cta += 1;
                }
            } else {
                // Stages' barriers are as far apart as their parts are many.
                mbarrier::arrive_remote(self.remote + stage * 8 * Pipeline::<P, N, PARTED>::PARTS)
            }
        }
    }
}

impl<C: Configuration> Reads for WarpSpecialized<C> {
    const ANY_STRIDES: bool = false;
}
