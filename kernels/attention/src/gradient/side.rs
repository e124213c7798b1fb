//! A tile of keys or of queries, and the blocks that it walks over.

use tilewright_device::arch::warp::uniform;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Element, Fragment, FragmentLayout, GlobalMut, Operand, RowMajor, Rows, for_each_row, math,
};

use super::Scales;
use super::ranges::{Range, Ranges};
use super::stats::{LINE, Values};
use crate::keys::{Blocks, Keys};
use crate::score::{Capped, Score};

/// A tile's own rows, the others that it walks over, and which of them each row meets.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    of_keys: bool,
    /// Whom rows see: of queries keys, of keys the queries that see them.
    seen: Keys,
    /// The sequence's own rows: the first, how many, how many from the tile's first on.
    pub(crate) own_first: u32,
    pub(crate) own_rows: u32,
    pub(crate) own_inside: u32,
    /// The others.
    pub(crate) other_first: u32,
    pub(crate) other_rows: u32,
}

/// The blocks that a tile meets, one after the other: of each head that shares it all that it sees.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    blocks: Blocks,
    /// The block where a head begins.
    first: u32,
    /// The next step: its head and block, and how many there are from it on.
    pub(crate) head: u32,
    pub(crate) j: u32,
    pub(crate) left: u32,
}

impl Walk {
    /// Goes on to the next block. Behind the last one a head goes on with its first.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        let all = self.blocks.all();
        self.j = if self.j + 1 == all.end { all.start } else { self.j + 1 };
        self.head += u32::from(self.j == self.first);
        self.left -= 1;
    }

    /// Whether some row of the tile does not meet all others of the block.
    #[inline(always)]
    pub(crate) fn masked(&self) -> bool {
        !self.blocks.whole(self.j)
    }
}

impl Side {
    /// Of the `tile`-th `BM` keys or queries of a sequence.
    #[inline(always)]
    pub(crate) fn new<const BM: usize>(of_keys: bool, of: &Range, tile: u32) -> Self {
        let keys = (of.first_key, of.keys.count as u32);
        let queries = (of.first_query, of.queries);
        let (own, other) = if of_keys { (keys, queries) } else { (queries, keys) };
        Side {
            of_keys,
            seen: if of_keys { of.keys.mirrored(of.queries) } else { of.keys },
            own_first: own.0,
            own_rows: own.1,
            own_inside: own.1.saturating_sub(tile * BM as u32),
            other_first: other.0,
            other_rows: other.1,
        }
    }

    /// The walk of a tile of head `own_head`, where `shared_by` heads share one of keys; or a part of it, of so many. Tiles that add in turn have parts of whole heads: the same in
    /// each tile.
    ///
    /// Neighbouring tiles begin at neighbouring blocks: tiles of keys add to different queries at a time. But where they add in turn: then all begin at their
    /// first.
    #[inline(always)]
    pub(crate) fn walk<const BM: usize, const BN: usize>(
        &self,
        tile: u32,
        own_head: u32,
        shared_by: u32,
        in_turn: bool,
        [part, parts]: [u32; 2],
    ) -> Walk {
        let blocks = self.seen.blocks::<BM, BN>(tile);
        // Keys behind the last see nobody.
        let blocks = if self.of_keys && self.own_inside < BM as u32 { blocks.all_masked() } else { blocks };
        let blocks = blocks.map(uniform);
        let all = blocks.all();
        let count = all.len() as u32;
        let first = uniform(all.start + if count == 0 || in_turn { 0 } else { tile % count });
        let head = if self.of_keys { own_head * shared_by } else { own_head / shared_by.max(1) };
        let left = count * if self.of_keys { shared_by } else { 1 };
        if parts < 2 {
            return Walk { blocks, first, head, j: first, left: uniform(left) };
        }
        let count = count.max(1);
        let unit = if in_turn { count } else { 1 };
        // `div_ceil` takes a register that the kernel of 128 columns does not have.
        #[allow(clippy::manual_div_ceil)]
        let steps = (left / unit + parts - 1) / parts * unit;
        let begin = (part * steps).min(left);
        let j = first + begin % count;
        let j = uniform(if j < all.end { j } else { j - count });
        Walk {
            blocks,
            first,
            head: uniform(head + begin / count),
            j,
            left: uniform((left - begin).min(steps)),
        }
    }

