//! How CTAs divide the depth of tiles that fill no wave.

use tilewright_device::tile::RasterOrder;

use super::choose::{Estimate, SINGLE};
use super::estimate::{STEP, Tiles, of_memory, outside};
use super::plan::PANEL;
use super::problem::Size;
use super::table::Compiled;
use crate::ops::frame::{TileParts, whole_tiles};

/// The most CTAs that a tile's depth is divided among: the one that adds up their sums reads them one after the other. Tiles of fewer elements have shorter sums.
const MOST_PARTS: u32 = 8;
const MOST_PARTS_OF_SMALL: u32 = 16;
/// Elements of a small tile.
const SMALL: u32 = 4096;
/// The least depth that a CTA takes of a tile, where CTAs are enough to take less.
const LEAST_DEPTH: u32 = 6 * STEP as u32;

/// Who takes what of tiles of so many steps, where so many CTAs run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// Tiles that CTAs take whole, in turn.
    pub(super) whole: u32,
    /// CTAs that divide the steps of the others.
    pub(super) ctas: u32,
    /// Steps that each of them has.
    pub(super) steps: u64,
}

/// How a kernel's tiles may be divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisible {
    /// The most parts of one.
    most: u32,
    /// The fewest steps of a part.
    fewest: u32,
    /// Whether steps behind the depth, which are of zeros, may make parts equal.
    padded: bool,
}

impl Divisible {
    /// Those of a kernel whose steps have so much depth, where it has memory for sums.
    pub(super) fn of(kernel: &Compiled, depth: u32, memory: bool) -> Self {
        let [m, n, _] = kernel.tile;
        let [most, least] =
            if m * n <= SMALL { [MOST_PARTS_OF_SMALL, LEAST_DEPTH / 2] } else { [MOST_PARTS, LEAST_DEPTH] };
        let (most, padded) = (if memory { most } else { 1 }, kernel.input == SINGLE);
        Divisible { most, fewest: (least / depth.max(1)).max(1), padded }
    }

    /// Parts of each tile and their steps, where equal parts of one tile each are enough for nearly all CTAs that run at a time: a CTA with parts of two tiles
    /// fills its pipeline twice.
    fn even(self, tiles: u32, steps: u32, resident: u32) -> Option<[u32; 2]> {
        if !self.padded {
            return None;
        }
        let most = (resident / tiles.max(1)).min(self.most).min(steps / self.fewest);
        if most < 2 {
            return None;
        }
        let part = steps.div_ceil(most);
        let parts = steps.div_ceil(part);
        (tiles * parts * 10 >= resident * 8 || most == self.most).then_some([parts, part])
    }
}

impl Shares {
    /// Those of tiles that may have more steps than their depth: with the steps of each.
    pub(super) fn padded(tiles: u32, steps: u32, resident: u32, divisible: Divisible) -> (u32, Self) {
        match divisible.even(tiles, steps, resident) {
            Some([parts, part]) => {
                (parts * part, Shares { whole: 0, ctas: tiles * parts, steps: part.into() })
            }
            None => (steps, Self::of(tiles, steps, resident, divisible)),
        }
    }

    fn of(tiles: u32, steps: u32, resident: u32, divisible: Divisible) -> Self {
        let resident = resident.max(1);
        let Divisible { most, fewest, .. } = divisible;
        let whole = if most > 1 { whole_tiles(tiles, resident) } else { tiles };
        let rest = u64::from(tiles - whole) * u64::from(steps);
        let ctas = if whole > 0 {
            resident
        } else {
            let most = (steps / fewest).clamp(1, most);
            let some = resident.min(tiles.saturating_mul(most));
            // Where as many CTAs as have equal parts of one tile each are nearly all, sums are handed over once.
            let even = some - some % tiles.max(1);
            if even * 20 >= some * 19 { even } else { some }
        };
        Shares { whole, ctas, steps: rest.div_ceil(u64::from(ctas.max(1))) }
    }

