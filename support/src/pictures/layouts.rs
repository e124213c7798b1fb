//! The layouts of shared memory and of registers, one of each kind.

use tilewright_device::layout::{
    CoreMatrices, FragmentLayout, FullCol, FullRow, Linear, Padded, SharedLayout, Spread, Striped, Swizzle,
    Threads, warp,
};

use super::canvas::{Canvas, Rect};
use super::{Picture, fragment, name_of, pieces};

const HEADING: f32 = 12.0;
const SMALL: f32 = 10.0;
/// Between neighbours.
const GAP: f32 = 26.0;

/// Pictures of both.
pub fn layouts() -> Vec<Picture> {
    vec![
        Picture { name: "pictures/shared.svg", svg: shared() },
        Picture { name: "pictures/fragments.svg", svg: fragments() },
    ]
}

/// Lines of a shared tile that are drawn, and the size of a piece.
const LINES: u32 = 16;
const PIECE: [f32; 2] = [16.0, 10.0];

fn shared() -> String {
    let mut canvas = Canvas::new("Layouts of shared memory");
    let words = "16 rows of a tile. A cell is 16 bytes, a colour the four banks that hold them; framed: eight rows of one piece, which are read at a time.";
    canvas.text(0.0, 10.0, HEADING, words);
    let mut left = 0.0;
    tile::<Linear>(&mut canvas, &mut left, 128);
    tile::<Padded>(&mut canvas, &mut left, 128);
    tile::<Swizzle<128>>(&mut canvas, &mut left, 128);
    tile::<Swizzle<64>>(&mut canvas, &mut left, 64);
    tile::<Swizzle<32>>(&mut canvas, &mut left, 32);
    tile::<CoreMatrices>(&mut canvas, &mut left, 128);
    canvas.finish()
}

/// A tile of lines of so many bytes, beside the one before.
fn tile<L: SharedLayout>(canvas: &mut Canvas, left: &mut f32, line: u32) {
    let (top, name) = (44.0, name_of::<L>());
    canvas.text(*left, top - 6.0, HEADING, &name);
    let [right, bottom] = pieces::<L>(canvas, [*left, top], PIECE, [LINES, line]);
    canvas.frame(Rect { x: *left, y: top, width: PIECE[0], height: 8.0 * PIECE[1] });
    let mut banks: Vec<u32> = (0..8).map(|row| L::offset(LINES, line, row, 0) / 16 % 8).collect();
    banks.sort_unstable();
    banks.dedup();
    canvas.text(*left, bottom + 14.0, SMALL, &format!("rows of {line} bytes"));
    canvas.text(*left, bottom + 27.0, SMALL, &format!("in {} of 32 banks", 4 * banks.len()));
    *left = (right + GAP).max(*left + 7.2 * name.chars().count() as f32).max(*left + 96.0);
}

fn fragments() -> String {
    let mut canvas = Canvas::new("Layouts of registers");
    let words = "A colour is a warp; framed and, where there is room, numbered: the registers of thread 0.";
    canvas.text(0.0, 10.0, HEADING, words);
    let c = &mut canvas;
    registers::<warp::Square<2, 2>, 32, 32>(
        c,
        [0.0, 44.0],
        [10.0, 9.0],
        "accumulator of mma.sync, four warps",
    );
    registers::<Threads<4, 8, 4>, 16, 32>(
        c,
        [0.0, 400.0],
        [10.0, 9.0],
        "without tensor cores: 4 x 8 threads",
    );
    registers::<FullRow<2>, 128, 16>(
        c,
        [370.0, 44.0],
        [14.0, 4.0],
        "accumulator of wgmma, whole rows to a warpgroup",
    );
    registers::<FullCol<2>, 64, 32>(
        c,
        [650.0, 44.0],
        [10.0, 8.0],
        "accumulator of wgmma, whole columns to a warpgroup",
    );
    registers::<Striped<4>, 32, 32>(c, [1020.0, 44.0], [10.0, 9.0], "rows and elements, four warps");
    registers::<Spread<2, 64, 8, 4>, 1, 512>(c, [1020.0, 400.0], [0.625, 24.0], "a long row over two warps");
    canvas.finish()
}

/// A fragment, with its layout's name over it.
fn registers<L: FragmentLayout<M, N>, const M: usize, const N: usize>(
    canvas: &mut Canvas,
    [left, top]: [f32; 2],
    cell: [f32; 2],
    words: &str,
) {
    canvas.text(left, top - 6.0, HEADING, &format!("{}, {M} x {N}", name_of::<L>()));
    let [_, bottom] = fragment::<L, M, N>(canvas, [left, top], cell, 0);
    canvas.text(left, bottom + 14.0, SMALL, words);
}
