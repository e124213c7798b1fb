//! Stream-K: how the tiles of an output are divided among CTAs.

use tilewright_device::tile::{RasterOrder, StreamOrder};

use super::launch_number;

/// Which tiles CTAs take whole, how they divide the depth of the others, and the memory that this takes.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct TileParts<const BESIDE: bool = false> {
    order: StreamOrder<BESIDE>,
    /// CTAs, or clusters of them.
    pub(in crate::ops) ctas: u32,
    /// Bytes of parts' sums in the workspace, behind which the flags are.
    sums: u64,
    /// Elements of the workspace: 0 if no tile is divided.
    pub(in crate::ops) workspace: usize,
}

impl TileParts {
    /// All but the first `whole` tiles, each of `steps` steps and `m` x `n`, are divided among CTAs of so many threads that compute: at most `resident` CTAs, all of which run
    /// at the same time.
    ///
    /// `None` when there are more steps to divide than an order describes.
    pub(in crate::ops) fn new(
        raster: RasterOrder,
        steps: u32,
        whole: u32,
        resident: u32,
        [m, n]: [u32; 2],
        threads: u32,
    ) -> Option<Self> {
        let rest = raster.total().saturating_sub(whole);
        let shared = rest.checked_mul(steps).filter(|&steps| steps <= StreamOrder::MAX_STEPS)?;
        let ctas = resident.min(whole.max(shared)).max(1);
        let [sums, flags] = StreamOrder::workspace(rest, ctas, [m, n], threads);
        let order = StreamOrder::new(raster, steps, whole, ctas)?;
        Some(TileParts { order, ctas, sums, workspace: ((sums + flags) / 4) as usize })
    }

    /// The same with each tile and CTA being so many, whose tiles are [neighbours](StreamOrder::beside).
    #[cfg(feature = "gemm")]
    pub(in crate::ops) fn beside(self, tiles: u32) -> TileParts<true> {
        let times = tiles as usize;
        TileParts {
            order: self.order.beside(tiles),
            ctas: self.ctas * tiles,
            sums: self.sums * u64::from(tiles),
            workspace: self.workspace * times,
        }
    }
}

impl<const BESIDE: bool> TileParts<BESIDE> {
    /// The order of a launch with the workspace at `address`.
    pub(in crate::ops) fn order(&self, address: u64) -> StreamOrder<BESIDE> {
        self.order.with([address, address + self.sums], launch_number())
    }
}

/// Tiles that are taken whole where what fills no wave is divided: whole waves but for the last one, whose steps are divided with those of the rest, so that a
/// tile has few parts to be added.
pub(in crate::ops) fn whole_tiles(tiles: u32, resident: u32) -> u32 {
    match tiles % resident.max(1) {
        0 => tiles,
        rest => (tiles - rest).saturating_sub(resident),
    }
}
