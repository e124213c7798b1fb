//! What the lanes of an instruction access, where all go to one memory: as nearly all do.
//!
//! It is looked at once, for those who count, who check and who move the bytes. Where this has nothing to say, because lanes go to
//! several memories or one of them is wrong, each of those looks at every lane.

use std::ops::Range;

use super::cta::in_cluster;
use super::warp::Warp;
use crate::memory::{IN_CTA, SHARED};
use crate::order::spot::Spot;
use crate::program::op::Op;
use crate::program::operand::{Address, Window};
use crate::program::register::LANES;
use crate::wide::twice;
use tilewright_ptx::ast::Space;

/// The memory that all lanes access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Global,
    /// Of the CTA of this rank.
    Shared(usize),
    Parameters,
}

/// How the lanes' accesses lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The lanes follow each other, and so do the bytes.
    Row,
    /// All the same bytes.
    Same,
    Scattered,
}

/// Accesses of lanes, each aligned to its size.
#[derive(Debug)]
pub(super) struct Joint {
    pub(super) space: Where,
    pub(super) shape: Shape,
    pub(super) mask: u32,
    /// Of each lane.
    pub(super) bytes: u32,
    /// By lane, in that memory. Where a lane does not take part, the address of the first one that does.
    pub(super) at: [u64; LANES],
}

impl Joint {
    /// Of a load, a store or an atomic operation by these lanes, in a cluster of so many CTAs.
    #[inline]
    pub(super) fn of(warp: &Warp, ctas: usize, op: &Op, mask: u32) -> Option<Self> {
        let (window, at, bytes) = match op {
            Op::Load { window, at, bytes, to, .. } => (*window, *at, bytes * to.len() as u32),
            Op::Store { window, at, bytes, from, .. } => (*window, *at, bytes * from.len() as u32),
            Op::Atomic { window, at, bytes, .. } => (*window, *at, *bytes),
            _ => return None,
        };
        if mask == 0 { None } else { find(warp, ctas, window, at, mask, bytes) }
    }

    /// The first lane.
    pub(super) fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize % LANES
    }

    /// How many lanes.
    pub(super) fn width(&self) -> u32 {
        self.mask.count_ones()
    }

    /// From the first byte that a lane accesses to behind the last.
    pub(super) fn range(&self) -> Range<u64> {
        let (first, bytes) = (self.at[self.first()], u64::from(self.bytes));
        let (low, high) = match self.shape {
            Shape::Same => (first, first),
            Shape::Row => (first, first.saturating_add(u64::from(self.width() - 1) * bytes)),
            Shape::Scattered => {
                self.at.iter().fold((first, first), |(low, high), &at| (low.min(at), high.max(at)))
            }
        };
        low..high.saturating_add(bytes)
    }

    /// Where a lane's access begins, in memory that several threads have.
    pub(super) fn spot(&self, lane: usize) -> Option<Spot> {
        match self.space {
            Where::Global => Some(Spot::Global(self.at[lane])),
            Where::Shared(cta) => Some(Spot::Shared(cta, self.at[lane] as u32)),
            Where::Parameters => None,
        }
    }
}

twice! {
    /// Accesses of so many bytes of each of some lanes.
    fn find(
        warp: &Warp,
        ctas: usize,
        window: Window,
        at: Address,
        mask: u32,
        bytes: u32,
    ) -> Option<Joint> {
        let begin = mask.trailing_zeros() as usize % LANES;
        let mut at = warp.addresses(at);
        if mask != u32::MAX {
            let first = at[begin];
            for (lane, at) in at.iter_mut().enumerate() {
                *at = if mask >> lane & 1 != 0 { *at } else { first };
            }
        }
        let shared = match window {
            Window::In(Space::Shared) | Window::Cluster => true,
            Window::Generic => at[begin] >= SHARED,
            Window::In(Space::Local) => return None,
            Window::In(_) => false,
        };
        if shared {
            let base = if window == Window::Generic { SHARED } else { 0 };
            let inside = |at: u64| at.wrapping_sub(base) >> 32 == 0;
            if window == Window::Generic && !at.iter().all(|&at| inside(at)) {
                return None;
            }
            at.iter_mut().for_each(|at| *at = *at as u32 as u64);
        }
        let first = at[begin];
        let differs = at.iter().fold(0, |all, at| all | at ^ first);
        if (first | differs) & u64::from(bytes - 1) != 0 {
            return None;
        }
        let space = match window {
            _ if shared => {
                let (cta, own) = in_cluster(first as u32, warp.cta, ctas).ok()?;
                if differs > u64::from(IN_CTA) {
                    return None;
                }
                if u64::from(own) != first {
                    at.iter_mut().for_each(|at| *at &= u64::from(IN_CTA));
                }
                Where::Shared(cta)
            }
            Window::In(Space::Param) if differs == 0 => Where::Parameters,
            Window::In(Space::Param) => return None,
            Window::Generic if (first | differs) >= SHARED => return None,
            _ => Where::Global,
        };
        let shape = match mask {
            _ if is_row(&at, mask, begin, bytes) => Shape::Row,
            _ if differs == 0 => Shape::Same,
            _ => Shape::Scattered,
        };
        Some(Joint { space, shape, mask, bytes, at })
    }
}

/// Whether the lanes follow each other, and each accesses the bytes behind those of the one before.
#[inline(always)]
fn is_row(at: &[u64; LANES], mask: u32, begin: usize, bytes: u32) -> bool {
    let from_zero = mask >> begin;
    if from_zero & from_zero.wrapping_add(1) != 0 {
        return false;
    }
    let (bytes, lanes) = (u64::from(bytes), &at[begin..][..from_zero.count_ones() as usize]);
    let away = |(i, at): (usize, &u64)| at ^ lanes[0].wrapping_add(i as u64 * bytes);
    lanes.iter().enumerate().map(away).fold(0, |all, away| all | away) == 0
}
