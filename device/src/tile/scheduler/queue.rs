//! A queue of tiles: CTAs that are done take the next one, so that all are done at the same time however long each tile takes.

use core::convert::identity;
use core::marker::PhantomData;

use crate::arch::declare::refuse;
use crate::arch::special::{block_x, grid_x, thread_x};
use crate::arch::warp::uniform;
use crate::arch::{atomic, mbarrier, shared, sync};
use crate::tile::copy::access::Access;
use crate::tile::cta::Cta;
use crate::tile::cta::barriers::OPENING;
use crate::tile::pipeline::configuration::Configuration;
use crate::tile::pipeline::multistage::Multistage;
use crate::tile::pipeline::schedule::Schedule;
use crate::tile::pipeline::warp_specialized::WarpSpecialized;

/// Places in shared memory where tiles change hands: one is read while the next one is written.
const SLOTS: u32 = 2;
/// Bytes of a tile.
const TILE: u32 = 16;

/// Where the CTAs of a grid get the numbers of their tiles from. A CTA's first number is its own, so that none waits at the start.
#[derive(Clone, Copy)]
pub struct TileNumbers {
    counter: *mut u32,
    /// Whether a CTA's first number comes from the counter too.
    in_order: bool,
}

impl TileNumbers {
    /// Each CTA counts by itself: every `grid`-th number is its.
    #[inline(always)]
    pub const fn in_turn() -> Self {
        TileNumbers { counter: core::ptr::null_mut(), in_order: false }
    }

    /// They come from a counter in global memory: the next number is whose CTA asks first.
    ///
    /// # Safety
    /// The counter is aligned, it is 0 when the grid starts, and no other grid uses it before this one ends.
    #[inline(always)]
    pub const unsafe fn counted(counter: *mut u32) -> Self {
        TileNumbers { counter, in_order: false }
    }

    /// The same, of all numbers, a CTA's first one too: who has one knows that all lower ones were given to CTAs that have begun. Each waits for its first.
    ///
    /// # Safety
    /// As for [`counted`](Self::counted).
    #[inline(always)]
    pub const unsafe fn in_order(counter: *mut u32) -> Self {
        TileNumbers { counter, in_order: true }
    }

    /// A CTA's first number, for one of its threads.
    #[inline(always)]
    fn first(self) -> u32 {
        // SAFETY: as `in_order` says.
        if self.in_order { unsafe { atomic::atom_add_u32(self.counter, 1) } } else { block_x() }
    }

    /// The number behind `last`, for one thread of a CTA.
    #[inline(always)]
    fn next(self, last: u32) -> u32 {
        if self.counter.is_null() {
            return last + grid_x();
        }
        // SAFETY: as `counted` and `in_order` say.
        let counted = unsafe { atomic::atom_add_u32(self.counter, 1) };
        if self.in_order { counted } else { grid_x() + counted }
    }
}

/// What tiles a [`TileQueue`] hands out, by number. One thread of a CTA asks, with rising numbers.
pub trait TileList {
    /// A tile, as four numbers that the threads of a CTA are told. The first of them is never `u32::MAX`.
    type Tile: From<[u32; 4]> + Into<[u32; 4]>;

    /// The tile of this number; none behind the last.
    fn tile(&mut self, number: u32) -> Option<Self::Tile>;
}

/// The tiles that this CTA takes of a list, one after the other: all its threads get the same ones, whatever their role.
///
/// One thread takes numbers and looks tiles up, one tile ahead of those who compute; the others find them in shared memory. Which CTA
/// gets which tile differs from launch to launch, so that a tile's result must not depend on it.
///
/// ```
/// use tilewright_device::tile::*;
///
/// /// Tiles of matrices, row after row.
/// struct InRows {
///     rows: u32,
///     columns: u32,
/// }
///
/// struct Place {
///     row: u32,
///     column: u32,
/// }
///
/// impl From<[u32; 4]> for Place {
///     fn from([row, column, ..]: [u32; 4]) -> Self {
///         Place { row, column }
///     }
/// }
///
/// impl From<Place> for [u32; 4] {
///     fn from(Place { row, column }: Place) -> Self {
///         [row, column, 0, 0]
///     }
/// }
///
/// impl TileList for InRows {
///     type Tile = Place;
///     fn tile(&mut self, number: u32) -> Option<Place> {
///         let columns = self.columns.max(1);
///         (number < self.rows * columns).then(|| Place { row: number / columns, column: number % columns })
///     }
/// }
///
/// fn kernel<P: HandsOut>(cta: &mut Cta<P>, numbers: TileNumbers, list: InRows) {
///     for Place { row, column } in cta.tile_slots().queue(numbers, list) {
///         // All threads of all roles come here with the same place.
/// #       let _ = (row, column);
///     }
/// }
/// ```
pub struct TileQueue<P, L> {
    base: u32,
    slot: u32,
    phase: u32,
    /// The next number, or the last one: see [`HandsOut::AHEAD`]. Known to the thread that takes them alone, once it has started.
    number: u32,
    started: bool,
    numbers: TileNumbers,
    list: L,
    schedule: PhantomData<P>,
}

