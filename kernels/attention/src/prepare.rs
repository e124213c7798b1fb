//! The list of packed sequences, made on the device: offsets may change from one replay of a graph to the next.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{lane, thread_x};
use tilewright_device::arch::{atomic, global, shared, warp};
use tilewright_device::kernel;
use tilewright_device::tile::{Collective, Cta, Overlaps};

use crate::queue::{ENTRY, SequenceList};
use crate::sequences::{InCache, Sequences};

/// Threads of the kernel, and classes of sequences.
const THREADS: u32 = 256;

/// What the tiles of a list are.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ListOrder {
    /// Queries of a tile.
    pub tile: u32,
    /// The most tiles that a sequence has along its queries.
    pub most: u32,
    /// Heads.
    pub heads: u32,
    /// Heads that share keys and values.
    pub shared_by: u32,
    /// Heads of keys are taken together that have no more keys than this; at least one.
    pub keys_together: u32,
    /// Counters before the list.
    pub counters: u32,
}

impl PassedAsIs for ListOrder {}

impl ListOrder {
    /// Tiles of sequence `i` along its queries, its class, and heads of which tiles are taken together.
    #[inline(always)]
    fn sequence(&self, sequences: &InCache, i: u32) -> (u32, u32, u32) {
        let sequence = sequences.get(i);
        let tiles = sequence.queries.div_ceil(self.tile.max(1)).min(self.most);
        if tiles == 0 {
            return (0, THREADS - 1, 1);
        }
        let seen = |m: u32| {
            let first = m * self.tile;
            let last = first.saturating_add(self.tile).min(sequence.queries) - 1;
            sequence.keys.blocks_of::<1>(first as i32, last as i32).all().len() as u32
        };
        let keys = seen(0).max(seen(tiles - 1));
        let kv_heads = (self.keys_together / keys.max(1)).max(1);
        let together = kv_heads.saturating_mul(self.shared_by).min(self.heads).max(1);
        (tiles, THREADS - 1 - class(keys), together)
    }
}

/// Numbers that differ by an eighth at most have one class, and greater ones a greater one: below 240.
#[inline(always)]
fn class(x: u32) -> u32 {
    if x < 8 {
        return x;
    }
    let shift = 28 - x.leading_zeros();
    8 * shift + (x >> shift)
}

/// Lists the sequences whose tiles `attention` takes from a queue, those with the most keys first, and sets its counters to 0.
///
/// One CTA sorts them by classes of the keys that their heaviest tile sees; sequences of one class are in any order.
#[kernel(program = P)]
pub fn list_sequences<P: Overlaps + Collective>(
    mut cta: Cta<P>,
    sequences: InCache,
    list: SequenceList,
    order: ListOrder,
) {
    const { assert!(P::THREADS == THREADS, "a thread for each class") };
    let classes = cta.reserve(4 * THREADS, 16);
    let sums = cta.reserve(4 * THREADS / 32, 16);
    let thread = thread_x();
    let (own, step) = (classes + 4 * thread, THREADS as usize);
    let entry = |place: u32| list.entries + place as u64 * (ENTRY * 4) as u64;
    // SAFETY: in shared memory each thread writes its own class, or all add atomically, with barriers between. In global memory
    // the host passes room for a list of `count` sequences and its counters, which no grid uses while this one runs; places are given
    // once, below `count`, and read behind a barrier.
    unsafe {
        shared::store_u32(own, 0);
        cta.barrier();
        P::wait_for_preceding_grid();
        for counter in (thread..order.counters).step_by(step) {
            global::st_global_u32((list.counter + counter as u64 * 4) as *mut u32, 0);
        }
        for i in (thread..list.count).step_by(step) {
            let (_, class, _) = order.sequence(&sequences, i);
            atomic::red_shared_add_u32(classes + 4 * class, 1);
        }
        cta.barrier();
        let of_class = shared::load_u32(own);
        let (up_to, _) = scan(&cta, sums, of_class);
        shared::store_u32(own, up_to - of_class);
        cta.barrier();
        for i in (thread..list.count).step_by(step) {
            let (tiles, class, together) = order.sequence(&sequences, i);
            let place = atomic::atom_shared_add_u32(classes + 4 * class, 1);
            global::st_global_u32x4(entry(place) as *mut [u32; 4], [i, 0, tiles, together]);
        }
        cta.barrier();
        let mut before = 0;
        for first in (0..list.count).step_by(step) {
            let place = first + thread;
            let inside = place < list.count;
            // No branch: the compiler would make two of the barriers, one on each way.
            let tiles = global::ld_global_u32_if((entry(place) + 8) as *const u32, inside) * order.heads;
            let (up_to, all) = scan(&cta, sums, tiles);
            let end = before + up_to;
            global::st_global_u32_if((entry(place) + 4) as *mut u32, end - tiles, inside);
            let listed = place < list.count.next_multiple_of(4);
            let at = list.ends + place as u64 * 4;
            global::st_global_u32_if(at as *mut u32, if inside { end } else { u32::MAX }, listed);
            before += all;
        }
    }
}

/// The sum of the values of threads up to this one, and of all; `sums` has a number for each warp.
///
/// # Safety
/// All threads execute it, and nothing else uses `sums`.
#[inline(always)]
unsafe fn scan<P: Collective>(cta: &Cta<P>, sums: u32, own: u32) -> (u32, u32) {
    let (lane, warp) = (lane(), thread_x() / 32);
    let (mut up_to, mut by) = (own, 1);
    // SAFETY: the caller's; whole warps execute it. Each warp writes its own sum, between barriers.
    unsafe {
        while by < 32 {
            let other = warp::shfl_up_u32(up_to, by);
            up_to += if lane >= by { other } else { 0 };
            by *= 2;
        }
        if lane == 31 {
            shared::store_u32(sums + 4 * warp, up_to);
        }
        cta.barrier();
        let (mut all, mut i) = (0, 0);
        while i < THREADS / 32 {
            let sum = shared::load_u32(sums + 4 * i);
            up_to += if i < warp { sum } else { 0 };
            all += sum;
            i += 1;
        }
        cta.barrier();
        (up_to, all)
    }
}