    /// Parts of a tile of so many steps whose sums are added up: 1 where it is whole.
    pub(super) fn parts(&self, steps: u64) -> u64 {
        if self.steps.is_multiple_of(steps.max(1)) { 1 } else { steps.div_ceil(self.steps).max(2) }
    }
}

/// The most tiles along N that are taken at the same time.
pub(super) const MOST_BESIDE: u32 = 8;

/// How many neighbours along N, of so many tiles, are taken at the same time: all, so that what they read of A is read once.
///
/// Where other kernels leave a launch few SMs, as many CTAs hold theirs while they wait for later ones to begin. So they are at most a quarter of what runs at a time: four
/// such launches never hold all SMs.
pub(super) fn beside(across: u64, resident: u64) -> u64 {
    if across <= (resident / 4).min(MOST_BESIDE.into()) { across.max(1) } else { 1 }
}

/// The division for a launch of a kernel that divides tiles, if it has memory for sums, with so many CTAs at a time; `None` when there are too many tiles or steps.
pub(super) fn tile_parts(
    kernel: &Compiled,
    [down, across, batch]: [u32; 3],
    depth: usize,
    resident: u32,
    memory: bool,
) -> Option<TileParts<true>> {
    let [m, n, k] = kernel.tile;
    let steps = u32::try_from(depth.div_ceil(k as usize)).ok()?;
    let beside = beside(across.into(), resident.into()) as u32;
    let raster = RasterOrder::new(batch, down, across / beside, PANEL)?;
    let divisible = Divisible::of(kernel, k, memory);
    let (steps, shares) = Shares::padded(raster.total(), steps, resident / beside, divisible);
    let threads = kernel.consumers * kernel.cluster[0];
    let parts = TileParts::new(raster, steps, shares.whole, shares.ctas, [m, n], threads)?;
    Some(parts.beside(beside))
}

