//! Rotary position embedding (Su et al. 2021, "RoFormer").

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;
use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, InPlace, Overlaps, block_x, division::Division};

use crate::angle::{Frequencies, cos_sin};
use crate::pieces::{Strided, load, rounded, store, wide};
use crate::rope_target::{Pieces, RopeCaches, Target};

/// Heads that a thread rotates by the same angles.
pub(crate) const HEADS: usize = 4;

/// The angles, if a table has them: cosines and sines \[positions, pairs\].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RopeTable {
    /// Cosines.
    pub cos: Strided<2>,
    /// Sines.
    pub sin: Strided<2>,
    /// Positions that it has.
    pub positions: u32,
    /// 1 where there is a table.
    pub given: u32,
}

impl RopeTable {
    /// No table: angles come from theta.
    pub const NONE: Self = RopeTable { cos: Strided::NONE, sin: Strided::NONE, positions: 0, given: 0 };
}

/// What is rotated, and how.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RopeShape {
    total: u32,
    by_token: Division,
    by_block: Division,
    by_sequence: Division,
    heads: [u32; 2],
    /// Blocks of q's heads and of k's, which follow; behind them come those of v's, if there are any.
    blocks: [u32; 2],
    cols: u32,
    pairs: u32,
    turned: u32,
    /// The first token's position where none are given.
    pub first: i32,
    /// 1 where pairs are neighbours, 0 where they lie in halves of the rotated columns.
    pub interleaved: u32,
    /// 1 to turn back.
    pub inverse: u32,
    /// 1 where positions are given.
    pub given: u32,
}

impl PassedAsIs for RopeTable {}
impl PassedAsIs for RopeShape {}

impl RopeShape {
    /// Work of threads in all is at most this much.
    pub const MOST: u32 = (1 << 31) - (1 << 16);

    /// Of `tokens` \[batch, sequence\] with `heads` of q and of k, of `cols` columns, the first `2 pairs` of which are rotated in pieces of
    /// `piece` pairs; the others are copied if `copies`. With `values` as many heads of v as of k are copied. `None` for more work than is counted.
    pub fn new(
        [batch, sequence]: [u32; 2],
        heads: [u32; 2],
        [cols, pairs]: [u32; 2],
        piece: u32,
        (copies, values): (bool, bool),
    ) -> Option<Self> {
        let turned = pairs.div_ceil(piece);
        let copied = if copies { (cols - 2 * pairs).div_ceil(2 * piece) } else { 0 };
        let blocks = heads.map(|heads| heads.div_ceil(HEADS as u32));
        let of_keys = if values { blocks[1].checked_mul(2)? } else { blocks[1] };
        let token = (turned + copied).checked_mul(blocks[0].checked_add(of_keys)?)?;
        let total = batch.checked_mul(sequence)?.checked_mul(token).filter(|&total| total <= Self::MOST)?;
        Some(RopeShape {
            total,
            by_token: Division::by(token),
            by_block: Division::by(turned + copied),
            by_sequence: Division::by(sequence),
            heads,
            blocks,
            cols,
            pairs,
            turned,
            first: 0,
            interleaved: 0,
            inverse: 0,
            given: 0,
        })
    }
    /// Threads that it takes.
    pub const fn total(&self) -> u32 {
        self.total
    }
}

/// The pairs of two pieces, turned by angles of these cosines and sines.
#[inline(always)]
fn turned<T: Element, const V: usize>(
    both: [[u32; 4]; 2],
    [cos, sin]: [[f32; V]; 2],
    interleaved: bool,
) -> [[u32; 4]; 2] {
    let [a, b] = both.map(wide::<T, V>);
    let (mut first, mut second) = ([0.0; V], [0.0; V]);
    let of = |i: usize| if i < V { a[i] } else { b[i - V] };
    let mut pair = 0;
    while pair < V {
        let places = if interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + V] };
        let [x, y] = places.map(of);
        let to = [x * cos[pair] - y * sin[pair], y * cos[pair] + x * sin[pair]];
        let mut i = 0;
        while i < 2 {
            if places[i] < V {
                first[places[i]] = to[i];
            } else {
                second[places[i] - V] = to[i];
            }
            i += 1;
        }
        pair += 1;
    }
    [rounded::<T, V>(first), rounded::<T, V>(second)]
}

