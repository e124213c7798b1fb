//! Parts of attention's results, put together row by row.

use crate::arch::special::thread_x;
use crate::arch::{global, math};
use crate::layout::{FragmentLayout, Registers, Striped};
use crate::tile::fragment::{Fragment, Rows};
use crate::tile::softmax::split_parts::SplitParts;

/// Turns of a warp whose loads are under way at a time.
const AHEAD: usize = 4;

/// The parts of `W` rows, one a warp, in `C` columns. A row of `C` columns leaves room for `R / W` in a warp's lanes: they take as
/// many parts of the warp's row at a turn.
///
/// All addresses are known when it is made, before the kernel that writes the parts has ended.
pub struct PartsOfRows<const W: usize, const R: usize, const C: usize> {
    results: *const f32,
    sums: *const f32,
    /// Elements from a lane's part to its next: of the results, and of the sums.
    turns: [usize; 2],
    /// Parts from this lane's first one on, which may have ended before it.
    left: i32,
    /// Columns from this lane's first one on.
    inside: i32,
    /// Rounds of `AHEAD` turns.
    rounds: u32,
}

impl SplitParts {
    /// The parts, `count` each, of rows whose first parts lie at line `first` and those behind it; the columns from `column` on.
    ///
    /// A row has no parts where there is no room for all of them.
    #[inline(always)]
    pub fn rows<const W: usize, const R: usize, const C: usize>(
        &self,
        first: u32,
        count: u32,
        column: u32,
    ) -> PartsOfRows<W, R, C>
    where
        Striped<W>: FragmentLayout<R, C>,
    {
        let at_once = (R / W) as u32;
        let (row, along) = <Striped<W> as FragmentLayout<R, C>>::coord(thread_x(), 0);
        let (line, part) = (first + row / at_once, row % at_once);
        let room = line as u64 + count as u64 * (self.step as u64) < self.lines as u64 + self.step as u64;
        let count = if room { count } else { 0 };
        let own = line as usize + part as usize * self.step as usize;
        let (columns, turn) = (self.columns as usize, (at_once as usize).wrapping_mul(self.step as usize));
        PartsOfRows {
            results: (self.results as *const f32).wrapping_add(own * columns + (column + along) as usize),
            sums: (self.sums as *const f32).wrapping_add(own),
            turns: [turn * columns, turn],
            left: count as i32 - part as i32,
            inside: self.columns as i32 - (column + along) as i32,
            rounds: count.div_ceil(at_once * AHEAD as u32),
        }
    }
}

impl<const W: usize, const R: usize, const C: usize> PartsOfRows<W, R, C>
where
    Striped<W>: FragmentLayout<R, C>,
{
    /// O = Σ 2^(Lₛ - L) Oₛ and L = log2 Σ 2^Lₛ over the parts s (Dao et al. 2023, "Flash-Decoding"). Where no part saw a key, O is 0
    /// and L -inf.
    ///
    /// Rows n R / W to (n + 1) R / W of the results are all row n.
    #[inline(always)]
    pub fn merge(mut self) -> (Fragment<f32, R, C, Striped<W>>, Rows<f32, R, C, Striped<W>>) {
        const { assert!(<Striped<W> as FragmentLayout<R, C>>::Rows::<f32>::LEN == 1, "a lane has one row") };
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
        let mut acc = Fragment::<f32, R, C, Striped<W>>::zero();
        while self.rounds > 0 {
            self.rounds -= 1;
            let loaded = [(); AHEAD].map(
                #[inline(always)]
                |()| self.next_part(),
            );
            let new = loaded.iter().fold(max, |max, (l, _)| math::max(max, *l));
            let new = Rows::<f32, R, C, Striped<W>>::splat(new).reduce(math::max);
            // Without any key: 2 ^ (-inf - 0), not 2 ^ (-inf + inf).
            let shift = if new == f32::NEG_INFINITY { 0.0 } else { new };
            let rescale = math::ex2(max - shift);
            (max, sum, acc) = (new, sum * rescale, acc.map(|x| x * rescale));
            for (l, x) in loaded {
                let weight = math::ex2(l - shift);
                sum += weight;
                acc = acc.zip(&x, |acc, x| math::fma(x, weight, acc));
            }
        }
        let sum = Rows::<f32, R, C, Striped<W>>::splat(sum).reduce(|a, b| a + b);
        let inverse = if sum == 0.0 { 0.0 } else { math::rcp(sum) };
        let log2 = if sum == 0.0 { f32::NEG_INFINITY } else { max + math::lg2(sum) };
        (acc.sum_rows().map(|x| x * inverse), Rows::splat(log2))
    }

    /// The lane's next part: log2 of its sum, and its result; -inf and zeros behind the last part.
    #[inline(always)]
    fn next_part(&mut self) -> (f32, Fragment<f32, R, C, Striped<W>>) {
        const { assert!(<Striped<W> as FragmentLayout<R, C>>::RUN == SplitParts::RUN, "lanes read runs") };
        let mut log2 = f32::NEG_INFINITY;
        let mut result = Fragment::<f32, R, C, Striped<W>>::zero();
        if self.left > 0 {
            // SAFETY: the part is one of the row's, for which there is room.
            log2 = f32::from_bits(unsafe { global::ld_global_u32(self.sums.cast()) });
            let mut i = 0;
            while i < <<Striped<W> as FragmentLayout<R, C>>::Regs<f32> as Registers<f32>>::LEN {
                let along = <Striped<W> as FragmentLayout<R, C>>::offset(i).1;
                if (along as i32) < self.inside {
                    let at = self.results.wrapping_add(along as usize);
                    // SAFETY: as above; a run's columns are all there or none is, from a multiple of four on.
                    let words = unsafe { global::ld_global_u32x4(at.cast()) };
                    let mut e = 0;
                    while e < 4 {
                        result.regs.set(i + e, f32::from_bits(words[e]));
                        e += 1;
                    }
                }
                i += 4;
            }
        }
        self.results = self.results.wrapping_add(self.turns[0]);
        self.sums = self.sums.wrapping_add(self.turns[1]);
        self.left -= (R / W) as i32;
        (log2, result)
    }
}
