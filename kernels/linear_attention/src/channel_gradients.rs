//! Gradients of chunks whose channels decay by themselves.

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Fresh, InPlace, Pending, Scan, Simt, Striped, copy, gemm,
};

use crate::anchors::{Anchors, Sums};
use crate::channels::{is_mild, largest};
use crate::chunk::{Chunk, Columns, Products, in_registers};
use crate::column_pairs::ColumnPairs;
use crate::policy::{CHUNK, Prepares};
use crate::preparation::{Read, Written};
use crate::work::Work;

/// As [`gradient`](crate::gradient()), where each channel of K decays by itself. The decay from a row to another is one of the gradient's columns: dP,
/// without decays, multiplies decayed rows, and what that gives is decayed once more. Both are of the pairs of blocks of rows, from and to where
/// they meet, that [`prepare`](crate::prepare()) has: no exponent is above 0.
///
/// `kept` and `scores` are the keys decayed to behind the chunk and the scores that `prepare` leaves, `states` and `d_states`
/// \[heads x chunks, 1, columns, DK\] what [`chunk_states`](crate::chunk_states()) does; `gates` and `d_gates` are \[batch, heads, rows, DK\], the latter
/// without rows where it is not wanted. CTA (chunk and, faster, blocks of 64 of K's columns, of which the last has the gradient by V; head; sequence).
#[kernel(program = Simt<8>)]
pub fn channel_gradient<T: Element, Z>(
    mut cta: Cta<Simt<8>>,
    q: Read<T, 4>,
    k: Read<T, 4>,
    v: Read<T, 4>,
    d_o: Read<T, 4>,
    gates: Read<f32, 4>,
    kept: Read<T, 4>,
    scores: Read<T, 4>,
    states: Read<T, 4>,
    d_states: Read<T, 4>,
    d_q: Written<T, 4>,
    d_k: Written<T, 4>,
    d_v: Written<T, 4>,
    d_gates: Written<f32, 4>,
    work: InPlace<Work>,
    scale: f32,
) where
    Striped<8>: FragmentLayout<CHUNK, 64>,
    Z: Prepares<T, 64>,
{
    let mut q_s: Columns<T> = cta.scratch();
    let mut k_s: Columns<T> = cta.scratch();
    let mut v_s: Columns<T> = cta.scratch();
    let mut d_o_s: Columns<T> = cta.scratch();
    let mut left_s: Columns<T> = cta.scratch();
    let mut right_s: Columns<T> = cta.scratch();
    let mut powers_s: Columns<T> = cta.scratch();
    let mut p_s: Columns<T> = cta.scratch();
    let mut d_scores_s: Columns<T> = cta.scratch();
    let mut above = cta.col_scanner::<f32, Z, CHUNK, CHUNK>();
    let mut all = cta.col_reducer::<f32, Z, CHUNK, CHUNK>();
    let chunk = Chunk { part: work.get().part() };
    let part = chunk.part;
    if part.rows == 0 {
        return;
    }
    if part.block == Chunk::blocks(&k) {
        copy(chunk.load(&scores, 0), &mut p_s);
        let mut columns = 0;
        while columns < Chunk::blocks(&v) {
            copy(chunk.load(&d_o, columns), &mut d_o_s);
            let mut of_v = gemm(Z::default(), p_s.full().t(), d_o_s.full(), Fresh::new()).wait();
            let mut block = 0;
            while block < Chunk::blocks(&k) {
                let loaded = [chunk.load(&kept, block), chunk.state(&d_states, columns, block)];
                copy(loaded[0], &mut left_s);
                copy(loaded[1], &mut right_s);
                of_v = gemm(Z::default(), left_s.full(), right_s.full().t(), of_v).wait();
                block += 1;
            }
            chunk.store(of_v, &d_v, columns);
            columns += 1;
        }
        return;
    }

    let wanted = d_gates.get().rows() > 0;
    let own_gates = || gates.get().tile(chunk.place(part.block)).of_rows(part.first, part.rows);
    let (mut of_q, mut of_k) = (Products::<Z>::zero(), Products::<Z>::zero());
    let mut d_scores = Products::<Z>::zero();
    let mut first = Cols::<f32, CHUNK, CHUNK, Z>::splat(0.0);
    let mut columns = 0;
    while columns < Chunk::blocks(&v) {
        let loaded = [
            chunk.load(&v, columns),
            chunk.load(&d_o, columns),
            chunk.state(&states, columns, part.block),
            chunk.state(&d_states, columns, part.block),
        ];
        copy(loaded[0], &mut v_s);
        copy(loaded[1], &mut d_o_s);
        copy(loaded[2], &mut left_s);
        copy(loaded[3], &mut right_s);
        d_scores = gemm(Z::default(), d_o_s.full(), v_s.full().t(), d_scores).wait();
        of_q = gemm(Z::default(), d_o_s.full(), left_s.full(), of_q).wait();
        of_k = gemm(Z::default(), v_s.full(), right_s.full(), of_k).wait();
        if wanted {
            let products = in_registers::<Z, T>(&left_s).zip(&in_registers(&right_s), |x, y| x * y);
            first = plus(first, &products);
        }
        columns += 1;
    }
    copy(d_scores.map(|x| x * scale).cast::<T>(), &mut d_scores_s);
    let anchors = Anchors::<CHUNK>::new(&mut cta, Fragment::load(own_gates()));
    let loaded = [chunk.load(&q, part.block), chunk.load(&k, part.block)];
    copy(loaded[0], &mut q_s);
    copy(loaded[1], &mut k_s);
    copy(anchors.powers::<CHUNK>(Sums::FromFirst).cast::<T>(), &mut powers_s);
    of_q = of_q.zip(&in_registers(&powers_s), |x, by| x * by * scale);
    copy(anchors.powers::<CHUNK>(Sums::ToLast).cast::<T>(), &mut powers_s);
    of_k = of_k.zip(&in_registers(&powers_s), |x, by| x * by);
    // Pairs around the first row are those with rows before the chunk.
    let mut c = 0;
    let whole = Cols::<f32, CHUNK, CHUNK, Z>::indexed(|col| anchors.whole(col));
    while c < Z::Cols::<f32>::LEN {
        first.regs.set(c, first.regs.get(c) * whole.regs.get(c));
        c += 1;
    }
    first = plus(first, &of_q.zip(&in_registers(&q_s), |x, q| x * q));

    let element = largest(&rows(&q_s), largest(&rows(&k_s), 0.0));
    let at_once = is_mild::<T>(&mut cta, largest(&anchors.of_middle::<32>(), 0.0), element);
    let mild = is_mild::<T>(&mut cta, largest(&anchors.of_middle::<8>(), 0.0), element);
    let mut pairs = Pairs {
        anchors: &anchors,
        q_s: &q_s,
        k_s: &k_s,
        left_s: &mut left_s,
        right_s: &mut right_s,
        powers_s: &mut powers_s,
        d_scores_s: &d_scores_s,
        p_s: &mut p_s,
    };
    // The rows of the blocks whose middle is an anchor, or the last blocks.
    let last = if at_once {
        32
    } else if mild {
        8
    } else {
        1
    };
    let (mut of, mut m) = ([of_q, of_k], CHUNK as u32);
    while m > last {
        m /= 2;
        of = pairs.add(m, m == last && (at_once || mild), of);
    }
    let [of_q, of_k] = of;
    if wanted {
        // A row's pair with itself is still in neither.
        let by_k = of_k.zip(&in_registers(&k_s), |x, k| x * k);
        let lost = of_q.zip(&in_registers(&q_s), |x, q| x * q).zip(&by_k, |q, k| k - q);
        let first = all.reduce(first, |a, b| a + b);
        let (gradients, _) = above.scan(lost, first, Scan::Exclusive, |a, b| a + b);
        // What is above 0 counts as 0, whatever it is.
        let gradients = gradients.zip_global(own_gates(), |x, gate| if gate > 0.0 { 0.0 } else { x });
        copy(gradients, d_gates.get().tile(chunk.place(part.block)).of_rows(part.first, part.rows));
    }
    pairs.choose::<Z>(|row, col| row == col);
    chunk.store(gemm(Z::default(), p_s.full(), k_s.full(), of_q).wait(), &d_q, part.block);
    chunk.store(gemm(Z::default(), p_s.full().t(), q_s.full(), of_k).wait(), &d_k, part.block);
}

