//! Stages that are written by those who compute, for others to read.

use core::marker::PhantomData;

use tilewright_device::arch::special::thread_x_volatile;
use tilewright_device::arch::tma::{self, Coords};
use tilewright_device::arch::warp::{self, uniform};
use tilewright_device::arch::{shared, stmatrix, sync};
use tilewright_device::layout::Registers;
use tilewright_device::layout::element::pack;
use tilewright_device::tile::barriers::WARPGROUP;
use tilewright_device::tile::{
    CopyTo, Element, Fragment, FragmentLayout, FullCol, GlobalTileMut, Major, OneWarpgroup, Operand, Rows,
    Shared, SharedLayout, Stage, Swizzle, matrix_line,
};

/// Rows of a stage.
const ROWS: u32 = 64;
/// Bytes that a swizzle spans.
const LINE: u32 = 128;

/// That the warps of a warpgroup have met behind their last gemm: nobody reads any more what it read.
pub struct Met(());

impl Met {
    /// The warps of policy `P`'s warpgroup meet, when each has waited for its gemms.
    #[inline(always)]
    pub fn now<P: OneWarpgroup>() -> Self {
        // SAFETY: the role's warps execute it whole.
        unsafe { sync::bar_sync(WARPGROUP.of(P::GROUP), 128) };
        Met(())
    }
    /// They meet, and know whether the condition holds in some thread of theirs.
    #[inline(always)]
    pub fn any<P: OneWarpgroup>(condition: bool) -> (Self, bool) {
        // SAFETY: the role's warps execute it whole.
        (Met(()), unsafe { sync::bar_red_or(WARPGROUP.of(P::GROUP), 128, condition) })
    }
}

/// A stage of `N` that has been read, and may be written by the role whose turn it is.
pub struct Rewrite<'s, const N: usize> {
    stage: u32,
    turn: PhantomData<&'s mut ()>,
}

impl<const N: usize> Rewrite<'_, N> {
    /// A stage whose turn is this role's.
    #[inline(always)]
    pub(crate) fn new(stage: u32) -> Self {
        Rewrite { stage, turn: PhantomData }
    }
}

/// A tile of such a stage, or a part of one.
pub struct Rewritten<'s, S> {
    address: u32,
    tile: PhantomData<(&'s mut (), S)>,
}

impl<'s, const N: usize> Stage<N> for Rewrite<'s, N> {
    type View<S> = Rewritten<'s, S>;
    #[inline(always)]
    fn view<S>(self, base: u32, bytes: u32) -> Rewritten<'s, S> {
        Rewritten { address: base + self.stage * bytes, tile: PhantomData }
    }
}

impl<'s, T: Element, L: SharedLayout, const R: usize, const C: usize> Rewritten<'s, Shared<T, R, C, L>> {
    /// Where it begins in shared memory.
    #[inline(always)]
    pub(crate) fn address(&self) -> u32 {
        self.address
    }

    /// The `W` columns from `FROM` on, as a tile: another view of the same memory.
    #[inline(always)]
    pub fn columns<const FROM: usize, const W: usize>(self) -> Rewritten<'s, Shared<T, R, W, L>> {
        Rewritten { address: self.address + Shared::<T, R, C, L>::columns_at::<FROM, W>(), tile: PhantomData }
    }

    /// Makes the rows from `from` on zeros, by the threads of one warpgroup.
    #[inline(always)]
    pub fn clear_rows(self, from: u32) {
        let thread = thread_x_volatile() % 128;
        let line = (C * T::BYTES) as u32;
        let mut byte = thread % 8 * 16;
        while byte < line {
            let mut row = from + thread / 8;
            while row < R as u32 {
                // SAFETY: inside the tile, whose turn is this role's.
                unsafe { shared::store_u32x4(self.address + L::offset(R as u32, line, row, byte), [0; 4]) };
                row += 16;
            }
            byte += 128;
        }
    }
}

/// By `stmatrix`, as it is packed.
impl<T, L, const C: usize> CopyTo<Rewritten<'_, Shared<T, 64, C, Swizzle<128>>>> for Operand<T, 64, C, L>
where
    T: Element,
    L: FragmentLayout<64, C> + OneWarpgroup,
{
    #[inline(always)]
    fn copy_to(self, to: Rewritten<'_, Shared<T, 64, C, Swizzle<128>>>) {
        let thread = thread_x_volatile();
        let mut four = 0;
        while four < C as u32 / 16 {
            let (row, byte) = matrix_line(thread / 32 % 4, thread % 32, four % 4 * 2);
            let at = to.address + four / 4 * ROWS * LINE + Swizzle::<128>::offset(ROWS, LINE, row, byte);
            // SAFETY: the role's warps execute it whole; nobody reads the stage.
            unsafe { stmatrix::x4(at, self.regs.0.get(four as usize)) };
            four += 1;
        }
    }
}

