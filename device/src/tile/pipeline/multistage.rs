//! Rings that all threads fill by `cp.async`.

use core::marker::PhantomData;
use core::ops::Range;

use crate::arch::special::thread_x;
use crate::arch::tma::Coords;
use crate::arch::{cp_async, mbarrier, sync};
use crate::kernel::{Arch, Copies, Program};
use crate::layout::{Element, Major, RowMajor, SharedLayout};
use crate::tile::copy::access::{Access, Vectors};
use crate::tile::copy::{gather, load, paged, patches};
use crate::tile::cta::collective::Collective;
use crate::tile::memory::gathered::Gathered;
use crate::tile::memory::global_tile::GlobalTile;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::paged::PagedTile;
use crate::tile::memory::patches::PatchTile;
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::in_flight::{Accumulator, Pending};
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::{Reads, Schedule};

/// Ampere and later: all of `W` warps load and compute, with `cp.async` running ahead by the stages of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Multistage<const W: usize, A = Vectors>(PhantomData<A>);

impl<const W: usize, A: Access> Program for Multistage<W, A> {
    const ARCH: Arch = A::ARCH;
    const THREADS: u32 = 32 * W as u32;
    const COPIES: Copies = if A::VECTORS { Copies::Pieces } else { Copies::Elements };

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        // SAFETY: the kernel was launched with THREADS threads.
        unsafe { core::hint::assert_unchecked(thread_x() < Self::THREADS) };
        body()
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
            load(pipeline.fill(stage, true), k);
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

impl<const W: usize, A: Access> Collective for Multistage<W, A> {
    const WARPGROUPS: u32 = 1;
}

impl<const W: usize, A: Access> Loader for Multistage<W, A> {
    /// False for the copies that would run ahead of the last step: they read nothing.
    type Ticket = bool;

    /// All copies do something; the barrier is not asked.
    #[inline(always)]
    fn on_barrier(_: u32) -> bool {
        true
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
                load::vector_load::<T, O, L, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            } else {
                load::element_load::<T, O, L, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            }
        }
    }

    #[inline(always)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        live: bool,
    ) {
        if from.is_matrix {
            // SAFETY: passed on.
            return unsafe { Self::load::<T, RowMajor, L, 4, BOX, R, C>(from.matrix(), to, live) };
        }
        // SAFETY: passed on.
        unsafe {
            if A::VECTORS {
                paged::paged_vectors::<T, L, BOX, R, C>(from, to, Self::CONSUMERS)
            } else {
                paged::paged_elements::<T, L, BOX, R, C>(from, to, Self::CONSUMERS)
            }
        }
    }

    #[inline(always)]
    unsafe fn load_gathered<T, L, F, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: Gathered<T, RANK, BOX, F>,
        to: u32,
        live: bool,
    ) where
        T: Element,
        L: SharedLayout,
        F: Fn(u32) -> Option<[u32; RANK]>,
        [u32; RANK]: Coords,
    {
        // SAFETY: passed on.
        unsafe {
            if A::VECTORS {
                gather::gathered_vectors::<T, L, F, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            } else {
                gather::gathered_elements::<T, L, F, RANK, BOX, R, C>(from, to, Self::CONSUMERS, live)
            }
        }
    }

    #[inline(always)]
    unsafe fn load_patches<T: Element, L: SharedLayout, const R: usize, const C: usize>(
        from: PatchTile<T>,
        to: u32,
        live: bool,
    ) {
        // SAFETY: passed on.
        unsafe {
            if A::VECTORS {
                patches::patches_vectors::<T, L, R, C>(from, to, Self::CONSUMERS, live)
            } else {
                patches::patches_elements::<T, L, R, C>(from, to, Self::CONSUMERS, live)
            }
        }
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, live: bool) {
        // SAFETY: passed on.
        unsafe { load::byte_load::<A>(from, to, bytes, Self::CONSUMERS, live) }
    }

    #[inline(always)]
    fn share(_: bool) -> (u32, u32) {
        (0, 1)
    }
}

impl<const W: usize, A: Access> Schedule for Multistage<W, A> {
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
                    mbarrier::init(base + (N as u32 + stage) * 8, W as u32 * mbarrier::arrivals(32));
                    stage += 1;
                }
            }
            sync::syncthreads();
            if matches!(A::ARCH, Arch::Sm90a) {
                sync::griddep_launch_dependents();
                sync::griddep_wait();
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
        // A ring of one stage is filled again when all have left it.
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
            mbarrier::arrive_if(pipeline.empty(stage), mbarrier::arrives(thread_x(), 32));
            Self::fill(pipeline, steps, load)
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
        const {
            assert!(
                !D::Issued::ASYNCHRONOUS,
                "gemms of `wgmma` take stages that a producer fills: `WarpSpecialized`"
            )
        };
        let mut d = d.start();
        let releases = mbarrier::arrives(thread_x(), 32);
        let index = pipeline.index;
        // No branch around the copies: their addresses are computed between the gemm's instructions.
        let mut fill = |stage: u32, barrier: u32, k: u32| {
            let live = k < steps.end;
            load(
                Fill { stage, pipeline: Some(index), ticket: live, turn: PhantomData },
                if live { k } else { steps.end - 1 },
            );
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
                d = compute(d, pipeline.read(), k);
                sync::sync_warp();
                mbarrier::arrive_if(pipeline.empty(pipeline.stage), releases);
                fill(free.0, pipeline.base + free.0 * 8, k + N as u32 - 1);
                free = (pipeline.stage, pipeline.phase);
                pipeline.advance();
                k += 1;
            }
            issued();
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

impl<const W: usize, A: Access> Reads for Multistage<W, A> {
    const ANY_STRIDES: bool = !A::VECTORS;
}
