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
use crate::program::operand::{Address, Base, Window};
use crate::program::register::{L64, LANES};
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
#[expect(
    clippy::large_enum_variant,
    reason = "one instruction has it on the stack, where a box would be an allocation"
)]
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// The lanes follow each other, and so do the bytes.
    Row,
    /// All the same bytes.
    Same,
    /// By lane. Where a lane does not take part, the address of the first one that does.
    Scattered(L64),
}

/// Accesses of lanes, each aligned to its size.
#[derive(Debug)]
pub(super) struct Joint {
    pub(super) space: Where,
    pub(super) mask: u32,
    /// Of each lane.
    pub(super) bytes: u32,
    /// The address of the first lane that takes part, in that memory.
    pub(super) first: u64,
    pub(super) shape: Shape,
}

impl Joint {
    /// Of a load, a store or an atomic operation by these lanes, in a cluster of so many CTAs.
    #[inline(always)]
    pub(super) fn of(warp: &Warp, ctas: usize, op: &Op, mask: u32) -> Option<Self> {
        let (window, at, bytes) = match op {
            Op::Load { window, at, bytes, to, .. } => (*window, *at, bytes * to.len() as u32),
            Op::Store { window, at, bytes, from, .. } => (*window, *at, bytes * from.len() as u32),
            Op::Atomic { window, at, bytes, .. } => (*window, *at, *bytes),
            _ => return None,
        };
        match mask {
            0 => None,
            u32::MAX => {
                near(warp, ctas, window, at, bytes).or_else(|| find(warp, ctas, window, at, mask, bytes))
            }
            _ => find(warp, ctas, window, at, mask, bytes),
        }
    }

    /// From the first lane that takes part to behind the last.
    #[inline]
    pub(super) fn lanes(&self) -> Range<usize> {
        self.mask.trailing_zeros() as usize % LANES..LANES - self.mask.leading_zeros() as usize % LANES
    }

    /// How many lanes.
    pub(super) fn width(&self) -> u32 {
        self.mask.count_ones()
    }

    /// The address of a lane that takes part.
    #[inline(always)]
    pub(super) fn at(&self, lane: usize) -> u64 {
        match &self.shape {
            Shape::Row => self.first + (lane as u64 - self.lanes().start as u64) * u64::from(self.bytes),
            Shape::Same => self.first,
            Shape::Scattered(at) => at[lane],
        }
    }

    /// From the first byte that a lane accesses to behind the last, where the lanes are not scattered.
    #[inline]
    pub(super) fn range(&self) -> Range<u64> {
        let count = if let Shape::Row = self.shape { self.width() } else { 1 };
        self.first..self.first.saturating_add(u64::from(count) * u64::from(self.bytes))
    }

    /// Whether all is inside of so many bytes from this address on.
    #[inline(always)]
    pub(super) fn is_inside(&self, start: u64, bytes: usize) -> bool {
        let Some(most) = (bytes as u64).checked_sub(self.bytes.into()) else { return false };
        match &self.shape {
            Shape::Same | Shape::Row => self.first >= start && self.range().end <= start + bytes as u64,
            Shape::Scattered(at) => {
                let mut outside = false;
                for at in at {
                    outside |= at.wrapping_sub(start) > most;
                }
                !outside
            }
        }
    }

    /// Where a lane's access begins, in memory that several threads have.
    pub(super) fn spot(&self, lane: usize) -> Option<Spot> {
        match self.space {
            Where::Global => Some(Spot::Global(self.at(lane))),
            Where::Shared(cta) => Some(Spot::Shared(cta, self.at(lane) as u32)),
            Where::Parameters => None,
        }
    }
}

/// Accesses of so many bytes of each of all lanes, if the addresses follow each other or are the same.
#[inline(always)]
fn near(warp: &Warp, ctas: usize, window: Window, at: Address, bytes: u32) -> Option<Joint> {
    let step = u64::from(bytes);
    let (base, is_row, is_same) = match at.base {
        Base::None => (0, false, true),
        Base::R(register) => {
            let (base, mut away, mut differs) = (warp.r(register), 0, 0);
            for lane in 0..LANES {
                away |= base[lane] ^ base[0].wrapping_add(lane as u32 * bytes);
                differs |= base[lane] ^ base[0];
            }
            (base[0].into(), away == 0 && base[0].checked_add(31 * bytes).is_some(), differs == 0)
        }
        Base::D(register) => {
            let (base, mut away, mut differs) = (warp.d(register), 0, 0);
            for lane in 0..LANES {
                away |= base[lane] ^ base[0].wrapping_add(lane as u64 * step);
                differs |= base[lane] ^ base[0];
            }
            (base[0], away == 0, differs == 0)
        }
    };
    let mut first = base.wrapping_add(at.offset as u64);
    let (shape, length) = match () {
        () if is_row => (Shape::Row, 31 * step),
        () if is_same => (Shape::Same, 0),
        () => return None,
    };
    let shared = match window {
        Window::In(Space::Shared) | Window::Cluster => true,
        Window::Generic => first >= SHARED,
        Window::In(Space::Local) => return None,
        Window::In(_) => false,
    };
    if shared {
        let start = if window == Window::Generic { SHARED } else { 0 };
        if window == Window::Generic && (first - start) >> 32 != 0 {
            return None;
        }
        first = (first - start) as u32 as u64;
    }
    let last = first.checked_add(length)?;
    if first & (step - 1) != 0 {
        return None;
    }
    let space = match window {
        _ if shared => {
            let (cta, own) = in_cluster(first as u32, warp.cta, ctas).ok()?;
            if first ^ last > u64::from(IN_CTA) {
                return None;
            }
            first = own.into();
            Where::Shared(cta)
        }
        Window::In(Space::Param) if is_same => Where::Parameters,
        Window::In(Space::Param) => return None,
        Window::Generic if last >= SHARED => return None,
        _ => Where::Global,
    };
    Some(Joint { space, mask: u32::MAX, bytes, first, shape })
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
        let first = at[begin];
        let shape = match mask {
            _ if mask != u32::MAX && is_row(&at, mask, begin, bytes) => Shape::Row,
            _ if differs == 0 => Shape::Same,
            _ => Shape::Scattered(at),
        };
        Some(Joint { space, shape, mask, bytes, first })
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