/// `V` neighbours of a row of a table, in vectors if they are some; NaN where there is no such row.
///
/// # Safety
/// If `inside`, the table has the elements; vectors of them begin at multiples of 16 bytes.
#[inline(always)]
unsafe fn angles_of<const V: usize>(table: Strided<2>, [row, col]: [u32; 2], inside: bool) -> [f32; V] {
    let (mut angles, mut i) = ([0.0; V], 0);
    while i < V {
        let from = table.at::<f32>([row, col + i as u32]);
        // SAFETY: passed on.
        unsafe {
            if V == 1 {
                angles[0] = wide::<f32, 1>(load::<f32, 1>(from, inside, f32::NAN.to_bits()))[0];
                i += 1;
            } else {
                let four = wide::<f32, 4>(load::<f32, 4>(from, inside, f32::NAN.to_bits()));
                let mut e = 0;
                while e < 4 {
                    angles[i + e] = four[e];
                    e += 1;
                }
                i += 4;
            }
        }
    }
    angles
}

/// What a block of heads is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Queries,
    Keys,
    Values,
}

/// What tells the angles: positions, the table or the frequencies.
type Angles = (InPlace<Strided<2>>, InPlace<RopeTable>, InPlace<Frequencies>);

/// The pieces of a thread, from `from` to where `to(of, [batch, place, head], live)` says, unless it says nowhere; rotated but for those of values.
///
/// Without `VALUES` there are none of v.
#[inline(always)]
fn rotate<P: Overlaps, T: Element, const V: usize, const VALUES: bool>(
    [q, k, v]: [Strided<4>; 3],
    to: impl FnOnce(Of, [u32; 3], bool) -> Target,
    (positions, table, frequencies): Angles,
    shape: RopeShape,
) {
    let work = block_x() * P::THREADS + thread_x();
    let (token, left) = shape.by_token.of(work);
    let (block, group) = shape.by_block.of(left);
    let (batch, place) = shape.by_sequence.of(token);
    let (turns, interleaved) = (group < shape.turned, shape.interleaved != 0);
    let width = V as u32;
    // The first columns of both pieces.
    let cols = if !turns {
        let first = 2 * shape.pairs + (group - shape.turned) * 2 * width;
        [first, first + width]
    } else if interleaved {
        [2 * group * width, (2 * group + 1) * width]
    } else {
        [group * width, shape.pairs + group * width]
    };
    let [of_queries, of_keys] = shape.blocks;
    let (from, heads, block, of) = if block < of_queries {
        (q, shape.heads[0], block, Of::Queries)
    } else if !VALUES || block - of_queries < of_keys {
        (k, shape.heads[1], block - of_queries, Of::Keys)
    } else {
        (v, shape.heads[1], block - of_queries - of_keys, Of::Values)
    };
    let head = block * HEADS as u32;
    let live = cols.map(|col| work < shape.total && col < shape.cols);
    let inside = |i: usize, part: usize| live[part] && head + (i as u32) < heads;
    let from = Pieces::of::<T>(from, [batch, place, head]);
    P::wait_for_preceding_grid();

    let mut pieces = [[[0; 4]; 2]; HEADS];
    let mut i = 0;
    while i < 2 * HEADS {
        let (head, part) = (i / 2, i % 2);
        // SAFETY: an element of q, k or v that lies inside; the host checked how they lie.
        pieces[head][part] = unsafe { load::<T, V>(from.at(head, cols[part]), inside(head, part), 0) };
        i += 1;
    }
    if turns && of != Of::Values {
        let mut position = shape.first.wrapping_add(place as i32);
        if shape.given != 0 {
            // SAFETY: the token has a position, if there is such a token.
            let bits = unsafe {
                global::ld_global_u32_if(
                    positions.get().at::<i32>([batch, place]) as *const u32,
                    work < shape.total,
                )
            };
            position = bits as i32;
        }
        let mut angles = [[0.0; V]; 2];
        let table = table.get();
        if table.given != 0 {
            let (row, col) = (position as u32, group * width);
            let inside = work < shape.total && row < table.positions;
            // SAFETY: a row of the table, of as many columns as there are pairs; the host checked how it lies.
            angles = unsafe { [table.cos, table.sin].map(|part| angles_of::<V>(part, [row, col], inside)) };
        } else {
            let frequencies = frequencies.get();
            let (mut turns, mut pair) = (frequencies.of(group), 0);
            while pair < V {
                [angles[0][pair], angles[1][pair]] = cos_sin(turns, position);
                turns = frequencies.next(turns);
                pair += 1;
            }
        }
        if shape.inverse != 0 {
            angles[1] = angles[1].map(|sin| -sin);
        }
        if interleaved {
            pieces = pieces.map(|both| turned::<T, V>(both, angles, true));
        } else {
            pieces = pieces.map(|both| turned::<T, V>(both, angles, false));
        }
    }
    let to = to(of, [batch, place, head], work < shape.total);
    let mut i = 0;
    while to.codes == 0 && i < 2 * HEADS {
        let (head, part) = (i / 2, i % 2);
        let (at, inside) = (to.pieces.at(head, cols[part]), to.somewhere && inside(head, part));
        // SAFETY: as above; no other thread has these elements.
        unsafe { store::<T, V>(at, pieces[head][part], inside) };
        i += 1;
    }
    if VALUES && to.codes != 0 {
        let mut i = 0;
        while i < 2 * HEADS {
            let (head, part) = (i / 2, i % 2);
            let inside = to.somewhere && inside(head, part);
            // SAFETY: as above.
            unsafe { to.store_codes::<P, T, V>(head, cols[part], pieces[head][part], inside) };
            i += 1;
        }
    }
}

