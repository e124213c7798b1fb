//! Which blocks of keys each group of CTAs takes.
//!
//! CTAs that differ only in their tile of rows form a group. Sequences are given out to groups whole or, where that would leave
//! some groups with much less to do than others, cut into parts whose results a second kernel combines.

use tilewright_device::kernels::mla::Item;

/// Keys of a block.
pub const BLOCK: u32 = 64;
/// What a part costs beside its blocks, in blocks: loading the queries, storing the result.
const PART: u64 = 2;
/// What combining costs, in blocks of one group.
const COMBINING: u64 = 4;

/// A sequence whose result is put together from partial ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combined {
    /// The sequence.
    pub sequence: u32,
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
    pub combined: Vec<Combined>,
    /// Tiles of partial results.
    pub tiles: u32,
}

impl Plan {
    /// For sequences of these lengths and `groups` groups of `tiles` CTAs; `splits` parts of each, or as many as seem good.
    pub fn new(lengths: &[u32], groups: u32, tiles: u32, splits: Option<u32>) -> Self {
        // A sequence without keys has a block without keys.
        let blocks: Vec<u32> = lengths.iter().map(|&length| length.div_ceil(BLOCK).max(1)).collect();
        let cuts = match splits {
            Some(parts) => blocks.iter().map(|&blocks| even(blocks, parts)).collect(),
            None => balanced(&blocks, groups),
        };
        let (mut jobs, mut plan) = (Vec::new(), Plan::default());
        for (sequence, cuts) in cuts.iter().enumerate() {
            let parts = cuts.len() as u32 - 1;
            let first = plan.tiles;
            if parts > 1 {
                plan.combined.push(Combined { sequence: sequence as u32, first, parts });
                plan.tiles += parts * tiles;
            }
            for (part, ends) in cuts.windows(2).enumerate() {
                let slot = if parts > 1 { first + part as u32 * tiles } else { Item::WHOLE };
                let (begin, end, length) = (ends[0], ends[1], lengths[sequence]);
                jobs.push(Item { sequence: sequence as u32, begin, end, length, turn: 0, next: Item::NONE, slot });
            }
        }
        // The longest first, each to the group that has the least.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.end - job.begin));
        let mut lists = vec![(0, Vec::new()); groups as usize];
        for job in jobs {
            let Some((load, list)) = lists.iter_mut().min_by_key(|(load, _)| *load) else { break };
            *load += cost(job.end - job.begin);
            list.push(Item { turn: list.len() as u32, ..job });
        }
        plan.items = vec![Item::END; groups as usize];
        for (group, (_, list)) in lists.into_iter().enumerate() {
            let mut last = None;
            for item in list {
                let at = match last {
                    None => group,
                    Some(_) => plan.items.len(),
                };
                match last {
                    None => plan.items[group] = item,
                    Some(last) => {
                        let last: &mut Item = &mut plan.items[last];
                        last.next = at as u32;
                        plan.items.push(item)
                    }
                }
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

fn cost(blocks: u32) -> u64 {
    u64::from(blocks) + PART
}

/// The ends of `parts` about equal parts of so many blocks, none empty.
fn even(blocks: u32, parts: u32) -> Vec<u32> {
    let parts = parts.clamp(1, blocks);
    (0..=parts).map(|part| (u64::from(part) * u64::from(blocks) / u64::from(parts)) as u32).collect()
}

/// Where to cut, so that the busiest group has the least to do.
fn balanced(blocks: &[u32], groups: u32) -> Vec<Vec<u32>> {
    let total: u64 = blocks.iter().map(|&blocks| cost(blocks)).sum();
    let whole: Vec<Vec<u32>> = blocks.iter().map(|&blocks| vec![0, blocks]).collect();
    let mut best = (busiest(&whole, groups), whole);
    // Parts of a group's fair share, or of a half, a third, … of it.
    for share in 1..=4 {
        let most = total.div_ceil(u64::from(groups) * share).saturating_sub(PART).max(1);
        let cuts: Vec<Vec<u32>> =
            blocks.iter().map(|&blocks| even(blocks, u64::from(blocks).div_ceil(most) as u32)).collect();
        let load = busiest(&cuts, groups) + COMBINING;
        if load < best.0 {
            best = (load, cuts);
        }
    }
    best.1
}

/// What the busiest group has to do.
fn busiest(cuts: &[Vec<u32>], groups: u32) -> u64 {
    let mut parts: Vec<u32> = cuts.iter().flat_map(|cuts| cuts.windows(2).map(|ends| ends[1] - ends[0])).collect();
    parts.sort_unstable_by(|a, b| b.cmp(a));
    let mut loads = std::collections::BinaryHeap::from(vec![std::cmp::Reverse(0); groups.max(1) as usize]);
    for part in parts {
        if let Some(mut least) = loads.peek_mut() {
            least.0 += cost(part);
        }
    }
    loads.into_iter().map(|load| load.0).max().unwrap_or(0)
}
