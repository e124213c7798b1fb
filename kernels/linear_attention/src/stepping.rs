//! One row of each sequence: decoding.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, FragmentLayout, Global, GlobalMut, RowMajor, Rows, Simt, block_x, block_y,
    block_z, copy, grid_x, math,
};

use crate::decays::{Decays, NOTHING};

/// S = α S + kᵀ v, o = scale q S, in place; by the delta rule with v replaced by β (v - k α S), where `beta` has rows.
///
/// Q, K, `gates` \[sequences, heads, DK, 1\], V, O \[sequences, heads, 1, columns\], β \[sequences, heads, 1, 1\], the state \[sequences, heads, DK,
/// columns\]. A CTA has `N` columns of a state in registers, which it reads and writes once, and reads the next ones meanwhile: those that the
/// grid's CTAs of a state have in turn. CTA (columns, head, sequence).
#[kernel(program = Simt<8>, min_ctas = 2)]
pub fn step<T: Element, G, const DK: usize, const N: usize>(
    mut cta: Cta<Simt<8>>,
    q: Global<T, 4, RowMajor, 0>,
    k: Global<T, 4, RowMajor, 0>,
    v: Global<T, 4, RowMajor, 0>,
    gates: Global<f32, 4, RowMajor, 0>,
    beta: Global<f32, 4, RowMajor, 0>,
    state: GlobalMut<f32, 4, RowMajor, 0>,
    o: GlobalMut<T, 4, RowMajor, 0>,
    decays: Decays,
    scale: f32,
) where
    G: FragmentLayout<DK, N>,
{
    let (mut state, mut o) = (state, o);
    let lead = [block_z(), block_y()];
    let along =
        |of: &Global<T, 4, RowMajor, 0>, row: u32| of.tile([lead[0], lead[1], 0, 0]).element::<DK, 1>(row, 0);
    let mut columns = cta.col_reducer::<f32, G, DK, N>();
    let values = |at: u32| {
        let values = v.tile([lead[0], lead[1], 0, at]);
        Cols::<f32, DK, N, G>::indexed(|col| values.element::<1, N>(0, col).to_f32())
    };
    let mut at = block_x();
    let mut next = Fragment::<f32, DK, N, G>::load(state.read([lead[0], lead[1], 0, at]));
    let mut next_value = values(at);
    let key = Rows::indexed(|row| along(&k, row).to_f32());
    let query = Rows::indexed(|row| along(&q, row).to_f32() * scale);
    let shared = decays.of_row(lead, 0);
    let decay = Rows::indexed(|row| {
        let own = gates.tile([lead[0], lead[1], 0, 0]).element::<DK, 1>(row, 0);
        math::ex2(math::min(math::max((shared + own) * LOG2_E, NOTHING), 0.0))
    });
    let beta = (beta.rows() > 0).then(|| beta.tile([lead[0], lead[1], 0, 0]).element::<1, 1>(0, 0));
    while at * (N as u32) < v.cols() {
        let (row, before, mut value) = ([lead[0], lead[1], 0, at], next, next_value);
        at += grid_x();
        if at * (N as u32) < v.cols() {
            next = Fragment::load(state.read([lead[0], lead[1], 0, at]));
            next_value = values(at);
        }
        let decayed = before.zip_rows(&decay, |x, by: f32| x * by);
        if let Some(beta) = beta {
            let known =
                columns.reduce_cols(&decayed.zip_rows(&key, |x, key: f32| x * key), 0.0, |a, b| a + b);
            let mut i = 0;
            while i < <G as FragmentLayout<DK, N>>::Cols::<f32>::LEN {
                value.regs.set(i, beta * (value.regs.get(i) - known.regs.get(i)));
                i += 1;
            }
        }
        let with_key = decayed.map(|x| (x, 0.0)).zip_rows(&key, |(x, _), key: f32| (x, key));
        let behind =
            with_key.zip_cols(&value, |(x, key), v: f32| (math::fma(key, v, x), key)).map(|(x, _)| x);
        let sum = columns.reduce_cols(&behind.zip_rows(&query, |x, q: f32| x * q), 0.0, |a, b| a + b);
        copy(behind, state.tile(row));
        copy(sum.map(|x| T::from_f32x2(x, 0.0)[0]), o.tile(row));
    }
}
