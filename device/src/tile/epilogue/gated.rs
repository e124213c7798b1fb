//! Gated units: gates and their ups side by side in rows of an accumulator.

use crate::arch::special::thread_x;
use crate::arch::warp::shfl_bfly_f32;
use crate::layout::{Element, FragmentLayout, Major, Registers};
use crate::refuse;
use crate::tile::fragment::Fragment;
use crate::tile::memory::global::GlobalMut;

/// So many gates, then their ups, and so on. As many rows lie between two of a thread's in an accumulator.
pub const GATES: u32 = 8;

/// Rows of gates and ups for each tile's row of units, of which it has [`GATES`].
const PAIR: u32 = 2 * GATES;

/// The unit of a gate's row, or nothing for an up's.
#[inline(always)]
pub const fn unit_of_gate(row: u32) -> Option<u32> {
    if row & GATES == 0 { Some(row / PAIR * GATES + row % GATES) } else { None }
}

/// The up of a lane's gate, where each lane of the warp has the row of its number.
///
/// # Safety
/// The warp's lanes execute it converged.
#[inline(always)]
pub unsafe fn up_of_lane(x: f32) -> f32 {
    // SAFETY: the caller's.
    unsafe { shfl_bfly_f32(x, GATES) }
}

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// Stores act(gate) up of the tile at \[batch, m, n\] of an accumulator whose rows are gates and ups in turn, [`GATES`] of each: tiles of `M` / 2 x `N` of `c`.
    ///
    /// A gate and its up are of one thread, or it does not compile.
    ///
    /// # Safety
    /// `c` has the leading index of the place.
    #[inline(always)]
    pub unsafe fn store_gated<U: Element, O: Major, const BOX: usize>(
        &self,
        c: &mut GlobalMut<U, 3, O, BOX>,
        [batch, m, n]: [u32; 3],
        act: impl Fn(f32) -> f32,
    ) {
        if thread_x() >= L::THREADS {
            return;
        }
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (row, col) = L::coord(0, i);
            if row & GATES == 0 {
                // In every thread an up is as far from its gate.
                let (thread, up) = L::owner(row + GATES, col);
                if thread != 0 {
                    refuse!("a gate and its up are of different threads");
                }
                let (row, col) = L::coord(thread_x(), i);
                let x = act(self.regs.get(i)) * self.regs.get(up);
                // SAFETY: the caller's. Tiles of as many rows as there are gates side by side.
                let to = unsafe { c.tile_unchecked([batch, m * (M as u32 / PAIR) + row / PAIR, n]) };
                to.put::<{ GATES as usize }, N>(row % GATES, col, U::from_f32x2(x, x)[0]);
            }
            i += 1;
        }
    }
}
