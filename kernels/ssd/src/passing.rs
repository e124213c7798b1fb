//! States handed on from chunk to chunk.

use tilewright_device::kernel;
use tilewright_device::tile::{
    Collective, Fragment, Global, GlobalMut, RowMajor, Striped, block_x, block_y, block_z, copy, math,
};

use crate::sequences::{Chunks, Sequences};
use crate::tokens::BLOCK;

/// Rows of a CTA's tile of a state.
pub(crate) const ROWS: usize = 16;
/// Its columns.
pub(crate) const COLS: usize = 64;
type State = Fragment<f32, ROWS, COLS, Striped<4>>;

/// The state behind every chunk but the last, in place of what the chunk adds to it: H\[k\] = 2^decay\[k\] H\[k - 1\] + H\[k\].
///
/// `states` \[sequences, chunks, heads, P, N\], `decays` \[sequences, chunks, heads\], `initial` \[sequences, heads, P, N\], the state before the
/// first chunk, without rows where it is zeros. CTA (tile of columns · tiles of rows + tile of rows, head, sequence).
#[kernel(program = P)]
pub fn state_passing<P: Collective>(
    initial: Global<f32, 4, RowMajor, 0>,
    mut states: GlobalMut<f32, 5, RowMajor, 0>,
    decays: Global<f32, 3, RowMajor, 0>,
    sequences: Sequences,
    chunks: Chunks,
) {
    let tiles = states.rows().div_ceil(ROWS as u32).max(1);
    let (row, col, head, number) = (block_x() % tiles, block_x() / tiles, block_y(), block_z());
    let count = sequences.get(number).rows.div_ceil((BLOCK * chunks.blocks).max(1));
    let mut h = State::load(initial.tile([number, head, row, col]));
    let mut chunk = 0;
    while chunk + 1 < count {
        let place = [number, chunk, head, row, col];
        let decay = math::ex2(decays.tile([number, chunk, head]).element::<1, 1>(0, 0));
        h = State::load(states.read(place)).zip(&h, |own, before| own + decay * before);
        copy(h, states.tile(place));
        chunk += 1;
    }
}
