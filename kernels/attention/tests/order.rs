//! How attention shares out its work: every tile and every part is taken once, and blocks are those that queries see.

use std::collections::HashSet;

use tilewright_attention::{Cache, CodesOf, Keys, QueryTile, SplitOrder, TileOrder};
use tilewright_device::tile::PageTable;

/// Batch, heads, heads that share keys, tiles of a head.
const SHAPES: [[u32; 4]; 6] =
    [[1, 1, 1, 1], [1, 16, 1, 128], [4, 16, 4, 32], [3, 5, 5, 7], [2, 8, 2, 1], [16, 16, 1, 8]];

#[test]
fn tiles_are_taken_once() {
    for shape @ [batch, heads, shared_by, m] in SHAPES {
        for group in [1, 2, 3, 12, 33, 10_000] {
            for (ctas, turns) in [(132, false), (132, true), (7, true), (1, true), (1000, true)] {
                let order = TileOrder::new(shape, group, ctas, turns).expect("few tiles");
                let tiles: HashSet<_> = (0..order.total())
                    .map(|t| {
                        let QueryTile { batch, head, kv_head, m } = order.tile(t);
                        assert_eq!(kv_head, head / shared_by);
                        (batch, head, m)
                    })
                    .collect();
                let inside = |&(b, h, i): &(u32, u32, u32)| b < batch && h < heads && i < m;
                assert_eq!(tiles.len() as u32, batch * heads * m, "{shape:?} {group} {ctas} {turns}");
                assert!(tiles.iter().all(inside), "{shape:?} {group} {ctas} {turns}");
            }
        }
    }
}

#[test]
fn turning_gives_every_cta_as_much() {
    let (m, ctas) = (32, 132);
    let order = TileOrder::new([4, 33, 1, m], 33, ctas, true).expect("few tiles");
    let load =
        |cta: u32| (cta..order.total()).step_by(ctas as usize).map(|t| order.tile(t).m + 1).sum::<u32>();
    let loads: Vec<_> = (0..ctas).map(load).collect();
    let mean = loads.iter().sum::<u32>() / ctas;
    assert!(loads.iter().all(|load| load.abs_diff(mean) * 100 <= mean), "{loads:?}");
}

#[test]
fn too_many_tiles_are_refused() {
    assert!(TileOrder::new([1 << 16, 1 << 15, 1, 1], 1, 132, false).is_none());
    assert!(TileOrder::new([1 << 16, 1 << 16, 1, 1], 1, 132, false).is_none());
    assert!(SplitOrder::new::<64>(1 << 16, 1 << 10, 1, 1, 32).is_none());
    assert!(SplitOrder::new::<64>(1, 1, 1 << 16, 1 << 16, 1).is_none());
}

#[test]
fn parts_and_rows_are_taken_once() {
    for (batch, kv_heads, shared_by, queries, splits) in
        [(1, 8, 4, 1, 16), (3, 2, 7, 5, 1), (2, 1, 128, 2, 3), (5, 3, 1, 16, 4)]
    {
        let order = SplitOrder::new::<64>(batch, kv_heads, shared_by, queries, splits).expect("few parts");
        let parts: HashSet<_> = (0..order.total())
            .map(|t| {
                let part = order.part(t);
                assert!(part.batch < batch && part.kv_head < kv_heads && part.split < splits);
                (part.batch, part.kv_head, part.m, part.split)
            })
            .collect();
        let rows = queries * shared_by;
        assert_eq!(parts.len() as u32, batch * kv_heads * rows.div_ceil(64) * splits);
        for kv_head in 0..kv_heads {
            let places: HashSet<_> = (0..rows).filter_map(|row| order.row(kv_head, row)).collect();
            assert_eq!(places.len() as u32, rows);
            let own = |&(query, head): &(u32, u32)| query < queries && head / shared_by == kv_head;
            assert!(places.iter().all(own), "{places:?}");
            assert_eq!(order.row(kv_head, rows), None);
        }
        for m in 0..rows.div_ceil(64) {
            let (first, last) = order.queries::<64>(m);
            assert_eq!(first, (m * 64 / shared_by) as i32);
            assert_eq!(last, ((m * 64 + 63).min(rows - 1) / shared_by) as i32);
        }
    }
}

