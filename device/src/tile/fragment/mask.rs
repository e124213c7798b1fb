//! Scores that do not count, or count less.

use crate::arch::math::fma;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::{Fragment, Rows};

impl<const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<f32, M, N, L> {
    /// -inf in each row from column `seen(row)` on.
    #[inline(always)]
    pub fn mask_beyond(mut self, seen: impl Fn(u32) -> u32) -> Self {
        // The thread's number is read anew, so that nothing of it is held in registers over a loop.
        let thread = thread_x_volatile();
        let mut ends = Rows::<u32, M, N, L>::splat(0);
        // The rows whose end is known.
        let mut known = 0u64;
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let ((row, col), r) = (L::coord(thread, i), L::row(i));
            if known & 1 << r == 0 {
                known |= 1 << r;
                ends.regs.set(r, seen(row));
            }
            if col >= ends.regs.get(r) {
                self.regs.set(i, f32::NEG_INFINITY);
            }
            i += 1;
        }
        self
    }

    /// Each element less its row's slope times the distance of its column from the row's `own` one, which is counted from the tile's left and may be
    /// outside (ALiBi; Press et al. 2022).
    #[inline(always)]
    pub fn less_distance(mut self, slopes: &Rows<f32, M, N, L>, own: &Rows<i32, M, N, L>) -> Self {
        let first = L::coord(thread_x(), 0).1 as i32;
        let own = own.map(|own| (own - first) as f32);
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let r = L::row(i);
            let distance = (own.regs.get(r) - L::offset(i).1 as f32).abs();
            self.regs.set(i, fma(-slopes.regs.get(r), distance, self.regs.get(i)));
            i += 1;
        }
        self
    }
}
