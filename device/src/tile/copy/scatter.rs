//! From fragments to rows that lie anywhere in a tensor.

use crate::arch::special::thread_x_volatile;
use crate::layout::{Element, FragmentLayout, Registers};
use crate::tile::copy::fragment::{gather, per_access, store_global};
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::gathered::Scattered;
use crate::tile::memory::window::write_if;

impl<T, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize, F>
    CopyTo<Scattered<T, RANK, BOX, F>> for Fragment<T, M, N, L>
where
    T: Element,
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    #[inline(always)]
    fn copy_to(self, to: Scattered<T, RANK, BOX, F>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        const { assert!(L::RUN >= 2, "registers hold neighbours in pairs") };
        let step = to.of.strides[RANK - 1];
        let count = const { per_access::<T>(L::RUN) };
        let together = step == 1 && to.of.align as usize >= 2 * T::BYTES;
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, first) = L::coord(thread, L::first(r));
            if let Some(index) = (to.place)(row) {
                let (line, inside) = to.of.line(index);
                let line = line.wrapping_add((first as u64 * step) as usize);
                let aligned = count == 2 || (line as u64).is_multiple_of((count * T::BYTES) as u64);
                // One comparison for the whole line, so that its stores follow each other.
                let whole = together && aligned && inside >= N as u32;
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == r && whole {
                        let at = line.wrapping_add(L::offset(i).1 as usize);
                        // SAFETY: all of the tile's columns are inside the tensor, aligned as its host view says or as was asked.
                        unsafe { store_global(at, gather(&self.regs, i, count), count) };
                    }
                    i += count;
                }
                let mut i = 0;
                while i < L::Regs::<T>::LEN {
                    if L::row(i) == r && !whole {
                        let col = L::offset(i).1;
                        let at = line.wrapping_add((col as u64 * step) as usize);
                        // SAFETY: only elements inside the tensor are written.
                        unsafe { write_if(at, self.regs.get(i), first + col < inside) };
                    }
                    i += 1;
                }
            }
            r += 1;
        }
    }
}

/// Each row's value, to the first element of its line.
impl<T, L, const RANK: usize, const BOX: usize, const M: usize, const N: usize, F>
    CopyTo<Scattered<T, RANK, BOX, F>> for Rows<T, M, N, L>
where
    T: Element,
    L: FragmentLayout<M, N>,
    F: Fn(u32) -> Option<[u32; RANK]>,
{
    #[inline(always)]
    fn copy_to(self, to: Scattered<T, RANK, BOX, F>) {
        expect_computing(L::THREADS);
        let thread = thread_x_volatile();
        if thread >= L::THREADS {
            return;
        }
        let mut r = 0;
        while r < L::Rows::<T>::LEN {
            let (row, col) = L::coord(thread, L::first(r));
            // The lane that holds the row's first column writes.
            if col == 0
                && let Some(index) = (to.place)(row)
            {
                let (line, inside) = to.of.line(index);
                // SAFETY: only elements inside the tensor are written.
                unsafe { write_if(line, self.regs.get(r), inside > 0) }
            }
            r += 1;
        }
    }
}
