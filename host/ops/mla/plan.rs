//! Which blocks of keys each group of CTAs takes.
//!
//! CTAs that differ only in their tile of rows form a group. Sequences are given out to groups whole or, where that would leave
//! some groups with much less to do than others, cut into parts whose results a second kernel merges.

use tilewright_mla::Item;

/// Keys of a block.
pub const BLOCK: u32 = 64;
/// What a part costs beside its blocks, in blocks: loading the queries, storing the result.
const PART: u64 = 4;
/// What merging costs, in blocks, and how many of a sequence's parts cost one more.
const MERGING: u64 = 4;
const PARTS_A_BLOCK: u64 = 8;

/// Rows that see the same keys but for the last few: all positions of a sequence, or some of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The sequence.
    pub sequence: u32,
    /// Their first tile of its rows.
    pub tile: u32,
    /// The keys that they see.
    pub length: u32,
    /// How many positions they lack of as many as others have.
    pub missing: u32,
}

/// Rows whose result is merged from parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The sequence, and its first tile.
    pub sequence: u32,
    pub tile: u32,
    /// The first part's first tile.
    pub first: u32,
    /// How many parts; each has as many tiles as a group has CTAs.
    pub parts: u32,
}

/// The items of all groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The items: each group's first, then the others, to which `next` leads.
    pub items: Vec<Item>,
    /// The sequences that were cut.
    pub merged: Vec<Merged>,
    /// Tiles of parts.
    pub tiles: u32,
}

impl Plan {
    /// For these rows and `groups` groups of `tiles` CTAs; `splits` parts of each, or as many as seem good.
    pub fn new(rows: &[Rows], groups: u32, tiles: u32, splits: Option<u32>) -> Self {
        // Rows without keys have a block without keys.
        let blocks: Vec<u32> = rows.iter().map(|rows| rows.length.div_ceil(BLOCK).max(1)).collect();
        let lists = match splits {
            Some(parts) => longest_first(&blocks, parts, groups),
            None => balanced(&blocks, groups),
        };
        let mut plan = Plan { items: vec![Item::END; groups as usize], ..Plan::default() };
        // The parts of a sequence in the order of their keys, so that equal plans give equal results.
        let mut parts = vec![Vec::new(); rows.len()];
        for part in lists.iter().flatten() {
            parts[part.of as usize].push(part.begin);
        }
        let mut first = vec![Item::WHOLE; rows.len()];
        for (i, parts) in parts.iter_mut().enumerate().filter(|(_, parts)| parts.len() > 1) {
            parts.sort_unstable();
            first[i] = plan.tiles;
            let count = parts.len() as u32;
            let Rows { sequence, tile, .. } = rows[i];
            plan.merged.push(Merged { sequence, tile, first: plan.tiles, parts: count });
            plan.tiles += count * tiles;
        }
        for (group, list) in lists.iter().enumerate() {
            let mut last = None;
            for (turn, &Part { of, begin, end }) in list.iter().enumerate() {
                let i = of as usize;
                let slot = match first[i] {
                    Item::WHOLE => Item::WHOLE,
                    first => first + parts[i].partition_point(|&other| other < begin) as u32 * tiles,
                };
                let (Rows { sequence, tile, length, missing }, turn) = (rows[i], turn as u32);
                let rows = Item::rows_from(tile, missing);
                let item = Item { sequence, begin, end, length, turn, next: Item::NONE, slot, rows };
                let at = match last {
                    None => group,
                    Some(last) => {
                        let at = plan.items.len();
                        let last: &mut Item = &mut plan.items[last];
                        last.next = at as u32;
                        plan.items.push(item);
                        at
                    }
                };
                plan.items[at] = item;
                last = Some(at);
            }
        }
        plan
    }

    /// The items as the kernel reads them.
    pub fn words(&self) -> Vec<u32> {
        self.items.iter().flat_map(|item| item.words()).collect()
    }
}

/// Blocks `begin` to `end` of the keys of rows.
#[derive(Clone, Copy)]
struct Part {
    /// Which rows.
    of: u32,
    begin: u32,
    end: u32,
}

/// What each group takes.
type Lists = Vec<Vec<Part>>;

fn cost(blocks: u32) -> u64 {
    u64::from(blocks) + PART
}

/// What the busiest group has to do.
fn busiest(lists: &Lists) -> u64 {
    lists.iter().map(|list| list.iter().map(|part| cost(part.end - part.begin)).sum()).max().unwrap_or(0)
}

/// `parts` about equal parts of every sequence, none empty; the longest first, each to the group that has the least.
fn longest_first(blocks: &[u32], parts: u32, groups: u32) -> Lists {
    let mut all = Vec::new();
    for (of, &blocks) in blocks.iter().enumerate() {
        let parts = u64::from(parts.clamp(1, blocks));
        let cut = |part: u64| (part * u64::from(blocks) / parts) as u32;
        all.extend((0..parts).map(|part| Part { of: of as u32, begin: cut(part), end: cut(part + 1) }));
    }
    all.sort_by_key(|part| std::cmp::Reverse(part.end - part.begin));
    let mut lists = vec![Vec::new(); groups.max(1) as usize];
    let mut loads =
        std::collections::BinaryHeap::from_iter((0..lists.len()).map(|i| std::cmp::Reverse((0, i))));
    for part in all {
        if let Some(mut least) = loads.peek_mut() {
            lists[least.0.1].push(part);
            least.0.0 += cost(part.end - part.begin);
        }
    }
    lists
}

