//! Rotary position embedding (Su et al. 2021, "RoFormer").

use tilewright_device::abi::KernelArg;
use tilewright_device::arch::global;
use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, Overlaps, block_x, division::Division};

use crate::angle::{Frequencies, cos_sin};
use crate::pieces::{Strided, load, rounded, store};

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

macro_rules! plain_argument {
    ($($t:ty)*) => { $(
        impl KernelArg for $t {
            type Abi = Self;
            #[inline(always)]
            unsafe fn load(at: *const Self) -> Self {
                // SAFETY: the caller passes an initialised parameter.
                unsafe { *at }
            }
        }
    )* };
}
plain_argument!(RopeTable RopeShape);

impl RopeShape {
    /// Work of threads in all is at most this much.
    pub const MOST: u32 = (1 << 31) - (1 << 16);

    /// Of `tokens` \[batch, sequence\] with `heads` of q and of k, of `cols` columns, the first `2 pairs` of which are rotated in pieces of
    /// `piece` pairs; the others are copied if `copies`. `None` for more work than is counted.
    pub fn new(
        [batch, sequence]: [u32; 2],
        heads: [u32; 2],
        [cols, pairs]: [u32; 2],
        piece: u32,
        copies: bool,
    ) -> Option<Self> {
        let turned = pairs.div_ceil(piece);
        let copied = if copies { (cols - 2 * pairs).div_ceil(2 * piece) } else { 0 };
        let blocks = heads[0].checked_add(heads[1])?.div_ceil(HEADS as u32);
        let token = (turned + copied).checked_mul(blocks)?;
        let total = batch.checked_mul(sequence)?.checked_mul(token).filter(|&total| total <= Self::MOST)?;
        Some(RopeShape {
            total,
            by_token: Division::by(token),
            by_block: Division::by(turned + copied),
            by_sequence: Division::by(sequence),
            heads,
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
    [a, b]: [[T; V]; 2],
    [cos, sin]: [[f32; V]; 2],
    interleaved: bool,
) -> [[T; V]; 2] {
    let (mut first, mut second) = ([0.0; V], [0.0; V]);
    let of = |i: usize| if i < V { a[i].to_f32() } else { b[i - V].to_f32() };
    let mut pair = 0;
    while pair < V {
        let places = if interleaved { [2 * pair, 2 * pair + 1] } else { [pair, pair + V] };
        let [x, y] = [of(places[0]), of(places[1])];
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
    [rounded(first), rounded(second)]
}

/// Rotates pairs of columns of the heads of q and k by angles that grow with the token's position: (x, y) becomes
/// (x cos - y sin, y cos + x sin).
///
/// q, k and what they become are \[batch, sequence, heads, columns\]; `positions` \[batch, sequence\] are i32. The angle of pair i is the position
/// times theta^(-2 i / rotated columns), or that of the table, of which a position outside has cosines and sines NaN. A thread rotates `V`
/// pairs of `HEADS` heads, all of which it reads before it writes: what is written may be what is read.
#[kernel(program = P, min_ctas = 2)]
pub fn rope<P: Overlaps, T: Element, const V: usize>(
    q: Strided<4>,
    k: Strided<4>,
    q_to: Strided<4>,
    k_to: Strided<4>,
    positions: Strided<2>,
    table: RopeTable,
    frequencies: Frequencies,
    shape: RopeShape,
) {
    let work = block_x() * P::THREADS + thread_x();
    let (token, left) = shape.by_token.of(work);
    let (block, group) = shape.by_block.of(left);
    let (batch, place) = shape.by_sequence.of(token);
    let (turns, interleaved) = (group < shape.turned, shape.interleaved != 0);
    let v = V as u32;
    // The first columns of both pieces.
    let cols = if !turns {
        let first = 2 * shape.pairs + (group - shape.turned) * 2 * v;
        [first, first + v]
    } else if interleaved {
        [2 * group * v, (2 * group + 1) * v]
    } else {
        [group * v, shape.pairs + group * v]
    };
    let at = |head: usize, part: usize, [q, k]: [&Strided<4>; 2]| {
        let head = block * HEADS as u32 + head as u32;
        let of_q = head < shape.heads[0];
        let inside = work < shape.total && head < shape.heads[0] + shape.heads[1] && cols[part] < shape.cols;
        let index = |head| [batch, place, head, cols[part]];
        let address = if of_q { q.at::<T>(index(head)) } else { k.at::<T>(index(head - shape.heads[0])) };
        (address, inside)
    };
    P::wait_for_preceding_grid();

    let mut pieces = [[[T::ZERO; V]; 2]; HEADS];
    let mut i = 0;
    while i < 2 * HEADS {
        let (address, inside) = at(i / 2, i % 2, [&q, &k]);
        // SAFETY: an element of q or k that lies inside; the host checked how they lie.
        pieces[i / 2][i % 2] = unsafe { load(address, inside, T::ZERO) };
        i += 1;
    }
    if turns {
        let mut position = shape.first.wrapping_add(place as i32);
        if shape.given != 0 {
            // SAFETY: the token has a position, if there is such a token.
            let bits = unsafe {
                global::ld_global_u32_if(
                    positions.at::<i32>([batch, place]) as *const u32,
                    work < shape.total,
                )
            };
            position = bits as i32;
        }
        let mut angles = [[0.0; V]; 2];
        if table.given != 0 {
            let (row, col) = (position as u32, group * v);
            let inside = work < shape.total && row < table.positions;
            // SAFETY: a row of the table, of as many columns as there are pairs; the host checked how it lies.
            angles = unsafe {
                [table.cos, table.sin].map(|part| load(part.at::<f32>([row, col]), inside, f32::NAN))
            };
        } else {
            let (mut turns, mut pair) = (frequencies.of(group * v), 0);
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
            pieces = pieces.map(|both| turned(both, angles, true));
        } else {
            pieces = pieces.map(|both| turned(both, angles, false));
        }
    }
    let mut i = 0;
    while i < 2 * HEADS {
        let (address, inside) = at(i / 2, i % 2, [&q_to, &k_to]);
        // SAFETY: as above; no other thread has these elements.
        unsafe { store(address, pieces[i / 2][i % 2], inside) };
        i += 1;
    }
}
