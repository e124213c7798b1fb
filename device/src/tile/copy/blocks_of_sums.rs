//! Sums of fragments in global memory, that TMA adds up in an order of their own.

use core::marker::PhantomData;

use crate::arch::declare::refuse;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::arch::{atomic, global, mbarrier, shared, sync, tma};
use crate::kernel::Arch;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::cta::Cta;
use crate::tile::fragment::Fragment;
use crate::tile::scheduler::queue::HandsOut;

/// Room in shared memory through which fragments are added to blocks of `M` x `N` sums in global memory, by TMA, while the threads go on. On Hopper.
///
/// Threads that compute [put](Self::put) fragments there, and a producer that fills no pipeline [adds](Self::add) them: it alone waits, for what was put and, where
/// additions have an order, for their turn.
///
/// A block's sums lie as registers do, and not in rows: four of a thread's side by side, neighbouring threads of a warpgroup next to each other, so that a
/// warpgroup's are one piece of memory. [`Fragment::of_sums`] reads them.
///
/// Each sum is rounded after each addition, in an order that differs from launch to launch, as by [`atomic_add`](crate::tile::atomic_add), but for
/// those that a [`SumTurn`] puts in order.
///
/// ```
/// use tilewright_device::tile::*;
///
/// type Program = WarpSpecialized<TwoConsumersThreeProducers>;
///
/// /// Adds `count` fragments of 128 x 64 of ones to the blocks at `sums`.
/// ///
/// /// # Safety
/// /// There is room for as many blocks.
/// unsafe fn ones(cta: &mut Cta<Program>, sums: *mut f32, count: u32) {
///     let mut room = cta.block_sums::<128, 64, FullRow<2>>();
///     if !cta.computes() {
///         let mut block = 0..count as usize;
///         // SAFETY: the caller's.
///         return unsafe { room.add::<1>(cta, count, || (sums.wrapping_add(block.next().unwrap_or(0) * 128 * 64), None)) };
///     }
///     for number in 0..count {
///         // SAFETY: they are numbered from the first one on.
///         unsafe { room.put(Fragment::splat(1.0), number) };
///     }
/// }
/// ```
pub struct BlockSums<P, const M: usize, const N: usize, L> {
    address: u32,
    /// The phase of what is added next, for who adds.
    phase: u32,
    kind: PhantomData<(P, L)>,
}

/// When a fragment is added to a block of sums: behind as many others as its number says, so that sums are the same bits each time.
#[derive(Clone, Copy, Debug)]
pub struct SumTurn {
    counter: *mut u32,
    number: u32,
}

impl SumTurn {
    /// Behind `number` additions, which were counted at `counter`.
    ///
    /// # Safety
    /// The counter is aligned and 0 when the kernel starts, and counts the additions to one block alone, all of which are in turn. Those of lower numbers are
    /// done by CTAs that have begun, and none of them waits for this one: otherwise it waits for ever.
    #[inline(always)]
    pub const unsafe fn new(counter: *mut u32, number: u32) -> Self {
        SumTurn { counter, number }
    }

    /// Whether it has come.
    #[inline(always)]
    fn has_come(&self) -> bool {
        // SAFETY: the counter is one that `new` takes.
        unsafe { atomic::ld_acquire(self.counter) >= self.number }
    }

    /// Counts the addition, which is done.
    #[inline(always)]
    fn pass_on(&self) {
        // SAFETY: as above.
        unsafe { atomic::red_release_add_u32(self.counter, 1) }
    }
}

/// Elements from a block's begin to registers `i` to `i + 3` of a thread.
#[inline(always)]
fn place<L: FragmentLayout<M, N>, const M: usize, const N: usize>(thread: u32, i: usize) -> u32 {
    const {
        assert!(
            L::Regs::<f32>::LEN.is_multiple_of(4)
                && L::THREADS.is_multiple_of(128)
                && L::Regs::<f32>::LEN * L::THREADS as usize == M * N,
            "whole warpgroups hold the fragment, each element once, in fours"
        )
    }
    (thread / 128 * L::Regs::<f32>::LEN as u32 + i as u32) * 128 + thread % 128 * 4
}

impl<P: HandsOut, const M: usize, const N: usize, L: FragmentLayout<M, N>> BlockSums<P, M, N, L> {
    /// Warpgroups that hold a fragment.
    const UNITS: u32 = L::THREADS / 128;
    /// Bytes of a warpgroup's part of the room.
    const PART: u32 = L::Regs::<f32>::LEN as u32 * 128 * 4;

    /// The barrier that completes when a warpgroup's part is full.
    #[inline(always)]
    fn full(&self, unit: u32) -> u32 {
        self.address + Self::UNITS * Self::PART + unit * 8
    }

    /// The barrier that completes when TMA has read it.
    #[inline(always)]
    fn empty(&self, unit: u32) -> u32 {
        self.full(Self::UNITS + unit)
    }

