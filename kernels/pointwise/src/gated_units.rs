//! Gated linear units and their gradients (Shazeer 2020, "GLU Variants Improve Transformer").

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, InBlock, Overlaps};

use crate::activation::{with, with_slope};
use crate::pieces::{
    PieceOrder, Strided, is_inner, load_bytes, load_short, load_skewed, number, rounded, span, store_part,
    wide,
};

/// Pieces that a thread holds of each tensor.
pub(crate) const EACH: usize = 2;

/// Whether a piece is loaded as a whole: where rows begin `ANYWHERE`, of vectors that reach into its neighbours.
#[inline(always)]
fn is_whole<const V: usize, const ANYWHERE: bool>(order: &PieceOrder, at: [u32; 3], count: u32) -> bool {
    count == V as u32 && (!ANYWHERE || is_inner(at[2], V, order.columns(V)))
}

/// A piece, if it is loaded as a whole.
///
/// # Safety
/// It is readable if it is `whole`, and if it begins `ANYWHERE` its neighbours are. No other thread writes them meanwhile.
#[inline(always)]
unsafe fn load<T: Element, const V: usize, const ANYWHERE: bool>(from: u64, whole: bool) -> [u32; 4] {
    // SAFETY: the caller's.
    unsafe { if ANYWHERE { load_skewed(from, whole) } else { load_bytes(T::BYTES * V, from, whole) } }
}

/// y = act(gate) up, element by element.
///
/// Matrices \[batch, rows, columns\] whose rows are cut into pieces of `V` elements, the last ones shorter, in the order of `order`; where rows begin
/// `ANYWHERE`, the first ones are shorter too. `activation` is the number of the [`Activation`](tilewright_device::tile::Activation).
#[kernel(program = P)]
pub fn gated<P: Overlaps, T: Element, const V: usize, const ANYWHERE: bool>(
    gate: Strided<3>,
    up: Strided<3>,
    y: Strided<3>,
    order: InBlock<PieceOrder>,
    activation: u32,
) {
    let order = order.get();
    // The first element of a piece, and how many it has.
    let place = |i| {
        let at = order.at(number(thread_x(), P::THREADS, EACH, i));
        let [matrix, row, piece] = at.0;
        if ANYWHERE {
            let skew = y.at::<T>([matrix, row, 0]) as u32 / T::BYTES as u32 % V as u32;
            let (first, count) = span(piece, V, skew, order.columns(V));
            ([matrix, row, first], if at.1 { count } else { 0 })
        } else {
            ([matrix, row, piece * V as u32], order.elements(&at, V))
        }
    };
    let whole = |at, count| is_whole::<V, ANYWHERE>(&order, at, count);
    P::wait_for_preceding_grid();
    let (mut gates, mut ups) = ([[0; 4]; EACH], [[0; 4]; EACH]);
    let mut i = 0;
    while i < EACH {
        let (at, count) = place(i);
        // SAFETY: the tensors have the elements that the order counts, in rows of pieces of which the last may be short; the host
        // checked how they lie.
        unsafe {
            gates[i] = load::<T, V, ANYWHERE>(gate.at::<T>(at), whole(at, count));
            ups[i] = load::<T, V, ANYWHERE>(up.at::<T>(at), whole(at, count));
        }
        i += 1;
    }
    if V > 1 && (ANYWHERE || order.ends_short()) {
        let mut i = 0;
        while i < EACH {
            let (at, count) = place(i);
            if !whole(at, count) {
                // SAFETY: as above.
                unsafe {
                    gates[i] = load_short(gate.at::<T>(at), count, T::BYTES, V);
                    ups[i] = load_short(up.at::<T>(at), count, T::BYTES, V);
                }
            }
            i += 1;
        }
    }
    with(activation, |activation| {
        let mut i = 0;
        while i < EACH {
            let (mut values, ups) = (wide::<T, V>(gates[i]), wide::<T, V>(ups[i]));
            let mut e = 0;
            while e < V {
                values[e] = activation.apply(values[e]) * ups[e];
                e += 1;
            }
            let (at, count) = place(i);
            // SAFETY: as above; no other thread has these elements.
            unsafe { store_part(y.at::<T>(at), rounded::<T, V>(values), count, (T::BYTES, V), true) };
            i += 1;
        }
    });
}

/// The gradients of y = act(gate) up: by gate, dy up act'(gate); by up, dy act(gate).
///
/// As for [`gated`](fn@gated).
#[kernel(program = P, min_ctas = 3)]
pub fn gated_gradient<P: Overlaps, T: Element, const V: usize>(
    gate: Strided<3>,
    up: Strided<3>,
    dy: Strided<3>,
    d_gate: Strided<3>,
    d_up: Strided<3>,
    order: InBlock<PieceOrder>,
    activation: u32,
) {
    let order = order.get();
    let place = |i| {
        let at = order.at(number(thread_x(), P::THREADS, EACH, i));
        let [matrix, row, piece] = at.0;
        ([matrix, row, piece * V as u32], order.elements(&at, V))
    };
    P::wait_for_preceding_grid();
    let mut read = [[[0; 4]; 3]; EACH];
    let mut i = 0;
    while i < EACH {
        let (at, count) = place(i);
        // SAFETY: as in `gated`.
        unsafe {
            read[i][0] = load_bytes(T::BYTES * V, gate.at::<T>(at), count == V as u32);
            read[i][1] = load_bytes(T::BYTES * V, up.at::<T>(at), count == V as u32);
            read[i][2] = load_bytes(T::BYTES * V, dy.at::<T>(at), count == V as u32);
        }
        i += 1;
    }
    if V > 1 && order.ends_short() {
        let mut i = 0;
        while i < EACH {
            let (at, count) = place(i);
            if count != V as u32 {
                // SAFETY: as above.
                unsafe {
                    read[i][0] = load_short(gate.at::<T>(at), count, T::BYTES, V);
                    read[i][1] = load_short(up.at::<T>(at), count, T::BYTES, V);
                    read[i][2] = load_short(dy.at::<T>(at), count, T::BYTES, V);
                }
            }
            i += 1;
        }
    }
    with(activation, |activation| {
        let mut i = 0;
        while i < EACH {
            let [gates, ups, dys] = read[i].map(wide::<T, V>);
            let (mut by_gate, mut by_up) = ([0.0; V], [0.0; V]);
            let mut e = 0;
            while e < V {
                let [value, slope] = with_slope(activation, gates[e]);
                by_gate[e] = dys[e] * ups[e] * slope;
                by_up[e] = dys[e] * value;
                e += 1;
            }
            let (at, count) = place(i);
            // SAFETY: as in `gated`.
            unsafe {
                store_part(d_gate.at::<T>(at), rounded::<T, V>(by_gate), count, (T::BYTES, V), true);
                store_part(d_up.at::<T>(at), rounded::<T, V>(by_up), count, (T::BYTES, V), true);
            }
            i += 1;
        }
    });
}
