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
const BLOCK: usize = 16;

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

    /// (I + A)⁻¹, A strictly lower triangular: blocks on the diagonal by forward substitution, in f32; then pairs of neighbours, T₁ and T₂
    /// with A₂₁ between them, have -T₂ A₂₁ T₁ between them, as all pairs at a time: T - T A T where A has what is between pairs alone.
    /// Those products round to tf32.
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
        copy(a, &mut self.rows);
        substitute(self.rows.full().address());
        cta.barrier();
        let inverted = Fragment::<f32, CHUNK, CHUNK, Z>::load(self.rows.full());
        let on_diagonal = |row: u32, col: u32| row / BLOCK as u32 == col / BLOCK as u32;
        let mut t = inverted.map_indexed(|row, col, x| if on_diagonal(row, col) { x } else { 0.0 });
        let mut m = BLOCK as u32;
        while m < CHUNK as u32 {
            let between = |row: u32, col: u32| row / m % 2 == 1 && row / m - 1 == col / m;
            copy(t, &mut self.rows);
            copy(a.map_indexed(|row, col, x| if between(row, col) { x } else { 0.0 }), &mut self.columns);
            let left = gemm(F::default(), self.rows.full(), self.columns.full(), Fresh::new()).wait();
            copy(left, &mut self.rows);
            copy(t, &mut self.columns);
            let both = gemm(F::default(), self.rows.full(), self.columns.full(), Fresh::new()).wait();
            t = t.zip(&both, |t, x| t - x);
            m *= 2;
        }
        t
    }
}

/// In place of each block of A on the diagonal (I + A)⁻¹: a warp for each, two lanes for each column.
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
    let mut inverse = [0.0; BLOCK];
    let mut row = 0;
    while row < BLOCK {
        let mut x = if column == row as u32 { 1.0 } else { 0.0 };
        let mut before = 0;
        while before < row {
            // SAFETY: inside the tile, which this warp's lanes alone use of this block; they write below.
            x -= unsafe { shared::load_f32(at(row, before as u32)) } * inverse[before];
            before += 1;
        }
        inverse[row] = x;
        row += 1;
    }
    // SAFETY: whole warps come here: all lanes have read what is overwritten.
    unsafe { sync::sync_warp() };
    let mut row = 0;
    while row < BLOCK && thread_x() % 32 < BLOCK as u32 {
        // SAFETY: as above.
        unsafe { shared::store_f32(at(row, column), inverse[row]) };
        row += 1;
    }
}
