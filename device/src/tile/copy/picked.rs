//! From lines of a tile in shared memory, which a function names, to a fragment.

use crate::arch::special::{thread_x, trap};
use crate::layout::{Element, FragmentLayout, Registers, RowMajor, SharedLayout};
use crate::tile::copy::fragment::{load_shared, per_access, scatter};
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::picked::Picked;
use crate::tile::memory::shared::Shared;

impl<T, S, F, L, const R: usize, const C: usize, const M: usize, const N: usize>
    CopyTo<&mut Fragment<T, M, N, L>> for Picked<'_, Shared<T, R, C, S, RowMajor>, F>
where
    T: Element,
    S: SharedLayout,
    F: Fn(u32) -> [u32; 2],
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        expect_computing(L::THREADS);
        let (thread, step) = (thread_x(), const { per_access::<T>(L::RUN) });
        if thread >= L::THREADS {
            return;
        }
        let mut i = 0;
        while i < L::Regs::<T>::LEN {
            let (row, col) = L::coord(thread, i);
            let [line, first] = (self.place)(row);
            let col = first + col;
            if line >= R as u32 || col > (C - step) as u32 || !col.is_multiple_of(step as u32) {
                trap();
            }
            let at =
                self.of.address + S::offset(R as u32, (C * T::BYTES) as u32, line, col * T::BYTES as u32);
            // SAFETY: a `Src` is a full tile, and the elements lie in it, together in an aligned piece of 16 bytes.
            scatter(unsafe { load_shared::<T>(at, step) }, &mut to.regs, i, step);
            i += step;
        }
    }
}
