//! How the warps of a CTA share a kernel's body: the two schedules that a kernel can be compiled for.

use core::marker::PhantomData;
use core::ops::Range;

use super::{Accumulator, Fill, Full, GlobalTile, PagedTile, Pipeline};
use crate::arch::special::thread_x;
use crate::arch::sync;
use crate::arch::tma::Coords;
use crate::kernel::{Arch, Program};
use crate::layout::{Element, Major, SharedLayout};

/// A program of warps that the tile operations know how to run on.
///
/// [`WarpSpecialized`] for Hopper, [`Multistage`] for everything since Ampere; kernels are generic over it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schedule of warps",
    note = "schedules are WarpSpecialized<W> and Multistage<W>"
)]
pub trait Schedule: Program + Sized + 'static {
    /// What a copy into a stage completes on.
    type Ticket: Copy;
    /// Threads that hold fragments: 0 to `CONSUMERS` of the CTA.
    const CONSUMERS: u32;
    /// Warpgroups that compute by themselves; 1 where all warps load and compute together.
    const WARPGROUPS: u32;
    /// Bytes of shared memory that each stage of a pipeline takes beside its tiles.
    const STAGE_BYTES: u32;
    /// CTAs of a cluster that take neighbouring tiles together.
    const CLUSTER: u32 = 1;

    /// Makes a ring's barriers at shared address `base`.
    ///
    /// # Safety
    /// Called by every role of the CTA with the same `base`, which nothing else uses.
    #[doc(hidden)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32);

    /// Copies a tile into a stage that is being filled.
    ///
    /// # Safety
    /// `to` is a tile of type `Shared<T, R, C, L, O>` in a stage that is this role's to fill, with its ticket.
    #[doc(hidden)]
    unsafe fn load<T, O, L, const RANK: usize, const BOX: usize, const R: usize, const C: usize>(
        from: GlobalTile<T, RANK, O, BOX>,
        to: u32,
        ticket: Self::Ticket,
    ) where
        T: Element,
        O: Major,
        L: SharedLayout,
        [u32; RANK]: Coords;

    /// Copies a tile of pages into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    #[doc(hidden)]
    unsafe fn load_paged<T: Element, L: SharedLayout, const BOX: usize, const R: usize, const C: usize>(
        from: PagedTile<T, BOX>,
        to: u32,
        ticket: Self::Ticket,
    );

    /// Copies neighbouring bytes into a stage that is being filled.
    ///
    /// # Safety
    /// As for [`load`](Self::load), with `bytes` at `to`. `from`, `to` and `bytes` are multiples of 16; the bytes are readable.
    #[doc(hidden)]
    unsafe fn load_bytes(from: *const u8, to: u32, bytes: u32, ticket: Self::Ticket);

    /// Which share of a stage's copies is this role's, of how many.
    #[doc(hidden)]
    fn share(ticket: Self::Ticket) -> (u32, u32);

    /// See [`Pipeline::follow`].
    ///
    /// # Safety
    /// Called by every role of the CTA.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn follow<const N: usize, const PARTED: bool>(_: &Pipeline<Self, N, PARTED>) {}

    /// The threads that load into pipeline `index` load all of `steps`, or as many as are loaded ahead.
    ///
    /// # Safety
    /// Called by every role of the CTA, before [`acquire`](Self::acquire) for these steps.
    #[doc(hidden)]
    unsafe fn begin<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// Waits for the next stage to be full.
    ///
    /// # Safety
    /// The threads that hold fragments call it, as often as there are steps.
    #[doc(hidden)]
    unsafe fn acquire<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// Gives the stage back, to be filled again.
    ///
    /// # Safety
    /// The threads that hold fragments call it for each stage that they acquired, in order, after their last read of it.
    #[doc(hidden)]
    unsafe fn release<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        stage: u32,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// The body of [`Pipeline::run`].
    #[doc(hidden)]
    fn run_pipeline<D: Accumulator, const N: usize>(
        pipeline: &mut Pipeline<Self, N>,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, Self, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D;
}

/// Hopper: `W` consumer warpgroups, and behind them a producer warpgroup, of which one thread in each of `PRODUCERS` warps
/// issues TMA, for one pipeline after the other.
///
/// If `JOINT`, all producers fill every stage together, for stages of many copies; and consumers give them back warp by warp,
/// because their threads read them too, not their gemms alone. Of those, all but the last begin before the kernel in front has
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

/// How [`Multistage`] reads global memory.
pub trait Access: Copy + Default + 'static {
    /// True when tensors are read by 16-byte `cp.async`, false when element by element.
    const VECTORS: bool;
    /// What it is compiled for.
    const ARCH: Arch = Arch::Sm80;
}

/// 16-byte copies: one stride is 1; the address, the other strides and the extent along the first are multiples of 16 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vectors;

/// Element by element, each with a bounds test: any strides, any alignment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Elements;

/// As [`Vectors`], on Hopper: the kernel may overlap the one in front of it (programmatic dependent launch).
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlapping;

impl Access for Overlapping {
    const VECTORS: bool = true;
    const ARCH: Arch = Arch::Sm90a;
}

impl Access for Vectors {
    const VECTORS: bool = true;
}

impl Access for Elements {
    const VECTORS: bool = false;
}

/// Ampere and later: all of `W` warps load and compute, with `cp.async` running ahead by the stages of the ring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Multistage<const W: usize, A = Vectors>(PhantomData<A>);

impl<const W: usize, A: Access> Program for Multistage<W, A> {
    const ARCH: Arch = A::ARCH;
    const THREADS: u32 = 32 * W as u32;

    #[inline(always)]
    unsafe fn run(body: impl FnOnce()) {
        // SAFETY: the kernel was launched with THREADS threads.
        unsafe { core::hint::assert_unchecked(thread_x() < Self::THREADS) };
        body()
    }
}

/// A schedule, as far as it decides which tensors a kernel can read.
pub trait Reads: Schedule {
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;
}

impl<const W: usize, const PRODUCERS: usize, const JOINT: bool, const CTAS: usize, const CLUSTER: usize> Reads
    for WarpSpecialized<W, PRODUCERS, JOINT, CTAS, CLUSTER>
{
    const ANY_STRIDES: bool = false;
}

impl<const W: usize, A: Access> Reads for Multistage<W, A> {
    const ANY_STRIDES: bool = !A::VECTORS;
}
