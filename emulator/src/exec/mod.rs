//! Executes a launch.
//!
//! A cluster runs on one core, its warps in turn. Clusters run in parallel if they cannot talk to each other, else all on one
//! core: either way a launch has one result.

mod access;
mod barrier;
mod call;
mod cluster;
mod collective;
mod copy;
mod cta;
mod env;
mod flight;
mod matrix;
mod mbarrier;
mod observe;
mod ordered;
mod poll;
mod pool;
mod rotation;
mod schedule;
mod special;
mod stall;
mod step;
mod sum;
mod turn;
mod undefined;
mod wait;
mod warp;
mod watch;
mod wgmma;

use rayon::prelude::*;
pub use schedule::Schedule;

use crate::Fault;
use crate::count::Counters;
use crate::memory::Global;
use crate::order::GlobalOrder;
use crate::program::{LANES, Program};

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
    /// Whether accesses and waits are counted, too.
    pub(crate) counting: bool,
    pub(crate) schedule: Schedule,
    /// Of global memory, if the order of accesses is checked.
    pub(crate) order: Option<GlobalOrder>,
}

impl Launch<'_> {
    /// Clusters in each dimension.
    fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }

    /// The first CTA of the cluster of this number.
    fn first_cta(&self, number: u64) -> [u32; 3] {
        let [x, y, _] = self.clusters().map(u64::from);
        let at = [number % x, number / x % y, number / x / y];
        std::array::from_fn(|axis| at[axis] as u32 * self.cluster[axis])
    }

    /// Bytes that a cluster holds while it runs, about: with shared memory comes what is known of it.
    fn cluster_bytes(&self) -> u64 {
        let program = self.program;
        let [p, r, d] = program.registers.map(u64::from);
        let lanes = LANES as u64;
        let warp = 4 * p + lanes * (4 * r + 8 * d + u64::from(program.local));
        let warps = u64::from(self.threads.iter().product::<u32>().div_ceil(LANES as u32));
        let shared = 4 * u64::from(program.shared + self.dynamic_shared);
        let cta = warps * warp + shared + 4096;
        self.cluster.iter().map(|&extent| u64::from(extent)).product::<u64>() * cta
    }
}

/// Runs all clusters of a launch. Of several faults, it is the first cluster's.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let count = launch.clusters().map(u64::from).iter().product::<u64>();
    let view = global.view();
    if launch.program.talks {
        return rotation::run(launch, 0..count, &view);
    }
    let alone = |i: u64| rotation::run(launch, i..i + 1, &view).map_err(|fault| (i, fault));
    let first = |a: (u64, Fault), b: (u64, Fault)| if a.0 <= b.0 { a } else { b };
    let all = (0..count).into_par_iter().map(alone).reduce(
        || Ok(Counters::default()),
        |a, b| match (a, b) {
            (Ok(mut a), Ok(b)) => {
                a += b;
                Ok(a)
            }
            (Err(a), Err(b)) => Err(first(a, b)),
            (Err(fault), Ok(_)) | (Ok(_), Err(fault)) => Err(fault),
        },
    );
    all.map_err(|(_, fault)| fault)
}