/// Whole sequences, or as few cuts as give every group about the same, whichever is done first.
fn balanced(blocks: &[u32], groups: u32) -> Lists {
    let whole = longest_first(blocks, 1, groups);
    let mut best = (busiest(&whole), whole);
    let total: u64 = blocks.iter().map(|&blocks| cost(blocks)).sum();
    let fair = total.div_ceil(u64::from(groups.max(1)));
    // More than a fair share makes fewer parts, which are cheaper to merge.
    for more in [0, fair / 4, fair / 2, fair, 2 * fair, 4 * fair, 8 * fair] {
        let Some(lists) =
            (0..).map(|i| fair + more + PART * i).find_map(|limit| filled(blocks, groups, limit))
        else {
            continue;
        };
        let mut parts = vec![0; blocks.len()];
        lists.iter().flatten().for_each(|part| parts[part.of as usize] += 1);
        let most = parts.into_iter().max().unwrap_or(0);
        let merging = if most > 1 { MERGING + most / PARTS_A_BLOCK } else { 0 };
        let load = busiest(&lists) + merging;
        if load < best.0 {
            best = (load, lists);
        }
    }
    best.1
}

/// Sequence after sequence, each group up to `limit`, if that is enough.
fn filled(blocks: &[u32], groups: u32, limit: u64) -> Option<Lists> {
    let mut lists = vec![Vec::new(); groups.max(1) as usize];
    let (mut group, mut load) = (0, 0);
    for (of, &blocks) in blocks.iter().enumerate() {
        let mut begin = 0;
        while begin < blocks {
            let left = blocks - begin;
            let room = (limit.max(PART + 1) - load).saturating_sub(PART) as u32;
            // No parts that cost more than they do.
            if u64::from(room.min(left)) < PART.min(u64::from(left)) && load > 0 {
                (group, load) = (group + 1, 0);
                continue;
            }
            let take = left.min(room.max(1));
            lists.get_mut(group)?.push(Part { of: of as u32, begin, end: begin + take });
            begin += take;
            load += cost(take);
            if load >= limit {
                (group, load) = (group + 1, 0);
            }
        }
    }
    Some(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of every group, in the order in which they are taken.
    fn taken(plan: &Plan, groups: u32) -> Vec<Vec<Item>> {
        let follow = |group| {
            let mut items = Vec::new();
            let mut at = group;
            while let Some(item) = plan.items.get(at as usize).filter(|item| **item != Item::END) {
                assert_eq!(item.turn, items.len() as u32, "items are counted");
                items.push(*item);
                at = item.next;
            }
            items
        };
        (0..groups).map(follow).collect()
    }

    /// Every block of every sequence is taken once, and parts have places of their own.
    fn check(lengths: &[u32], groups: u32, tiles: u32, splits: Option<u32>) -> Plan {
        let rows: Vec<_> = (0..)
            .zip(lengths)
            .map(|(sequence, &length)| Rows { sequence, tile: 0, length, missing: 0 })
            .collect();
        let plan = Plan::new(&rows, groups, tiles, splits);
        let mut parts = vec![Vec::new(); lengths.len()];
        for item in taken(&plan, groups).into_iter().flatten() {
            assert!(item.begin < item.end && item.length == lengths[item.sequence as usize]);
            parts[item.sequence as usize].push(item);
        }
        let mut slots = Vec::new();
        for (sequence, parts) in parts.iter_mut().enumerate() {
            parts.sort_by_key(|part| part.begin);
            let mut next = 0;
            for part in parts.iter() {
                assert_eq!(part.begin, next, "sequence {sequence}");
                next = part.end;
            }
            assert_eq!(next, lengths[sequence].div_ceil(BLOCK).max(1), "sequence {sequence}");
            let merged = plan.merged.iter().find(|merged| merged.sequence == sequence as u32);
            assert_eq!(merged.map_or(1, |merged| merged.parts), parts.len() as u32);
            for (part, item) in parts.iter().enumerate() {
                let slot = merged.map_or(Item::WHOLE, |merged| merged.first + part as u32 * tiles);
                assert_eq!(item.slot, slot, "sequence {sequence}, part {part}");
                slots.extend(merged.map(|_| slot));
            }
        }
        slots.sort_unstable();
        assert!(slots.iter().zip(1..).all(|(slot, i)| slot + tiles == i * tiles), "{slots:?}");
        assert_eq!(plan.tiles, slots.len() as u32 * tiles);
        plan
    }

    #[test]
    fn every_block_is_taken_once() {
        for lengths in [vec![0], vec![1, 64, 65, 0, 8191], vec![1000; 130], (0..99).map(|i| i * i).collect()]
        {
            for (groups, tiles) in [(1, 1), (4, 2), (66, 2), (132, 1), (16, 8)] {
                for splits in [None, Some(1), Some(2), Some(7), Some(32)] {
                    check(&lengths, groups, tiles, splits);
                }
            }
        }
    }

    #[test]
    fn equal_sequences_that_fill_the_groups_stay_whole() {
        assert_eq!(check(&[8192; 132], 66, 2, None).merged, []);
        assert_eq!(check(&[1024; 128], 66, 2, None).merged, []);
    }

    #[test]
    fn a_long_sequence_is_shared_out() {
        let plan = check(&[65536, 64, 64], 66, 2, None);
        let most =
            taken(&plan, 66).iter().map(|list| list.iter().map(|item| item.end - item.begin).sum()).max();
        assert!(most < Some(64u32), "{most:?} blocks in one group");
    }
}
