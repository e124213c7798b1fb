//! States of segments, one after the other.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{Cta, Global, GlobalMut, RowMajor, Simt, block_x, block_y, block_z, math};

/// Elements of a state that a CTA passes on.
pub const PASSED: u32 = 256;

/// From the state that each segment makes of zeros to the one before it, in place: `states` \[segments x sequences, heads, columns,
/// DK\], `left` the logarithms to base 2 of the segments' decays, \[segments x sequences, heads\]. `behind` is the state behind the
/// last segment, and `before` the one before the first; without rows they are not written, and zeros.
#[kernel(program = Simt<8>)]
pub fn pass_states(
    _cta: Cta<Simt<8>>,
    states: GlobalMut<f32, 4, RowMajor, 0>,
    left: Global<f32, 2, RowMajor, 0>,
    before: Global<f32, 4, RowMajor, 0>,
    behind: GlobalMut<f32, 4, RowMajor, 0>,
    sequences: u32,
) {
    let (mut states, mut behind) = (states, behind);
    let [all, _, columns, width] = states.shape();
    let at = block_x() * PASSED + thread_x();
    let (row, col, head, sequence) = (at / width, at % width, block_y(), block_z());
    if row >= columns {
        return;
    }
    let mut state = before.tile([sequence, head, 0, 0]).element::<1, 1>(row, col);
    let mut segment = sequence;
    while segment < all {
        let own = states.read([segment, head, 0, 0]).element::<1, 1>(row, col);
        let by = math::ex2(left.tile([segment, head]).element::<1, 1>(0, 0));
        states.tile([segment, head, 0, 0]).put::<1, 1>(row, col, state);
        state = math::fma(state, by, own);
        segment += sequences;
    }
    behind.tile([sequence, head, 0, 0]).put::<1, 1>(row, col, state);
}
