//! From global memory to a stage in shared memory: by TMA, by `cp.async`, element by element.

use crate::abi::SWIZZLE_BYTES;
use crate::arch::special::{cluster_rank, thread_x, thread_x_volatile};
use crate::arch::tma::{self, Coords};
use crate::arch::{cp_async, global, mbarrier, shared};
use crate::layout::{Element, Major, SharedLayout};
use crate::tile::copy::access::Access;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::global_tile::{GlobalTile, Lines};
use crate::tile::memory::shared::{Shared, SharedTile};

/// Bytes that one thread copies at a time.
pub(in crate::tile) const PIECE: u32 = 16;
/// Pieces of a thread that are copied without a loop, whole and by elements: more would take too many registers.
pub(super) const UNROLLED: [u32; 2] = [8, 2];

/// Copies one of the equal `parts` of a tile's lines by TMA, completing on `barrier`; called by one thread.
///
/// If clusters of `P` have several CTAs, one thread of each calls it for the same tile, unless it is its [own](GlobalTile::own): each copies
/// its share of the boxes to all.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L, O>` that nobody reads, `barrier` is its stage's full barrier; in all CTAs.
#[inline(always)]
pub(crate) unsafe fn tma_load<
    P,
    T,
    O,
    L,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: GlobalTile<T, RANK, O, BOX>,
    to: u32,
    barrier: u32,
    part: u32,
    parts: u32,
) where
    P: Collective,
    T: Element,
    O: Major,
    L: SharedLayout,
    [u32; RANK]: Coords,
{
    let (lines, line) = (Shared::<T, R, C, L, O>::LINES, Shared::<T, R, C, L, O>::LINE);
    const {
        assert!(
            L::SWIZZLE == SWIZZLE_BYTES,
            "TMA boxes are swizzled over 128 bytes: make the tile's depth a multiple of 64"
        );
        assert!(
            BOX > 0 && (Shared::<T, R, C, L, O>::LINES as usize).is_multiple_of(BOX),
            "the tensor's BOX does not divide the tile's lines; with a BOX of 0 it is read to registers alone"
        );
    }
    let (rank, all, mut turn) = (if P::CLUSTER == 1 { 0 } else { cluster_rank() }, (1 << P::CLUSTER) - 1, 0);
    // SAFETY: passed on; the boxes tile what is to be filled of the destination, and the barrier expects all their bytes, which
    // TMA delivers in full also where a box reaches outside the tensor.
    unsafe {
        let (first, end) = (lines / parts * part, lines / parts * (part + 1));
        let filled = from.filled((R, C), [line / SWIZZLE_BYTES, SWIZZLE_BYTES / T::BYTES as u32]);
        match filled {
            None => {
                let whole = Shared::<T, R, C, L, O>::bytes();
                mbarrier::expect_tx(barrier, from.short.map_or(whole, |short| short * line) / parts);
            }
            Some([filled, chunks]) => {
                let until = if filled < end { filled } else { end };
                mbarrier::expect_tx(barrier, until.saturating_sub(first) * chunks * SWIZZLE_BYTES);
            }
        }
        // Where a box of a short tile begins.
        let start = |across: u32| {
            from.short.map_or(across, |short| short / (lines / BOX as u32) * (across / BOX as u32))
        };
        let mut along = 0;
        // Over all boxes, so that the loops are unrolled.
        while along < line / SWIZZLE_BYTES {
            let mut across = first;
            while across < end {
                let coords = from.box_at(R, C, start(across), along * SWIZZLE_BYTES / T::BYTES as u32);
                let to = to + (along * lines + start(across)) * SWIZZLE_BYTES;
                if filled.is_some_and(|[filled, chunks]| across >= filled || along >= chunks) {
                    // Nothing is inside.
                } else if P::CLUSTER == 1 || from.own {
                    coords.load_hint(to, from.of.map, barrier, from.of.policy);
                } else if turn % P::CLUSTER == rank {
                    coords.load_multicast_hint(to, from.of.map, barrier, all, from.of.policy);
                }
                (across, turn) = (across + BOX as u32, turn + 1);
            }
            along += 1;
        }
    }
}

/// The pieces of a tile that one of `threads` threads copies: the first, and how many rows lie between them.
///
/// A thread's pieces lie below each other wherever the threads cover whole periods of the swizzle, 8 rows: then
/// every address is the first one plus what is the same in all threads.
struct Pieces {
    row: u32,
    byte: u32,
    step: u32,
    count: u32,
}

impl Pieces {
    /// `None` when a thread's pieces are not below each other.
    #[inline(always)]
    fn of(lines: u32, line: u32, threads: u32) -> Option<Self> {
        let across = line / PIECE;
        let step = threads / across;
        if !threads.is_multiple_of(across) || !step.is_multiple_of(8) || !lines.is_multiple_of(step) {
            return None;
        }
        let thread = thread_x();
        Some(Pieces { row: thread / across, byte: thread % across * PIECE, step, count: lines / step })
    }
}

