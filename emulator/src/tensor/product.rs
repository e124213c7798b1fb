//! Products of matrices in registers: what `mma.sync` and `wgmma` have in common.
//!
//! Both leave D in the same places: of each 16 rows and 8 columns, lane `l` holds rows `l / 4` and `l / 4 + 8` of columns
//! `2·(l % 4)` and the next. So 8 rows by 8 columns are two registers of a warp, or one of f16, and are computed together.
//!
//! The manual leaves the order and precision of the sum open ("Matrix multiply-accumulate Operation"). Here the
//! products, all exact in f32, are added in order of k from +0, each sum rounded to nearest, and the total is added to
//! the accumulator at the end, rounded to nearest once more (to f16 where D is f16). Subnormal numbers count. Integer sums are
//! exact. A NaN result is 0x7fffffff, or 0x7fff in f16.

use super::Register;
use super::element::{Accumulator, Element};
use super::float::{self, Rounding};
use crate::wide::twice;

/// Rows and columns of what is computed at a time: of one register or two.
const TILE: usize = 8;

/// The operands of a product, of up to 64 x N x K.
///
/// To be kept from one product to the next: its buffers are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Product {
    depth: usize,
    /// Row by row.
    a: Vec<f32>,
    /// By 8 columns, then k, then column: the even ones, which are of one register of D, and then the odd ones.
    b: Vec<[f32; TILE]>,
}

/// The column of B that stands at each place.
const COLUMNS: [usize; TILE] = [0, 2, 4, 6, 1, 3, 5, 7];

impl Product {
    /// Makes room for an A of `rows` and a B of `columns`.
    pub(crate) fn reset(&mut self, rows: usize, columns: usize, depth: usize) {
        self.depth = depth;
        self.a.resize(rows * depth, 0.0);
        self.b.resize(columns / TILE * depth, [0.0; TILE]);
    }

    /// Puts elements of row `row` of A, from column `k` on.
    #[inline]
    pub(crate) fn put_a(&mut self, row: usize, k: usize, values: &[f32]) {
        self.a[row * self.depth + k..][..values.len()].copy_from_slice(values);
    }

    /// Puts eight elements of column `k` of A, from row `row` on.
    #[inline]
    pub(crate) fn put_a_column(&mut self, row: usize, k: usize, values: &[f32; TILE]) {
        for (i, value) in values.iter().enumerate() {
            self.a[(row + i) * self.depth + k] = *value;
        }
    }

    /// Puts elements of column `column` of B, from row `k` on.
    #[inline]
    pub(crate) fn put_b(&mut self, k: usize, column: usize, values: &[f32]) {
        let rows = &mut self.b[column / TILE * self.depth + k..][..values.len()];
        for (row, value) in rows.iter_mut().zip(values) {
            row[column % 2 * (TILE / 2) + column % TILE / 2] = *value;
        }
    }

    /// Puts eight elements of row `k` of B, from column `column` on, a multiple of eight.
    #[inline]
    pub(crate) fn put_b_row(&mut self, k: usize, column: usize, values: &[f32; TILE]) {
        self.b[column / TILE * self.depth + k] = COLUMNS.map(|column| values[column]);
    }

