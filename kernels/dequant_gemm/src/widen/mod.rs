//! Narrow weights made wide: W as the numbers that they stand for.

mod list;

pub use list::{WIDEN, WidenKernel};

use tilewright_device::kernel;
use tilewright_device::layout::packed::DEPTH;
use tilewright_device::tile::{
    Cta, Decode, GemmRegisters, GlobalMut, Half, InPlace, Part, Quantized, RasterOrder, RowMajor, Schedule,
    Weights, Zeros, copy,
};

/// Depth of a tile of weights that are made wide: whole blocks.
pub const WIDEN_DEPTH: u32 = 1024;
/// Its blocks.
const BLOCKS: u32 = WIDEN_DEPTH / DEPTH;

/// Rows `first` times `BM` and on of W \[N, K\], as many as `wide` has: each its code's value, scaled and shifted as its group says, rounded to `T`.
///
/// Weights of format `F` lie in blocks, with groups' zeros as `Z`. Tiles of `BM` rows and [`WIDEN_DEPTH`] are taken in the order of `order`; `Y` is
/// the warp policy whose left operand a block is.
#[kernel(program = P)]
pub fn widen_weights<P: Schedule, Y, F, Z: Zeros, T: Half, const BM: usize, const STAGES: usize>(
    mut cta: Cta<P>,
    w: InPlace<Weights<F, Z, T>>,
    wide: InPlace<GlobalMut<T, 2, RowMajor, 0>>,
    order: RasterOrder,
    first: u32,
) where
    F: Decode<T>,
    Y: GemmRegisters<T, BM, 16, 64>,
{
    let stages = cta.stages::<STAGES>();
    let w_s = stages.alloc::<Quantized<F, Z, T, BM, 64>>(&mut cta);
    let mut pipe = cta.pipeline(stages);
    let weights = w.get();
    for at in cta.tiles(order, 1) {
        let begin = at.n * BLOCKS;
        let end = (begin + BLOCKS).min(weights.depth() / DEPTH);
        let mut loads = pipe.loads(
            begin..end,
            #[inline(always)]
            |s, k| copy(w.get().tile([first + at.m, k]), w_s.at(s)),
        );
        let mut k = begin;
        while k < end {
            let turn = loads.acquire();
            let block = weights.dequantize::<BM, 64, Y::R>(w_s.at(turn.full()), Part::new(0, 1), false);
            loads.release(turn);
            copy(block.unpacked(), wide.get().tile([at.m, k]));
            k += 1;
        }
    }
}
