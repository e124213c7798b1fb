//! How many heads' tiles are taken together, so that all SMs are done at the same time.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use tilewright_attention::{Keys, TileOrder};

use super::problem::Size;

/// What a tile costs beside its blocks of keys, in blocks: its load, its epilogue.
const TILE: u32 = 1;
/// Tiles for each CTA that are looked at: what follows repeats them.
const TILES: u32 = 32;
/// Heads to a group in orders that do not turn.
const PLAIN: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];
/// What turning costs, in hundredths: measured on an H200, hot, with causal masks.
const TURNING: u64 = 3;

/// An order of tiles: heads to a group of [`TileOrder`](tilewright_attention::TileOrder), and whether CTAs turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    group: u32,
    turns: bool,
}

/// What the order of tiles depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Work {
    /// Of all sequences.
    heads: u32,
    /// Tiles of a head.
    m: u32,
    ctas: u32,
    /// Queries of a tile, keys of a block, and which keys queries see: they say how many blocks a tile sees.
    tile: [u32; 2],
    keys: Keys,
}

/// Orders that were found before: finding one takes longer than a launch.
static FOUND: LazyLock<Mutex<HashMap<Work, Order>>> = LazyLock::new(Mutex::default);
/// As many as are kept.
const KEPT: usize = 1024;

/// The tiles of queries of an attention in the order that suits `ctas` CTAs, which take tiles of so many queries and blocks of so many keys; `None` if there are 2^31
/// or more.
pub(super) fn tiles(
    size: &Size,
    tile: [u32; 2],
    keys: &Keys,
    ctas: u32,
    blocks: impl Fn(u32) -> u32,
) -> Option<TileOrder> {
    let count = |n: usize| u32::try_from(n).ok();
    let &Size { batch, heads, kv_heads, queries, .. } = size;
    let (batch, heads, shared_by) = (count(batch)?, count(heads)?, count(heads / kv_heads.max(1))?);
    let m = count(queries.div_ceil(tile[0] as usize))?;
    let work = Work { heads: batch.checked_mul(heads)?, m, ctas, tile, keys: *keys };
    let Order { group, turns } = work.order(blocks);
    TileOrder::new([batch, heads, shared_by, m], group, ctas, turns)
}

impl Work {
    /// The order with which the CTAs, each taking one of every `ctas` tiles, are done earliest, given the blocks of keys of each
    /// tile; the smallest groups of those, whose keys and values share the L2 cache best.
    ///
    /// Where all tiles cost the same the heads are taken one by one. Where they do not (causal, windows), larger groups have more
    /// tiles of one cost in a row; but groups that do not fit the CTAs give the heaviest tiles of each to the same ones. In
    /// groups of whole pairs of waves CTAs can turn: who has a heavy tile has a light one next.
    fn order(self, blocks: impl Fn(u32) -> u32) -> Order {
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
            let hundredths = if order.turns { 100 + TURNING } else { 100 };
            time(looked_at, *order, self.ctas, &costs) * hundredths
        };
        let pair = 2 * self.ctas / gcd(2 * self.ctas, self.m);
        let plain = PLAIN.map(|group| Order { group, turns: false });
        let turning = [pair, 2 * pair, self.heads].map(|group| Order { group, turns: true });
        let mut orders: Vec<Order> = plain
            .into_iter()
            .chain(turning)
            .filter(|order| order.group <= looked_at && order.group > 0)
            .collect();
        orders.sort_unstable_by_key(|order| order.group);
        // Larger groups where they gain a hundredth.
        let first = Order { group: 1, turns: false };
        let better = |best: (u64, Order), next: Order| {
            let time = time(&next);
            if time * 100 < best.0 * 99 { (time, next) } else { best }
        };
        orders.into_iter().fold((time(&first), first), better).1
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
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

    fn order(heads: u32, m: u32, blocks: impl Fn(u32) -> u32) -> Order {
        let keys = Keys { count: 0, low: 0, high: blocks(0) as i32, own: 0 };
        Work { heads, m, ctas: 132, tile: [128, 128], keys }.order(blocks)
    }

    #[test]
    fn causal_orders_are_those_measured_best_on_an_h200() {
        for (heads, m, blocks, group, turns) in [
            (16, 128, 1, 16, true),  // 16384, 128
            (8, 128, 2, 8, true),    // 16384, 256
            (64, 32, 1, 33, true),   // 4096, 128
            (32, 32, 2, 32, true),   // 4096, 256
            (128, 32, 1, 12, false), // 4096, 64
            (256, 8, 1, 4, false),   // 1024, 128
            (512, 8, 1, 12, false),  // 1024, 64
            (512, 4, 1, 4, false),   // 512, 128
        ] {
            let best = order(heads, m, |tile| (tile + 1) * blocks);
            assert_eq!(best, Order { group, turns }, "{heads} {m}");
        }
    }

    #[test]
    fn tiles_of_one_cost_go_head_by_head() {
        let one_by_one = Order { group: 1, turns: false };
        assert_eq!(order(64, 32, |_| 32), one_by_one);
        assert_eq!(order(64, 1, |_| 32), one_by_one);
        assert_eq!(order(4, 32, |tile| tile), one_by_one);
        assert_eq!(order(0, 32, |tile| tile), one_by_one);
    }
}
