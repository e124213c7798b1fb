//! The time of a kernel: waves of tiles, each a number of steps.

use super::choose::Estimate;
use super::problem::Size;
use super::table::{Compiled, lines_read};
use crate::Arch;
use crate::backend::H200_MEMORY_RATE;

/// Depth that the estimate counts in.
pub(super) const STEP: u64 = 64;

/// Cycles that a step of a tile takes longer of which TMA finds so many lines outside of the tensor.
///
/// Products of 128 to 256 rows by 5120 x 8192 on an H200 (2026-11-27), in cycles of 1.755 GHz: tiles of 128 rows, of which the last has 8 outside, took 575 cycles a step, as
/// those inside; with 32 outside 750, with 64 860, with 120 975.
pub(super) fn outside(lines: u64) -> u64 {
    (6 * lines).min(150 + 2 * lines)
}

/// Whether tiles are small, and one's depth is not divided: one warpgroup of Hopper's computes each.
pub(super) fn of_one_warpgroup(kernel: &Compiled) -> bool {
    kernel.arch == Arch::Sm90a && kernel.consumers == 128 && kernel.split == 1
}

/// How a product is cut into a kernel's tiles, or those that a cluster takes together.
pub(super) struct Tiles {
    /// Rows and columns of a tile.
    pub(super) m: u64,
    pub(super) n: u64,
    /// CTAs that take a tile together: each a part of its depth, or of its rows.
    pub(super) cluster: u64,
    pub(super) down: u64,
    pub(super) across: u64,
    /// Those of all matrices.
    pub(super) tiles: u64,
    /// Lines of B that are read for a tile.
    pub(super) read: u64,
}

impl Tiles {
    pub(super) fn of(kernel: &Compiled, size: Size) -> Self {
        let [m, n, _] = kernel.tile.map(u64::from);
        let (down, across) = ((size.m as u64).div_ceil(m), (size.n as u64).div_ceil(n));
        let tiles = (size.batch as u64).saturating_mul(down).saturating_mul(across);
        let read = lines_read(kernel, size.n).into();
        Tiles { m, n, cluster: kernel.cluster[0].into(), down, across, tiles, read }
    }
}

/// The time of a persistent kernel: waves of tiles, each a number of steps, each bound by the tensor cores, by what an SM receives, or by what
/// L2 delivers to all of them.
///
/// The constants are fitted to 44 products on an H200 (2026-11-23): 28 elements of a tile take a cycle for each step of 64, 53 bytes arrive
/// a cycle, a tile's epilogue takes a cycle for 8 elements, a launch 3000, and handing over a piece of partial sums 1000. `mma.sync` has half of
/// that rate, element-wise loads a quarter, and a launch of those 5500 (14 products of odd lines, 2026-11-28). What that chooses takes 1.3 % longer than the fastest kernel, by geometric mean.
///
/// Under an epilogue a producer loads what comes next: a tile's time is that of its loads and its stores, or that of its products and its epilogue, whichever is longer; but the
/// last tile's epilogue, of 2 cycles for 15 elements, comes behind both. Clusters that are no split begin and end 700 cycles later. (20 products of a depth of 256 to 3072, on an
/// H200, 2026-11-28: what is chosen took 2.5 % longer than the fastest kernel before; 0.7 % now, of 33.) A producer that has few steps of a tile to load hides nothing.
///
/// Clusters receive 43 bytes a cycle where tiles have more than 64 columns, and of those of four CTAs 30 are taken to run at a time (19 products of 48 to 1000 rows on an H200,
/// 2026-11-27); tiles of one warpgroup, of which L2 delivers what there is, 60, or 68 where eight or
/// more tiles read the same lines of A (30 products on an H200, 2026-11-30). Where warpgroups take tiles in turn, the last tile's epilogue shows alone; a launch takes 3500 cycles
/// more, most of them where a warpgroup has no second tile (17 products on an H200, 2026-11-24; the order of their widths is the estimate's
/// but for two).
pub(super) fn estimate(
    kernel: &Compiled,
    size: Size,
    transposed: bool,
    [l2_rate, memory_rate]: [u64; 2],
    sms: u32,
) -> Estimate {
    let Tiles { m, n, cluster, down, across, tiles, read } = Tiles::of(kernel, size);
    let split = u64::from(kernel.split);
    let rows = m * split / cluster;
    let ctas = tiles.saturating_mul(cluster);
    let sms = u64::from(sms).max(1);
    let at_a_time = if cluster > 2 { (sms * 10 / 11).max(1) } else { sms };
    let waves = ctas.div_ceil(at_a_time);
    let hopper = kernel.arch == Arch::Sm90a;
    let slowness = match (hopper, kernel.any_strides) {
        (true, _) => 1,
        (_, false) => 2,
        (_, true) => 4,
    };
    let arrive = match (cluster, n) {
        (2.., 65..) => 43,
        (1, _) if of_one_warpgroup(kernel) && across < 8 => 60,
        (1, _) if of_one_warpgroup(kernel) => 68,
        _ => 53,
    };
    let bytes = (m + read) * split * STEP * 2 / cluster;
    let of_l2 = bytes.saturating_mul(ctas.min(sms)) / l2_rate;
    let [loads, products] = [(bytes / arrive).max(of_l2) * slowness, rows * n / 28 * slowness];
    let step = loads.max(products);
    let steps = (size.k as u64).div_ceil(STEP).div_ceil(split);
    // Two warpgroups' sums, in pieces of 32 KiB.
    let sums = if split > 1 { 1000 * (split - 1) * (rows * n * 2).div_ceil(32768) } else { 0 };
    let epilogue = rows * n / 8 + sums;
    let main = steps.saturating_mul(step);
    // Under a mainloop that is shorter an epilogue does not hide.
    let each = if kernel.apart && epilogue <= main { 0 } else { epilogue };
    let once = match (kernel.apart, kernel.any_strides) {
        (true, _) => epilogue + 6500,
        (_, false) => 3000 + if cluster > split { 700 } else { 0 },
        (_, true) => 5500,
    };
    let all = if kernel.apart || split > 1 || !hopper {
        waves.saturating_mul(main.saturating_add(each))
    } else {
        let others = waves.saturating_sub(1);
        let of_loads = steps.saturating_mul(loads);
        let before_last = if of_loads < epilogue * 5 / 4 {
            // A tile of so few steps hides no other's epilogue.
            waves.saturating_mul(main).saturating_add(others * epilogue)
        } else {
            let stores = (rows * n * 2).saturating_mul(ctas.min(sms)) / l2_rate;
            let of_loads = waves.saturating_mul(of_loads).saturating_add(others * stores);
            let of_products = waves.saturating_mul(steps.saturating_mul(products));
            of_loads.max(of_products.saturating_add(others * epilogue))
        };
        before_last.saturating_add(rows * n * 2 / 15)
    };
    // The last tiles down and across may have lines outside of the tensor.
    let last = |tiles: u64, tile: u64, size: usize, lines: u32| {
        let outside_of_it = (tiles * tile).saturating_sub(size as u64);
        // Kernels whose warpgroups take turns leave out whole boxes: of 64 lines of A, of `box_lines` of B.
        let lines = if kernel.apart { outside_of_it % u64::from(lines) } else { outside_of_it };
        // Of three tiles it costs half of what it does of two, of four hardly anything.
        let weight = 4u64.saturating_sub(tiles).min(2);
        steps.saturating_mul(outside(lines)).saturating_mul(waves).saturating_mul(weight) / 2
    };
    let ends = if hopper {
        last(down, m, size.m, 64).saturating_add(last(across, read, size.n, kernel.box_lines[0]))
    } else {
        0
    };
    // Small tiles are for few waves: 12 of 64 x 64 took 10 % longer for 100352x64x256 than a convolution's 128 x 64 (H200, 2026-11-30).
    let all = if of_one_warpgroup(kernel) && waves > 4 { all.saturating_add(all / 2) } else { all };
    let mut cycles = all.saturating_add(once).saturating_add(ends);
    if hopper {
        let memory_rate = memory_rate as u32;
        let read = of_memory(size, memory_rate);
        // Products of many rows hide it.
        if read.saturating_mul(4) > cycles {
            cycles = cycles.saturating_add(of_slower_memory(kernel, size, memory_rate));
        }
        cycles = cycles.max(read.saturating_add(once + epilogue));
    }
    Estimate { ctas, waves, cycles, transposed, copied: [false; 2] }
}