/// Rotates pairs of columns of the heads of q and k by angles that grow with the token's position: (x, y) becomes
/// (x cos - y sin, y cos + x sin).
///
/// q, k and what they become are \[batch, sequence, heads, columns\]; `positions` \[batch, sequence\] are i32. The angle of pair i is the position
/// times theta^(-2 i / rotated columns), or that of the table, of which a position outside has cosines and sines NaN. A thread rotates `V`
/// pairs of `HEADS` heads, all of which it reads before it writes: what is written may be what is read.
#[kernel(program = P, min_ctas = 5)]
pub fn rope<P: Overlaps, T: Element, const V: usize>(
    q: Strided<4>,
    k: Strided<4>,
    q_to: InPlace<Strided<4>>,
    k_to: InPlace<Strided<4>>,
    positions: InPlace<Strided<2>>,
    table: InPlace<RopeTable>,
    frequencies: InPlace<Frequencies>,
    shape: RopeShape,
) {
    let to = |of, at, _| {
        let to = if of == Of::Queries { q_to.get() } else { k_to.get() };
        Target::plain(Pieces::of::<T>(to, at), true)
    };
    rotate::<P, T, V, false>([q, k, k], to, (positions, table, frequencies), shape)
}

/// As [`rope`](fn@rope), where k goes to rows of a cache once it is rotated, and v as it is: a token whose row is none of the cache's goes nowhere.
///
/// Caches of codes of 8 bits get the nearest codes of what else they would, times the inverse of their head's scale.
#[kernel(program = P, min_ctas = 4)]
pub fn rope_append<P: Overlaps, T: Element, const V: usize>(
    q: Strided<4>,
    k: Strided<4>,
    v: Strided<4>,
    q_to: InPlace<Strided<4>>,
    caches: InPlace<RopeCaches>,
    positions: InPlace<Strided<2>>,
    table: InPlace<RopeTable>,
    frequencies: InPlace<Frequencies>,
    shape: RopeShape,
) {
    let to = |of, [batch, place, head]: [u32; 3], live| {
        if of == Of::Queries {
            return Target::plain(Pieces::of::<T>(q_to.get(), [batch, place, head]), true);
        }
        let caches = caches.get();
        let slot = caches.slots.at::<i32>([batch, place]) as *const u32;
        // SAFETY: the token has a row, if there is such a token.
        let slot = unsafe { global::ld_global_u32_if(slot, live) };
        let (page, row) = caches.by_page.of(slot);
        // Not by an index: that would put all of it in local memory.
        let ([k_scale, v_scale], [k_step, v_step]) = (caches.scales, caches.steps);
        let (cache, scale, step) =
            if of == Of::Keys { (caches.keys, k_scale, k_step) } else { (caches.values, v_scale, v_step) };
        let bytes = if caches.codes == 0 { T::BYTES as u32 } else { 1 };
        Target {
            pieces: Pieces::of_bytes(cache, [page, row, head], bytes),
            somewhere: slot < caches.rows,
            codes: caches.codes,
            scale: if scale == 0 { 0 } else { scale + head as u64 * step as u64 },
            step,
        }
    };
    rotate::<P, T, V, true>([q, k, v], to, (positions, table, frequencies), shape)
}
