//! Products of matrices in registers: what `mma.sync` and `wgmma` have in common.
//!
//! Both leave D in the same places: of each 16 rows and 8 columns, lane `l` holds rows `l / 4` and `l / 4 + 8` of columns
//! `2·(l % 4)` and the next. So one register of a warp is 8 rows by 4 columns, and one kernel computes it.
//!
//! The manual leaves the order and precision of the sum open ("Matrix multiply-accumulate Operation"). Here the
//! products, all exact in f32, are added in order of k from +0, each sum rounded to nearest, and the total is added to
//! the accumulator at the end, rounded to nearest once more (to f16 where D is f16). Subnormal numbers count. Integer sums are
//! exact. A NaN result is 0x7fffffff, or 0x7fff in f16.

use super::Register;
use super::element::{Accumulator, Element};
use super::float::{self, Rounding};
use crate::program::register::lanes_of;
use crate::wide::twice;

/// The columns of one register: 8 rows of 4.
const COLUMNS: usize = 4;
/// A register's rows.
const ROWS: usize = 8;

/// The operands of a product, of up to 64 x N x K.
///
/// To be kept from one product to the next: its buffers are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Product {
    depth: usize,
    /// By 8 rows, then k, then row.
    a: Vec<[f32; ROWS]>,
    /// By 8 columns, then even and odd ones, then k, then column.
    b: Vec<[f32; COLUMNS]>,
}

impl Product {
    /// Makes room for an A of `rows` and a B of `columns`.
    pub(crate) fn reset(&mut self, rows: usize, columns: usize, depth: usize) {
        self.depth = depth;
        self.a.resize(rows / ROWS * depth, [0.0; ROWS]);
        self.b.resize(columns / COLUMNS * depth, [0.0; COLUMNS]);
    }

    /// Puts elements of row `row` of A, from column `k` on.
    #[inline]
    pub(crate) fn put_a(&mut self, row: usize, k: usize, values: &[f32]) {
        let columns = &mut self.a[row / ROWS * self.depth + k..][..values.len()];
        for (column, value) in columns.iter_mut().zip(values) {
            column[row % ROWS] = *value;
        }
    }

    /// Puts eight elements of column `k` of A, from row `row` on, a multiple of eight.
    #[inline]
    pub(crate) fn put_a_column(&mut self, row: usize, k: usize, values: &[f32; 8]) {
        self.a[row / ROWS * self.depth + k] = *values;
    }

    /// Puts elements of column `column` of B, from row `k` on.
    #[inline]
    pub(crate) fn put_b(&mut self, k: usize, column: usize, values: &[f32]) {
        let register = column / 8 * 2 + column % 2;
        let rows = &mut self.b[register * self.depth + k..][..values.len()];
        for (row, value) in rows.iter_mut().zip(values) {
            row[column % 8 / 2] = *value;
        }
    }

    /// Puts eight elements of row `k` of B, from column `column` on, a multiple of eight.
    #[inline]
    pub(crate) fn put_b_row(&mut self, k: usize, column: usize, values: &[f32; 8]) {
        let register = column / 8 * 2;
        self.b[register * self.depth + k] = std::array::from_fn(|i| values[2 * i]);
        self.b[(register + 1) * self.depth + k] = std::array::from_fn(|i| values[2 * i + 1]);
    }

    /// Puts the A of one warp, whose first row is `row`, from registers.
    ///
    /// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and so on, "Register Fragments and Shared Memory
    /// Matrix Layouts": they all follow one rule.
    #[inline(always)]
    pub(crate) fn put_a_registers(
        &mut self,
        row: usize,
        element: Element,
        registers: &[Register],
        negate: bool,
    ) {
        for (i, register) in registers.iter().enumerate() {
            columns(element, register, |k, column| {
                let column = if negate { column.map(|value| -value) } else { column };
                self.put_a_column(row + i % 2 * 8, i / 2 * 4 * element.per_register() + k, &column);
            });
        }
    }

    /// Puts a B of 8 columns from registers.
    #[inline(always)]
    pub(crate) fn put_b_registers(&mut self, element: Element, registers: &[Register]) {
        for (i, register) in registers.iter().enumerate() {
            columns(element, register, |k, row| {
                self.put_b_row(i * 4 * element.per_register() + k, 0, &row);
            });
        }
    }

    /// Register `index` of D of warp `warp` of the warpgroup (0 for a warp's own product), added to `c` if there is one.
    pub(crate) fn register(
        &self,
        warp: usize,
        index: usize,
        accumulator: Accumulator,
        c: Option<&Register>,
    ) -> Register {
        register(self, warp, index, accumulator, c.unwrap_or(&[0; 32]))
    }

    /// The sums of products of one 32-bit register, by columns: those of a column are a vector.
    #[inline(always)]
    fn sums(&self, warp: usize, index: usize) -> [[f32; ROWS]; COLUMNS] {
        let rows = warp * 2 + index / 2 % 2;
        let columns = index / 4 * 2 + index % 2;
        let a = &self.a[rows * self.depth..][..self.depth];
        let b = &self.b[columns * self.depth..][..self.depth];
        let mut sums = [[0.0; ROWS]; COLUMNS];
        for (a, b) in a.iter().zip(b) {
            for (sums, b) in sums.iter_mut().zip(b) {
                for i in 0..ROWS {
                    sums[i] += a[i] * b;
                }
            }
        }
        sums
    }
}

twice! {
    fn register(
        product: &Product,
        warp: usize,
        index: usize,
        accumulator: Accumulator,
        c: &Register,
    ) -> Register {
        if accumulator == Accumulator::F16 {
            let half = index / 2 * 4 + index % 2 * 2;
            let (even, odd) = (product.sums(warp, half), product.sums(warp, half + 1));
            return lanes_of(|lane| {
                let add = |sum: f32, c: u32| {
                    u32::from(float::f32_to_f16(sum + float::f16_to_f32(c as u16), Rounding::Nearest))
                };
                let (even, odd) = (even[lane % 4][lane / 4], odd[lane % 4][lane / 4]);
                add(even, c[lane] & 0xffff) | add(odd, c[lane] >> 16) << 16
            });
        }
        let sums = product.sums(warp, index);
        let sum = |lane: usize| sums[lane % COLUMNS][lane / COLUMNS];
        match accumulator {
            Accumulator::S32 { saturate: false } => {
                lanes_of(|lane| c[lane].wrapping_add(sum(lane) as i32 as u32))
            }
            Accumulator::S32 { saturate: true } => {
                lanes_of(|lane| (c[lane] as i32).saturating_add(sum(lane) as i32) as u32)
            }
            _ => lanes_of(|lane| {
                let total = f32::from_bits(c[lane]) + sum(lane);
                if total.is_nan() { float::NAN } else { total.to_bits() }
            }),
        }
    }
}

/// Gives the elements of a register for each k of its own: four lanes hold a row of A or a column of B, of which there are eight.
#[inline(always)]
fn columns(element: Element, register: &Register, mut put: impl FnMut(usize, [f32; 8])) {
    let per = element.per_register();
    for i in 0..per {
        let values = element.of_all(register, i);
        for quarter in 0..4 {
            put(quarter * per + i, std::array::from_fn(|j| values[4 * j + quarter]));
        }
    }
}
