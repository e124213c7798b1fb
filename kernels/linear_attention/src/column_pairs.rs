//! Fragments of chunks whose threads hold rows below each other: running sums along the sequence stay in a thread.

use tilewright_device::tile::FragmentLayout;

use crate::policy::CHUNK;

/// Threads of a CTA that prepares chunks.
pub const THREADS: usize = 256;

/// Each thread has two neighbouring columns of as many neighbouring rows as there are for it: threads side by side first.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColumnPairs;

macro_rules! column_pairs {
    ($($n:literal)*) => { $(
        impl FragmentLayout<CHUNK, $n> for ColumnPairs {
            type Regs<T: Copy> = [T; CHUNK * $n / THREADS];
            type Rows<T: Copy> = [T; CHUNK * $n / THREADS / 2];
            type Cols<T: Copy> = [T; 2];
            const THREADS: u32 = THREADS as u32;
            const ROW_LANES: u32 = 32;
            const ROW_WARPS: u32 = $n / 64;
            const RUN: usize = 2;

            #[inline(always)]
            fn coord(thread: u32, i: usize) -> (u32, u32) {
                let rows = (CHUNK * $n / THREADS / 2) as u32;
                (thread / ($n / 2) * rows + i as u32 / 2, thread % ($n / 2) * 2 + i as u32 % 2)
            }
            #[inline(always)]
            fn owner(row: u32, col: u32) -> (u32, usize) {
                let rows = (CHUNK * $n / THREADS / 2) as u32;
                (row / rows * ($n / 2) + col / 2, (row % rows * 2 + col % 2) as usize)
            }
            #[inline(always)]
            fn row(i: usize) -> usize {
                i / 2
            }
            #[inline(always)]
            fn col(i: usize) -> usize {
                i % 2
            }
        }
    )* };
}
column_pairs!(64 128 256);
