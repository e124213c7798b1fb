//! Partial results of tiles whose keys several CTAs divide among themselves.

use super::{CopyTo, Fragment, Rows};
use crate::abi::KernelArg;
use crate::arch::global;
use crate::arch::special::{thread_x, thread_x_volatile};
use crate::layout::{FragmentLayout, Registers};

/// Partial results as the host passes them: tiles of `f32`, and log2 of the sum of exponentials of each of their rows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PartialsAbi {
    /// Address of the tiles, row-major and one after the other, aligned to 16 bytes.
    pub tiles: u64,
    /// Address of the rows' values, in the same order.
    pub rows: u64,
    /// How many tiles there is room for.
    pub count: u32,
    /// Nothing.
    pub padding: u32,
}

/// Partial results: tiles of `M` x `N`, and log2 of the sum of exponentials of each of their rows.
#[derive(Clone, Copy)]
pub struct Partials<const M: usize, const N: usize> {
    tiles: *mut f32,
    rows: *mut f32,
    count: u32,
}

impl<const M: usize, const N: usize> KernelArg for Partials<M, N> {
    type Abi = PartialsAbi;
    #[inline(always)]
    unsafe fn load(at: *const PartialsAbi) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { Partials { tiles: (*at).tiles as *mut f32, rows: (*at).rows as *mut f32, count: (*at).count } }
    }
}

/// One of the tiles, or the values of its rows.
pub struct PartialTile<const M: usize, const N: usize> {
    tile: *mut f32,
    rows: *mut f32,
    inside: bool,
}

impl<const M: usize, const N: usize> Partials<M, N> {
    /// Tile `index`, to be stored to; nothing is stored where there is no room for it.
    #[inline(always)]
    pub fn tile(&self, index: u32) -> PartialTile<M, N> {
        PartialTile {
            tile: self.tiles.wrapping_add(index as usize * (M * N)),
            rows: self.rows.wrapping_add(index as usize * M),
            inside: index < self.count,
        }
    }
    /// How many tiles there is room for.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.count
    }
    /// Two columns from `col` on of `row` of tile `index`.
    #[inline(always)]
    pub fn pair(&self, index: u32, row: u32, col: u32) -> [f32; 2] {
        if index >= self.count {
            return [0.0; 2];
        }
        let at = self.tiles.wrapping_add(index as usize * (M * N) + row as usize * N + col as usize);
        // SAFETY: inside the tiles, which the host view says are readable; columns are even.
        unsafe { global::ld_global_u32x2(at.cast()).map(f32::from_bits) }
    }
    /// log2 of the sum of exponentials of `row` of tile `index`.
    #[inline(always)]
    pub fn log2(&self, index: u32, row: u32) -> f32 {
        if index >= self.count {
            return f32::NEG_INFINITY;
        }
        // SAFETY: as in `pair`.
        f32::from_bits(unsafe {
            global::ld_global_u32(self.rows.wrapping_add(index as usize * M + row as usize).cast())
        })
    }
}

impl<L, const M: usize, const N: usize> CopyTo<PartialTile<M, N>> for Fragment<f32, M, N, L>
where
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: PartialTile<M, N>) {
        const { assert!(L::RUN.is_multiple_of(2), "pairs of columns are stored") };
        if thread_x() >= L::THREADS || !to.inside {
            return;
        }
        let (row, col) = L::coord(thread_x_volatile(), 0);
        let first = to.tile.wrapping_add(row as usize * N + col as usize);
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (row, col) = L::offset(i);
            let at = first.wrapping_add(row as usize * N + col as usize);
            // SAFETY: inside the tile, which is this CTA's; columns of a run's first element are even.
            unsafe { global::st_global_u32x2(at.cast(), [self.regs.get(i).to_bits(), self.regs.get(i + 1).to_bits()]) };
            i += 2;
        }
    }
}

/// Each row's value, by the thread that has its first element.
impl<L, const M: usize, const C: usize, const N: usize> CopyTo<PartialTile<M, N>> for Rows<f32, M, C, L>
where
    L: FragmentLayout<M, C>,
{
    #[inline(always)]
    fn copy_to(self, to: PartialTile<M, N>) {
        self.for_each(|row, first, value| {
            if first && to.inside {
                // SAFETY: inside the tile's rows, which are this CTA's.
                unsafe { global::st_global_u32(to.rows.wrapping_add(row as usize).cast(), value.to_bits()) }
            }
        });
    }
}
