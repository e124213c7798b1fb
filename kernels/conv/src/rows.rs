//! Few channels: patches overlap in rows of images, which shared memory holds.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ByElement, ColMajor, Cta, Element, Epilogue, Fill, Fragment, Full, GemmRegisters, Global, GlobalMut,
    InPlace, Linear, OutputLayout, Patches, Pending, Raster, RasterOrder, Schedule, Shared, SharedLayout,
    Src, Tap, copy, gemm,
};

/// Rows of filters at most.
pub const ROWS: usize = 7;

/// Lines that begin `STEP` elements of 16 bits after each other, whatever their length: windows over a row of pixels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows<const STEP: usize>;

impl<const STEP: usize> SharedLayout for Windows<STEP> {
    const SWIZZLE: u32 = 0;

    fn size(rows: u32, line: u32) -> u32 {
        ((rows - 1) * 2 * STEP as u32 + line).next_multiple_of(16)
    }
    #[inline(always)]
    fn offset(_rows: u32, _line: u32, row: u32, byte: u32) -> u32 {
        row * 2 * STEP as u32 + byte
    }
    #[inline(always)]
    fn moved(_rows: u32, _line: u32, at: u32, down: u32, along: u32) -> u32 {
        at + down * 2 * STEP as u32 + along
    }
    fn position(_rows: u32, line: u32, offset: u32) -> Option<(u32, u32)> {
        // The first of the lines that have it.
        let row = (offset + 1).saturating_sub(line).div_ceil(2 * STEP as u32);
        Some((row, offset - row * 2 * STEP as u32))
    }
}

/// y = act(patches of x w + bias + beta residual), as [`conv`](fn@crate::conv), for filters whose rows have at most `BK` elements of all their pixels.
///
/// `STEP` elements lie between the pixels of neighbouring outputs. A tile is `BM` outputs of one row, which the raster's batch counts through all
/// images, as does that of `y` \[rows, outputs of a row, filters\]. Their windows over a row of the image overlap: it is copied once, `LINE`
/// elements of it, and read from shared memory as often as windows have it.
#[kernel(program = P, min_ctas = 2)]
pub fn conv_rows<
    P: Schedule<Ticket = bool>,
    Y,
    T: Element,
    const STEP: usize,
    const BM: usize,
    const BN: usize,
    const BK: usize,
    const LINE: usize,
>(
    mut cta: Cta<P>,
    x: InPlace<Patches<T>>,
    w: InPlace<Global<T, 5, ColMajor>>,
    y: InPlace<GlobalMut<T, 3>>,
    epilogue: Epilogue<ByElement<T, 3>, ByElement<T, 3>>,
    order: RasterOrder,
) where
    Y: GemmRegisters<T, BM, BN, BK, D: OutputLayout<BM, BN>>,
{
    const { assert!(STEP.is_multiple_of(2) && (BM - 1) * STEP + BK <= LINE, "pairs of elements, in the line") };
    let stages = cta.stages::<ROWS>();
    let x_s = stages.alloc::<Shared<T, 1, LINE, Linear, _>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let rows = x.get().steps().min(ROWS as u32);
    let mut loaded = u32::MAX;
    for at in Raster::persistent(order, 1) {
        // All have read the last tile.
        cta.barrier();
        let outputs = y.get().shape()[1];
        for row in 0..rows {
            // SAFETY: between the barriers the stages are written alone, by all threads together.
            let stage = unsafe { Fill::<P, ROWS>::new(row, true) };
            let tap = Tap { slice: 0, row, column: 0, block: 0 };
            copy(x.get().tile(0, at.batch * outputs + at.m * BM as u32, tap), x_s.at(stage));
            if loaded != at.n {
                copy(w.get().tile([0, row, 0, 0, at.n]), w_s.at(stage));
            }
        }
        loaded = at.n;
        cta.barrier();
        let width = w.get().shape()[3];
        let mut acc = Fragment::<f32, BM, BN, _>::zero();
        for row in 0..rows {
            // SAFETY: behind the barrier they are read alone. The line holds the windows of all outputs.
            let (stage, windows) = unsafe {
                let line = x_s.address() + row * (2 * LINE) as u32;
                (Full::<ROWS>::new(row), Src::<Shared<T, BM, BK, Windows<STEP>>>::from_address(line))
            };
            // What lies behind a window is the next one's.
            let patches = Fragment::<T, BM, BK, Y::R>::load(windows);
            let patches = patches.map_indexed(|_, i, x| if i < width { x } else { T::ZERO });
            acc = gemm(Y::default(), patches.operand(), w_s.at(stage), acc).wait();
        }
        let place = [at.batch, at.m, at.n];
        out.store(epilogue.apply(acc, place), y.get().tile(place));
    }
}