/// A tile whose rows lie below each other in a thread.
#[inline(always)]
fn rows<T: Element>(tile: &Columns<T>) -> Fragment<f32, CHUNK, CHUNK, ColumnPairs> {
    Fragment::<T, CHUNK, CHUNK, ColumnPairs>::load(tile.full()).to_f32()
}

/// What a thread has of columns, and of a fragment's.
#[inline(always)]
fn plus<Z: FragmentLayout<CHUNK, CHUNK>>(
    mut to: Cols<f32, CHUNK, CHUNK, Z>,
    x: &Products<Z>,
) -> Cols<f32, CHUNK, CHUNK, Z> {
    let x = x.fold_cols(0.0, |a, b| a + b);
    let mut c = 0;
    while c < Z::Cols::<f32>::LEN {
        to.regs.set(c, to.regs.get(c) + x.regs.get(c));
        c += 1;
    }
    to
}

/// Gradients by Q and by K.
type Both<Z> = [Products<Z>; 2];

/// What rows of a chunk have of each other.
struct Pairs<'a, T: Element> {
    anchors: &'a Anchors<CHUNK>,
    q_s: &'a Columns<T>,
    k_s: &'a Columns<T>,
    /// Q and K decayed, and their decays.
    left_s: &'a mut Columns<T>,
    right_s: &'a mut Columns<T>,
    powers_s: &'a mut Columns<T>,
    /// dP, and those of its elements that are multiplied.
    d_scores_s: &'a Columns<T>,
    p_s: &'a mut Columns<T>,
}