/// A schedule whose threads can tell each other which tile is next.
///
/// All that load through a pipeline: [`Multistage`], and [`WarpSpecialized`] of CTAs that are not in clusters.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no queue of tiles",
    note = "schedules with one are WarpSpecialized<C> and Multistage<W>"
)]
pub trait HandsOut: Schedule {
    /// Whether a number is asked for before the tile that precedes it, so that the answer comes under the work on that one: where
    /// who asks also computes.
    #[doc(hidden)]
    const AHEAD: bool;
    /// The thread that takes tiles: of the last producer that fills a pipeline, or the first one.
    #[doc(hidden)]
    const ASKS: u32;
    /// The thread that [adds sums](crate::tile::BlockSums): of the last producer.
    #[doc(hidden)]
    const ADDS: u32;

    /// Waits until all threads have come here that the kernel runs on.
    ///
    /// # Safety
    /// All of them execute it, before the roles part.
    #[doc(hidden)]
    unsafe fn meet_all();

    /// Makes what a queue needs at shared address `base`: [`QUEUE_BYTES`].
    ///
    /// # Safety
    /// Called by every role of the CTA with the same `base`, which nothing else uses.
    #[doc(hidden)]
    unsafe fn open_queue(base: u32);

    /// The next tile, which one thread takes, for all threads.
    ///
    /// # Safety
    /// Called by every role of the CTA, as often, with the `slot` and the `phase` of the call's number.
    #[doc(hidden)]
    unsafe fn hand_out(base: u32, slot: u32, phase: u32, take: impl FnOnce() -> [u32; 4]) -> [u32; 4];
}

/// Bytes of a queue: tiles, and a full and an empty barrier of each.
const QUEUE_BYTES: u32 = SLOTS * (TILE + 2 * 8);

/// The barrier that completes when slot `slot` is full.
#[inline(always)]
const fn full(base: u32, slot: u32) -> u32 {
    base + SLOTS * TILE + slot * 8
}

/// The barrier that completes when all have read slot `slot`.
#[inline(always)]
const fn empty(base: u32, slot: u32) -> u32 {
    full(base, SLOTS) + slot * 8
}

impl<C: Configuration> HandsOut for WarpSpecialized<C> {
    /// The last producer runs ahead of those who compute as it is.
    const AHEAD: bool = false;
    const ASKS: u32 = Self::ADDS - 32 * C::ADDER as u32;
    const ADDS: u32 = 128 * C::CONSUMER_WARPGROUPS + 32 * (C::PRODUCERS.warps() - 1);

    #[inline(always)]
    unsafe fn meet_all() {
        // SAFETY: the caller's. A producer is one thread of its warp, the others have exited, so its warp counts whole.
        unsafe {
            sync::barrier_sync(OPENING.get::<0>(), 128 * C::CONSUMER_WARPGROUPS + 32 * C::PRODUCERS.warps())
        }
    }

    #[inline(always)]
    unsafe fn open_queue(base: u32) {
        const { assert!(C::CLUSTER == 1, "a queue is a CTA's: those of a cluster take their tiles together") };
        let (warps, producers) = (4 * C::CONSUMER_WARPGROUPS, C::PRODUCERS.warps());
        // SAFETY: one thread initialises the barriers, and nobody uses them before the roles met.
        unsafe {
            if thread_x() == 0 {
                let mut slot = 0;
                while slot < SLOTS {
                    mbarrier::init(full(base, slot), 1);
                    mbarrier::init(empty(base, slot), warps * mbarrier::arrivals(32) + producers - 1);
                    slot += 1;
                }
                sync::fence_mbarrier_init();
            }
            Self::meet_all();
        }
    }

