//! Decays of each channel between rows of a chunk, whose exponents are never above 0.

use core::f32::consts::LOG2_E;

use tilewright_device::arch::shared;
use tilewright_device::arch::special::thread_x;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{Collective, Cols, Cta, Fragment, FragmentLayout, math};

use crate::column_pairs::{ColumnPairs, THREADS};
use crate::decays::NOTHING;
use crate::policy::CHUNK;

/// Which rows' decays are summed up for a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// From the chunk's first row to its own, both included.
    FromFirst,
    /// From the next row to the chunk's last.
    ToLast,
    /// Of blocks of `M` rows: in the second of two neighbours from the block's first row to its own, in the first from the next row to the
    /// block's last. What is between two rows of such a pair is the sum of both: the anchor is where the blocks meet.
    Pairs,
}

/// Logarithms to base 2 of the decays of a chunk's rows and channels.
pub struct Anchors<const DK: usize>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    /// The logarithms themselves, which each thread reads as it wrote them: in no register between.
    gates: u32,
    /// Those of wider rows, for which there is no room.
    held: Option<Fragment<f32, CHUNK, DK, ColumnPairs>>,
    /// Of each group of rows that a thread has, the sum of each column.
    sums: u32,
}

impl<const DK: usize> Anchors<DK>
where
    ColumnPairs: FragmentLayout<CHUNK, DK>,
{
    /// Rows of a thread, and groups of as many.
    const ROWS: usize = CHUNK * DK / THREADS / 2;
    const GROUPS: usize = CHUNK / Self::ROWS;

    /// Of gates, natural logarithms, of which those of missing rows are 0.
    #[inline(always)]
    pub fn new(cta: &mut Cta<impl Collective>, gates: Fragment<f32, CHUNK, DK, ColumnPairs>) -> Self {
        let gates = gates.map(|gate| math::min(math::max(gate * LOG2_E, NOTHING), 0.0));
        let sums = cta.reserve((Self::GROUPS * DK * 4) as u32, 16);
        let held = if DK <= 128 { None } else { Some(gates) };
        let room = if held.is_none() { CHUNK * DK * 4 } else { 0 };
        let anchors = Anchors { gates: cta.reserve(room as u32, 16), held, sums };
        let mut sum = [0.0; 2];
        let mut row = 0;
        while row < Self::ROWS {
            let pair = [0, 1].map(|e| gates.regs.get(2 * row + e));
            sum = [sum[0] + pair[0], sum[1] + pair[1]];
            if held.is_none() {
                // SAFETY: two values for each thread and row, in the memory that was just taken.
                unsafe { shared::store_f32x2(anchors.pair(row), pair) };
            }
            row += 1;
        }
        // SAFETY: as above.
        unsafe { shared::store_f32x2(sums + thread_x() * 8, sum) };
        cta.barrier();
        anchors
    }

    /// Where this thread has a row's two gates.
    #[inline(always)]
    fn pair(&self, row: usize) -> u32 {
        self.gates + (row * THREADS * 8) as u32 + thread_x() * 8
    }

    /// The gates. The compiler does not know that they are the same each time: sums of them are made once more, and held in no register meanwhile.
    #[inline(always)]
    fn gates(&self) -> Fragment<f32, CHUNK, DK, ColumnPairs> {
        if let Some(gates) = self.held {
            return gates.anew();
        }
        let mut gates = Fragment::<f32, CHUNK, DK, ColumnPairs>::zero();
        let mut row = 0;
        while row < Self::ROWS {
            // SAFETY: what this thread wrote.
            let [a, b] = unsafe { shared::load_f32x2(self.pair(row)) };
            gates.regs.set(2 * row, a);
            gates.regs.set(2 * row + 1, b);
            row += 1;
        }
        gates
    }

    /// 2 to the power of the sums of decays.
    #[inline(always)]
    pub fn powers<const M: usize>(&self, which: Sums) -> Fragment<f32, CHUNK, DK, ColumnPairs> {
        self.exponents::<M>(which).map(math::ex2)
    }

    /// The sums of decays' logarithms, none of them above 0.
    #[inline(always)]
    pub fn exponents<const M: usize>(&self, which: Sums) -> Fragment<f32, CHUNK, DK, ColumnPairs> {
        let (gates, mut out) = (self.gates(), Fragment::<f32, CHUNK, DK, ColumnPairs>::zero());
        let group = thread_x() / (DK / 2) as u32;
        // Groups of a block: those of which some are a thread's whole rows.
        let groups = if M > Self::ROWS { (M / Self::ROWS) as u32 } else { 1 };
        let first = match which {
            Sums::Pairs => group / groups * groups,
            _ => 0,
        };
        let end = match which {
            Sums::Pairs => first + groups,
            _ => Self::GROUPS as u32,
        };
        let (mut above, mut below) = ([0.0; 2], [0.0; 2]);
        let mut other = 0;
        while other < Self::GROUPS as u32 {
            let sum = self.sums_of(other);
            let mut e = 0;
            while e < 2 {
                above[e] += if other >= first && other < group { sum[e] } else { 0.0 };
                below[e] += if other > group && other < end { sum[e] } else { 0.0 };
                e += 1;
            }
            other += 1;
        }
        let whole = M >= Self::ROWS || which != Sums::Pairs;
        let second = match which {
            Sums::FromFirst => true,
            Sums::ToLast => false,
            Sums::Pairs => group / groups % 2 == 1,
        };
        let mut e = 0;
        while e < 2 {
            let (mut down, mut up) = (above[e], below[e]);
            let mut r = 0;
            while r < Self::ROWS {
                if !whole && r % M == 0 {
                    down = 0.0;
                }
                down += gates.regs.get(2 * r + e);
                if if whole { second } else { r / M % 2 == 1 } {
                    out.regs.set(2 * r + e, math::min(down, 0.0));
                }
                r += 1;
            }
            while r > 0 {
                r -= 1;
                if !whole && r % M == M - 1 {
                    up = 0.0;
                }
                if if whole { !second } else { (r / M).is_multiple_of(2) } {
                    out.regs.set(2 * r + e, math::min(up, 0.0));
                }
                up += gates.regs.get(2 * r + e);
            }
            e += 1;
        }
        out
    }

    /// 2 to the power of [`Sums::Pairs`] of blocks of `m` rows, a power of two that is not known when the kernel is compiled.
    #[inline(always)]
    pub fn of_blocks(&self, m: u32) -> Fragment<f32, CHUNK, DK, ColumnPairs> {
        let (gates, mut out) = (self.gates(), Fragment::<f32, CHUNK, DK, ColumnPairs>::zero());
        let (pair, group) = (thread_x() % (DK / 2) as u32, thread_x() / (DK / 2) as u32);
        let rows = Self::ROWS as u32;
        let groups = (m / rows).max(1);
        let first = group / groups * groups;
        let (mut above, mut below) = ([0.0; 2], [0.0; 2]);
        let mut other = first;
        while other < first + groups {
            // SAFETY: what `new` wrote in front of a barrier.
            let sum = unsafe { shared::load_f32x2(self.sums + (other * (DK / 2) as u32 + pair) * 8) };
            let mut e = 0;
            while e < 2 {
                above[e] += if other < group { sum[e] } else { 0.0 };
                below[e] += if other > group { sum[e] } else { 0.0 };
                e += 1;
            }
            other += 1;
        }
        let second = |r: u32| (group * rows + r) & m > 0;
        let mut e = 0;
        while e < 2 {
            let (mut down, mut up) = (above[e], below[e]);
            let mut r = 0;
            while r < Self::ROWS {
                down = if r > 0 && r as u32 & (m - 1) == 0 { 0.0 } else { down };
                down += gates.regs.get(2 * r + e);
                out.regs.set(2 * r + e, down);
                r += 1;
            }
            while r > 0 {
                r -= 1;
                up = if r as u32 & (m - 1) == m - 1 { 0.0 } else { up };
                let exponent = if second(r as u32) { out.regs.get(2 * r + e) } else { up };
                out.regs.set(2 * r + e, math::ex2(math::min(exponent, 0.0)));
                up += gates.regs.get(2 * r + e);
            }
            e += 1;
        }
        out
    }

    /// The logarithm to base 2 of the decay from the middle of each two blocks of `M` rows to a row, which is above 0 in the first.
    #[inline(always)]
    pub fn of_middle<const M: usize>(&self) -> Fragment<f32, CHUNK, DK, ColumnPairs> {
        let sums = self.exponents::<M>(Sums::Pairs);
        sums.map_indexed(|row, _, x| if row / M as u32 % 2 == 1 { x } else { -x })
    }

    /// The logarithms to base 2 of what both halves of the chunk leave of each column.
    #[inline(always)]
    pub fn halves(&self) -> [Cols<f32, CHUNK, DK, ColumnPairs>; 2] {
        let mut halves = [Cols::<f32, CHUNK, DK, ColumnPairs>::splat(0.0); 2];
        let mut group = 0;
        while group < Self::GROUPS {
            let (half, sums) = (&mut halves[2 * group / Self::GROUPS], self.sums_of(group as u32));
            half.regs.set(0, half.regs.get(0) + sums[0]);
            half.regs.set(1, half.regs.get(1) + sums[1]);
            group += 1;
        }
        halves
    }

    /// The sums of a group of rows, of this thread's columns.
    #[inline(always)]
    fn sums_of(&self, group: u32) -> [f32; 2] {
        let pairs = (DK / 2) as u32;
        // SAFETY: what `new` wrote in front of a barrier.
        unsafe { shared::load_f32x2(self.sums + (group * pairs + thread_x() % pairs) * 8) }
    }

    /// What is left of a state before the chunk behind it: the same in all rows.
    #[inline(always)]
    pub fn whole(&self, column: u32) -> f32 {
        let (mut sum, mut group) = (0.0, 0);
        while group < Self::GROUPS as u32 {
            // SAFETY: what `new` wrote in front of a barrier.
            sum += unsafe { shared::load_f32(self.sums + (group * DK as u32 + column) * 4) };
            group += 1;
        }
        math::ex2(math::min(sum, 0.0))
    }
}
