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
    /// Elements of a row of A, and rows of B: twice as many where A is sparse.
    depth: [usize; 2],
    /// Row by row.
    a: Vec<f32>,
    /// Of a sparse A, the row of B that each element is multiplied with; of another one, nothing.
    columns: Vec<u16>,
    /// By 8 columns, then k, then column: the even ones, which are of one register of D, and then the odd ones.
    b: Vec<[f32; TILE]>,
}

/// What the lines of 16 bytes of a core matrix are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    pub(crate) element: Element,
    /// They lie along M or N, and not along K: only of 16-bit elements.
    pub(crate) transposed: bool,
    pub(crate) negate: bool,
}

/// The column of B that stands at each place.
const COLUMNS: [usize; TILE] = [0, 2, 4, 6, 1, 3, 5, 7];

impl Product {
    /// Makes room for an A of `rows` and a B of `columns`.
    pub(crate) fn reset(&mut self, rows: usize, columns: usize, depth: usize) {
        self.resize([rows, columns], [depth; 2]);
        self.columns.clear();
    }

    /// The same for a sparse A, of which half is stored: of each of its elements the column in the full matrix, row by row.
    pub(crate) fn reset_sparse(&mut self, rows: usize, columns: usize, depth: usize, of: &[u16]) {
        self.resize([rows, columns], [depth / 2, depth]);
        self.columns.clear();
        self.columns.extend(of);
    }

    fn resize(&mut self, [rows, columns]: [usize; 2], depth: [usize; 2]) {
        self.depth = depth;
        self.a.resize(rows * depth[0], 0.0);
        self.b.resize(columns / TILE * depth[1], [0.0; TILE]);
    }

    /// Puts a core matrix of A, of these numbers along M and K, from its words.
    pub(crate) fn put_core_a(&mut self, how: Lines, at: [usize; 2], words: &Register) {
        put_core_a(self, how, at, words);
    }