    #[inline(always)]
    unsafe fn hand_out(base: u32, slot: u32, phase: u32, take: impl FnOnce() -> [u32; 4]) -> [u32; 4] {
        let (thread, consumers) = (thread_x(), 128 * C::CONSUMER_WARPGROUPS);
        let at = base + slot * TILE;
        // SAFETY: the slot is written behind its empty barrier, at which all readers arrive behind their reads, and read behind its
        // full one. In a warp of consumers the warp's barrier puts the lanes' reads before the arrival of the first.
        unsafe {
            if thread == Self::ASKS {
                let tile = take();
                mbarrier::wait(empty(base, slot), phase ^ 1);
                shared::store_u32x4(at, tile);
                mbarrier::arrive(full(base, slot));
                return tile;
            }
            mbarrier::wait(full(base, slot), phase);
            let tile = shared::load_u32x4(at);
            if thread >= consumers {
                mbarrier::arrive(empty(base, slot));
                return tile;
            }
            sync::sync_warp();
            mbarrier::arrive_if(empty(base, slot), mbarrier::arrives(thread, 32));
            tile.map(uniform)
        }
    }
}

impl<const W: usize, A: Access> HandsOut for Multistage<W, A> {
    const AHEAD: bool = true;
    const ASKS: u32 = 0;
    const ADDS: u32 = 0;

    #[inline(always)]
    unsafe fn meet_all() {
        // SAFETY: the caller's.
        unsafe { sync::syncthreads() }
    }

    /// Its threads meet: there are no barriers to make.
    #[inline(always)]
    unsafe fn open_queue(_: u32) {}

    #[inline(always)]
    unsafe fn hand_out(base: u32, slot: u32, _: u32, take: impl FnOnce() -> [u32; 4]) -> [u32; 4] {
        let at = base + slot * TILE;
        // SAFETY: all threads meet behind the write. The slot is written again behind the next such barrier, which every thread
        // reaches behind its read.
        unsafe {
            if thread_x() == Self::ASKS {
                shared::store_u32x4(at, take());
            }
            sync::syncthreads();
            shared::load_u32x4(at).map(uniform)
        }
    }
}

impl<P: HandsOut> Cta<P> {
    /// Room for a queue of tiles.
    #[inline(always)]
    pub fn tile_slots(&mut self) -> TileSlots<P> {
        self.tile_slots_if(true)
    }

    /// The same, if it is `wanted`: a constant, by which kernels differ. If not, it takes no memory, and the builder refuses a kernel that makes
    /// a queue of it.
    #[inline(always)]
    pub fn tile_slots_if(&mut self, wanted: bool) -> TileSlots<P> {
        let base = if wanted { self.reserve(QUEUE_BYTES, TILE) } else { 0 };
        TileSlots { base, absent: !wanted, schedule: PhantomData }
    }
}

/// Room in shared memory for a [`TileQueue`].
#[must_use = "make a queue of it"]
pub struct TileSlots<P> {
    base: u32,
    /// It has no memory.
    absent: bool,
    schedule: PhantomData<P>,
}

impl<P: HandsOut> TileSlots<P> {
    /// The tiles of `list` that this CTA takes, by numbers from `numbers`. All threads come here, and go through all tiles.
    ///
    /// Make it behind the pipelines, which wait for the preceding grid.
    #[inline(always)]
    pub fn queue<L: TileList>(self, numbers: TileNumbers, list: L) -> TileQueue<P, L> {
        let TileSlots { base, absent, .. } = self;
        if absent {
            refuse!("a queue of tiles has no room: `tile_slots_if` was told that none is wanted");
        }
        // SAFETY: the memory is the slots', which every role took in the same way, and of which no other queue is made.
        unsafe { P::open_queue(base) };
        TileQueue { base, slot: 0, phase: 0, number: 0, started: false, numbers, list, schedule: PhantomData }
    }
}

impl<P: HandsOut, L: TileList> Iterator for TileQueue<P, L> {
    type Item = L::Tile;

    #[inline(always)]
    fn next(&mut self) -> Option<L::Tile> {
        let TileQueue { base, slot, phase, number, started, numbers, list, .. } = self;
        let take = identity(
            #[inline(always)]
            || {
                if !*started {
                    *number = numbers.first();
                } else if !P::AHEAD {
                    *number = numbers.next(*number);
                }
                *started = true;
                let tile = list.tile(*number).map_or([u32::MAX; 4], Into::into);
                if P::AHEAD {
                    *number = numbers.next(*number);
                }
                tile
            },
        );
        // SAFETY: the slots are the queue's; every role iterates, and takes slots in turn.
        let tile = unsafe { P::hand_out(*base, *slot, *phase, take) };
        *slot += 1;
        if *slot == SLOTS {
            (*slot, *phase) = (0, *phase ^ 1);
        }
        (tile[0] != u32::MAX).then(|| L::Tile::from(tile))
    }
}
