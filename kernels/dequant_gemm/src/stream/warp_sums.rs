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
const NONE: u32 = 0xff;

/// Sums over the warps of a CTA, whose fragments are all of the same 32 x `N` elements of a result.
///
/// A turn's fragments are summed up `LATER` turns after it, when all warps have long written theirs: none waits for another.
/// Results that take several turns, up to `RESULTS` at a time, are summed up over them.
pub struct WarpSums<P, const N: usize, const RESULTS: usize, const LATER: usize> {
    buffers: u32,
    turn: u32,
    /// The turns before, the last one in the lowest byte: four times its result, 2 if that began there, and 1 if it is complete, or [`NONE`].
    before: u32,
    schedule: PhantomData<P>,
}

/// Bytes of shared memory that [`WarpSums`] of `n` columns take, for `threads` threads and `results` results.
const fn warp_sums_bytes(n: usize, results: usize, later: usize, threads: u32) -> u32 {
    2 * later as u32 * (buffer_bytes(n, threads) + 8) + results as u32 * ROWS * n as u32 * 4
}

const fn buffer_bytes(n: usize, threads: u32) -> u32 {
    threads / 32 * PITCH * n as u32 * 4
}

impl<P: Collective, const N: usize, const RESULTS: usize, const LATER: usize> WarpSums<P, N, RESULTS, LATER> {
    /// A turn's buffer is written again so many turns later.
    const BUFFERS: u32 = 2 * LATER as u32;

    /// Sums over warps. Make them before [`WarpDepths`](super::WarpDepths), at which all threads meet.
    #[inline(always)]
    pub fn open(cta: &mut Cta<P>) -> Self {
        let buffers = cta.reserve(warp_sums_bytes(N, RESULTS, LATER, P::CONSUMERS), 16);
        let sums = WarpSums { buffers, turn: 0, before: u32::MAX, schedule: PhantomData };
        if thread_x() == 0 {
            let mut turn = 0;
            while turn < Self::BUFFERS {
                // SAFETY: the memory was just taken; nobody uses the barriers before all threads met.
                unsafe { mbarrier::init(sums.written(turn), P::CONSUMERS / 32 * mbarrier::arrivals(32)) };
                turn += 1;
            }
        }
        sums
    }

    /// Bytes of one warp's fragment.
    const PART: u32 = PITCH * N as u32 * 4;

    /// The buffer of a turn.
    #[inline(always)]
    fn buffer(&self, turn: u32) -> u32 {
        self.buffers + turn % Self::BUFFERS * buffer_bytes(N, P::CONSUMERS)
    }
    /// The results that are not complete.
    #[inline(always)]
    fn kept(&self) -> u32 {
        self.buffers + Self::BUFFERS * buffer_bytes(N, P::CONSUMERS)
    }
    /// Completes when all warps have written their fragments of a turn.
    #[inline(always)]
    fn written(&self, turn: u32) -> u32 {
        self.kept() + RESULTS as u32 * ROWS * N as u32 * 4 + turn % Self::BUFFERS * 8
    }

    /// Adds all warps' fragments to the result `index`: its `first` turn, its `last` one, both, or neither. Columns from `columns` on are nobody's.
    ///
    /// `acc` has a row of blocks for each warp. All threads call it alike. `done(index, row, column, sum)` is called for each
    /// element of the result of a turn before, if that is complete, in one of the threads: by whole warps, whose lanes have the rows of their numbers
    /// in one column.
    #[inline(always)]
    pub fn add<const M: usize, L: FragmentLayout<M, N>>(
        &mut self,
        index: u32,
        acc: &Fragment<f32, M, N, L>,
        (first, last): (bool, bool),
        columns: u32,
        done: impl FnMut(u32, u32, u32, f32),
    ) {
        const {
            assert!(M as u32 == P::CONSUMERS && L::THREADS == P::CONSUMERS, "a warp has 32 rows");
            assert!(P::CONSUMERS.is_multiple_of(128), "warps are summed up by fours");
            assert!(RESULTS < 0x3f && LATER <= 4, "a turn is a byte of a word");
        };
        self.complete_turn(LATER, columns, done);
        // Read anew, so that no address is held in registers while fragments are computed.
        let thread = thread_x_volatile();
        let (row, column) = (thread % 32 / 4, thread % 4 * 2);
        let at = self.buffer(self.turn) + thread / 32 * Self::PART + (column * PITCH + row) * 4;
        // SAFETY: a buffer is written `2 LATER` turns later, behind the barrier of the turn `LATER` before, at which warps arrive when
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
        self.before = self.before << 8 | (4 * index + 2 * first as u32 + last as u32);
        self.turn += 1;
    }

    /// Sums up the last turns: as in [`add`](Self::add).
    #[inline(always)]
    pub fn complete(&mut self, columns: u32, mut done: impl FnMut(u32, u32, u32, f32)) {
        let mut back = LATER;
        while back > 0 {
            self.complete_turn(back, columns, &mut done);
            back -= 1;
        }
    }

    /// Sums up the turn that is `back` turns back, if there is one and it is not summed up.
    #[inline(always)]
    fn complete_turn(&mut self, back: usize, columns: u32, mut done: impl FnMut(u32, u32, u32, f32)) {
        let place = 8 * (back - 1) as u32;
        let before = self.before >> place & 0xff;
        self.before |= NONE << place;
        if before == NONE {
            return;
        }
        let (index, first, last) = (before / 4, before & 2 != 0, before & 1 != 0);
        let turn = self.turn - back as u32;
        // SAFETY: all warps have written their fragments behind the barrier; an element's sum is one thread's.
        unsafe {
            while !mbarrier::test_wait(self.written(turn), turn / Self::BUFFERS % 2) {}
            // Few elements are not those of the same warp for every result: the others would wait for it.
            let mut element = (thread_x_volatile() + index * 32) % P::CONSUMERS;
            while element < ROWS * columns {
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
