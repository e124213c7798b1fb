//! How many heads' tiles are taken together, so that all SMs are done at the same time.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tilewright_device::kernels::attention::Keys;

/// What a tile costs beside its blocks of keys, in blocks: its load, its epilogue.
const TILE: u32 = 1;
/// Tiles for each CTA that are looked at: what follows repeats them.
const TILES: u32 = 32;
/// Keys and values beyond so many bytes do not stay in the L2 cache, which takes as much longer as the second number is
/// hundredths: measured on an H200, with causal masks over 4096 keys.
const CACHE: (u64, u64) = (32 << 20, 4);

/// An order of tiles: heads to a group of [`TileOrder`](tilewright_device::kernels::attention::TileOrder), and whether CTAs turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) group: u32,
    pub(super) turns: bool,
}

/// What the order of tiles depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Work {
    /// Of all sequences.
    pub(super) heads: u32,
    /// Tiles of a head.
    pub(super) m: u32,
    pub(super) ctas: u32,
    /// Bytes of keys and values for each head.
    pub(super) bytes: u64,
    /// Queries of a tile, keys of a block, and which keys queries see: they say how many blocks a tile sees.
    pub(super) tile: [u32; 2],
    pub(super) keys: Keys,
}

/// Orders that were found before: finding one takes longer than a launch.
static FOUND: LazyLock<Mutex<HashMap<Work, Order>>> = LazyLock::new(Mutex::default);
/// As many as are kept.
const KEPT: usize = 1024;

impl Work {
    /// The order with which the CTAs, each taking one of every `ctas` tiles, are done earliest, given the blocks of keys of each
    /// tile; the smallest groups of those, whose keys and values share the L2 cache best.
    ///
    /// Where all tiles cost the same the heads are taken one by one. Where they do not (causal, windows), larger groups have more
    /// tiles of one cost in a row, and turning gives who has a heavy tile a light one next; but groups that do not fit the CTAs give
    /// the heaviest tiles of each to the same ones.
    pub(super) fn order(self, blocks: impl Fn(u32) -> u32) -> Order {
        let even = self.m < 2 || [self.m / 2, self.m - 1].iter().all(|&tile| blocks(tile) == blocks(0));
        if even || self.heads.saturating_mul(self.m) <= self.ctas {
            return Order { group: 1, turns: false };
        }
        let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&order) = found().get(&self) {
            return order;
        }
        let order = self.find(blocks);
        let mut found = found();
        if found.len() >= KEPT {
            found.clear();
        }
        found.insert(self, order);
        order
    }

    fn find(&self, blocks: impl Fn(u32) -> u32) -> Order {
        let looked_at = self.heads.min((TILES * self.ctas).div_ceil(self.m));
        let costs: Vec<u32> = (0..self.m).rev().map(|m| blocks(m) + TILE).collect();
        let time = |order: &Order| {
            let cached = self.bytes.saturating_mul(u64::from(order.group)) <= CACHE.0;
            time(looked_at, *order, self.ctas, &costs) * if cached { 100 } else { 100 + CACHE.1 }
        };
        let steps = [2, 3].map(|first| (0..u32::BITS - 2).map(move |bit| first << bit));
        let mut groups: Vec<u32> = steps.into_iter().flatten().chain([1, looked_at]).collect();
        groups.retain(|&group| group <= looked_at);
        groups.sort_unstable();
        let orders = groups.into_iter().flat_map(|group| [false, true].map(|turns| Order { group, turns }));
        orders.min_by_key(time).unwrap_or(Order { group: 1, turns: false })
    }
}

