//! Into how many parts the walks of tiles of keys are divided.

use tilewright_attention::Keys;
use tilewright_attention::gradient::{SUMMING, SummingKernel};
use tilewright_device::kernel::Listed;

use super::choose::{Compiled, cycles_of_step};
use super::problem::Problem;
use crate::ops::attention::problem::Size;
use crate::ops::frame::Cycles;
use crate::{Error, Result};

/// Cycles of a tile beside its steps, on an H200.
const TILE: u64 = 6000;
/// Bytes of parts that all SMs together write or read in a cycle.
const BYTES: u64 = 1500;
/// A step takes five thirds of the cycles that are reckoned from its products.
const SLOWER: [u64; 2] = [5, 3];
/// The most tiles of a head that are looked at.
const SAMPLES: u64 = 16;
/// The most parts that are chosen, and that may be asked for.
const CHOSEN: u32 = 16;
const MOST: usize = 1024;

/// What adds up the parts of a kernel's tiles.
pub(super) fn summing(kernel: &Compiled) -> Option<&'static Listed<SummingKernel>> {
    let tile = [kernel.tile[0], kernel.columns[0]];
    SUMMING.iter().find(|k| kernel.adds && (k.element, k.tile) == (kernel.element, tile))
}

/// Blocks of a head's queries that tiles of keys walk over: of the longest walk, and thousandths of the mean of them.
struct Walks {
    longest: u64,
    mean: u64,
}

impl Problem {
    /// Checks a number of parts that was asked for.
    pub(super) fn expect_splits(splits: Option<usize>) -> Result<()> {
        match splits {
            Some(splits) if splits == 0 || splits > MOST => {
                Err(Error::argument("splits", splits.to_string(), format!("1 to {MOST}")))
            }
            _ => Ok(()),
        }
    }

    /// The parts into which such a kernel's walks are divided: as many as were asked for, or those with which all of it takes the least time. Few tiles leave SMs idle, or
    /// those of the longest walks at work alone.
    pub(super) fn parts(&self, kernel: &Compiled) -> u32 {
        let Size { batch, kv_heads, queries, keys, .. } = self.size;
        if !kernel.adds || queries == 0 {
            return 1;
        }
        if let Some(splits) = self.splits {
            return splits as u32;
        }
        let (sms, [m, n]) = (u64::from(self.device.sm_count()).max(1), kernel.tile.map(u64::from));
        let tiles = (keys as u64).div_ceil(m);
        let all = tiles.saturating_mul((batch * kv_heads) as u64);
        // Each SM has several of them.
        if all == 0 || all > 4 * sms {
            return 1;
        }
        let (shared, walks) = (u64::from(self.ranges.shared_by), self.walks(tiles, [m, n]));
        let step = cycles_of_step(kernel) * SLOWER[0] / SLOWER[1];
        let even = 4 * walks.longest * 1000 <= 5 * walks.mean;
        let in_turn = self.in_turn(kernel);
        let cycles = |&parts: &u32| {
            let parts = u64::from(parts);
            // Of a walk of so many thousandths of a block of each head; in turn parts are of whole heads.
            let part = |walk: u64| {
                let heads = if in_turn { shared.div_ceil(parts) * 1000 } else { shared * 1000 / parts };
                (walk.saturating_mul(heads) / 1000).saturating_mul(step).max(1000 * step) / 1000
            };
            let (longest, mean) = (part(walks.longest * 1000), part(walks.mean));
            let units = all * parts;
            let walk = if even {
                units.div_ceil(sms).saturating_mul(mean)
            } else {
                longest.max(units.saturating_mul(mean) / sms + mean / 2)
            };
            let moved = units * m * u64::from(kernel.columns[0]) * 4 * 2 * 2;
            let summed = if parts == 1 { 0 } else { moved / BYTES + Cycles::of_launch(kernel.arch) };
            walk.saturating_add(units.div_ceil(sms) * TILE + summed)
        };
        (1..=CHOSEN).min_by_key(cycles).unwrap_or(1)
    }

    /// The walks of a head's tiles, as a few of these have them.
    fn walks(&self, tiles: u64, [m, n]: [u64; 2]) -> Walks {
        let Size { queries, keys, .. } = self.size;
        let seen = if self.ranges.is_packed == 0 {
            self.ranges.keys
        } else {
            // Of sequences that are as long as they may be.
            let (own, packed) = (keys as i32 - queries as i32, &self.ranges.packed);
            let (low, high) = (own.saturating_sub(packed.left), own.saturating_add(packed.right));
            Keys { count: keys as i32, low, high, own }
        };
        let seen = seen.mirrored(queries as u32);
        let of_tile = |tile: u64| {
            let first = (tile * m) as i32;
            let blocks = seen.blocks_of::<1>(first, first + m as i32 - 1).all();
            u64::from(blocks.end).div_ceil(n) - u64::from(blocks.start) / n
        };
        let samples = tiles.min(SAMPLES);
        let counts = (0..samples).map(|i| of_tile(i * (tiles - 1) / (samples - 1).max(1)));
        let (longest, sum) = counts.fold((0, 0), |(most, sum), count| (count.max(most), sum + count));
        Walks { longest: longest.max(1), mean: (sum * 1000 / samples.max(1)).max(1000) }
    }
}
