//! The plan on the device: made once for as long as sequences keep their lengths.

use std::sync::Arc;

use tilewright_device::tile::{ListAbi, SplitParts};

use super::cache::Table;
use super::plan::Plan;
use super::problem::Problem;
use super::table::{Compiled, ROWS, Run};
use crate::{Device, Error, Result, Stream, Tensor};

/// What a plan depends on, and what goes to the device with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    device: Device,
    lengths: Arc<[u32]>,
    /// Tiles of rows, and groups of as many CTAs.
    grid: [u32; 2],
    splits: Option<u32>,
    /// The table, if the host has it.
    table: Option<Arc<[i32]>>,
}

impl Key {
    fn new(problem: &Problem, kernel: &Compiled) -> Result<Self> {
        let tiles = problem.rows.div_ceil(ROWS);
        let resident = problem.device.listed(&tilewright_mla::KERNELS, kernel)?.resident_ctas();
        let groups = (resident / tiles.saturating_mul(kernel.parts).max(1)).max(1);
        let table = match &problem.cache.table {
            Table::Host(table) => Some(table.clone()),
            _ => None,
        };
        let (device, lengths) = (problem.device.clone(), problem.cache.lengths.clone());
        Ok(Key { device, lengths, grid: [tiles, groups], splits: problem.splits, table })
    }

    fn plan(&self) -> Plan {
        let [tiles, groups] = self.grid;
        Plan::new(&self.lengths, groups, tiles, self.splits)
    }
}

/// The plan that a kernel would follow.
pub(super) fn plan(problem: &Problem, kernel: &Compiled) -> Result<Plan> {
    Ok(Key::new(problem, kernel)?.plan())
}

/// Elements of the memory for parts: their tiles, and a number for each of a tile's rows.
pub(super) fn workspace_len(tiles: u32, columns: u32) -> usize {
    tiles as usize * ROWS as usize * (columns as usize + 1)
}

/// A plan with its lists on the device.
#[derive(Debug)]
pub(super) struct Scheduled {
    key: Key,
    memory: Tensor<u32>,
    /// Numbers of the list of items; behind them are that of sequences to be merged, and the table.
    items: u32,
    cut: u32,
    /// Tiles of parts.
    pub(super) tiles: u32,
}

impl Scheduled {
    /// Brings `schedule` up to date. If it has to change, waits for the device, which a capture of `stream` does not allow.
    pub(super) fn update<'s>(
        schedule: &'s mut Option<Self>,
        problem: &Problem,
        kernel: &Compiled,
        stream: &Stream,
    ) -> Result<&'s Self> {
        let key = Key::new(problem, kernel)?;
        if schedule.as_ref().is_none_or(|last| last.key != key) && stream.is_captured()? {
            let was = "an `Mla` whose last run had other lengths, pages or options";
            let allowed = "one that ran with the same before the call is captured: then its plan is made";
            return Err(Error::argument("self", was, allowed));
        }
        let now = match schedule.take() {
            Some(last) if last.key == key => last,
            last => Self::new(key, last.map(|last| last.memory))?,
        };
        Ok(schedule.insert(now))
    }

    fn new(key: Key, memory: Option<Tensor<u32>>) -> Result<Self> {
        let plan = key.plan();
        let mut words = plan.words();
        let items = words.len() as u32;
        words.extend(plan.merged.iter().flat_map(|one| [one.sequence, one.first, one.parts, 0]));
        words.extend(key.table.iter().flat_map(|table| table.iter()).map(|page| page.cast_unsigned()));
        let mut memory = match memory {
            Some(memory) if *memory.device() == key.device && memory.len() >= words.len() => memory,
            _ => Tensor::uninit(&key.device, &[words.len().next_power_of_two()])?,
        };
        words.resize(memory.len(), 0);
        memory.write(&words)?;
        Ok(Scheduled { key, memory, items, cut: plan.merged.len() as u32, tiles: plan.tiles })
    }

    /// How kernels are launched that follow it, with parts at `workspace`.
    pub(super) fn run(&self, problem: &Problem, workspace: u64, overlap: bool) -> Run {
        let address = self.memory.address();
        let behind = |words: u32| address + u64::from(words) * 4;
        let list = |first: u32, len: u32| ListAbi { address: behind(first), len, padding: 0 };
        let ([tiles, _], columns) = (self.key.grid, problem.columns[1]);
        let lines = self.tiles * ROWS;
        Run {
            grid: self.key.grid,
            pages: problem.cache.pages(behind(self.items + 4 * self.cut)),
            items: list(0, self.items),
            merged: list(self.items, 4 * self.cut),
            cut: self.cut,
            // A part of all of a sequence's rows after the other; behind the results the sums.
            parts: SplitParts {
                results: workspace,
                sums: workspace + u64::from(lines) * u64::from(columns) * 4,
                lines,
                columns,
                step: tiles * ROWS,
                padding: 0,
            },
            overlap,
        }
    }
}
