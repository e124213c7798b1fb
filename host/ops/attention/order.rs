//! How many heads' tiles are taken together, so that all SMs are done at the same time.

/// What a tile costs beside its blocks of keys, in blocks: its load, its epilogue.
const TILE: u32 = 1;
/// Tiles for each CTA that are looked at: what follows repeats them.
const TILES: u32 = 32;

/// Heads to a group of [`TileOrder`](tilewright_device::kernels::attention::TileOrder): the power of two with which the CTAs,
/// each taking every `ctas`-th tile, are done earliest; the smallest of those, whose keys and values share the L2 cache best.
///
/// `blocks` is what each tile of a head costs. Where all cost the same that is 1. Where they do not (causal, windows),
/// larger groups have more tiles of one cost in a row; but a group of nearly as many tiles as there are CTAs, or twice as many, gives
/// the heaviest tiles of each group to the same CTAs.
pub(super) fn group(heads: u32, m: u32, ctas: u32, blocks: impl Fn(u32) -> u32) -> u32 {
    let even = m < 2 || [m / 2, m - 1].iter().all(|&tile| blocks(tile) == blocks(0));
    if even || heads.saturating_mul(m) <= ctas {
        return 1;
    }
    let looked_at = heads.min((TILES * ctas).div_ceil(m));
    let costs: Vec<u32> = (0..m).rev().map(|tile| blocks(tile) + TILE).collect();
    let groups = (0..u32::BITS).map(|bit| 1 << bit).take_while(|&group| group <= looked_at);
    groups.min_by_key(|&group| time(looked_at, group, ctas, &costs)).unwrap_or(1)
}

/// When the last CTA is done; `costs` are those of a head's tiles, in the order in which they are taken.
fn time(heads: u32, group: u32, ctas: u32, costs: &[u32]) -> u64 {
    // How much more each CTA has to do than the one before it.
    let mut more = vec![0i64; ctas as usize + 1];
    let mut next = 0;
    for first in (0..heads).step_by(group as usize) {
        let tiles = group.min(heads - first);
        for &cost in costs {
            let cost = i64::from(cost);
            more[0] += i64::from(tiles / ctas) * cost;
            let (begin, end) = (next, next + tiles % ctas);
            more[begin as usize] += cost;
            more[end.min(ctas) as usize] -= cost;
            next = if end < ctas { end } else { end - ctas };
            if end > ctas {
                more[0] += cost;
                more[next as usize] -= cost;
            }
        }
    }
    let mut total = 0;
    let loads = more[..ctas as usize].iter().map(|more| {
        total += more;
        total
    });
    loads.max().unwrap_or(0).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum that the differences stand for.
    fn slowly(heads: u32, group: u32, ctas: u32, costs: &[u32]) -> u64 {
        let mut loads = vec![0; ctas as usize];
        let mut next = 0;
        for first in (0..heads).step_by(group as usize) {
            for &cost in costs {
                for _ in 0..group.min(heads - first) {
                    loads[next] += u64::from(cost);
                    next = (next + 1) % ctas as usize;
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
            for group in [1, 2, 4, 8, 16].into_iter().filter(|&group| group <= heads) {
                let expected = slowly(heads, group, ctas, &costs);
                assert_eq!(time(heads, group, ctas, &costs), expected, "{heads} {m} {ctas} {group}");
            }
        }
    }

    #[test]
    fn causal_groups_are_those_measured_best_on_an_h200() {
        // Heads, tiles of a head and blocks to a tile.
        for (heads, m, blocks, best) in [
            (64, 32, 1, 2),   // 4096, 128
            (256, 8, 1, 4),   // 1024, 128
            (512, 4, 1, 4),   // 512, 128
            (128, 32, 1, 4),  // 4096, 64
            (32, 32, 2, 1),   // 4096, 256
            (16, 128, 1, 16), // 16384, 128
        ] {
            assert_eq!(group(heads, m, 132, |tile| (tile + 1) * blocks), best, "{heads} {m}");
        }
    }

    #[test]
    fn tiles_of_one_cost_go_head_by_head() {
        assert_eq!(group(64, 32, 132, |_| 32), 1);
        assert_eq!(group(64, 1, 132, |_| 32), 1);
        assert_eq!(group(4, 32, 132, |tile| tile), 1);
        assert_eq!(group(0, 32, 132, |tile| tile), 1);
    }
}
