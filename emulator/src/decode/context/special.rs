//! The names of special registers.
//!
//! PTX ISA, "Special Registers".

use crate::memory::SHARED_START;
use crate::program::{Order, Special};

/// The special register of this name.
pub(super) fn named(name: &str) -> Option<Special> {
    let (register, axis) = match name.rsplit_once('.') {
        Some((register, "x")) => (register, 0),
        Some((register, "y")) => (register, 1),
        Some((register, "z")) => (register, 2),
        _ => (name, usize::MAX),
    };
    Some(match (register, axis) {
        ("%tid", 0..3) => Special::Tid(axis),
        ("%ntid", 0..3) => Special::Ntid(axis),
        ("%ctaid", 0..3) => Special::Ctaid(axis),
        ("%nctaid", 0..3) => Special::Nctaid(axis),
        ("%cluster_ctaid", 0..3) => Special::ClusterCtaid(axis),
        ("%cluster_nctaid", 0..3) => Special::ClusterNctaid(axis),
        ("%clusterid", 0..3) => Special::Clusterid(axis),
        ("%nclusterid", 0..3) => Special::Nclusterid(axis),
        (_, 0..3) => return None,
        ("%laneid", _) => Special::Lane,
        ("%warpid", _) => Special::Warp,
        ("%nwarpid", _) => Special::Warps,
        ("%smid", _) => Special::Sm,
        ("%nsmid", _) => Special::Sms,
        ("%lanemask_eq", _) => Special::LaneMask(Order::Equal),
        ("%lanemask_lt", _) => Special::LaneMask(Order::Less),
        ("%lanemask_le", _) => Special::LaneMask(Order::LessOrEqual),
        ("%lanemask_gt", _) => Special::LaneMask(Order::Greater),
        ("%lanemask_ge", _) => Special::LaneMask(Order::GreaterOrEqual),
        ("%dynamic_smem_size", _) => Special::DynamicShared,
        ("%total_smem_size" | "%aggr_smem_size", _) => Special::TotalShared,
        ("%reserved_smem_offset_begin", _) => Special::Reserved(0),
        ("%reserved_smem_offset_end" | "%reserved_smem_offset_cap", _) => Special::Reserved(SHARED_START),
        ("%cluster_ctarank", _) => Special::ClusterRank,
        ("%cluster_nctarank", _) => Special::ClusterSize,
        ("%is_explicit_cluster", _) => Special::IsExplicitCluster,
        // The manual leaves these to the driver: CUDA's cooperative groups find the grid's workspace there.
        ("%envreg1", _) => Special::Workspace(1),
        ("%envreg2", _) => Special::Workspace(0),
        _ => return None,
    })
}