/// The time of a kernel that divides tiles: steps, each bound by the tensor cores, by what an SM receives, or by what L2 delivers to all of them, and
/// parts of a tile, of which a CTA writes one and reads those of others.
///
/// The constants are fitted to 33 products of 72 to 1000 rows on an H100 (2026-11-27), in cycles of 1.755 GHz. Of tiles that are not divided 27 elements take a cycle for each step of 64 and 52
/// bytes arrive a cycle; of those that are, whose CTAs read at different depths, 24 and 48. Handing over a part takes 1500 cycles and one for each 40 bytes of its sums (65 products there, 2026-11-28). Lines outside of
/// the tensor, of which each CTA of a cluster copies a share, cost half of what they do elsewhere. Where no tile is divided a launch takes 1200 cycles more (7 products on an H200,
/// 2026-11-28). Memory brings lines that several divided tiles share 1.5 times.
pub(super) fn estimate(
    kernel: &Compiled,
    size: Size,
    transposed: bool,
    [l2_rate, memory_rate]: [u64; 2],
    sms: u32,
) -> Estimate {
    let Tiles { m, n, cluster, down, across, tiles, read } = Tiles::of(kernel, size);
    let rows = m / cluster;
    let sms = u64::from(sms).max(1);
    let resident = (if cluster > 2 { sms * 10 / 11 } else { sms } / cluster).max(1);
    let beside = beside(across, resident);
    let steps = (size.k as u64).div_ceil(STEP);
    let least = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
    let units = (resident / beside).max(1);
    let divisible = Divisible::of(kernel, STEP as u32, true);
    let shares = Shares::of(least(tiles / beside), least(steps), least(units), divisible);
    let ctas = u64::from(shares.ctas) * beside * cluster;
    let of_l2 = ((m + read) * STEP * 2 / cluster).saturating_mul(ctas) / l2_rate;
    let waves = u64::from(shares.whole).div_ceil(units);
    let in_all = waves.saturating_mul(steps).saturating_add(shares.steps);
    // Threads store what a box would have more columns of.
    let epilogue = rows * n / 8 + if read < n { 600 } else { 0 };
    let parts = shares.parts(steps);
    let [products, bytes] = if parts == 1 { [27, 52] } else { [24, 48] };
    let step = (rows * n / products).max((rows + read) * STEP * 2 / bytes).max(of_l2);
    let handed = if parts == 1 { 0 } else { parts * (1500 + rows * n * 4 / 40) };
    // Who has the last tiles, down and across, has lines outside of the tensor.
    let lacks = (down * m).saturating_sub(size.m as u64).min(rows);
    let lines = (outside(lacks) + outside((across * read).saturating_sub(size.n as u64) / cluster)) / 2;
    let main = in_all.saturating_mul(step).saturating_add(steps.min(in_all).saturating_mul(lines));
    let once = of_memory(size, memory_rate as u32);
    let cycles = main.max(if across == 1 || parts == 1 { once } else { once / 2 * 3 });
    let cycles = cycles
        .saturating_add((waves + u64::from(shares.steps > 0)).saturating_mul(epilogue))
        .saturating_add(handed + if parts == 1 { 4200 } else { 3000 });
    Estimate { ctas, waves: waves + u64::from(shares.steps > 0), cycles, transposed, copied: [false; 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_EIGHTS: Divisible = Divisible { most: 8, fewest: 6, padded: false };

    #[test]
    fn all_steps_are_shared_by_ctas_that_run_at_a_time() {
        for (tiles, steps, resident) in
            [(1, 1, 1), (1, 300, 132), (3, 5, 66), (40, 128, 132), (66, 20, 66), (80, 80, 66), (1000, 7, 30)]
        {
            let Shares { whole, ctas, steps: part } = Shares::of(tiles, steps, resident, IN_EIGHTS);
            assert!(whole <= tiles && ctas <= resident && ctas > 0, "{tiles} {steps} {resident}");
            let rest = u64::from(tiles - whole) * u64::from(steps);
            assert!(
                part * u64::from(ctas) >= rest && whole.is_multiple_of(resident),
                "{tiles} {steps} {resident}"
            );
        }
    }

    #[test]
    fn shares_that_are_nearly_even_are_even() {
        // 64 tiles, of which two CTAs have a half each; 132 would have parts of two.
        assert_eq!(Shares::of(64, 128, 132, IN_EIGHTS), Shares { whole: 0, ctas: 128, steps: 64 });
        assert_eq!(Shares::of(64, 128, 132, IN_EIGHTS).parts(128), 2);
        assert_eq!(Shares::of(66, 20, 66, IN_EIGHTS).parts(20), 1);
        // A tile's sums are added up by one CTA.
        assert_eq!(Shares::of(1, 1000, 132, IN_EIGHTS).ctas, 8);
        // Without memory for sums they are whole.
        let whole = Divisible { most: 1, ..IN_EIGHTS };
        assert_eq!(Shares::of(200, 8, 132, whole), Shares { whole: 200, ctas: 132, steps: 0 });
        // Few steps are not worth it.
        assert_eq!(Shares::of(10, 4, 132, IN_EIGHTS), Shares { whole: 0, ctas: 10, steps: 4 });
    }

    #[test]
    fn parts_are_made_equal() {
        let padded = Divisible { padded: true, ..IN_EIGHTS };
        let whole = |ctas, steps| Shares { whole: 0, ctas, steps };
        // 43 steps a part are 344 in eight; five of 69 are one more than there are.
        assert_eq!(Shares::padded(32, 344, 264, padded), (344, whole(256, 43)));
        assert_eq!(Shares::padded(50, 344, 264, padded), (345, whole(250, 69)));
        // Too many tiles for two parts of each, and too few CTAs that would have one.
        for tiles in [140, 100] {
            let shared = Shares::of(tiles, 344, 264, padded);
            assert_eq!(Shares::padded(tiles, 344, 264, padded), (344, shared), "{tiles}");
        }
    }

    #[test]
    fn few_neighbours_go_together() {
        assert_eq!([1, 3, 8, 9].map(|across| beside(across, 66)), [1, 3, 8, 1]);
        assert_eq!([7, 8].map(|across| beside(across, 30)), [7, 1], "a quarter");
    }
}
