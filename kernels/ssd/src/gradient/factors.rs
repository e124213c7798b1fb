//! What is left of one token at another one, and how dt is had again.

use tilewright_device::arch::special::thread_x_volatile;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{Fragment, FragmentLayout, Rows, math};

use crate::tokens::{BLOCK, Tokens, Value, for_each_in_band};

impl Tokens<'_> {
    /// 2^(a of the row - b of the column) at and below the diagonal: rows are results, columns the tokens that enter them with dt. With `KEYS`
    /// 2^(a of the column - a of the row) at and above it: rows enter, and dt is left out. Zeros elsewhere.
    ///
    /// As [`weigh`](Self::weigh): products of factors of at most 1, with an anchor between the warp's rows and the columns apart from them.
    #[inline(always)]
    pub(crate) fn factors<L: FragmentLayout<64, 64>, const KEYS: bool>(&self) -> Fragment<f32, 64, 64, L> {
        const { assert!(L::THREADS == 128 && L::ROW_LANES == 4 && L::RUN == 2, "a warp has 16 rows, whole") };
        let thread = thread_x_volatile();
        let band = thread / 32;
        let power = |row: f32, col: f32| math::ex2(if KEYS { col - row } else { row - col });
        let anchor = match (KEYS, band) {
            (true, _) => self.at(Value::Sum, band * 16 + 15),
            (false, 0) => 0.0,
            (false, _) => self.at(Value::Sum, band * 16 - 1),
        };
        let sums = self.rows::<L, 64>(Value::Sum);
        let mut others = self.cols::<L>(if KEYS { Value::Sum } else { Value::Offset });
        let own = sums.map(|sum| power(sum, anchor));
        let mut all = Fragment::<f32, 64, 64, L>::zero();
        let mut columns = 0;
        while columns < 4 {
            if if KEYS { columns > band } else { columns < band } {
                for_each_in_band::<L>(columns, |i| {
                    if L::row(i) == L::row(0) {
                        others.regs.set(L::col(i), power(anchor, others.regs.get(L::col(i))));
                    }
                });
                for_each_in_band::<L>(columns, |i| {
                    all.regs.set(i, own.regs.get(L::row(i)) * others.regs.get(L::col(i)));
                });
            } else if columns == band {
                for_each_in_band::<L>(columns, |i| {
                    let (row, col) = (thread % 32 / 4 + L::offset(i).0, thread % 4 * 2 + L::offset(i).1 % 16);
                    let factor = power(sums.regs.get(L::row(i)), others.regs.get(L::col(i)));
                    all.regs.set(i, if if KEYS { col >= row } else { col <= row } { factor } else { 0.0 });
                });
            }
            columns += 1;
        }
        all
    }

    /// dt of the rows.
    #[inline(always)]
    pub(crate) fn steps<L: FragmentLayout<64, N>, const N: usize>(&self) -> Rows<f32, 64, N, L> {
        self.rows(Value::Sum).zip(&self.rows(Value::Offset), |sum, offset| math::ex2(sum - offset))
    }

    /// What is left of the rows' tokens at the block's end.
    #[inline(always)]
    pub(crate) fn left_behind<L: FragmentLayout<64, N>, const N: usize>(&self) -> Rows<f32, 64, N, L> {
        let end = self.at(Value::Sum, BLOCK - 1);
        self.rows(Value::Sum).map(|sum| math::ex2(end - sum))
    }
}