/// Blocks of 16 keys of which some query from `first` to `last` sees a key, and those of which all see all keys.
fn seen(keys: &Keys, first: i32, last: i32) -> (HashSet<u32>, HashSet<u32>) {
    let sees = |i: i32, j: i32| j < keys.count && i + keys.low <= j && j <= i + keys.high;
    let blocks = 0..(keys.count as u32).div_ceil(16);
    let of = |block: u32| (block * 16) as i32..(block * 16 + 16) as i32;
    let any = |&block: &u32| (first..=last).any(|i| of(block).any(|j| sees(i, j)));
    let all = |&block: &u32| (first..=last).all(|i| of(block).all(|j| sees(i, j)));
    (blocks.clone().filter(any).collect(), blocks.filter(all).collect())
}

#[test]
fn blocks_are_those_that_queries_see() {
    let none = 1 << 20;
    for count in [0, 1, 15, 16, 17, 100, 128] {
        for own in [-20, 0, 5, 84] {
            for (left, right) in [(none, none), (none, 0), (20, 0), (3, 4), (0, 0), (40, none)] {
                let keys = Keys { count, low: own - left, high: own + right, own };
                for first in (0..100).step_by(8) {
                    let blocks = keys.blocks_of::<16>(first, first + 7);
                    let (any, all) = seen(&keys, first, first + 7);
                    let found: HashSet<u32> = blocks.all().collect();
                    assert!(any.is_subset(&found), "{keys:?} {first}: {any:?} in {found:?}");
                    let whole: HashSet<u32> = blocks.all().filter(|&j| blocks.whole(j)).collect();
                    assert!(whole.is_subset(&all), "{keys:?} {first}: {whole:?} in {all:?}");
                    if !any.is_empty() {
                        assert_eq!(found.len(), any.len(), "{keys:?} {first}: no block for nothing");
                        assert_eq!(whole, all, "{keys:?} {first}: no mask for nothing");
                    }
                    for parts in [1, 2, 3, 20] {
                        let together: Vec<u32> =
                            (0..parts).flat_map(|part| blocks.part(part, parts).all()).collect();
                        assert_eq!(together, blocks.all().collect::<Vec<_>>(), "{parts} parts");
                    }
                }
            }
        }
    }
}

#[test]
fn caches_without_lengths_are_full() {
    let cache = Cache {
        pages: PageTable::NONE,
        lengths: 0,
        capacity: 300,
        queries: 4,
        left: i32::MAX,
        right: 0,
        log2_bytes: 0,
        padding: 0,
        codes: CodesOf::NONE,
    };
    let keys = cache.keys_of(7);
    assert_eq!((keys.count, keys.high), (300, 296));
    assert!(keys.low < -(1 << 30));
    assert_eq!(PageTable::NONE.place(7, 299), (7, 299));
}

#[test]
fn tiles_of_keys_that_meet_a_block_of_queries_follow_each_other() {
    let none = i32::MAX;
    for keys in [1, 64, 127, 128, 129, 300, 640] {
        for queries in [1, 63, 64, 65, 200, 256, 513] {
            for (left, right) in [(none, none), (none, 0), (20, 0), (100, 30), (0, 0), (70, none)] {
                let own: i32 = keys - queries;
                let (low, high) = (own.saturating_sub(left), own.saturating_add(right));
                let seen = Keys { count: keys, low, high, own };
                // As a gradient's tiles walk, and as they count who comes before them.
                let by_keys = seen.mirrored(queries as u32);
                for j in 0..queries as u32 / 64 + u32::from(queries % 64 > 0) {
                    let meets = |&tile: &u32| by_keys.blocks::<128, 64>(tile).all().contains(&j);
                    let all: Vec<u32> = (0..(keys as u32).div_ceil(128)).filter(meets).collect();
                    let first = by_keys.mirrored(keys as u32).blocks::<64, 128>(j).all().start;
                    let following: Vec<u32> = (first..first + all.len() as u32).collect();
                    assert!(
                        all.is_empty() || all == following,
                        "{seen:?} {queries} {j}: {all:?} from {first}"
                    );
                }
            }
        }
    }
}