    /// Puts a fragment there, to be added, when the one before has been read. All threads that compute call it.
    ///
    /// # Safety
    /// `number` says how many were put before, or is as odd as that: by it is known what is waited for. As many are [added](Self::add).
    #[inline(always)]
    pub unsafe fn put(&mut self, x: Fragment<f32, M, N, L>, number: u32) {
        const { assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has") };
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let unit = thread / 128;
        // SAFETY: a warpgroup's part of the room is its own. It is written again when TMA has read it; the fence makes what is written visible to TMA before the
        // arrival behind which it is read, of a lane behind its warp's barrier.
        unsafe {
            mbarrier::wait(self.empty(unit), 1 - number % 2);
            let mut i = 0;
            while i < L::Regs::<f32>::LEN {
                let four = core::array::from_fn(|e| x.regs.get(i + e));
                shared::store_f32x4(self.address + place::<L, M, N>(thread, i) * 4, four);
                i += 4;
            }
            sync::fence_proxy_async_shared();
            sync::sync_warp();
            mbarrier::arrive_if(self.full(unit), mbarrier::arrives(thread, 32));
        }
    }

    /// Adds the next `count` fragments to blocks of sums: `to` says where the next one goes, and when. All threads that do not compute call it; one of the last producer
    /// does it. An addition is done before it is counted, so that who sees its count issues the next one behind it.
    ///
    /// `PARTS` fragments, which go to places of their own, are one addition of one turn: the first waits for it, and it is counted when the last is done. `count` is a
    /// multiple of it.
    ///
    /// # Safety
    /// Where each goes is a multiple of 16, `M N` elements are writable from there on until the kernel's end, and are used meanwhile in this way alone.
    #[inline(always)]
    pub unsafe fn add<const PARTS: u32>(
        &mut self,
        cta: &Cta<P>,
        count: u32,
        mut to: impl FnMut() -> (*mut f32, Option<SumTurn>),
    ) {
        const {
            assert!(
                P::ADDS >= P::CONSUMERS,
                "what is put into the room is added by a producer: the schedule has none"
            )
        };
        if cta.pipelines > (P::ADDS - P::CONSUMERS) / 32 {
            refuse!(
                "the last producer adds what is put into the room: the schedule has no more producers than the kernel has pipelines"
            );
        }
        if thread_x() != P::ADDS || count == 0 {
            return;
        }
        let mut left = count;
        // SAFETY: the room is full behind its barrier, and nobody writes there until TMA has read it. The sums are the caller's; this thread alone issues additions, and
        // waits for its own.
        unsafe {
            // The next turn is asked for while the addition before it is under way: the answer takes as long.
            let (mut next, mut has_come) = (to(), false);
            while left > 0 {
                let (at, turn) = next;
                let is_first = left.is_multiple_of(PARTS);
                while is_first && !has_come && turn.is_some_and(|turn| !turn.has_come()) {}
                let mut unit = 0;
                while unit < Self::UNITS {
                    mbarrier::wait(self.full(unit), self.phase);
                    let (part, from) = (unit * Self::PART / 4, self.address + unit * Self::PART);
                    tma::bulk_add_f32(at.wrapping_add(part as usize), from, Self::PART);
                    unit += 1;
                }
                tma::bulk_commit();
                if left > 1 {
                    next = to();
                    has_come = next.1.is_some_and(|turn| turn.has_come());
                }
                tma::bulk_wait_read::<0>();
                self.give_back();
                let is_last = PARTS == 1 || left % PARTS == 1;
                if let Some(turn) = turn
                    && is_last
                {
                    tma::bulk_wait::<0>();
                    turn.pass_on();
                }
                (self.phase, left) = (self.phase ^ 1, left - 1);
            }
            tma::bulk_wait::<0>();
        }
    }

    /// Arrives where the room's parts are waited for.
    ///
    /// # Safety
    /// The thread that adds executes it.
    #[inline(always)]
    unsafe fn give_back(&self) {
        let mut unit = 0;
        while unit < Self::UNITS {
            // SAFETY: an initialised barrier of this CTA.
            unsafe { mbarrier::arrive(self.empty(unit)) };
            unit += 1;
        }
    }
}

impl<P: HandsOut> Cta<P> {
    /// Room for adding fragments to blocks of sums. All threads meet.
    #[inline(always)]
    pub fn block_sums<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        &mut self,
    ) -> BlockSums<P, M, N, L> {
        const { assert!(matches!(P::ARCH, Arch::Sm90a), "TMA adds from Hopper on") };
        let units = L::THREADS / 128;
        let address = self.reserve((M * N * 4) as u32 + 2 * units * 8, 128);
        let room = BlockSums { address, phase: 0, kind: PhantomData };
        // SAFETY: one thread initialises the barriers, and nobody uses them before all have met.
        unsafe {
            if thread_x() == 0 {
                let mut unit = 0;
                while unit < units {
                    mbarrier::init(room.full(unit), 4 * mbarrier::arrivals(32));
                    mbarrier::init(room.empty(unit), 1);
                    unit += 1;
                }
                sync::fence_mbarrier_init();
            }
            P::meet_all();
        }
        room
    }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// The fragment of a block of sums, as [`BlockSums::add`] leaves them.
    ///
    /// # Safety
    /// `at` is a multiple of 16; `M N` elements are readable from there on.
    #[inline(always)]
    pub unsafe fn of_sums(at: *const f32) -> Self {
        let (mut all, thread) = (Self::zero(), thread_x_volatile());
        if thread >= L::THREADS {
            return all;
        }
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let four = at.wrapping_add(place::<L, M, N>(thread, i) as usize);
            // SAFETY: the caller's.
            let four = unsafe { global::ld_global_u32x4(four.cast()) };
            let mut e = 0;
            while e < 4 {
                all.regs.set(i + e, f32::from_bits(four[e]));
                e += 1;
            }
            i += 4;
        }
        all
    }
    /// Writes the fragment as a block of sums, which [`of_sums`](Self::of_sums) reads.
    ///
    /// # Safety
    /// `at` is a multiple of 16; `M N` elements are writable from there on, and nobody else uses them meanwhile.
    #[inline(always)]
    pub unsafe fn to_sums(&self, at: *mut f32) {
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let four = core::array::from_fn(|e| self.regs.get(i + e).to_bits());
            let to = at.wrapping_add(place::<L, M, N>(thread, i) as usize);
            // SAFETY: the caller's.
            unsafe { global::st_global_u32x4(to.cast(), four) };
            i += 4;
        }
    }
}
