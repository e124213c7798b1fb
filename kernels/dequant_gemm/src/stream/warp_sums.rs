//! Sums over warps, each of which has multiplied a part of the depth.

use core::marker::PhantomData;

use tilewright_device::arch::special::{same_number, thread_x, thread_x_volatile};
use tilewright_device::arch::{mbarrier, shared, sync};
use tilewright_device::layout::{FragmentLayout, Registers};
use tilewright_device::tile::{Collective, Cta, Fragment};

/// Rows of a warp's part of a fragment.
const ROWS: u32 = 32;
/// Words from a column to the next: of the lanes that hold neighbours, two at most write to a bank.
const PITCH: u32 = ROWS + 2;

/// No turn.
const NONE: u32 = u32::MAX;

/// Sums over the warps of a CTA, whose fragments are all of the same 32 x `N` elements of a result.
///
/// A turn's fragments are summed up in the turn after it, when all warps have long written theirs: none waits for another.
/// Results that take several turns, up to `RESULTS` at a time, are summed up over them.
pub struct WarpSums<P, const N: usize, const RESULTS: usize> {
    buffers: u32,
    turn: u32,
    /// The turn before, in one register: four times its result, 2 if that began there, and 1 if it is complete.
    before: u32,
    schedule: PhantomData<P>,
}

/// Bytes of shared memory that [`WarpSums`] of `n` columns take, for `threads` threads and `results` results.
const fn warp_sums_bytes(n: usize, results: usize, threads: u32) -> u32 {
    2 * buffer_bytes(n, threads) + results as u32 * ROWS * n as u32 * 4 + 16
}

const fn buffer_bytes(n: usize, threads: u32) -> u32 {
    threads / 32 * PITCH * n as u32 * 4
}

impl<P: Collective, const N: usize, const RESULTS: usize> WarpSums<P, N, RESULTS> {
    /// Sums over warps. Make them before [`WarpDepths`](super::WarpDepths), at which all threads meet.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>) -> Self {
        let buffers = cta.reserve(warp_sums_bytes(N, RESULTS, P::CONSUMERS), 16);
        let sums = WarpSums { buffers, turn: 0, before: NONE, schedule: PhantomData };
        if thread_x() == 0 {
            // SAFETY: the memory was just taken; nobody uses the barriers before all threads met.
            unsafe {
                mbarrier::init(sums.written(0), P::CONSUMERS / 32 * mbarrier::arrivals(32));
                mbarrier::init(sums.written(1), P::CONSUMERS / 32 * mbarrier::arrivals(32));
            }
        }
        sums
    }

    /// Bytes of one warp's fragment.
    const PART: u32 = PITCH * N as u32 * 4;

    /// The buffer of a turn.
    #[inline(always)]
    fn buffer(&self, turn: u32) -> u32 {
        self.buffers + turn % 2 * buffer_bytes(N, P::CONSUMERS)
    }
    /// The results that are not complete.
    #[inline(always)]
    fn kept(&self) -> u32 {
        self.buffers + 2 * buffer_bytes(N, P::CONSUMERS)
    }
    /// Completes when all warps have written their fragments of a turn.
    #[inline(always)]
    fn written(&self, turn: u32) -> u32 {
        self.kept() + RESULTS as u32 * ROWS * N as u32 * 4 + turn % 2 * 8
    }

    /// Adds all warps' fragments to the result `index`: its `first` turn, its `last` one, both, or neither.
    ///
    /// `acc` has a row of blocks for each warp. All threads call it alike. `done(index, row, column, sum)` is called for each
    /// element of the result of the turn before, if that is complete, in one of the threads: by whole warps, whose lanes have the rows of their numbers
    /// in one column.
    #[inline(always)]
    pub fn add<const M: usize, L: FragmentLayout<M, N>>(
        &mut self,
        index: u32,
        acc: &Fragment<f32, M, N, L>,
        (first, last): (bool, bool),
        done: impl FnMut(u32, u32, u32, f32),
    ) {
        const {
            assert!(M as u32 == P::CONSUMERS && L::THREADS == P::CONSUMERS, "a warp has 32 rows");
            assert!(P::CONSUMERS.is_multiple_of(128), "warps are summed up by fours");
        };
        self.complete(done);
        // Read anew, so that no address is held in registers while fragments are computed.
        let thread = thread_x_volatile();
        let (row, column) = (thread % 32 / 4, thread % 4 * 2);
        let at = self.buffer(self.turn) + thread / 32 * Self::PART + (column * PITCH + row) * 4;
        // SAFETY: a buffer is written two turns later, behind the barrier of the turn between, at which warps arrive when
        // they have read it.
        unsafe {
            let mut i = 0;
            while i < L::Regs::<f32>::LEN {
                let (down, along) = L::offset(i);
                shared::store_u32(at + (along * PITCH + down) * 4, acc.regs.get(i).to_bits());
                i += 1;
            }
            sync::sync_warp();
            mbarrier::arrive_if(self.written(self.turn), mbarrier::arrives(thread, 32));
        }
        self.before = 4 * index + 2 * first as u32 + last as u32;
        self.turn += 1;
    }

    /// Sums up the last turn: as in [`add`](Self::add).
    #[inline(always)]
    pub fn complete(&mut self, mut done: impl FnMut(u32, u32, u32, f32)) {
        let before = core::mem::replace(&mut self.before, NONE);
        if before == NONE {
            return;
        }
        let (index, first, last) = (before / 4, before & 2 != 0, before & 1 != 0);
        let turn = self.turn - 1;
        // SAFETY: all warps have written their fragments behind the barrier; an element's sum is one thread's.
        unsafe {
            while !mbarrier::test_wait(self.written(turn), turn / 2 % 2) {}
            let mut element = thread_x_volatile();
            while element < ROWS * N as u32 {
                let (row, column) = (element % ROWS, element / ROWS);
                let kept = self.kept() + (index * ROWS * N as u32 + element) * 4;
                let mut sum = if first { 0.0 } else { f32::from_bits(shared::load_u32(kept)) };
                let mut at = self.buffer(turn) + (column * PITCH + row) * 4;
                // Four at a time: not all of them are in registers.
                let (mut warp, warps) = (0, same_number(P::CONSUMERS / 32));
                while warp < warps {
                    let four = [0, 1, 2, 3].map(
                        #[inline(always)]
                        |i| f32::from_bits(shared::load_u32(at + i * Self::PART)),
                    );
                    sum += four[0] + four[1] + (four[2] + four[3]);
                    at += 4 * Self::PART;
                    warp += 4;
                }
                if last {
                    done(index, row, column, sum)
                } else {
                    shared::store_u32(kept, sum.to_bits())
                }
                element += P::CONSUMERS;
            }
        }
    }
}
