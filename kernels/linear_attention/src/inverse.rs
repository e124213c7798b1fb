//! The inverse of a chunk's triangle.

use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{shared, sync};
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    ColMajor, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, Pending, Scratch, Shared, SharedLayout,
    Simt, Src, Swizzle, copy, gemm,
};

use crate::policy::{CHUNK, Prepares};

/// A tile of f32 through which fragments change hands.
type Tile = Shared<f32, CHUNK, CHUNK, Swizzle<128>>;
/// A quarter of it, and one that is contiguous the other way.
type Quarter = Shared<f32, BLOCK, BLOCK, Swizzle<128>>;
type Columns = Shared<f32, BLOCK, BLOCK, Swizzle<128>, ColMajor>;

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
        F: Gemm<f32, 32, 32, 32, A = Swizzle<128>, B = Swizzle<128>>,
    {
        copy(a, &mut self.rows);
        let address = self.rows.full().address();
        substitute(address);
        cta.barrier();
        let first = |row: u32, col: u32| address + (2 * col + row) * (BLOCK as u32 * 128);
        // SAFETY: half of the rows of a swizzle's 32 columns, in whole patterns; written again behind a barrier.
        let quarter = |row: u32, col: u32| unsafe { Src::<Quarter>::from_address(first(row, col)) };
        copy(Fragment::<f32, BLOCK, BLOCK, F::D>::load(quarter(0, 0)), &mut self.columns);
        let right = gemm(F::default(), quarter(1, 0), self.columns.full(), Fresh::new()).wait();
        copy(right, &mut self.columns);
        let below = gemm(F::default(), quarter(1, 1), self.columns.full(), Fresh::new()).wait();
        let mut i = 0;
        while i < <F::D as FragmentLayout<BLOCK, BLOCK>>::Regs::<f32>::LEN {
            let (row, col) = F::D::coord(thread_x(), i);
            let at = Swizzle::<128>::offset(BLOCK as u32, BLOCK as u32 * 4, row, col * 4);
            // SAFETY: in the quarter below the diagonal, which was last read in front of the copy's barrier.
            unsafe { shared::store_f32(first(1, 0) + at, -below.regs.get(i)) };
            i += 1;
        }
        cta.barrier();
        Fragment::load(self.rows.full())
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
