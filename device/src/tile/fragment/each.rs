//! A fragment's elements, one after the other.

use crate::arch::special::thread_x_volatile;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::Fragment;

impl<T: Copy, const M: usize, const N: usize, L: FragmentLayout<M, N>> Fragment<T, M, N, L> {
    /// Gives each of this thread's elements with its row and column in the tile, such as to store it somewhere of one's own; none to threads that hold none.
    ///
    /// ```
    /// # use tilewright_device::tile::*;
    /// /// C, where a tile is of C's transpose.
    /// fn store<L: FragmentLayout<128, 32>>(tile: &Fragment<f32, 128, 32, L>, c: &mut GlobalMut<f32, 2>, at: [u32; 2]) {
    ///     let to = c.tile(at);
    ///     tile.for_each(|row, column, x| to.put::<32, 128>(column, row, x));
    /// }
    /// ```
    #[inline(always)]
    pub fn for_each(&self, mut each: impl FnMut(u32, u32, T)) {
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let (row, column) = L::coord(thread, 0);
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (down, right) = L::offset(i);
            each(row + down, column + right, self.regs.get(i));
            i += 1;
        }
    }
}
