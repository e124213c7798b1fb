//! Gated linear units and their gradients (Shazeer 2020, "GLU Variants Improve Transformer").

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Element, Overlaps};

use crate::activation::{with, with_slope};
use crate::pieces::{PieceOrder, Strided, load, number, rounded, store};

/// Pieces that a thread holds of each tensor.
pub(crate) const EACH: usize = 2;

/// y = act(gate) up, element by element.
///
/// Matrices \[batch, rows, columns\] whose rows are cut into pieces of `V` elements in the order of `order`. `activation` is the number of the
/// [`Activation`](tilewright_device::tile::Activation).
#[kernel(program = P)]
pub fn gated<P: Overlaps, T: Element, const V: usize>(
    gate: Strided<3>,
    up: Strided<3>,
    y: Strided<3>,
    order: PieceOrder,
    activation: u32,
) {
    let place = |i| {
        let ([matrix, row, piece], inside) = order.at(number(thread_x(), P::THREADS, EACH, i));
        ([matrix, row, piece * V as u32], inside)
    };
    P::wait_for_preceding_grid();
    let (mut gates, mut ups) = ([[T::ZERO; V]; EACH], [[T::ZERO; V]; EACH]);
    let mut i = 0;
    while i < EACH {
        let (at, inside) = place(i);
        // SAFETY: the tensors have the elements that the order counts, in rows of whole pieces; the host checked how they lie.
        unsafe {
            gates[i] = load(gate.at::<T>(at), inside, T::ZERO);
            ups[i] = load(up.at::<T>(at), inside, T::ZERO);
        }
        i += 1;
    }
    with(activation, |activation| {
        let mut i = 0;
        while i < EACH {
            let mut values = [0.0; V];
            let mut e = 0;
            while e < V {
                values[e] = activation.apply(gates[i][e].to_f32()) * ups[i][e].to_f32();
                e += 1;
            }
            let (at, inside) = place(i);
            // SAFETY: as above; no other thread has these elements.
            unsafe { store(y.at::<T>(at), rounded::<T, V>(values), inside) };
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
    order: PieceOrder,
    activation: u32,
) {
    let place = |i| {
        let ([matrix, row, piece], inside) = order.at(number(thread_x(), P::THREADS, EACH, i));
        ([matrix, row, piece * V as u32], inside)
    };
    P::wait_for_preceding_grid();
    let mut read = [[[T::ZERO; V]; 3]; EACH];
    let mut i = 0;
    while i < EACH {
        let (at, inside) = place(i);
        // SAFETY: as in `gated`.
        unsafe {
            read[i][0] = load(gate.at::<T>(at), inside, T::ZERO);
            read[i][1] = load(up.at::<T>(at), inside, T::ZERO);
            read[i][2] = load(dy.at::<T>(at), inside, T::ZERO);
        }
        i += 1;
    }
    with(activation, |activation| {
        let mut i = 0;
        while i < EACH {
            let (mut by_gate, mut by_up) = ([0.0; V], [0.0; V]);
            let mut e = 0;
            while e < V {
                let [value, slope] = with_slope(activation, read[i][0][e].to_f32());
                let dy = read[i][2][e].to_f32();
                by_gate[e] = dy * read[i][1][e].to_f32() * slope;
                by_up[e] = dy * value;
                e += 1;
            }
            let (at, inside) = place(i);
            // SAFETY: as in `gated`.
            unsafe {
                store(d_gate.at::<T>(at), rounded::<T, V>(by_gate), inside);
                store(d_up.at::<T>(at), rounded::<T, V>(by_up), inside);
            }
            i += 1;
        }
    });
}
