//! Special registers: who a thread is.

use crate::exec::launch::{Launch, SMS};
use crate::exec::warp::Warp;
use crate::memory::SHARED_START;
use crate::program::register::{LANES, R, lanes_of};
use crate::program::{Order, Special};

/// Writes the special registers that the program reads.
pub(super) fn fill(warp: &mut Warp, launch: &Launch<'_>, cta: [u32; 3], rank: u32) {
    let threads = launch.threads;
    let clusters = launch.clusters();
    let [x, y, z] = cta.map(u64::from);
    let number = (z * u64::from(launch.grid[1]) + y) * u64::from(launch.grid[0]) + x;
    warp.number = (number as u32).wrapping_mul(1024).wrapping_add(32 * warp.index);
    for &(special, R(register)) in &launch.program.specials {
        let thread = |lane: usize| 32 * warp.index + lane as u32;
        let same = |value: u32| [value; LANES];
        warp.r[register as usize] = match special {
            Special::Tid(0) if threads[0] >= thread(LANES) => lanes_of(thread),
            Special::Tid(axis) => lanes_of(|lane| {
                let t = thread(lane);
                match axis {
                    0 => t % threads[0],
                    1 => t / threads[0] % threads[1],
                    _ => t / threads[0] / threads[1],
                }
            }),
            Special::Ntid(axis) => same(threads[axis]),
            Special::Ctaid(axis) => same(cta[axis]),
            Special::Nctaid(axis) => same(launch.grid[axis]),
            Special::Lane => std::array::from_fn(|lane| lane as u32),
            Special::LaneMask(order) => std::array::from_fn(|lane| {
                let own = 1u32 << lane;
                match order {
                    Order::Equal => own,
                    Order::Less => own - 1,
                    Order::LessOrEqual => (own - 1) | own,
                    Order::Greater => !((own - 1) | own),
                    Order::GreaterOrEqual => !(own - 1),
                }
            }),
            Special::Warp => same(warp.index),
            Special::Warps => same(threads.iter().product::<u32>().div_ceil(32)),
            // CTAs are spread over the SMs by their number.
            Special::Sm => same((number % u64::from(SMS)) as u32),
            Special::Sms => same(SMS),
            Special::DynamicShared => same(launch.dynamic_shared),
            Special::TotalShared => same(SHARED_START + launch.program.shared.bytes + launch.dynamic_shared),
            Special::ClusterRank => same(rank),
            Special::ClusterSize => same(launch.cluster.iter().product()),
            Special::ClusterCtaid(axis) => same(cta[axis] % launch.cluster[axis]),
            Special::ClusterNctaid(axis) => same(launch.cluster[axis]),
            Special::Clusterid(axis) => same(cta[axis] / launch.cluster[axis]),
            Special::Nclusterid(axis) => same(clusters[axis]),
            Special::Frame => same(0),
            Special::Stack => same(launch.program.stack.map_or(0, |(_, begin)| begin)),
            Special::Reserved(at) => same(at),
            Special::Workspace(half) => same((launch.workspace >> (32 * half)) as u32),
            Special::IsExplicitCluster => same(u32::from(launch.cluster != [1; 3])),
        };
    }
}
