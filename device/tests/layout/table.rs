//! The fragment layouts of every entry in the tables of shapes, as values.

use tilewright_device::layout::{FragmentLayout, Registers, Spread, Striped, Threads, Warpgroups, Warps};

/// A fragment layout without its types.
pub struct Layout {
    pub name: &'static str,
    /// Rows of the block that one instruction takes: 64 for a warpgroup, 16 for a warp; 0 without one.
    pub block: u32,
    /// Warpgroups or warps along M and N.
    pub units: (u32, u32),
    pub shape: (u32, u32),
    pub registers: usize,
    pub rows: usize,
    pub cols: usize,
    pub threads: u32,
    pub row_lanes: u32,
    pub row_warps: u32,
    pub run: usize,
    pub coord: fn(u32, usize) -> (u32, u32),
    pub offset: fn(usize) -> (u32, u32),
    pub owner: fn(u32, u32) -> (u32, usize),
    pub row: fn(usize) -> usize,
    pub col: fn(usize) -> usize,
}

impl Layout {
    fn of<L: FragmentLayout<M, N>, const M: usize, const N: usize>(block: u32, units: (u32, u32)) -> Self {
        Layout {
            name: std::any::type_name::<(L, [[(); N]; M])>(),
            block,
            units,
            shape: (M as u32, N as u32),
            registers: <L::Regs<f32> as Registers<f32>>::LEN,
            rows: <L::Rows<f32> as Registers<f32>>::LEN,
            cols: <L::Cols<f32> as Registers<f32>>::LEN,
            threads: L::THREADS,
            row_lanes: L::ROW_LANES,
            row_warps: L::ROW_WARPS,
            run: L::RUN,
            coord: L::coord,
            offset: L::offset,
            owner: L::owner,
            row: L::row,
            col: L::col,
        }
    }

    /// Every (thread, register).
    pub fn places(&self) -> impl Iterator<Item = (u32, usize)> + use<> {
        let registers = self.registers;
        (0..self.threads).flat_map(move |thread| (0..registers).map(move |i| (thread, i)))
    }
}

/// Every pair of a list of (rows, units along M) with a list of (columns of a unit, units along N).
macro_rules! layouts {
    ($list:ident: $policy:ident $block:literal, [$(($m:literal, $wm:literal))*], $columns:tt) => {
        $(layouts!(@rows $list: $policy $block, $m, $wm, $columns);)*
    };
    (@rows $list:ident: $policy:ident $block:literal, $m:literal, $wm:literal, [$($width:literal)*; $units:tt]) => {
        $(layouts!(@width $list: $policy $block, $m, $wm, $width, $units);)*
    };
    (@width $list:ident: $policy:ident $block:literal, $m:literal, $wm:literal, $width:literal, [$($wn:literal)*]) => {
        $($list.push(Layout::of::<$policy<$wm, $wn>, $m, { $width * $wn }>($block, ($wm, $wn)));)*
    };
}

/// What accumulators lie in: all divisions of rows with some of columns, and all divisions of columns with some of
/// rows: the two are independent.
pub fn layouts() -> Vec<Layout> {
    let mut all = Vec::new();
    layouts!(all: Warpgroups 64,
        [(64, 1) (128, 2) (192, 3) (256, 4) (128, 1) (256, 2) (384, 3) (192, 1) (384, 2) (256, 1)],
        [8 24 64; [1 2 4]]);
    layouts!(all: Warpgroups 64, [(128, 2)],
        [8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232 240
         248 256; [1 2 4]]);
    layouts!(all: Warps 16,
        [(16, 1) (32, 2) (64, 4) (128, 8) (32, 1) (64, 2) (128, 4) (256, 8) (48, 1) (96, 2) (192, 4) (64, 1) (128, 2)
         (256, 4) (128, 1) (256, 2)],
        [8 24 64; [1 2 4]]);
    layouts!(all: Warps 16, [(32, 2)],
        [8 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 136 144 152 160 168 176 184 192 200 208 216 224 232 240
         248 256; [1 2 4]]);
    all
}

/// Every (rows, warps) with a number of columns.
macro_rules! striped {
    ($($columns:literal [$(($m:literal, $w:literal))*])*) => {
        vec![$($(Layout::of::<Striped<$w>, $m, $columns>(0, (1, 1)),)*)*]
    };
}

/// Rows of a whole warp, of several to a lane, and of a part of a warp.
pub fn striped() -> Vec<Layout> {
    striped! {
        256 [(1, 1) (4, 4) (8, 4) (64, 4) (8, 8) (12, 12) (32, 16) (16, 1)]
        1024 [(1, 1) (4, 4) (16, 8)]
        4096 [(1, 1) (8, 4)]
        768 [(4, 4) (8, 2)]
        640 [(8, 4)]
        128 [(2, 1) (8, 4) (128, 4)]
        96 [(8, 1) (64, 8)]
        64 [(4, 1) (64, 4) (64, 8)]
        40 [(32, 1)]
        8 [(32, 1) (128, 4) (512, 8)]
    }
}

/// Single elements, squares of a thread's, pieces of a loader's.
pub fn threads() -> Vec<Layout> {
    vec![
        Layout::of::<Threads<32, 32>, 32, 32>(0, (1, 1)),
        Layout::of::<Threads<16, 16>, 128, 128>(0, (1, 1)),
        Layout::of::<Threads<16, 16, 4>, 128, 128>(0, (1, 1)),
        Layout::of::<Threads<8, 8, 2>, 64, 32>(0, (1, 1)),
        Layout::of::<Threads<64, 4, 4>, 128, 16>(0, (1, 1)),
        Layout::of::<Threads<8, 32, 4>, 16, 128>(0, (1, 1)),
    ]
}

/// Every (warps, threads of a row, elements of a thread, elements of a piece), with the tile's rows and columns.
macro_rules! spread {
    ($(($w:literal, $g:literal, $e:literal, $p:literal) $m:literal x $n:literal)*) => {
        vec![$(Layout::of::<Spread<$w, $g, $e, $p>, $m, $n>(0, (1, 1)),)*]
    };
}

/// Rows of a part of a warp, of a warp, of some warps, of all; in vectors and by elements.
pub fn spread() -> Vec<Layout> {
    spread! {
        (4, 8, 8, 8) 16 x 64
        (1, 1, 4, 4) 32 x 4
        (4, 32, 8, 8) 4 x 256
        (4, 32, 32, 4) 4 x 1024
        (8, 64, 16, 8) 4 x 1024
        (8, 256, 32, 8) 1 x 8192
        (8, 256, 16, 1) 1 x 4096
        (16, 512, 24, 8) 1 x 12288
    }
}