    /// Puts the A of one warp, whose first row is `row`, from registers.
    ///
    /// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and so on, "Register Fragments and Shared Memory
    /// Matrix Layouts": they all follow one rule.
    #[inline(always)]
    pub(crate) fn put_a_registers<'r>(
        &mut self,
        row: usize,
        element: Element,
        registers: impl Iterator<Item = &'r Register>,
        negate: bool,
    ) {
        for (i, register) in registers.enumerate() {
            let row = row + i % 2 * TILE;
            match element.per_register() {
                1 => self.put_lines::<4>(element, register, row, i / 2, negate),
                2 => self.put_lines::<8>(element, register, row, i / 2, negate),
                4 => self.put_lines::<16>(element, register, row, i / 2, negate),
                8 => self.put_lines::<32>(element, register, row, i / 2, negate),
                _ => self.put_lines::<128>(element, register, row, i / 2, negate),
            }
        }
    }

    /// Puts eight rows of A from a register, of each the elements of four lanes.
    #[inline(always)]
    fn put_lines<const L: usize>(
        &mut self,
        element: Element,
        register: &Register,
        row: usize,
        chunk: usize,
        negate: bool,
    ) {
        let mut lines = [[0.0; L]; TILE];
        element.unpack(register, lines.as_flattened_mut());
        for (i, line) in lines.iter().enumerate() {
            let line = if negate { line.map(|value| -value) } else { *line };
            if let Some(row) = self.a[(row + i) * self.depth + chunk * L..].first_chunk_mut() {
                *row = line;
            }
        }
    }

    /// Puts eight columns of B from a register.
    #[inline(always)]
    fn put_columns<const L: usize>(&mut self, element: Element, register: &Register, chunk: usize) {
        let mut lines = [[0.0; L]; TILE];
        element.unpack(register, lines.as_flattened_mut());
        let rows = &mut self.b[chunk * L..][..L];
        let (squares, rest) = rows.as_chunks_mut::<TILE>();
        for (i, square) in squares.iter_mut().enumerate() {
            for (k, row) in square.iter_mut().enumerate() {
                for (value, column) in row.iter_mut().zip(COLUMNS) {
                    *value = lines[column][i * TILE + k];
                }
            }
        }
        for (k, row) in rest.iter_mut().enumerate() {
            for (value, column) in row.iter_mut().zip(COLUMNS) {
                *value = lines[column][k];
            }
        }
    }

    /// Puts a B of 8 columns from registers.
    #[inline(always)]
    pub(crate) fn put_b_registers<'r>(
        &mut self,
        element: Element,
        registers: impl Iterator<Item = &'r Register>,
    ) {
        for (i, register) in registers.enumerate() {
            match element.per_register() {
                1 => self.put_columns::<4>(element, register, i),
                2 => self.put_columns::<8>(element, register, i),
                4 => self.put_columns::<16>(element, register, i),
                _ => self.put_columns::<32>(element, register, i),
            }
        }
    }

    /// The registers of D of warp `warp` of the warpgroup (0 for a warp's own product) that hold the 8 rows and 8 columns of a tile,
    /// [so many](Accumulator::per_tile), added to those of `c`.
    pub(crate) fn registers(
        &self,
        warp: usize,
        tile: usize,
        accumulator: Accumulator,
        c: [&Register; 2],
    ) -> [Register; 2] {
        registers(self, warp, tile, accumulator, c)
    }

    /// Register `index` of D alone, added to `c` if there is one.
    #[cfg(test)]
    pub(crate) fn register(
        &self,
        warp: usize,
        index: usize,
        accumulator: Accumulator,
        c: Option<&Register>,
    ) -> Register {
        let per = accumulator.per_tile();
        self.registers(warp, index / per, accumulator, [c.unwrap_or(&[0; 32]); 2])[index % per]
    }

    /// The sums of products of a tile, row by row: those of a row are a vector.
    #[inline(always)]
    fn sums(&self, warp: usize, tile: usize) -> [[f32; TILE]; TILE] {
        let a = &self.a[(warp * 2 + tile % 2) * TILE * self.depth..];
        let b = &self.b[tile / 2 * self.depth..];
        // All that there are: `Mma::check`, and the single bits of `wgmma`.
        match self.depth {
            4 => rows::<4>(a, b),
            8 => rows::<8>(a, b),
            16 => rows::<16>(a, b),
            32 => rows::<32>(a, b),
            64 => rows::<64>(a, b),
            _ => rows::<256>(a, b),
        }
    }
}

/// The sums of products of eight rows of A and eight columns of B.
#[inline(always)]
fn rows<const DEPTH: usize>(a: &[f32], b: &[[f32; TILE]]) -> [[f32; TILE]; TILE] {
    let mut sums = [[0.0; TILE]; TILE];
    if let Some(b) = b.first_chunk::<DEPTH>() {
        for (sums, a) in sums.iter_mut().zip(a.as_chunks::<DEPTH>().0) {
            let mut row = [0.0; TILE];
            for k in 0..DEPTH {
                for i in 0..TILE {
                    row[i] += a[k] * b[k][i];
                }
            }
            *sums = row;
        }
    }
    sums
}

twice! {
    fn registers(
        product: &Product,
        warp: usize,
        tile: usize,
        accumulator: Accumulator,
        c: [&Register; 2],
    ) -> [Register; 2] {
        let sums = product.sums(warp, tile);
        // By register: four lanes hold a row.
        let [mut even, mut odd] = [[0.0; 32]; 2];
        let registers = even.as_chunks_mut().0.iter_mut().zip(odd.as_chunks_mut().0);
        for ((even, odd), [a, b, c, d, e, f, g, h]) in registers.zip(sums) {
            (*even, *odd) = ([a, b, c, d], [e, f, g, h]);
        }
        let sums = [even, odd];
        let mut d = [[0; 32]; 2];
        match accumulator {
            Accumulator::F16 => {
                let add = |sum: f32, c: u32| {
                    u32::from(float::f32_to_f16(sum + float::f16_to_f32(c as u16), Rounding::Nearest))
                };
                for (lane, d) in d[0].iter_mut().enumerate() {
                    let c = c[0][lane];
                    *d = add(sums[0][lane], c & 0xffff) | add(sums[1][lane], c >> 16) << 16;
                }
            }
            Accumulator::S32 { saturate: false } => {
                each(&mut d, c, &sums, |c, sum| c.wrapping_add(sum as i32 as u32));
            }
            Accumulator::S32 { saturate: true } => {
                each(&mut d, c, &sums, |c, sum| (c as i32).saturating_add(sum as i32) as u32);
            }
            Accumulator::F32 => each(&mut d, c, &sums, |c, sum| {
                let total = f32::from_bits(c) + sum;
                if total.is_nan() { float::NAN } else { total.to_bits() }
            }),
        }
        d
    }
}

/// Adds sums to what is there.
#[inline(always)]
fn each(d: &mut [Register; 2], c: [&Register; 2], sums: &[[f32; 32]; 2], add: impl Fn(u32, f32) -> u32) {
    for ((d, c), sums) in d.iter_mut().zip(c).zip(sums) {
        for ((d, c), sum) in d.iter_mut().zip(c).zip(sums) {
            *d = add(*c, *sum);
        }
    }
}