/// Cycles that memory of so many GB/s takes to bring A and B once: 0.85 of its rate arrives, at 1.755 GHz.
pub(super) fn of_memory(size: Size, memory_rate: u32) -> u64 {
    let Size { batch, m, n, k } = size;
    let lines = (batch as u64).saturating_mul(m as u64 + n as u64);
    lines.saturating_mul(k as u64).saturating_mul(2) / (u64::from(memory_rate) * 850 / 1755).max(1)
}

/// What several tiles beside each other take longer where memory is slower than an H200's, since their CTAs bring the same lines to L2 at different times: 60 products of 48 to 1200
/// rows, on an H100 and on an H200 (2026-11-27). What CTAs of a cluster share they bring once (65 products on an H100, 2026-11-28).
fn of_slower_memory(kernel: &Compiled, size: Size, memory_rate: u32) -> u64 {
    if size.n <= kernel.tile[1] as usize || kernel.row_major[2] {
        return 0;
    }
    let longer = of_memory(size, memory_rate).saturating_sub(of_memory(size, H200_MEMORY_RATE));
    let sharing = u64::from((kernel.cluster[0] / kernel.split).max(1));
    longer / 10 * 13 / sharing
}

/// What in-turn kernels take longer because CTAs do not keep step: they read the same lines at different times, and what one has brought to L2 is
/// gone when the next one wants it. It grows with the steps that a CTA has behind it, and begins where a tile's depth is more than L2 holds
/// of a wave.
///
/// Fitted to 15 products on an H100 of 3352 GB/s (2026-11-27), where 4096x28672x8192 read 5.6 GB in tiles of 128 columns and 2.0 GB in those of 128 x
/// 256, whose two warpgroups share a tile. An H200's memory hides most of it: its products of 3500 steps are fastest in turn.
pub(super) fn out_of_step(kernel: &Compiled, estimate: Estimate, k: usize, memory_rate: u32) -> u64 {
    // 20 of an H200, 94 of an H100.
    let slow = u64::from((160 * H200_MEMORY_RATE / memory_rate.max(1)).saturating_sub(140).min(100));
    let steps = (k as u64).div_ceil(STEP);
    let behind = estimate.waves.saturating_mul(steps).saturating_sub(4000 - 25 * slow).min(20_000);
    let deep = steps.saturating_sub(64).min(64);
    // Narrow tiles read more for each product.
    let narrow = if kernel.tile[1] <= 144 { 2 } else { 1 };
    // 25 a step of a narrow tile at full depth where memory is slow.
    let millionths = 25 * behind * narrow / 2 * deep / 64 * slow / 100;
    estimate.cycles.saturating_mul(millionths) / 1_000_000
}
