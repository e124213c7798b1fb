//! A launch, as it is executed.

use std::sync::Arc;

use super::printed::Printed;
use super::running::Running;
use super::schedule::Schedule;
use super::warp::watched::Watched;
use crate::memory::budget::Budget;
use crate::order::global::GlobalOrder;
use crate::order::preceding::Preceding;
use crate::program::Program;
use crate::program::register::LANES;

/// SMs of the device that is emulated.
pub const SMS: u32 = 4;

/// A checked launch.
pub(crate) struct Launch<'l> {
    pub(crate) program: &'l Program,
    /// In CTAs.
    pub(crate) grid: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) dynamic_shared: u32,
    pub(crate) parameters: &'l [u8],
    /// The address of what cooperative groups keep of the grid; 0 if the program does not ask for it.
    pub(crate) workspace: u64,
    /// Whether accesses and waits are counted, too.
    pub(crate) counting: bool,
    pub(crate) schedule: Schedule,
    pub(crate) printed: &'l Printed,
    /// Of global memory, if the order of accesses is checked.
    pub(crate) order: Option<GlobalOrder>,
    /// The preceding grids that may still run.
    pub(crate) preceding: &'l Preceding,
    pub(crate) running: &'l Running,
    /// What memory is taken from.
    pub(crate) budget: &'l Arc<Budget>,
}

impl Launch<'_> {
    /// Clusters in each dimension.
    pub(super) fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }

    /// CTAs of a cluster.
    pub(super) fn cluster_ctas(&self) -> u64 {
        self.cluster.iter().map(|&extent| u64::from(extent)).product()
    }

    /// The first CTA of the cluster of this number.
    pub(super) fn first_cta(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.clusters().map(u64::from);
        let at = [number % x, number / x % y, number / x / y];
        std::array::from_fn(|axis| at[axis] as u32 * self.cluster[axis])
    }

    /// Bytes that a cluster holds when it begins, about: with shared memory comes what is known of it.
    pub(super) fn cluster_bytes(&self) -> u64 {
        let program = self.program;
        let [p, r, d] = program.registers.map(u64::from);
        let lanes = LANES as u64;
        let watched = (program.watched.doubtful().len() * size_of::<Watched>()) as u64;
        let warp = 1024 + watched + 4 * p + lanes * (4 * r + 8 * d + u64::from(program.local));
        let warps = u64::from(self.threads.iter().product::<u32>().div_ceil(LANES as u32));
        let shared = 6 * (u64::from(program.shared.span) + u64::from(self.dynamic_shared));
        let cta = warps * warp + shared + 4096;
        self.cluster_ctas() * cta
    }
}
