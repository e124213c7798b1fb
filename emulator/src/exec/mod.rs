//! Executes a launch.
//!
//! A cluster runs on one core, its warps in turn; clusters run in parallel. Within a cluster the order is fixed, so a
//! launch whose clusters do not talk to each other has one result.

mod access;
mod barrier;
mod cluster;
mod collective;
mod copy;
mod cta;
mod env;
mod matrix;
mod mbarrier;
mod observe;
mod special;
mod step;
mod warp;
mod wgmma;

use rayon::prelude::*;

use crate::Fault;
use crate::count::Counters;
use crate::memory::Global;
use crate::program::Program;

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
}

/// Runs all clusters of a launch. Of several faults, it is the first cluster's.
pub(crate) fn run(launch: &Launch<'_>, global: &Global) -> Result<Counters, Fault> {
    let clusters: [u32; 3] = std::array::from_fn(|i| launch.grid[i] / launch.cluster[i]);
    let [x, y, _] = clusters.map(u64::from);
    let count = clusters.iter().map(|&extent| u64::from(extent)).product::<u64>();
    let view = global.view();
    let first_of = |i: u64| {
        let at = [i % x, i / x % y, i / x / y];
        std::array::from_fn(|axis| at[axis] as u32 * launch.cluster[axis])
    };
    let run = |i: u64| cluster::run(launch, first_of(i), view.clone()).map_err(|fault| (i, fault));
    let first = |a: (u64, Fault), b: (u64, Fault)| if a.0 <= b.0 { a } else { b };
    let all = (0..count).into_par_iter().map(run).reduce(
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
