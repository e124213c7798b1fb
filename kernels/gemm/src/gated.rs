//! Gated units of an accumulator.

use tilewright_device::arch::special::thread_x;
use tilewright_device::layout::{FragmentLayout, Registers};
use tilewright_device::tile::{Element, Fragment, GATES, GlobalMut, Major};

use crate::list::Activates;

/// Stores act(gate) up of the tile at `place`, whose rows are gates and ups in turn.
///
/// # Safety
/// C has the leading index of `place`.
#[inline(always)]
pub(crate) unsafe fn store<
    E: Activates,
    U: Element,
    O: Major,
    const M: usize,
    const N: usize,
    const BOX: usize,
    L: FragmentLayout<M, N>,
>(
    acc: &Fragment<f32, M, N, L>,
    c: &mut GlobalMut<U, 3, O, BOX>,
    [batch, m, n]: [u32; 3],
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
                tilewright_device::refuse!("a gate and its up are of different threads");
            }
            let (row, col) = L::coord(thread_x(), i);
            let x = E::ACTIVATION.apply(acc.regs.get(i)) * acc.regs.get(up);
            // SAFETY: the caller's. Tiles of as many rows as there are gates side by side.
            let to =
                unsafe { c.tile_unchecked([batch, m * (M as u32 / (2 * GATES)) + row / (2 * GATES), n]) };
            to.put::<{ GATES as usize }, N>(row % GATES, col, U::from_f32x2(x, x)[0]);
        }
        i += 1;
    }
}