/// Calls `each(row, byte)` for this thread's pieces of a tile of `lines` lines of `line` bytes, in a loop if they are more
/// than `unrolled`.
#[inline(always)]
pub(in crate::tile) fn for_each_piece(
    lines: u32,
    line: u32,
    threads: u32,
    unrolled: u32,
    mut each: impl FnMut(u32, u32),
) {
    let across = line / PIECE;
    if lines * across > unrolled * threads {
        // How often is not known to the compiler: a loop.
        let mut piece = thread_x_volatile();
        while piece < lines * across {
            each(piece / across, piece % across * PIECE);
            piece += threads;
        }
        return;
    }
    let mut first = 0;
    while first < lines * across {
        let piece = first + thread_x();
        if (lines * across).is_multiple_of(threads) || piece < lines * across {
            each(piece / across, piece % across * PIECE);
        }
        first += threads;
    }
}

/// Copies a tile by `cp.async` in pieces of 16 bytes; called by all of `threads` threads. Where not `live`, it fills with zeros.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L, O>` that nobody reads. The tensor's address, its strides but for a unit
/// stride along the contiguous dimension, and its extent along that are multiples of 16 bytes.
#[inline(always)]
pub(crate) unsafe fn vector_load<
    T,
    O,
    L,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: GlobalTile<T, RANK, O, BOX>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    O: Major,
    L: SharedLayout,
{
    const { assert!(BOX > 0, "a tensor with a BOX of 0 is read to registers alone, not into stages") };
    let (lines, line) = (Shared::<T, R, C, L, O>::LINES, Shared::<T, R, C, L, O>::LINE);
    let Lines { pointer, stride, inside, bytes } = from.lines(R, C);
    let at = |row: u32, byte: u32| pointer.wrapping_add((row as u64 * stride) as usize + byte as usize);
    // SAFETY: passed on; only pieces inside the tensor are read, and there are no parts of pieces. The rest is
    // filled with zeros.
    unsafe {
        if let Some(pieces) = Pieces::of(lines, line, threads) {
            let (source, target) =
                (at(pieces.row, pieces.byte), to + L::offset(lines, line, pieces.row, pieces.byte));
            let rows = if live && pieces.byte < bytes { inside.saturating_sub(pieces.row) } else { 0 };
            let mut i = 0;
            while i < pieces.count {
                let row = i * pieces.step;
                let source = source.wrapping_add((row as u64 * stride) as usize);
                cp_async::copy16_if(target + L::offset(lines, line, row, 0), source, row < rows);
                i += 1;
            }
        } else {
            for_each_piece(lines, line, threads, UNROLLED[0], |row, byte| {
                let read = live && row < inside && byte < bytes;
                cp_async::copy16_if(to + L::offset(lines, line, row, byte), at(row, byte), read)
            });
        }
    }
}

/// Copies a tile element by element, for any strides and alignment; called by all of `threads` threads. Where not `live`, it fills with zeros.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L, O>` that nobody reads.
#[inline(always)]
pub(crate) unsafe fn element_load<
    T,
    O,
    L,
    const RANK: usize,
    const BOX: usize,
    const R: usize,
    const C: usize,
>(
    from: GlobalTile<T, RANK, O, BOX>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    O: Major,
    L: SharedLayout,
{
    let (lines, line) = (Shared::<T, R, C, L, O>::LINES, Shared::<T, R, C, L, O>::LINE);
    let window = from.window(R, C).only_if(live);
    let per_word = 4 / T::BYTES as u32;
    for_each_piece(lines, line, threads, UNROLLED[1], |row, byte| {
        let mut words = [0; 4];
        let mut i = 0;
        while i < PIECE / T::BYTES as u32 {
            let along = byte / T::BYTES as u32 + i;
            let (r, c) = if O::ROW_MAJOR { (row, along) } else { (along, row) };
            words[(i / per_word) as usize] |=
                window.read(r, c).bits() << (i % per_word * 8 * T::BYTES as u32);
            i += 1;
        }
        // SAFETY: passed on.
        unsafe { shared::store_u32x4(to + L::offset(lines, line, row, byte), words) };
    });
}

/// Copies neighbouring bytes in pieces of 16; called by all of `threads` threads. Where not `live`, it fills with zeros.
///
/// # Safety
/// Nobody reads the bytes at `to`. `from`, `to` and `bytes` are multiples of 16, and the bytes are readable.
#[inline(always)]
pub(crate) unsafe fn byte_load<A: Access>(from: *const u8, to: u32, bytes: u32, threads: u32, live: bool) {
    for_each_piece(1, bytes, threads, UNROLLED[0], |_, byte| {
        let from = from.wrapping_add(byte as usize);
        // SAFETY: passed on.
        unsafe {
            if A::VECTORS {
                cp_async::copy16_if(to + byte, from, live)
            } else {
                shared::store_u32x4(
                    to + byte,
                    if live { global::ld_global_u32x4(from.cast()) } else { [0; 4] },
                )
            }
        }
    });
}

/// Copies neighbouring bytes by the TMA unit, completing on `barrier`; called by one thread.
///
/// # Safety
/// As for [`byte_load`]; `barrier` is the stage's full barrier.
#[inline(always)]
pub(crate) unsafe fn bulk(from: *const u8, to: u32, bytes: u32, barrier: u32) {
    // SAFETY: passed on; the barrier expects the bytes.
    unsafe {
        mbarrier::expect_tx(barrier, bytes);
        tma::bulk_load(to, from, bytes, barrier);
    }
}