/// Multiplies each row by its value, unless all values that this warp has are 1.
#[inline(always)]
pub fn rescale<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    x: Fragment<f32, M, N, L>,
    by: &Rows<f32, M, N, L>,
) -> Fragment<f32, M, N, L> {
    let mut moved = false;
    let mut r = 0;
    while r < L::Rows::<f32>::LEN {
        moved |= by.regs.get(r) != 1.0;
        r += 1;
    }
    // SAFETY: the warps that hold the fragment execute it whole.
    if unsafe { warp::vote_any(moved) } { x.zip_rows(by, |x, by| x * by) } else { x }
}

/// A layout in which warpgroups have whole boxes of 64 columns side by side.
pub trait StagedColumns<const N: usize>: FragmentLayout<64, N> {
    /// How many warpgroups.
    const WARPGROUPS: usize;
}

impl<const N: usize, const W: usize> StagedColumns<N> for FullCol<W>
where
    FullCol<W>: FragmentLayout<64, N>,
{
    const WARPGROUPS: usize = W;
}

/// Stores every element times its row's value, rounded to `T`, by way of `staging`: a tile of the fragment's shape, of which
/// a warpgroup's own gemms may be the last to read its columns. `tile` says where to, whenever that is needed.
///
/// The stage may be given back then: the stores have read it.
#[inline(always)]
pub fn store_scaled<T, L, O, Y, const N: usize, const RANK: usize, const BOX: usize>(
    x: Fragment<f32, 64, N, Y>,
    by: &Rows<f32, 64, N, Y>,
    staging: Rewritten<'_, Shared<T, 64, N, L>>,
    tile: impl Fn() -> GlobalTileMut<T, RANK, O, BOX>,
) where
    T: Element,
    L: SharedLayout,
    O: Major,
    Y: StagedColumns<N>,
    [u32; RANK]: Coords,
{
    const { assert!(L::SWIZZLE == 128 && T::BYTES == 2 && BOX == 64, "staged by boxes of 64 x 64") };
    const { assert!((N / Y::WARPGROUPS).is_multiple_of(64), "each warpgroup has whole boxes") };
    let thread = thread_x_volatile();
    let unit = uniform(thread / 128);
    let (warp, lane) = (thread / 32 % 4, thread % 32);
    let chunks = (N / Y::WARPGROUPS) as u32 / 64;
    let place = |chunk: u32| {
        let column = unit * (N / Y::WARPGROUPS) as u32 + chunk * 64;
        (column, staging.address + column / 64 * ROWS * LINE)
    };
    // SAFETY: all warps of the warpgroup are past their gemms, the last readers of its columns, at the first barrier; what
    // they write is visible to TMA at the next ones, and has been read at the last.
    unsafe {
        sync::bar_sync(WARPGROUP.of(unit), 128);
        let mut chunk = 0;
        while chunk < chunks {
            let (column, buffer) = place(chunk);
            // Scaled and rounded four pairs at a time: no product waits in a register.
            let mut piece = 0;
            while piece < 8 {
                let pair = |q: u32| {
                    let i = (chunk * 32 + piece * 4 + q) as usize;
                    let scaled = |i: usize| x.regs.get(i) * by.regs.get(Y::row(i));
                    pack(T::from_f32x2(scaled(i), scaled(i + 1)))
                };
                let (row, byte) = matrix_line(warp, lane, piece);
                let at = buffer + Swizzle::<128>::offset(ROWS, LINE, row, byte);
                stmatrix::x4(at, [pair(0), pair(2), pair(4), pair(6)]);
                piece += 2;
            }
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(unit), 128);
            // Another warp for each: working out where to does not hold up the next columns.
            if thread % 128 == chunk % 4 * 32 {
                let tile = tile();
                if tile.takes_boxes() {
                    tile.store_box([64, N], [0, column], buffer);
                    tma::bulk_commit();
                }
            }
            chunk += 1;
        }
        let tile = tile();
        if !tile.takes_boxes() {
            let (column, buffer) = place(0);
            let staged = (buffer, ROWS, chunks * 64);
            tile.store_lines::<Swizzle<128>>([64, N], [0, column], staged, (thread % 128, 128));
        } else if lane == 0 {
            tma::bulk_wait_read::<0>();
        }
        sync::bar_sync(WARPGROUP.of(unit), 128);
    }
}
