//! The gradient by the gates of a chunk's rows.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, warp};
use tilewright_device::layout::Registers;
use tilewright_device::tile::{ColReducer, Cta, Fragment, FragmentLayout, RowVector, Rows, Simt};

use crate::policy::CHUNK;

/// Bytes of a vector of rows.
const VECTOR: u32 = CHUNK as u32 * 4;
/// Warps of a CTA.
const WARPS: u32 = 8;

/// Sums over pairs of rows, of which a gate's gradient is that of the pairs around it.
pub struct GateSums<Z>
where
    Z: FragmentLayout<CHUNK, CHUNK>,
{
    /// What rows have, of each half of the columns; what columns have; a value of each warp.
    address: u32,
    columns: ColReducer<Simt<8>, f32, Z, CHUNK, CHUNK>,
}

impl<Z: FragmentLayout<CHUNK, CHUNK>> GateSums<Z> {
    /// Room for them.
    #[inline(always)]
    pub fn new(cta: &mut Cta<Simt<8>>) -> Self {
        GateSums { address: cta.reserve(3 * VECTOR + WARPS * 4, 16), columns: cta.col_reducer() }
    }

    /// Takes a chunk's `pairs` \[row of Q, row of K\]; of each row what it has of rows before the chunk, less what those behind the chunk have of it, and
    /// the sum of what rows of this and all later chunks have of those before the chunk: this thread's part of both. Gives the gradients of rows 2 `lane` and
    /// the next, to the first warp.
    #[inline(always)]
    pub fn of(
        &mut self,
        cta: &Cta<Simt<8>>,
        pairs: &Fragment<f32, CHUNK, CHUNK, Z>,
        rows: Rows<f32, CHUNK, CHUNK, Z>,
        mut first: f32,
    ) -> [f32; 2] {
        let thread = thread_x();
        let add = |a: f32, b: f32| a + b;
        let mut lane = 1;
        while lane < 32 {
            // SAFETY: all lanes execute it.
            first += unsafe { warp::shfl_bfly_f32(first, lane) };
            lane *= 2;
        }
        let keys = self.columns.reduce_cols(pairs, 0.0, add);
        let rows = rows.zip(&pairs.fold_rows(0.0, add), add).across_lanes(add);
        let half = Z::coord(thread, 0).1 / (CHUNK as u32 / 2);
        // SAFETY: the memory is this value's; a value is written by one thread, or by several that have the same.
        unsafe {
            rows.copy_alike(RowVector::<f32, CHUNK>::at(self.address + half * VECTOR));
            let mut i = 0;
            while i < Z::Regs::<f32>::LEN {
                let (row, col) = Z::coord(thread, i);
                if row == 0 {
                    shared::store_f32(self.address + 2 * VECTOR + col * 4, keys.regs.get(Z::col(i)));
                }
                i += 1;
            }
            if thread.is_multiple_of(32) {
                shared::store_f32(self.address + 3 * VECTOR + thread / 32 * 4, first);
            }
        }
        cta.barrier();
        if thread >= 32 {
            return [0.0; 2];
        }
        // SAFETY: written before the barrier.
        unsafe {
            let mut warp = 0;
            let mut sum = 0.0;
            while warp < WARPS {
                sum += shared::load_f32(self.address + 3 * VECTOR + warp * 4);
                warp += 1;
            }
            let at = self.address + thread * 8;
            let [a, b, keys] = [0, 1, 2].map(|i| shared::load_f32x2(at + i * VECTOR));
            // From a row to the next: what it has itself is gained by none behind it, and pairs with it as a key are.
            let own = [a[0] + b[0] - keys[0], a[1] + b[1] - keys[1]];
            let mut before = own[0] + own[1];
            let mut by = 1;
            while by < 32 {
                let below = warp::shfl_up_f32(before, by);
                before += if thread >= by { below } else { 0.0 };
                by *= 2;
            }
            before -= own[0] + own[1];
            [sum - before, sum - before - own[0]]
        }
    }
}