    /// Whether some row of tile `tile` meets some of block `j`.
    #[inline(always)]
    pub(crate) fn meets<const BM: usize, const BN: usize>(&self, tile: u32, j: u32) -> bool {
        self.seen.blocks::<BM, BN>(tile).all().contains(&j)
    }

    /// The first tile some row of which meets some of block `j`.
    #[inline(always)]
    pub(crate) fn first_to_meet<const BM: usize, const BN: usize>(&self, j: u32) -> u32 {
        self.seen.mirrored(self.own_rows).blocks::<BN, BM>(j).all().start
    }

    /// Scores of tile `tile` and block `j` less their distances, times what a slope is in units of scores; query 0 is aligned with key `own`.
    #[inline(always)]
    pub(crate) fn sloped<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        slope: f32,
        own: i32,
        [tile, j]: [u32; 2],
    ) -> Fragment<f32, BM, BN, L> {
        let own = if self.of_keys { own.saturating_neg() } else { own };
        let own = Keys { own, ..self.seen }.own_of_rows::<BM, BN, L>(j, |r| (tile * BM as u32 + r) as i32);
        s.less_distance(&Rows::splat(slope), &own)
    }

    /// Scores of tile `tile` and block `j`, -inf where they do not meet.
    #[inline(always)]
    pub(crate) fn mask<const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
        &self,
        s: Fragment<f32, BM, BN, L>,
        tile: u32,
        j: u32,
    ) -> Fragment<f32, BM, BN, L> {
        // Rows that are numbered anew, so that nothing of it is held in registers over loops.
        let mut rows = Rows::<i32, BM, BN, L>::splat(0);
        for_each_row::<L, BM, BN>(|r, row, _| rows.regs.set(r, row as i32));
        let s = self.seen.mask_queries(s, j, &rows.map(|row| (tile * BM as u32) as i32 + row));
        if !self.of_keys || self.own_inside >= BM as u32 {
            return s;
        }
        let inside = self.own_inside as i32;
        s.zip_rows(&rows, |s, row| if row < inside { s } else { f32::NEG_INFINITY })
    }
}

/// P, of masked scores. `logs` are taken off where the sums of scores did not begin with them: see [`begin`].
#[inline(always)]
pub(crate) fn exponentials<T: Element, const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
    s: Fragment<f32, BM, BN, L>,
    logs: impl FnOnce() -> Values<BM, BN, L>,
    scales: Scales,
) -> Fragment<f32, BM, BN, L> {
    let log2 = scales.log2;
    if !Weights::<T, BM, BN, L>::MANY && scales.first() != 0.0 {
        return s.map(|s| math::ex2(s * log2));
    }
    logs().zip(s, |s, log| math::ex2(math::fma(s, log2, -log)))
}

/// The weights of a block of scores, P: rounded, as they are multiplied, and times the slope of scores.
pub(crate) struct Weights<T, const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>> {
    pub(crate) p: Operand<T, BM, BN, L>,
    /// Where a thread has registers for them,
    exact: Fragment<f32, BM, BN, L>,
    /// and elsewhere these.
    rounded: Operand<T, BM, BN, L>,
}

impl<T: Element, const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>> Weights<T, BM, BN, L> {
    /// Whether a thread has so many that dS is made of rounded weights, and that sums begin with zeros.
    pub(crate) const MANY: bool = <L::Regs<f32> as Registers<f32>>::LEN > 32;

    #[inline(always)]
    fn new(p: Fragment<f32, BM, BN, L>, sloped: Fragment<f32, BM, BN, L>) -> Self {
        let rounded = if Self::MANY { sloped.cast::<T>() } else { Fragment::splat(T::ZERO) };
        let exact = if Self::MANY { Fragment::zero() } else { sloped };
        Weights { p: p.cast::<T>().operand(), exact, rounded: rounded.operand() }
    }

