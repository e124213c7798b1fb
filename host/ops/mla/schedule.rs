//! The shares of groups on the device: made once for as long as sequences keep their lengths.

use std::sync::Arc;

use tilewright_device::tile::{ListAbi, SplitParts};

use super::cache::Table;
use super::plan::{Plan, Rows};
use super::positions::Positions;
use super::problem::Problem;
use super::table::{Compiled, ROWS, Run};
use crate::{Device, Result, Tensor};

/// What a plan depends on, and what goes to the device with it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    device: Device,
    lengths: Arc<[u32]>,
    positions: Positions,
    /// Tiles of rows, and groups of as many CTAs.
    grid: [u32; 2],
    splits: Option<u32>,
    /// The table, if the host has it.
    table: Option<Arc<[i32]>>,
}

impl Key {
    fn new(problem: &Problem, kernel: &Compiled, resident: u32) -> Self {
        let tiles = problem.tiles();
        let groups = (resident / tiles.saturating_mul(kernel.parts).max(1)).max(1);
        let table = match &problem.cache.table {
            Table::Host(table) => Some(table.clone()),
            _ => None,
        };
        let (device, lengths) = (problem.device.clone(), problem.cache.lengths.clone());
        let (positions, splits) = (problem.positions, problem.splits);
        Key { device, lengths, positions, grid: [tiles, groups], splits, table }
    }

    fn plan(&self) -> Plan {
        let [tiles, groups] = self.grid;
        let of = |(sequence, &length)| self.positions.rows(sequence, length, tiles);
        let rows: Vec<Rows> = (0..).zip(&*self.lengths).flat_map(of).collect();
        Plan::new(&rows, groups, tiles, self.splits)
    }
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
    /// Sequences that are cut, and the most parts of one.
    pub(super) cut: u32,
    pub(super) parts: u32,
    /// Tiles of parts.
    pub(super) tiles: u32,
}

impl Scheduled {
    /// That of a problem for a kernel of which so many CTAs are resident: the `last` one, if it is that. Else one that waits for the device,
    /// which `may_wait` forbids by an error, in the memory of the last one, unless something else has it; then there is no last one any more.
    pub(super) fn of(
        problem: &Problem,
        kernel: &Compiled,
        resident: u32,
        last: &mut Option<Arc<Self>>,
        may_wait: impl FnOnce() -> Result<()>,
    ) -> Result<Arc<Self>> {
        let key = Key::new(problem, kernel, resident);
        if let Some(last) = last.as_ref().filter(|last| last.key == key) {
            return Ok(last.clone());
        }
        may_wait()?;
        let memory = last.take().and_then(Arc::into_inner).map(|last| last.memory);
        Ok(Arc::new(Self::new(key, memory)?))
    }

    fn new(key: Key, memory: Option<Tensor<u32>>) -> Result<Self> {
        let plan = key.plan();
        let mut words = plan.words();
        let items = words.len() as u32;
        words.extend(plan.merged.iter().flat_map(|one| [one.sequence, one.first, one.parts, one.tile]));
        words.extend(key.table.iter().flat_map(|table| table.iter()).map(|page| page.cast_unsigned()));
        let mut memory = match memory {
            Some(memory) if *memory.device() == key.device && memory.len() >= words.len() => memory,
            _ => Tensor::uninit(&key.device, &[words.len().next_power_of_two()])?,
        };
        words.resize(memory.len(), 0);
        memory.write(&words)?;
        let parts = plan.merged.iter().map(|cut| cut.parts).max().unwrap_or(1);
        Ok(Scheduled { key, memory, items, cut: plan.merged.len() as u32, parts, tiles: plan.tiles })
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
