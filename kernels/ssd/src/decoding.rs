//! One token: the state's step of decoding.

use core::f32::consts::LOG2_E;

use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Activation, Cols, Element, Fragment, Global, GlobalMut, GlobalTile, Program, RowMajor, Rows, Striped,
    block_x, block_y, block_z, copy, math,
};

use crate::steps::step_of_time;

/// Rows of a CTA's tile of a state.
pub(crate) const ROWS: usize = 32;
/// Columns at a time.
const COLS: usize = 128;
/// Rows that its warps take at a time.
const TURN: usize = 8;
type State<T> = Fragment<T, ROWS, COLS, Striped<4>>;

/// H = exp(dt A) H + dt x Bᵀ in place, y = H C + skip x, times silu(z) if z has rows.
///
/// x, y and z \[batch, heads, P, 1\], dt \[batch, heads, 1\], B and C \[batch, groups, P, N\] with equal rows, `decay` (A), `bias` and `skip` (D) \[heads, 1\],
/// `state` \[batch, heads, P, N\]. dt is clamp(softplus(dt + bias)), softplus where `softplus_first` is not 0. CTA (tile of rows, head, sequence).
#[kernel(program = P, min_ctas = 6)]
pub fn state_step<P: Program, T: Element, U: Element, S: Element>(
    x: Global<T, 4, RowMajor, 0>,
    dt: Global<U, 3, RowMajor, 0>,
    b: Global<T, 4, RowMajor, 0>,
    c: Global<T, 4, RowMajor, 0>,
    z: Global<T, 4, RowMajor, 0>,
    decay: Global<f32, 2, RowMajor, 0>,
    bias: Global<f32, 2, RowMajor, 0>,
    skip: Global<f32, 2, RowMajor, 0>,
    mut state: GlobalMut<S, 4, RowMajor, 0>,
    mut y: GlobalMut<T, 4, RowMajor, 0>,
    heads_per_group: u32,
    softplus_first: u32,
    least: f32,
    most: f32,
) {
    let (row, head, number) = (block_x(), block_y(), block_z());
    let (place, group) = ([number, head, row, 0], head / heads_per_group.max(1));
    let of_head = |of: Global<f32, 2, RowMajor, 0>| of.tile([head, 0]).element::<1, 1>(0, 0);
    let dt = dt.tile([number, head, 0]).element::<1, 1>(0, 0).to_f32() + of_head(bias);
    let dt = step_of_time(dt, softplus_first != 0, least, most);
    let kept = math::ex2(dt * of_head(decay) * LOG2_E);
    let x = Rows::<T, ROWS, COLS, Striped<4>>::load(x.tile(place), T::ZERO).map(T::to_f32);
    let mut sums = x.map(|x| x * of_head(skip));
    let mut col = 0;
    while col * (COLS as u32) < state.reader().cols() {
        let of_group = |of: Global<T, 4, RowMajor, 0>| columns(of.tile([number, group, 0, col]));
        let at = [number, head, row, col];
        let h = State::<S>::load(state.read(at)).to_f32().map(|h| h * kept);
        let added = Fragment::splat(0.0).zip_rows(&x, |_, x| x * dt).zip_cols(&of_group(b), |x, b| x * b);
        let h = h.zip(&added, |h, added| h + added);
        let results = h.zip_cols(&of_group(c), |h, c| h * c).reduce_rows(0.0, |a, b| a + b);
        sums = sums.zip(&results, |a, b| a + b);
        copy(h.cast::<S>(), state.tile(at));
        col += 1;
    }
    if z.rows() > 0 {
        let z = Rows::<T, ROWS, COLS, Striped<4>>::load(z.tile(place), T::ZERO);
        sums = sums.zip(&z, |y, z| y * Activation::Silu.apply(z.to_f32()));
    }
    copy(sums.map(|y| T::from_f32x2(y, 0.0)[0]), y.tile(place));
}

/// The columns of a tile whose rows are all the same.
#[inline(always)]
fn columns<T: Element>(of: GlobalTile<T, 4, RowMajor, 0>) -> Cols<f32, ROWS, COLS, Striped<4>> {
    // The rows of a turn: a lane's columns of each are those that it has of all.
    let row = Fragment::<T, TURN, COLS, Striped<4>>::load(of);
    let mut columns = Cols::<f32, ROWS, COLS, Striped<4>>::splat(0.0);
    let mut i = 0;
    while i < COLS * TURN / 128 {
        columns.regs.set(i, row.regs.get(i).to_f32());
        i += 1;
    }
    columns
}