    /// Those of scores, to which `mask` is applied; `added` gives what capped ones have added, where a thread has room for that and for their slopes.
    #[inline(always)]
    pub(crate) fn of(
        s: Fragment<f32, BM, BN, L>,
        logs: impl FnOnce() -> Values<BM, BN, L>,
        scales: Scales,
        added: Option<impl Fn(Fragment<f32, BM, BN, L>) -> Fragment<f32, BM, BN, L>>,
        mask: impl Fn(Fragment<f32, BM, BN, L>) -> Fragment<f32, BM, BN, L>,
    ) -> Self {
        if scales.cap == 0.0 {
            let p = exponentials::<T, BM, BN, L>(mask(s), logs, scales);
            return Self::new(p, p);
        }
        // Both of each score at a time: there are no registers for all of one and then all of the other. What is masked has a P of 0, whatever its slope.
        let capped = s.map(|s| Capped::apply(s, scales.cap));
        let seen = mask(added.as_ref().map_or(capped, |added| added(capped)));
        let source = if added.is_some() { capped } else { seen };
        let both = logs().zip(seen.map(|s| (s, 0.0)).zip(&source, |(s, _), c| (s, c)), |(s, c), log| {
            let p = math::ex2(math::fma(s, scales.log2, -log));
            (p, p * math::max(math::fma(-c, c, 1.0), 0.0))
        });
        Self::new(both.map(|(p, _)| p), both.map(|(_, sloped)| sloped))
    }

    /// dS, of these and dP. `means` are taken off where dP did not begin with them.
    #[inline(always)]
    pub(crate) fn slopes(
        &self,
        d_p: Fragment<f32, BM, BN, L>,
        means: impl FnOnce() -> Values<BM, BN, L>,
    ) -> Fragment<T, BM, BN, L> {
        if Self::MANY {
            let d_p = means().zip(d_p, |d_p, mean| d_p - mean);
            return self.rounded.unpacked().to_f32().zip(&d_p, |w, d_p| w * d_p).cast();
        }
        self.exact.zip(&d_p, |w, d_p| w * d_p).cast()
    }
}

/// What the sums of scores or of dP begin with: `factor` times their queries' values, which are taken off them in this way before any product, and what `added`
/// adds where `adds`. Threads then read shared memory while no gemm of theirs does, beside which it is slow. None where a thread has so many elements that it costs more.
#[inline(always)]
pub(crate) fn begin<T: Element, const BM: usize, const BN: usize, L: FragmentLayout<BM, BN>>(
    values: impl Fn() -> Values<BM, BN, L>,
    factor: f32,
    adds: bool,
    added: impl FnOnce(Fragment<f32, BM, BN, L>) -> Fragment<f32, BM, BN, L>,
) -> Option<Fragment<f32, BM, BN, L>> {
    if Weights::<T, BM, BN, L>::MANY {
        return None;
    }
    let of_values = || values().zip(Fragment::zero(), |_, value| value * factor);
    // One branch on the usual way.
    let first = if adds || factor == 0.0 {
        let first = if factor == 0.0 { Fragment::zero() } else { of_values() };
        if adds { added(first) } else { first }
    } else {
        of_values()
    };
    // Registers that are written between two gemms make ptxas wait for the first.
    Some(first.anew())
}

/// Where the gradients of the `j`-th `BN` queries of a head are summed up.
#[inline(always)]
pub(crate) fn sums_of<const BN: usize>(
    sums: &GlobalMut<f32, 4, RowMajor, 0>,
    of: &Range,
    head: u32,
    j: u32,
) -> *mut f32 {
    let (all, row) = (sums.reader(), u64::from(of.first_line * LINE + j * BN as u32));
    let [matrices, heads, rows, _] = all.strides();
    let offset = u64::from(of.matrix) * matrices + u64::from(head) * heads + row * rows;
    all.pointer().cast_mut().wrapping_add(offset as usize)
}

impl Ranges {
    /// The `tile`-th `BM` keys or queries of sequence `z`.
    #[inline(always)]
    pub(crate) fn side<const BM: usize>(&self, of_keys: bool, z: u32, tile: u32) -> Side {
        Side::new::<BM>(of_keys, &self.sequence(z), tile)
    }
}