/// When the last CTA is done; `costs` are those of a head's tiles, in the order in which they are taken.
fn time(heads: u32, order: Order, ctas: u32, costs: &[u32]) -> u64 {
    // How much more each place of a wave costs than the one before it, in waves forwards and backwards.
    let mut more = [vec![0i64; ctas as usize + 1], vec![0i64; ctas as usize + 1]];
    let (mut next, mut wave) = (0, 0);
    for first in (0..heads).step_by(order.group as usize) {
        for &cost in costs {
            let (cost, mut tiles) = (i64::from(cost), order.group.min(heads - first));
            while tiles > 0 {
                let taken = tiles.min(ctas - next);
                let backwards = usize::from(order.turns && wave % 2 == 1);
                more[backwards][next as usize] += cost;
                more[backwards][(next + taken) as usize] -= cost;
                (tiles, next) = (tiles - taken, next + taken);
                if next == ctas {
                    (next, wave) = (0, wave + 1);
                }
            }
        }
    }
    let [forwards, backwards] = more.map(|more| {
        let sums = more[..ctas as usize].iter().scan(0, |sum, more| {
            *sum += more;
            Some(*sum)
        });
        sums.collect::<Vec<i64>>()
    });
    let loads = forwards.iter().zip(backwards.iter().rev()).map(|(forwards, backwards)| forwards + backwards);
    loads.max().unwrap_or(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum that the differences stand for.
    fn slowly(heads: u32, order: Order, ctas: u32, costs: &[u32]) -> u64 {
        let (mut loads, mut at) = (vec![0; ctas as usize], 0);
        for first in (0..heads).step_by(order.group as usize) {
            for &cost in costs {
                for _ in 0..order.group.min(heads - first) {
                    let (wave, place) = (at / ctas, at % ctas);
                    let back = order.turns && wave % 2 == 1;
                    loads[if back { ctas - 1 - place } else { place } as usize] += u64::from(cost);
                    at += 1;
                }
            }
        }
        loads.into_iter().max().unwrap()
    }

    #[test]
    fn times_are_those_of_the_slowest_cta() {
        for (heads, m, ctas) in [(1, 5, 3), (16, 4, 132), (7, 32, 132), (300, 2, 132), (50, 3, 7), (12, 8, 4)]
        {
            let costs: Vec<u32> = (1..=m).rev().collect();
            for group in [1, 2, 3, 4, 8, 16].into_iter().filter(|&group| group <= heads) {
                for turns in [false, true] {
                    let order = Order { group, turns };
                    let expected = slowly(heads, order, ctas, &costs);
                    assert_eq!(time(heads, order, ctas, &costs), expected, "{heads} {m} {ctas} {order:?}");
                }
            }
        }
    }

    fn order(heads: u32, m: u32, megabytes: u64, blocks: impl Fn(u32) -> u32) -> Order {
        let keys = Keys { count: 0, low: 0, high: blocks(0) as i32 };
        Work { heads, m, ctas: 132, bytes: megabytes << 20, tile: [128, 128], keys }.order(blocks)
    }

    #[test]
    fn causal_orders_are_those_measured_best_on_an_h200() {
        let causal = |tile| tile + 1;
        // 16384 keys of 16 heads: all at once, turning.
        assert_eq!(order(16, 128, 8, causal), Order { group: 16, turns: true });
        assert_eq!(order(8, 128, 16, |tile| 2 * (tile + 1)), Order { group: 8, turns: true });
        // 4096 keys: few heads, that the cache holds.
        assert!(order(64, 32, 2, causal).group <= 16);
        assert_eq!(order(32, 32, 4, |tile| 2 * (tile + 1)), Order { group: 1, turns: true });
        assert_eq!(order(128, 32, 1, causal), Order { group: 12, turns: false });
    }

    #[test]
    fn tiles_of_one_cost_go_head_by_head() {
        let one_by_one = Order { group: 1, turns: false };
        assert_eq!(order(64, 32, 1, |_| 32), one_by_one);
        assert_eq!(order(64, 1, 1, |_| 32), one_by_one);
        assert_eq!(order(4, 32, 1, |tile| tile), one_by_one);
        assert_eq!(order(0, 32, 1, |tile| tile), one_by_one);
    }
}
