//! The inverse of a chunk's triangle.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, sync};
use tilewright_device::tile::{
    ColMajor, Cta, Element, Fragment, Fresh, Gemm, Pending, Scratch, Shared, SharedLayout, Simt, Swizzle,
    copy, gemm,
};

use crate::policy::{CHUNK, Prepares};

/// A tile of f32 through which fragments change hands.
type Tile = Shared<f32, CHUNK, CHUNK, Swizzle<128>>;
/// One that is contiguous the other way.
type Columns = Shared<f32, CHUNK, CHUNK, Swizzle<128>, ColMajor>;

/// Rows of a block that is inverted by substitution.
const BLOCK: usize = CHUNK / 2;

/// What the inverse takes of shared memory.
pub struct Inverse<P> {
    rows: Scratch<P, Tile>,
    columns: Scratch<P, Columns>,
}

impl Inverse<Simt<8>> {
    /// Room for it.
    #[inline(always)]
    pub fn new(cta: &mut Cta<Simt<8>>) -> Self {
        Inverse { rows: cta.scratch(), columns: cta.scratch() }
    }

    /// (I + A)⁻¹, A strictly lower triangular: both halves of the diagonal, T₁ and T₂, by forward substitution, in f32; below it, where A has A₂₁,
    /// -T₂ (A₂₁ T₁). Those products round to tf32.
    #[inline(always)]
    pub fn of<Z, F, T>(
        &mut self,
        cta: &Cta<Simt<8>>,
        a: Fragment<f32, CHUNK, CHUNK, Z>,
    ) -> Fragment<f32, CHUNK, CHUNK, Z>
    where
        T: Element,
        Z: Prepares<T, 64>,
        F: Gemm<f32, 64, 64, 64, A = Swizzle<128>, B = Swizzle<128>, D = Z>,
    {
        let half = BLOCK as u32;
        copy(a, &mut self.rows);
        substitute(self.rows.full().address());
        cta.barrier();
        // T₁ 0, A₂₁ T₂
        let halves = Fragment::<f32, CHUNK, CHUNK, Z>::load(self.rows.full());
        let first = halves.map_indexed(|row, col, x| if row < half && col < half { x } else { 0.0 });
        copy(first, &mut self.columns);
        let right = gemm(F::default(), self.rows.full(), self.columns.full(), Fresh::new()).wait();
        let right = right.map_indexed(|row, _, x| if row < half { 0.0 } else { x });
        copy(right, &mut self.columns);
        let below = gemm(F::default(), self.rows.full(), self.columns.full(), Fresh::new()).wait();
        let on_diagonal = |row: u32, col: u32| row / half == col / half;
        halves.map_indexed(|row, col, x| if on_diagonal(row, col) { x } else { 0.0 }) - below
    }
}

/// In place of both halves of the diagonal (I + A)⁻¹: a warp for each, a lane for each column. Four rows at a time: what is behind them of the
/// inverse is multiplied by four elements of A that are loaded together.
#[inline(always)]
fn substitute(address: u32) {
    let (block, column) = (thread_x() / 32, thread_x() % BLOCK as u32);
    if block >= (CHUNK / BLOCK) as u32 {
        return;
    }
    let at = |row: usize, col: u32| {
        let first = block * BLOCK as u32;
        let byte = (first + col) * 4;
        address + Swizzle::<128>::offset(CHUNK as u32, CHUNK as u32 * 4, first + row as u32, byte)
    };
    // SAFETY: inside the tile, which this warp's lanes alone use of this block; they write below.
    let four =
        |row: usize, col: usize| unsafe { shared::load_u32x4(at(row, col as u32)) }.map(f32::from_bits);
    let mut inverse = [0.0; BLOCK];
    let mut row = 0;
    while row < BLOCK {
        let mut i = 0;
        while i < 4 {
            inverse[row + i] = if column == (row + i) as u32 { 1.0 } else { 0.0 };
            i += 1;
        }
        let mut before = 0;
        while before <= row {
            let mut i = 0;
            while i < 4 {
                let a = four(row + i, before);
                let mut j = 0;
                while j < 4 && before + j < row + i {
                    inverse[row + i] -= a[j] * inverse[before + j];
                    j += 1;
                }
                i += 1;
            }
            before += 4;
        }
        row += 4;
    }
    // SAFETY: whole warps come here: all lanes have read what is overwritten.
    unsafe { sync::sync_warp() };
    let mut row = 0;
    while row < BLOCK {
        // SAFETY: as above.
        unsafe { shared::store_f32(at(row, column), inverse[row]) };
        row += 1;
    }
}