    /// The same of B, along N and K.
    pub(crate) fn put_core_b(&mut self, how: Lines, at: [usize; 2], words: &Register) {
        put_core_b(self, how, at, words);
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
            self.put_rows(element, register, row + i % 2 * TILE, i / 2, negate);
        }
    }

    /// Puts eight rows of A from a register, the part of this number along K.
    #[inline(always)]
    fn put_rows(&mut self, element: Element, register: &Register, row: usize, chunk: usize, negate: bool) {
        match element.per_register() {
            1 => self.put_lines::<4>(element, register, row, chunk, negate),
            2 => self.put_lines::<8>(element, register, row, chunk, negate),
            4 => self.put_lines::<16>(element, register, row, chunk, negate),
            8 => self.put_lines::<32>(element, register, row, chunk, negate),
            _ => self.put_lines::<128>(element, register, row, chunk, negate),
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
            if let Some(row) = self.a[(row + i) * self.depth[0] + chunk * L..].first_chunk_mut() {
                *row = line;
            }
        }
    }

    /// Puts eight columns of B from a register.
    #[inline(always)]
    fn put_columns<const L: usize>(
        &mut self,
        element: Element,
        register: &Register,
        [group, chunk]: [usize; 2],
        negate: bool,
    ) {
        let mut lines = [[0.0; L]; TILE];
        element.unpack(register, lines.as_flattened_mut());
        if negate {
            lines.as_flattened_mut().iter_mut().for_each(|value| *value = -*value);
        }
        let rows = &mut self.b[group * self.depth[1] + chunk * L..][..L];
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
            self.put_group(element, register, [0, i], false);
        }
    }

    /// Puts a group of eight columns of B from a register, the part of this number along K.
    #[inline(always)]
    fn put_group(&mut self, element: Element, register: &Register, at: [usize; 2], negate: bool) {
        match element.per_register() {
            1 => self.put_columns::<4>(element, register, at, negate),
            2 => self.put_columns::<8>(element, register, at, negate),
            4 => self.put_columns::<16>(element, register, at, negate),
            8 => self.put_columns::<32>(element, register, at, negate),
            _ => self.put_columns::<128>(element, register, at, negate),
        }
    }

    /// Puts eight rows and columns of A from the words of its columns, of 16-bit elements.
    #[inline(always)]
    fn put_square_a(&mut self, [group, chunk]: [usize; 2], columns: &[[f32; TILE]; TILE]) {
        for i in 0..TILE {
            let row = &mut self.a[(group * TILE + i) * self.depth[0] + chunk * TILE..][..TILE];
            for (value, column) in row.iter_mut().zip(columns) {
                *value = column[i];
            }
        }
    }

    /// Puts eight rows and columns of B, row by row.
    #[inline(always)]
    fn put_square_b(&mut self, [group, chunk]: [usize; 2], rows: &[[f32; TILE]; TILE]) {
        let to = &mut self.b[group * self.depth[1] + chunk * TILE..][..TILE];
        for (to, row) in to.iter_mut().zip(rows) {
            *to = COLUMNS.map(|column| row[column]);
        }
    }

    /// The registers of D of warp `warp` of the warpgroup (0 for a warp's own product) that hold the 8 rows and 8 columns of a tile,
    /// [so many](Accumulator::per_tile), added to those of `c`, go to `d`.
    pub(crate) fn registers(
        &self,
        warp: usize,
        tile: usize,
        accumulator: Accumulator,
        c: [&Register; 2],
        d: &mut [Register; 2],
    ) {
        registers(self, warp, tile, accumulator, c, d);
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
        let mut d = [[0; 32]; 2];
        self.registers(warp, index / per, accumulator, [c.unwrap_or(&[0; 32]); 2], &mut d);
        d[index % per]
    }

    /// Adds the sums of products of a tile to `c`, by `add`.
    #[inline(always)]
    fn add(
        &self,
        warp: usize,
        tile: usize,
        c: [&Register; 2],
        d: &mut [Register; 2],
        add: impl Fn(u32, f32) -> u32,
    ) {
        let [depth, rows_b] = self.depth;
        let first = (warp * 2 + tile % 2) * TILE * depth;
        let (a, b) = (&self.a[first..], &self.b[tile / 2 * rows_b..][..rows_b]);
        if let Some(columns) = self.columns.get(first..first + TILE * depth) {
            let rows = a.chunks_exact(depth).zip(columns.chunks_exact(depth));
            for ((a, columns), at) in rows.zip(places(c, d)) {
                put(sparse(a, columns, b), at, &add);
            }
            return;
        }
        // All that there are: `Mma::check`; of single bits 256.
        match depth {
            4 => rows::<4>(a, b, c, d, add),
            8 => rows::<8>(a, b, c, d, add),
            16 => rows::<16>(a, b, c, d, add),
            32 => rows::<32>(a, b, c, d, add),
            64 => rows::<64>(a, b, c, d, add),
            _ => rows::<256>(a, b, c, d, add),
        }
    }
}

/// Adds the sums of products of eight rows of A and eight columns of B: those of a row are a vector.
#[inline(always)]
fn rows<const DEPTH: usize>(
    a: &[f32],
    b: &[[f32; TILE]],
    c: [&Register; 2],
    d: &mut [Register; 2],
    add: impl Fn(u32, f32) -> u32,
) {
    if let Some(b) = b.first_chunk::<DEPTH>() {
        for (a, at) in a.as_chunks::<DEPTH>().0.iter().zip(places(c, d)) {
            let mut sums = [0.0; TILE];
            for k in 0..DEPTH {
                for i in 0..TILE {
                    sums[i] += a[k] * b[k][i];
                }
            }
            // Or the compiler makes vectors of four of them, as they go to two registers.
            put(std::hint::black_box(sums), at, &add);
        }
    }
}

