//! Which kernel computes an attention: an estimate of each one's time, from the blocks of keys that its tiles see.

use std::fmt;

use tilewright_attention::AnySequences;

use super::problem::{Problem, Size};
use super::splits::{Split, mergeable, split};
use super::table::{Compiled, Kind, Way, blocks, kernels};
use crate::kernel::has;
use crate::ops::frame::{self, Candidate, Choice, Copies, Descriptor, Rejection};
use crate::{Arch, Device, KernelEntry};

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    tiles: u64,
    waves: u64,
    /// Launches, each for a part of V's columns.
    passes: u64,
    /// Parts of the keys.
    pub(super) splits: u32,
    cycles: u64,
}

impl frame::Estimate for Estimate {
    fn cycles(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { tiles, waves, passes, splits, cycles } = self;
        write!(f, "{tiles} tiles in {waves} waves")?;
        if *splits > 1 {
            write!(f, ", {splits} parts of the keys")?;
        }
        if *passes > 1 {
            write!(f, ", {passes} times for parts of V")?;
        }
        write!(f, ", about {cycles} cycles")
    }
}

impl Descriptor for Compiled {
    type Estimate = Estimate;

    fn name(&self) -> &'static str {
        self.name
    }
    fn arch(&self) -> Arch {
        self.arch
    }
    fn entry(&self) -> Option<&'static KernelEntry> {
        tilewright_attention::KERNELS.get(self.name, self.arch)
    }
    fn is_built(&self) -> bool {
        has(&tilewright_attention::KERNELS, self.arch)
    }
    fn shared_bytes(&self) -> u32 {
        self.shared_bytes
    }
    fn size(&self) -> [u32; 3] {
        [self.tile[0], self.tile[1], 0]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Compiled { tile: [m, n], columns: [d, dv], stages, .. } = self;
        write!(
            f,
            "tiles of {m} queries, blocks of {n} keys, head dimensions up to {d} and {dv}, {stages} stages"
        )
    }
}

impl Candidate<Compiled> {
    /// Queries of its tiles, and keys of the blocks over which a tile walks.
    pub fn tile(&self) -> [u32; 2] {
        self.kernel.tile
    }
    /// The largest head dimension of Q and K, and that of V and O beyond which it is launched several times.
    pub fn columns(&self) -> [u32; 2] {
        self.kernel.columns
    }
    /// Stages of its pipelines of K and of V.
    pub fn stages(&self) -> u32 {
        self.kernel.stages
    }
    /// Parts into which it divides the keys; 0 when the kernel cannot compute this attention.
    pub fn splits(&self) -> u32 {
        self.outcome.map_or(0, |estimate| estimate.splits)
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let Kind { element, codes, score } = self.kind;
        let of = if codes { ", keys of 8 bits" } else { "" };
        format!("{element}{of} and {score} scores")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        match (kernel.packed(), matches!(self.sequences, AnySequences::Packed(_))) {
            (true, false) => {
                return Err(Rejection::Because("it reads sequences that lie one after the other"));
            }
            (false, true) => return Err(Rejection::Because("it reads sequences of one length")),
            _ => {}
        }
        match (kernel.listed(), self.sequences) {
            (true, AnySequences::Listed(listed)) => {
                let blocks = [listed.query_block.divisor, listed.key_block.divisor];
                if blocks.iter().zip(kernel.tile).any(|(block, tile)| !block.is_multiple_of(tile)) {
                    return Err(Rejection::Because("its tiles do not divide the blocks of the lists"));
                }
            }
            (true, _) => return Err(Rejection::Because("it reads lists of blocks of keys")),
            (false, AnySequences::Listed(_)) => {
                return Err(Rejection::Because("it reads no lists of blocks"));
            }
            _ => {}
        }
        match (kernel.selected(), self.selected.is_some()) {
            (true, false) => return Err(Rejection::Because("it reads a list of blocks of each query")),
            (false, true) => return Err(Rejection::Because("it reads no lists of blocks of each query")),
            _ => {}
        }
        if let Way::Queries(kernel) = kernel.way {
            if (self.packed_cache().is_some() || self.cached.any()) && !kernel.cached {
                return Err(Rejection::Because("it reads keys of a tensor's rows, not of a cache"));
            }
            if self.splits.is_some() {
                return Err(Rejection::Because("it does not divide the keys"));
            }
        } else if self.bias.is_some() {
            return Err(Rejection::Because("it adds no bias"));
        } else if self.splits.is_some_and(|splits| splits > 1) && !mergeable(&self.size) {
            return Err(Rejection::Because("it divides the keys of up to 65535 sequences"));
        }
        let [most, _] = kernel.columns;
        if self.size.columns[0] > most as usize {
            return Err(Rejection::AtMost { what: "a head dimension of Q and K", most });
        }
        // Without keys nothing is read.
        if self.size.keys > 0 && !kernel.any_strides {
            self.operands.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        }
        Ok(estimate(self, kernel, self.device.sm_count()))
    }
}

