//! C = act(alpha A Wᵀ + bias) of narrow weights W and few rows of A: as fast as the weights come from memory.

mod chunks;
mod list;
mod shares;
mod warp_depths;
mod warp_sums;

pub use chunks::{CHUNK, Chunk, ChunkStream, SLAB};
pub use list::{DequantStreamKernel, STREAM};
pub use shares::Shares;
pub use warp_depths::WarpDepths;
pub use warp_sums::WarpSums;

use tilewright_device::kernel;
use tilewright_device::tile::{
    ByRow, ColMajor, Cta, Decode, Epilogue, Fragment, GemmRegisters, Global, GlobalMut, Half, InPlace,
    Pending as _, RowMajor, Schedule, Swizzle, Weights, ZerosFirst, block_x, block_y, gemm, unit_of_gate,
    up_of_lane,
};

/// Slabs whose sums a CTA has at a time.
const SLABS: usize = 7;

/// Whether kernels of tiles of so many rows of A have gated units, and bring weights to L2 while the preceding grid ends: where checkpoints' layers need it, and
/// registers allow it.
pub const fn has_gates<Z: ZerosFirst>(rows: usize) -> bool {
    Z::STORED && rows == 8
}

/// C = act(alpha A Wᵀ + bias) of narrow weights, computed as Cᵀ = W Aᵀ with W from registers.
///
/// W \[N, K\] of format `F` in blocks, with groups' scales and zeros as `Z` says; A \[M, K\], `c` is Cᵀ \[N, M\], whose
/// rows' bias is \[N, 1\] or without rows if there is none. A CTA takes its share of W's slabs of 32 rows and `BN` rows of A, of which it
/// keeps `PANEL` of depth in shared memory; its `BM / 32` warps divide the depth, scale the sums of each 128, and may be
/// `LATER` slabs ahead of each other.
///
/// If `gated` is not 0, of kernels that [have gated units](has_gates), W's rows are gates and ups in turn,
/// [`GATES`](tilewright_device::tile::GATES) of each, and `c` is \[N / 2, M\], act(gate) up.
#[kernel(program = P)]
pub fn dequant_stream<
    P: Schedule,
    Y,
    F,
    Z: ZerosFirst,
    T: Half,
    const BM: usize,
    const BN: usize,
    const PANEL: usize,
    const AHEAD: usize,
    const LATER: usize,
>(
    mut cta: Cta<P>,
    w: Weights<F, Z, T>,
    a: InPlace<Global<T, 2, RowMajor, BN>>,
    c: InPlace<GlobalMut<T, 2, ColMajor>>,
    shares: InPlace<Shares>,
    epilogue: Epilogue<ByRow<T, 2>>,
    gated: InPlace<u32>,
) where
    F: Decode<T>,
    Y: GemmRegisters<T, BM, BN, 64, B = Swizzle<128>>,
{
    let gates = const { has_gates::<Z>(BN) };
    let mut sums = WarpSums::<P, BN, SLABS, LATER>::open(&mut cta);
    let mut a_s = WarpDepths::<P, T, BN, PANEL>::open(&mut cta);
    // Of one row of A an eighth of the sums is wanted.
    let columns = || (a.get().rows() - block_y() * BN as u32).min(BN as u32);
    for slabs in shares.get().of(block_x(), SLABS as u32) {
        let mut stream = ChunkStream::<P, F, Z, T, PANEL, AHEAD>::new(w, slabs.clone(), gates);
        let done = |index, row, column, x| {
            let at = [slabs.start + index, block_y()];
            if gates && gated.get() != 0 {
                let gate = epilogue.apply_one::<f32, 2, 32, BN>(x, at, (row, column));
                // SAFETY: whole warps come here, and a lane has the row of its number.
                let y = gate * epilogue.alpha() * unsafe { up_of_lane(x) };
                if let Some(unit) = unit_of_gate(row) {
                    c.get().tile(at).put::<16, BN>(unit, column, T::from_f32x2(y, y)[0]);
                }
                return;
            }
            let x = epilogue.apply_one::<T, 2, 32, BN>(x, at, (row, column));
            c.get().tile(at).put::<32, BN>(row, column, x);
        };
        let panels = stream.panels();
        for panel in 0..panels {
            a_s.load(panel, |chunk| a.get().tile([block_y(), chunk]));
            for slab in slabs.clone() {
                let acc = stream.fold(
                    panel,
                    Fragment::<f32, BM, BN, _>::zero(),
                    Fragment::<f32, BM, BN, _>::zero(),
                    #[inline(always)]
                    |sum, w, at| gemm(Y::default(), w, a_s.full().span::<64>(at).t(), sum).wait(),
                    #[inline(always)]
                    |acc, sum, scales| acc.add_scaled(&sum, &scales),
                );
                let turn = (panel == 0, panel + 1 == panels);
                sums.add(slab - slabs.start, &acc, turn, columns(), done);
            }
        }
        sums.complete(columns(), done);
    }
}
