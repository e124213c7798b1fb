//! Few channels: patches overlap in rows of images, which shared memory holds.

use tilewright_device::kernel;
use tilewright_device::tile::{
    ByElement, ColMajor, Cta, Element, Epilogue, Fill, Fragment, Full, GemmRegisters, Global, GlobalMut,
    InPlace, Linear, OutputLayout, Patches, Pending, Raster, RasterOrder, RowsAhead, Schedule, Shared,
    SharedLayout, Src, TileIndex, copy, gemm,
};

/// Rows of filters at most.
pub const ROWS: usize = 7;

/// Pieces of rows that a thread holds.
const PIECES: usize = 3;

/// Lines that begin `STEP` elements of 16 bits after each other, whatever their length: windows over a row of pixels, in pairs of elements. Every
/// second one of an odd `STEP` is read from a second copy of the row, `LINE` elements behind the first and moved by one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Windows<const STEP: usize, const LINE: usize>;

impl<const STEP: usize, const LINE: usize> Windows<STEP, LINE> {
    /// Bytes between the windows of neighbouring outputs.
    const BETWEEN: u32 = 2 * STEP as u32;
    /// Where the copy that a row's window is read from lies.
    #[inline(always)]
    fn copy(row: u32) -> u32 {
        if STEP % 2 == 1 && row % 2 == 1 { 2 * LINE as u32 + 2 } else { 0 }
    }
}

impl<const STEP: usize, const LINE: usize> SharedLayout for Windows<STEP, LINE> {
    const SWIZZLE: u32 = 0;

    fn size(rows: u32, line: u32) -> u32 {
        ((rows - 1) * Self::BETWEEN + line + Self::copy(1)).next_multiple_of(16)
    }
    #[inline(always)]
    fn offset(_rows: u32, _line: u32, row: u32, byte: u32) -> u32 {
        Self::copy(row) + row * Self::BETWEEN + byte
    }
    /// Of an odd `STEP`, by an even number of rows.
    #[inline(always)]
    fn moved(_rows: u32, _line: u32, at: u32, down: u32, along: u32) -> u32 {
        at + down * Self::BETWEEN + along
    }
    fn position(rows: u32, line: u32, offset: u32) -> Option<(u32, u32)> {
        // The first of the lines that have it.
        (0..rows)
            .map(|row| (row, offset.wrapping_sub(Self::offset(rows, line, row, 0))))
            .find(|&(_, byte)| byte < line)
    }
}

/// y = act(patches of x w + bias + beta residual), as [`conv`](fn@crate::conv), for filters whose rows have at most `BK` elements of all their pixels.
///
/// `STEP` elements lie between the pixels of neighbouring outputs. A tile is `BM` outputs of one row, which the raster's batch counts through all
/// images, as does that of `y` \[rows, outputs of a row, filters\]. Their windows over a row of the image overlap: it is copied once, `LINE`
/// elements of it, to `COPIES` lines, and read from shared memory as often as windows have it. What a tile sees is read from global memory while
/// the one before is computed.
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
    const COPIES: usize,
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
    const {
        assert!(
            (BM - 1) * STEP + BK <= LINE && COPIES == 1 + STEP % 2,
            "windows lie in the line, at pairs of elements"
        )
    };
    let stages = cta.stages::<ROWS>();
    let x_s = stages.alloc::<Shared<T, COPIES, LINE, Linear, _>>(&mut cta);
    let w_s = stages.alloc::<Shared<T, BK, BN, _, _>>(&mut cta);
    let mut out = cta.output::<T, BM, BN, _>();
    let rows = x.get().steps().min(ROWS as u32);
    let read = |at: Option<TileIndex>| -> RowsAhead<T, LINE, PIECES> {
        let first = at.map_or(u32::MAX, |at| at.batch * y.get().shape()[1] + at.m * BM as u32);
        x.get().read_rows::<P, LINE, PIECES>(first, rows)
    };
    let (mut tiles, mut loaded) = (Raster::persistent(order, 1), u32::MAX);
    let mut next = tiles.next();
    let mut ahead = read(next);
    while let Some(at) = next {
        // All have read the last tile.
        cta.barrier();
        // SAFETY: between the barriers all threads write, and nobody reads.
        unsafe { ahead.store::<P, COPIES, ROWS>(&x_s) };
        if loaded != at.n {
            for row in 0..rows {
                // SAFETY: as above; each stage is written by all threads together.
                let stage = unsafe { Fill::<P, ROWS>::new(row, true) };
                copy(w.get().tile([0, row, 0, 0, at.n]), w_s.at(stage));
            }
        }
        loaded = at.n;
        cta.barrier();
        next = tiles.next();
        ahead = read(next);
        let width = w.get().shape()[3];
        let mut acc = Fragment::<f32, BM, BN, _>::zero();
        for row in 0..rows {
            // SAFETY: behind the barrier they are read alone. The lines hold the windows of all outputs.
            let (stage, windows) = unsafe {
                let line = x_s.address() + row * (2 * LINE * COPIES) as u32;
                (Full::<ROWS>::new(row), Src::<Shared<T, BM, BK, Windows<STEP, LINE>>>::from_address(line))
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