/// The time of a persistent kernel: waves of tiles, each as many blocks of keys as a tile sees in the mean.
///
/// The constants are of an H200: of both products' steps 4096 take a cycle, of exponentials 16, of which half hide under the
/// products, with a third warpgroup three fifths, of a single one none; a block of fewer than 128 keys takes 180 where warpgroups wait for each other at its ends, a tile's load and epilogue
/// some 2000 cycles, or 5500 where O does not go through shared memory, a launch 3000. `mma.sync` is
/// taken to have a quarter of that rate and to hide nothing, element-wise loads a sixteenth.
fn estimate(problem: &Problem, kernel: &Compiled, sms: u32) -> Estimate {
    let Size { batch, heads, queries, columns: [_, columns], .. } = problem.size;
    let passes = (columns as u64).div_ceil(u64::from(kernel.columns[1]));
    let (slowness, shown) = match (kernel.arch, kernel.any_strides) {
        (Arch::Sm90a, _) if kernel.tile[0] > 128 => (1, 40),
        (Arch::Sm90a, _) if kernel.tile[0] < 128 => (1, 100),
        (Arch::Sm90a, _) => (1, 50),
        (_, false) => (4, 100),
        (_, true) => (16, 100),
    };
    let Way::Queries(of) = kernel.way else {
        let Split { splits, items, cycles } = split(problem, kernel, sms, slowness);
        let cycles = cycles.saturating_add(3000).saturating_mul(passes);
        return Estimate {
            tiles: items,
            waves: items.div_ceil(u64::from(sms).max(1)),
            passes,
            splits: splits as u32,
            cycles,
        };
    };
    let [[m, n], [d, dv]] = [kernel.tile, kernel.columns].map(|pair| pair.map(u64::from));
    let along = (queries as u64).div_ceil(m);
    let tiles = (batch as u64).saturating_mul(heads as u64).saturating_mul(along);
    let waves = tiles.div_ceil(u64::from(sms).max(1));
    let block = m * n * (d + dv) / 4096 * slowness
        + m * n / 16 * shown / 100
        + if m >= 128 && n < 128 { 180 } else { 0 };
    // No more than lists have room for.
    let most = match problem.sequences {
        AnySequences::Listed(listed) => u64::from(listed.most * listed.key_block.divisor) / n,
        _ => u64::MAX,
    };
    let four_tiles = of_four_tiles(along, |m| u64::from(blocks(of, &problem.keys, m)).min(most)) * block;
    let ends = if of.stages_output { 2000 } else { 5500 };
    let cycles = waves.saturating_mul(four_tiles / 4 + ends).saturating_add(3000).saturating_mul(passes);
    Estimate { tiles, waves, passes, splits: 1, cycles }
}

/// Blocks of keys that four of a head's tiles see: exact where all tiles see as many, and where each sees as many more.
pub(super) fn of_four_tiles(tiles: u64, seen: impl Fn(u32) -> u64) -> u64 {
    let last = tiles.saturating_sub(1);
    let [first, middle, last] = [0, last / 2, last].map(|m| seen(u32::try_from(m).unwrap_or(u32::MAX)));
    first + 2 * middle + last
}
