//! Partial results of tiles whose keys several CTAs divide among themselves.

use tilewright_device::abi::KernelArg;
use tilewright_device::arch::global;
use tilewright_device::arch::special::{thread_x, thread_x_volatile};
use tilewright_device::layout::{FragmentLayout, Registers};
use tilewright_device::tile::{CopyTo, Fragment, Rows, for_each_row};

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
        unsafe {
            Partials { tiles: (*at).tiles as *mut f32, rows: (*at).rows as *mut f32, count: (*at).count }
        }
    }
}

/// One of the tiles, or the values of its rows.
pub struct PartialTile<const M: usize, const N: usize> {
    tile: *mut f32,
    rows: *mut f32,
    col: u32,
    /// Rows of the tile that are stored.
    end: u32,
    inside: bool,
}

impl<const M: usize, const N: usize> PartialTile<M, N> {
    /// The tile from column `col` on, for a fragment with fewer columns.
    #[inline(always)]
    pub fn from_column(self, col: u32) -> Self {
        PartialTile { col, ..self }
    }
    /// The tile's first `end` rows: nobody reads the others.
    #[inline(always)]
    pub fn until(self, end: u32) -> Self {
        PartialTile { end, ..self }
    }
}

impl<const M: usize, const N: usize> Partials<M, N> {
    /// Tile `index`, to be stored to; nothing is stored where there is no room for it.
    #[inline(always)]
    pub fn tile(&self, index: u32) -> PartialTile<M, N> {
        PartialTile {
            tile: self.tiles.wrapping_add(index as usize * (M * N)),
            rows: self.rows.wrapping_add(index as usize * M),
            col: 0,
            end: M as u32,
            inside: index < self.count,
        }
    }
    /// `R` rows of the tiles from `row` on, counted over all of them; zeros if they are not all there.
    #[inline(always)]
    pub fn load<L: FragmentLayout<R, N>, const R: usize>(&self, row: u32) -> Fragment<f32, R, N, L> {
        const { assert!(L::RUN.is_multiple_of(4), "16 bytes are loaded at a time") };
        let mut out = Fragment::<f32, R, N, L>::zero();
        if row + R as u32 <= self.count * M as u32 && thread_x() < L::THREADS {
            let (below, col) = L::coord(thread_x(), 0);
            let first = self.tiles.wrapping_add((row + below) as usize * N + col as usize);
            let mut i = 0;
            while i < L::Regs::<f32>::LEN {
                let (below, col) = L::offset(i);
                let at = first.wrapping_add(below as usize * N + col as usize);
                // SAFETY: inside the tiles; a run's elements are neighbours from a multiple of four on.
                let words = unsafe { global::ld_global_u32x4(at.cast()) };
                let mut e = 0;
                while e < 4 {
                    out.regs.set(i + e, f32::from_bits(words[e]));
                    e += 1;
                }
                i += 4;
            }
        }
        out
    }
    /// The values of these rows; -inf if they are not all there.
    #[inline(always)]
    pub fn load_rows<L: FragmentLayout<R, N>, const R: usize>(&self, row: u32) -> Rows<f32, R, N, L> {
        let mut out = Rows::<f32, R, N, L>::splat(f32::NEG_INFINITY);
        if row + R as u32 <= self.count * M as u32 {
            for_each_row::<L, R, N>(|r, below, _| {
                let at = self.rows.wrapping_add((row + below) as usize);
                // SAFETY: inside the rows' values.
                out.regs.set(r, f32::from_bits(unsafe { global::ld_global_u32(at.cast()) }));
            });
        }
        out
    }
}

impl<L, const M: usize, const N: usize, const C: usize> CopyTo<PartialTile<M, N>> for Fragment<f32, M, C, L>
where
    L: FragmentLayout<M, C>,
{
    #[inline(always)]
    fn copy_to(self, to: PartialTile<M, N>) {
        const { assert!(L::RUN.is_multiple_of(2) && C <= N, "pairs of columns are stored, inside the tile") };
        if thread_x() >= L::THREADS || !to.inside {
            return;
        }
        let (row, col) = L::coord(thread_x_volatile(), 0);
        let first = to.tile.wrapping_add(row as usize * N + (to.col + col) as usize);
        let mut i = 0;
        while i < L::Regs::<f32>::LEN {
            let (below, along) = L::offset(i);
            if row + below < to.end {
                let at = first.wrapping_add(below as usize * N + along as usize);
                let pair = [self.regs.get(i).to_bits(), self.regs.get(i + 1).to_bits()];
                // SAFETY: inside the tile, which is this CTA's; columns of a run's first element are even.
                unsafe { global::st_global_u32x2(at.cast(), pair) };
            }
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
            if first && to.inside && row < to.end {
                // SAFETY: inside the tile's rows, which are this CTA's.
                unsafe { global::st_global_u32(to.rows.wrapping_add(row as usize).cast(), value.to_bits()) }
            }
        });
    }
}
