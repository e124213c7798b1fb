//! Bitonic sort in shared memory (Batcher 1968).

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::sync;
use tilewright_device::tile::Collective;

use super::entry::Entry;

/// Sorts `count` entries at `at`, the greatest first; up to the next power of two there is room, which is filled with the least.
///
/// # Safety
/// All threads execute it alike, behind a barrier behind the last write; nobody else uses the memory.
#[inline(always)]
pub(super) unsafe fn sort<P: Collective>(at: u32, count: u32) {
    let all = if count < 2 { 1 } else { 1 << (u32::BITS - (count - 1).leading_zeros()) };
    // SAFETY: the caller's; a barrier is between a thread's write and another one's read. Warps exchange within blocks of 64 entries alone
    // while the distance is up to 32.
    unsafe {
        let mut i = count + thread_x();
        while i < all {
            Entry::LEAST.store(at + i * Entry::BYTES);
            i += P::THREADS;
        }
        sync::syncthreads();
        let mut run = 2;
        while run <= all {
            let mut distance = run / 2;
            while distance > 0 {
                let mut pair = thread_x();
                while pair < all / 2 {
                    let i = 2 * pair - (pair & (distance - 1));
                    let [one, other] = [i, i + distance].map(|i| at + i * Entry::BYTES);
                    let (a, b) = (Entry::load(one), Entry::load(other));
                    // Every other run ascends, so that two make one with a single peak.
                    if a.is_at_least(b) != (i & run == 0) {
                        b.store(one);
                        a.store(other);
                    }
                    pair += P::THREADS;
                }
                if distance > 32 || distance == 1 && run > 32 {
                    sync::syncthreads();
                } else {
                    sync::sync_warp();
                }
                distance /= 2;
            }
            run *= 2;
        }
        sync::syncthreads();
    }
}