/// The sums of a row whose elements are of such columns.
fn sparse(a: &[f32], columns: &[u16], b: &[[f32; TILE]]) -> [f32; TILE] {
    let mut sums = [0.0; TILE];
    for (a, &k) in a.iter().zip(columns) {
        let Some(b) = b.get(usize::from(k)) else { continue };
        sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
    }
    sums
}

/// Of a row what is in the registers of C, and what is to be in those of D: four lanes of each.
type Row<'r> = [(&'r [u32; 4], &'r mut [u32; 4]); 2];

/// Those of all rows of a tile.
#[inline(always)]
fn places<'r>([c, e]: [&'r Register; 2], [d, f]: &'r mut [Register; 2]) -> impl Iterator<Item = Row<'r>> {
    let of = |c: &'r Register, d: &'r mut Register| c.as_chunks().0.iter().zip(d.as_chunks_mut().0);
    of(c, d).zip(of(e, f)).map(|(even, odd)| [even, odd])
}

/// Adds the sums of a row.
#[inline(always)]
fn put(sums: [f32; TILE], at: Row<'_>, add: &impl Fn(u32, f32) -> u32) {
    // Side by side, and all of them before the first is stored: that is a vector.
    let [(c, d), (e, f)] = at;
    let mut row = [c[0], c[1], c[2], c[3], e[0], e[1], e[2], e[3]];
    for i in 0..TILE {
        row[i] = add(row[i], sums[i]);
    }
    let [a, b, c, e, g, h, i, j] = row;
    (*d, *f) = ([a, b, c, e], [g, h, i, j]);
}

/// Eight lines of 16-bit elements.
#[inline(always)]
fn square(how: Lines, words: &Register) -> [[f32; TILE]; TILE] {
    let mut lines = [[0.0; TILE]; TILE];
    how.element.unpack(words, lines.as_flattened_mut());
    if how.negate { lines.map(|line| line.map(|value| -value)) } else { lines }
}

twice! {
    fn put_core_a(product: &mut Product, how: Lines, at: [usize; 2], words: &Register) {
        match how.transposed {
            true => product.put_square_a(at, &square(how, words)),
            false => product.put_rows(how.element, words, at[0] * TILE, at[1], how.negate),
        }
    }
}

twice! {
    fn put_core_b(product: &mut Product, how: Lines, at: [usize; 2], words: &Register) {
        match how.transposed {
            true => product.put_square_b(at, &square(how, words)),
            false => product.put_group(how.element, words, at, how.negate),
        }
    }
}

twice! {
    fn registers(
        product: &Product,
        warp: usize,
        tile: usize,
        accumulator: Accumulator,
        c: [&Register; 2],
        d: &mut [Register; 2],
    ) {
        match accumulator {
            Accumulator::F16 => {
                let (low, high) = (c[0].map(|c| c & 0xffff), c[0].map(|c| c >> 16));
                product.add(warp, tile, [&low, &high], d, add_f16);
                let [low, high] = d;
                low.iter_mut().zip(high).for_each(|(low, high)| *low |= *high << 16);
            }
            Accumulator::F32 => product.add(warp, tile, c, d, add_f32),
            Accumulator::S32 { saturate: false } => product.add(warp, tile, c, d, wrapping),
            Accumulator::S32 { saturate: true } => product.add(warp, tile, c, d, saturating),
        }
    }
}

// Functions and not closures, which would be calls.

#[inline(always)]
fn add_f16(c: u32, sum: f32) -> u32 {
    float::f32_to_f16(sum + float::f16_to_f32(c as u16), Rounding::Nearest).into()
}

#[inline(always)]
fn add_f32(c: u32, sum: f32) -> u32 {
    let total = f32::from_bits(c) + sum;
    if total.is_nan() { float::NAN } else { total.to_bits() }
}

#[inline(always)]
fn wrapping(c: u32, sum: f32) -> u32 {
    c.wrapping_add(sum as i32 as u32)
}

#[inline(always)]
fn saturating(c: u32, sum: f32) -> u32 {
    (c as i32).saturating_add(sum as i32) as u32
}