impl<T: Element> Pairs<'_, T> {
    /// Adds what rows in the second of two neighbouring blocks of `m` have of those in the first, which are decayed from and to where the blocks meet;
    /// with `inside` also what rows of each of both have of those before them, decayed so too: there none is decayed by much.
    #[inline(always)]
    fn add<Z: Prepares<T, 64>>(&mut self, m: u32, inside: bool, [of_q, of_k]: Both<Z>) -> Both<Z> {
        let of_key = |power: f32| if inside { 1.0 / power } else { power };
        let powers = self.anchors.of_blocks(m);
        let powers = powers.map_indexed(|row, _, power| if row & m == 0 { of_key(power) } else { power });
        copy(powers.cast::<T>(), &mut *self.powers_s);
        copy(rows(self.q_s).zip(&powers, |x, by| x * by).cast::<T>(), &mut *self.left_s);
        copy(rows(self.k_s).zip(&powers, |x, by| x * of_key(by)).cast::<T>(), &mut *self.right_s);
        // The highest bit in which rows of two neighbouring blocks differ.
        let least = if inside { 0 } else { m };
        self.choose::<Z>(|row, col| row > col && (least..2 * m).contains(&(row ^ col)));
        let by_q = gemm(Z::default(), self.p_s.full(), self.right_s.full(), Fresh::new()).wait();
        let powers = in_registers::<Z, T>(self.powers_s);
        let of_q = of_q.zip(&by_q.zip(&powers, |x, by| x * by), |to, x| to + x);
        let by_k = gemm(Z::default(), self.p_s.full().t(), self.left_s.full(), Fresh::new()).wait();
        let of_k = of_k.zip(&by_k.zip(&powers, |x, by| x * of_key(by)), |to, x| to + x);
        [of_q, of_k]
    }

    /// Leaves of dP the pairs (row of Q, row of K) that `which` says.
    #[inline(always)]
    fn choose<Z: Prepares<T, 64>>(&mut self, which: impl Fn(u32, u32) -> bool) {
        let d_scores = Fragment::<T, CHUNK, CHUNK, Z>::load(self.d_scores_s.full());
        let chosen = d_scores.map_indexed(|row, col, x| if which(row, col) { x } else { T::ZERO });
        copy(chosen, &mut *self.p_s);
    }
}
