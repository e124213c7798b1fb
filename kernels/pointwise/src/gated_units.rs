//! Gated linear units and their gradients (Shazeer 2020, "GLU Variants Improve Transformer").

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, InBlock, Overlaps};

use crate::activation::{with, with_slope};
use crate::pieces::{PieceOrder, Strided, load_bytes, load_short, number, rounded, store_part, wide};

/// Pieces that a thread holds of each tensor.
pub(crate) const EACH: usize = 2;

/// y = act(gate) up, element by element.
///
/// Matrices \[batch, rows, columns\] whose rows are cut into pieces of `V` elements, the last ones shorter, in the order of `order`. `activation` is the number of the
/// [`Activation`](tilewright_device::tile::Activation).
#[kernel(program = P)]
pub fn gated<P: Overlaps, T: Element, const V: usize>(
    gate: Strided<3>,
    up: Strided<3>,
    y: Strided<3>,
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
    let (mut gates, mut ups) = ([[0; 4]; EACH], [[0; 4]; EACH]);
    let mut i = 0;
    while i < EACH {
        let (at, count) = place(i);
        // SAFETY: the tensors have the elements that the order counts, in rows of pieces of which the last may be short; the host
        // checked how they lie.
        unsafe {
            gates[i] = load_bytes(T::BYTES * V, gate.at::<T>(at), count == V as u32);
            ups[i] = load_bytes(T::BYTES * V, up.at::<T>(at), count == V as u32);
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
