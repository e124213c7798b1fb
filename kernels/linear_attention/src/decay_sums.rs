//! The gradients by heads' constants, of those by their rows' gates.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, warp};
use tilewright_device::kernel;
use tilewright_device::tile::{Cta, Global, GlobalMut, RowMajor, Simt, block_x};

use crate::policy::CHUNK;
use crate::work::Work;

/// Threads of a CTA.
const THREADS: u32 = 256;

/// For each head the sum of `gates` \[batch, heads, rows, 1\] over all rows of all sequences: `decays` \[heads, 1\]. In one order. CTA (head).
#[kernel(program = Simt<8>)]
pub fn sum_gates(
    mut cta: Cta<Simt<8>>,
    gates: Global<f32, 4, RowMajor, 0>,
    mut decays: GlobalMut<f32, 2, RowMajor, 0>,
    work: Work,
) {
    let (address, thread, head) = (cta.reserve(THREADS / 32 * 4, 16), thread_x(), block_x());
    let (mut sum, mut sequence) = (0.0, 0);
    while sequence < work.sequences {
        let (first, rows) = work.sequence(sequence);
        let rows = rows.min(work.chunks * CHUNK as u32);
        let matrix = if work.offsets == 0 { sequence } else { 0 };
        let gates = gates.tile([matrix, head, 0, 0]).of_rows(first, rows);
        let mut row = thread;
        while row < rows {
            sum += gates.element::<CHUNK, 1>(row, 0);
            row += THREADS;
        }
        sequence += 1;
    }
    let mut lane = 1;
    while lane < 32 {
        // SAFETY: all lanes execute it.
        sum += unsafe { warp::shfl_bfly_f32(sum, lane) };
        lane *= 2;
    }
    // SAFETY: a value for each warp, in the memory that was just taken.
    unsafe {
        if thread.is_multiple_of(32) {
            shared::store_f32(address + thread / 32 * 4, sum);
        }
        cta.barrier();
        if thread == 0 {
            let (mut sum, mut warp) = (0.0, 0);
            while warp < THREADS / 32 {
                sum += shared::load_f32(address + warp * 4);
                warp += 1;
            }
            decays.tile([head, 0]).put::<1, 1>(0, 0, sum);
        }
    }
}
