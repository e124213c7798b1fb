//! What may be wrong with a launch.
//!
//! CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". Clusters of more than 8 CTAs, which a launch has to ask
//! for, are taken up to the 16 that an H200 has.

use crate::arch::Arch;
use crate::error::Reason;
use crate::launch::Launch;
use crate::program::{Image, Program};

/// CTAs of a grid in each dimension at most.
const GRID: [u32; 3] = [(1 << 31) - 1, 65535, 65535];
/// Threads of a CTA in each dimension at most.
const THREADS: [u32; 3] = [1024, 1024, 64];
/// Threads of a CTA at most.
const CTA_THREADS: u64 = 1024;
/// CTAs of a cluster at most.
const CLUSTER: u64 = 16;
/// Bytes of shared memory that is not dynamic.
const STATIC_SHARED: u32 = 48 * 1024;
/// Bytes of local memory of a thread at most.
const LOCAL: u32 = 512 * 1024;

/// What is wrong with the launch.
pub(crate) fn check(
    arch: Arch,
    image: &Image,
    program: &Program,
    launch: &Launch,
    parameters: &[u8],
) -> Result<(), Reason> {
    if !arch.runs(image.target) {
        return Err(Reason::launch(format!("a kernel for {}, on a device of {arch}", image.target)));
    }
    let Launch { grid, threads, cluster, dynamic_shared } = *launch;
    let product = |of: [u32; 3]| of.iter().fold(1, |all: u64, &extent| all.saturating_mul(extent.into()));
    let within =
        |of: [u32; 3], most: [u32; 3]| of.iter().zip(most).all(|(&of, most)| (1..=most).contains(&of));
    if !within(grid, GRID) {
        return Err(Reason::launch(format!("a grid of {grid:?} CTAs: must be from 1 to {GRID:?}")));
    }
    if !within(threads, THREADS) || product(threads) > CTA_THREADS {
        return Err(Reason::launch(format!(
            "CTAs of {threads:?} threads: must be from 1 to {THREADS:?}, {CTA_THREADS} together"
        )));
    }
    match program.threads {
        Some((exactly, true)) if exactly != threads => {
            return Err(Reason::launch(format!(
                "CTAs of {threads:?} threads: the kernel requires {exactly:?}"
            )));
        }
        Some((most, false)) if product(threads) > product(most) => {
            return Err(Reason::launch(format!(
                "CTAs of {threads:?} threads: the kernel was compiled for at most {most:?}"
            )));
        }
        _ => {}
    }
    if let Some(required) = program.cluster
        && required != cluster
    {
        return Err(Reason::launch(format!(
            "clusters of {cluster:?} CTAs: the kernel requires {required:?}"
        )));
    }
    if cluster != [1; 3] && !arch.has_clusters() {
        return Err(Reason::launch(format!("clusters of {cluster:?} CTAs: a device of {arch} has none")));
    }
    if !within(cluster, [CLUSTER as u32; 3]) || product(cluster) > CLUSTER {
        return Err(Reason::launch(format!("clusters of {cluster:?} CTAs: must be from 1 to {CLUSTER}")));
    }
    if grid.iter().zip(cluster).any(|(&grid, cluster)| !grid.is_multiple_of(cluster)) {
        return Err(Reason::launch(format!(
            "a grid of {grid:?} CTAs is not a multiple of clusters of {cluster:?}"
        )));
    }
    if program.local > LOCAL {
        return Err(Reason::launch(format!(
            "{} bytes of local memory: a thread has at most {LOCAL}",
            program.local
        )));
    }
    if program.shared.bytes > STATIC_SHARED {
        return Err(Reason::launch(format!(
            "{} bytes of static shared memory: more than {STATIC_SHARED} must be dynamic",
            program.shared.bytes
        )));
    }
    let (shared, most) = (u64::from(program.shared.bytes) + u64::from(dynamic_shared), arch.shared_bytes());
    if shared > most.into() {
        return Err(Reason::launch(format!(
            "{shared} bytes of shared memory: a CTA of {arch} has at most {most}"
        )));
    }
    if parameters.len() != program.parameters as usize {
        return Err(Reason::launch(format!(
            "{} bytes of parameters: the kernel has {}",
            parameters.len(),
            program.parameters
        )));
    }
    Ok(())
}
