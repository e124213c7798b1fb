//! The states before chunks, and the gradients by those behind them.

use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::tile::{
    Cols, Cta, Element, Fragment, Global, GlobalMut, InPlace, Linear, Pending, RowMajor, RowVector, Schedule,
    Shared, Swizzle, copy, gemm,
};

use crate::decays::{Decays, Factors};
use crate::left::Left;
use crate::policy::{CHUNK, States};
use crate::work::Work;

/// The state before each chunk, Sᵀ = what is left of Sᵀ + (what is left of V)ᵀ K from chunk to chunk. Where `reversed` is not 0 chunks are taken from the last to
/// the first: with Q in the place of K and the gradient of O in that of V that is the gradient by the state behind each chunk, with decays from
/// before the chunk in place of those to behind it, and `scale`.
///
/// Where channels decay by themselves, `whole` \[heads x chunks, DK\] is what is left of a state behind a chunk, and keys are decayed:
/// [`prepare`](crate::prepare()) leaves both. Else `whole` has no rows.
///
/// Keys \[batch, heads, rows, DK\], values \[batch, heads, rows, columns\], `states` \[heads x chunks, 1, columns, DK\]. `before` \[segments x sequences,
/// heads, columns, DK\] is the state where a segment begins, zeros without rows; `behind` the one where it ends, and `left` \[segments x sequences, heads, DK,
/// or 1 where all channels decay alike\] what is left there of one from before it. What has no rows is not written. CTA (segment and, faster, block of columns;
/// head; sequence).
#[kernel(program = P)]
pub fn chunk_states<
    P: Schedule,
    Y,
    T: Element,
    const DV: usize,
    const DK: usize,
    const D: usize,
    const PARTS: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    keys: InPlace<Global<T, 4>>,
    values: InPlace<Global<T, 4>>,
    states: InPlace<GlobalMut<T, 4, RowMajor, 0>>,
    before: InPlace<Global<f32, 4, RowMajor, 0>>,
    behind: InPlace<GlobalMut<f32, 4, RowMajor, 0>>,
    left: InPlace<GlobalMut<f32, 3, RowMajor, 0>>,
    whole: InPlace<Global<f32, 2, RowMajor, 0>>,
    decays: InPlace<Decays>,
    work: InPlace<Work>,
    scale: f32,
    reversed: u32,
) where
    Y: States<T, DV, D>,
{
    let stages = cta.stages::<STAGES>();
    let k_s = stages.alloc::<Shared<T, CHUNK, DK, Swizzle<128>>>(&mut cta);
    let v_s = stages.alloc::<Shared<T, CHUNK, DV, Swizzle<128>>>(&mut cta);
    let whole_s = stages.alloc::<Shared<f32, 1, DK, Linear>>(&mut cta);
    let mut factors = Factors::new(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let (part, channels, reversed) = (work.get().part(), whole.get().rows() > 0, reversed != 0);
    let (matrix, head, count) = (part.matrix, part.head, part.chunks());
    // Behind the last turn the chunk that no row is in.
    let chunk = |turn: u32| if reversed && turn < count { count - 1 - turn } else { turn };
    let mut chunks = pipe.loads(
        0..count,
        #[inline(always)]
        |s, turn| {
            let (first, rows, c) = (part.first, part.rows, chunk(turn));
            copy(keys.get().tile([matrix, head, c, 0]).of_rows(first, rows), k_s.at(s));
            copy(values.get().tile([matrix, head, c, part.block]).of_rows(first, rows), v_s.at(s));
            if channels {
                let line = whole.get().pointer().wrapping_add((part.slot + c) as usize * DK);
                let to = whole_s.at(s);
                // SAFETY: the stage's room for the line is this role's to fill; the host passes DK values for each chunk, aligned to 16 bytes.
                unsafe { P::load_bytes(line.cast(), to.address(), DK as u32 * 4, to.ticket()) };
            }
        },
    );
    if !cta.computes() {
        return;
    }
    let mut state = [Fragment::<f32, DV, D, Y>::zero(); PARTS];
    let mut i = 0;
    while i < PARTS {
        state[i] = Fragment::load(before.get().tile([part.state, head, part.block, i as u32]));
        i += 1;
    }
    let of_head = decays.get().of_head(&part);
    let first = decays.get().gates_of(&part, chunk(0));
    factors.write(0, of_head.of_rows(&part, chunk(0), first), scale);
    let mut kept = Left::<DK>::all();
    // Of the next chunk: loaded a chunk before they are needed.
    let mut next = decays.get().gates_of(&part, chunk(1));
    cta.barrier();
    let mut turn = 0;
    while turn < count {
        let c = chunk(turn);
        let after_next = decays.get().gates_of(&part, chunk(turn + 2));
        let mut i = 0;
        while i < PARTS {
            copy(state[i].cast::<T>(), states.get().tile([part.slot + c, 0, part.block, i as u32]));
            i += 1;
        }
        let full = chunks.acquire();
        let inside = part.rows - c * CHUNK as u32;
        chunks.clear_from(&full, &k_s, inside);
        chunks.clear_from(&full, &v_s, inside);
        let mut values = Fragment::<T, DV, CHUNK, Y>::load_matrices(v_s.at(full.full()).t());
        if !channels {
            let kept = if reversed { factors.of_before(turn) } else { factors.for_behind(turn) };
            let kept = Cols::from_vector(kept);
            values = values.to_f32().zip_cols(&kept, |x, by: f32| x * by).cast::<T>();
        }
        let mut i = 0;
        while i < PARTS {
            let decayed = if channels {
                let left = whole_s.at(full.full()).address() + (i * D * 4) as u32;
                // SAFETY: part of the stage's line of factors, which is full.
                let left = Cols::from_vector(unsafe { RowVector::<f32, D>::at(left) });
                state[i].zip_cols(&left, |x, by: f32| x * by)
            } else {
                let left = factors.whole(turn);
                state[i].map(|x| x * left)
            };
            state[i] = gemm(Y::default(), values, k_s.at(full.full()).part::<D>(i as u32), decayed).wait();
            i += 1;
        }
        if channels {
            // SAFETY: as above.
            unsafe { kept.multiply::<P>(whole_s.at(full.full()).address()) };
        }
        factors.write(turn + 1, of_head.of_rows(&part, chunk(turn + 1), next), scale);
        // Threads have read factors of the stage, not gemms alone.
        cta.barrier();
        chunks.release(full);
        (next, turn) = (after_next, turn + 1);
    }
    let mut i = 0;
    while i < PARTS {
        copy(state[i], behind.get().tile([part.state, head, part.block, i as u32]));
        i += 1;
    }
    let mut left = left.get();
    if left.rows() == 0 || part.block > 0 {
        return;
    }
    if channels {
        kept.store::<P>(&left.tile([part.state, head, 0]));
    } else if thread_x() == 0 {
        left.tile([part.state, head, 0]).put::<1, 1>(0, 0, factors.left());
    }
}
