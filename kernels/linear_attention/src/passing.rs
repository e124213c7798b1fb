//! States of segments, one after the other.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Fragment, FragmentLayout, Gemm, Global, GlobalMut, Pending, RowMajor, Rows, Shared, Simt,
    Swizzle, block_x, block_y, block_z, copy, gemm, math,
};

/// Elements of a state that a CTA passes on.
pub const PASSED: u32 = 256;
/// Columns of V of which a CTA passes states on by [`pass_by_transitions`](pass_by_transitions()).
pub const PASSED_COLUMNS: usize = 32;

/// From the state that each segment makes of zeros to the one before it, in place: `states` \[segments x sequences, heads, columns,
/// DK\], `left` what a segment leaves of a state, \[segments x sequences, heads, DK\] or the same of all channels, \[…, 1\]. `behind` is the
/// state behind the last segment, and `before` the one before the first; without rows they are not written, and zeros. Where `reversed` is not 0 the first is
/// the last.
#[kernel(program = Simt<8>)]
pub fn pass_states(
    _cta: Cta<Simt<8>>,
    states: GlobalMut<f32, 4, RowMajor, 0>,
    left: Global<f32, 3, RowMajor, 0>,
    before: Global<f32, 4, RowMajor, 0>,
    behind: GlobalMut<f32, 4, RowMajor, 0>,
    sequences: u32,
    reversed: u32,
) {
    let (mut states, mut behind) = (states, behind);
    let [all, _, columns, width] = states.shape();
    let at = block_x() * PASSED + thread_x();
    let (row, col, head, sequence) = (at / width.max(1), at % width.max(1), block_y(), block_z());
    if row >= columns {
        return;
    }
    let channel = col.min(left.cols() - 1);
    let mut state = before.tile([sequence, head, 0, 0]).element::<1, 1>(row, col);
    let (mut turn, turns) = (0, all / sequences.max(1));
    while turn < turns {
        let segment = if reversed != 0 { turns - 1 - turn } else { turn } * sequences + sequence;
        let own = states.read([segment, head, 0, 0]).element::<1, 1>(row, col);
        let by = left.tile([segment, head, 0]).element::<1, 1>(0, channel);
        states.tile([segment, head, 0, 0]).put::<1, 1>(row, col, state);
        state = math::fma(state, by, own);
        turn += 1;
    }
    behind.tile([sequence, head, 0, 0]).put::<1, 1>(row, col, state);
}

/// The same by the delta rule, whose segments turn a state: Sᵀ = Sᵀ M + own, with `transitions` Mᵀ \[segments x sequences, heads, DK, DK\].
///
/// What decays leave of S is taken in f32, and M without it rounded to tf32, as S there: directions that no key has are passed on as they
/// are. CTA (32 columns of V, head, sequence); M goes through shared memory in parts of `DEPTH` channels.
#[kernel(program = Simt<8>)]
pub fn pass_by_transitions<F, G, const DK: usize, const DEPTH: usize>(
    mut cta: Cta<Simt<8>>,
    states: GlobalMut<f32, 4, RowMajor, 0>,
    transitions: Global<f32, 4, RowMajor, 0>,
    left: Global<f32, 3, RowMajor, 0>,
    before: Global<f32, 4, RowMajor, 0>,
    behind: GlobalMut<f32, 4, RowMajor, 0>,
    sequences: u32,
) where
    G: FragmentLayout<DK, DEPTH>,
    F: Gemm<f32, 32, DK, DEPTH, A = Swizzle<128>, B = Swizzle<128>>,
{
    let mut state_s = cta.scratch::<Shared<f32, PASSED_COLUMNS, DK, Swizzle<128>>>();
    let mut transition_s = cta.scratch::<Shared<f32, DK, DEPTH, Swizzle<128>>>();
    let (mut states, mut behind) = (states, behind);
    let (block, head, sequence, segments) = (block_x(), block_y(), block_z(), states.shape()[0]);
    let parts = (DK / DEPTH) as u32;
    // Of a segment and a part; behind the last the last once more.
    let transition_of = |segment: u32, part: u32| {
        let segment = if segment < segments { segment } else { segment - sequences };
        Fragment::<f32, DK, DEPTH, G>::load(transitions.tile([segment, head, 0, part]))
    };
    let mut state = Fragment::<f32, PASSED_COLUMNS, DK, F::D>::load(before.tile([sequence, head, block, 0]));
    let (mut segment, mut next) = (sequence, transition_of(sequence, 0));
    while segment < segments {
        let place = [segment, head, block, 0];
        let factors = left.tile([segment, head, 0]);
        let own = Fragment::load(states.read(place));
        copy(state, states.tile(place));
        copy(state, &mut state_s);
        let left_of = |channel: u32| factors.element::<1, DK>(0, channel.min(left.cols() - 1));
        let (of_rows, of_cols) = (Rows::<f32, DK, DEPTH, G>::indexed(left_of), Cols::indexed(left_of));
        state = state.zip_cols(&of_cols, |x, left: f32| x * left) + own;
        let mut part = 0;
        while part < parts {
            let with_left = next.map(|x| (x, 0.0)).zip_rows(&of_rows, |(x, _), left| (x, left));
            let first = part * DEPTH as u32;
            let turns =
                with_left.map_indexed(|to, from, (x, left)| if first + from == to { x - left } else { x });
            copy(turns, &mut transition_s);
            part += 1;
            // On its way while this one is multiplied.
            let last = part == parts;
            next =
                transition_of(if last { segment + sequences } else { segment }, if last { 0 } else { part });
            let from = state_s.full().part::<DEPTH>(part - 1);
            state = gemm(F::default(), from, transition_s.full().t(), state).wait();
        }
        segment += sequences;
    }
    copy(state, behind.tile([sequence, head, block, 0]));
}
