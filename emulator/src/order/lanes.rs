//! The accesses of a warp's lanes, joined where they follow each other.

use super::access::Access;
use super::cell::Conflict;
use super::spot::Spot;
use super::{By, Order};
use crate::program::register::LANES;

/// Lanes whose accesses follow each other.
#[derive(Clone, Copy)]
struct Run {
    start: Spot,
    first: usize,
    lanes: usize,
}

/// What all lanes do.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    /// Bytes of each: a power of two, up to 16.
    pub(crate) bytes: usize,
    pub(crate) kind: u8,
    pub(crate) wrote: bool,
}

impl Order<'_> {
    /// The accesses of all lanes, which follow each other from here on; otherwise as [`Order::lanes`].
    #[inline]
    pub(crate) fn whole_warp(
        &mut self,
        start: Spot,
        what: Lanes,
        mut same: impl FnMut(Option<usize>, usize, Spot) -> bool,
    ) -> Result<(), String> {
        self.run(Run { start, first: 0, lanes: LANES }, what, &mut same)
    }

    /// The accesses of lanes. `same` says whether a lane writes what another lane of the instruction does or, without one,
    /// what is there: then it does not matter which comes last.
    #[inline]
    pub(crate) fn lanes(
        &mut self,
        spots: impl Iterator<Item = (usize, Spot)>,
        what: Lanes,
        mut same: impl FnMut(Option<usize>, usize, Spot) -> bool,
    ) -> Result<(), String> {
        let mut run: Option<Run> = None;
        // Of lanes that read the same, two stand for all: who wrote it is one of them at most.
        let (mut last, mut alike) = (None, 0);
        for (lane, spot) in spots {
            alike = if last == Some(spot) { alike + 1 } else { 0 };
            last = Some(spot);
            if !what.wrote && alike > 1 {
                continue;
            }
            if let Some(run) = &mut run
                && lane == run.first + run.lanes
                && spot == run.start.plus(run.lanes * what.bytes)
            {
                run.lanes += 1;
                continue;
            }
            if let Some(run) = run.replace(Run { start: spot, first: lane, lanes: 1 }) {
                self.run(run, what, &mut same)?;
            }
        }
        run.map_or(Ok(()), |run| self.run(run, what, &mut same))
    }

    /// Whether a lane's access is of the instruction that is executed.
    fn is_now(&self, access: &Access) -> bool {
        let now = self.warps[self.warp].clocks.known.get(access.agent);
        access.pc == self.pc
            && usize::from(access.agent) == self.warp
            && access.clock == now
            && access.lane < 32
    }

    fn run(
        &mut self,
        run: Run,
        what: Lanes,
        same: &mut impl FnMut(Option<usize>, usize, Spot) -> bool,
    ) -> Result<(), String> {
        let Lanes { bytes, kind, wrote } = what;
        let shift = bytes.trailing_zeros() as u8;
        let new = self.access(By::Lanes(run.first as u8, shift), kind)?;
        let conflict = match self.spot(run.start, run.lanes * bytes, new, wrote) {
            Ok(()) => return Ok(()),
            Err(conflict) => conflict,
        };
        if run.lanes > 1 {
            // Which of them it is.
            return (0..run.lanes).try_for_each(|i| {
                let start = run.start.plus(i * bytes);
                self.run(Run { start, first: run.first + i, lanes: 1 }, what, same)
            });
        }
        match conflict {
            Conflict::Race { first, wrote: true } | Conflict::Lanes { first, wrote: true }
                if wrote && usize::from(first.agent) < self.warps.len() && {
                    let here = self.is_now(&first).then_some(first.lane.into());
                    same(here, run.first, run.start)
                } =>
            {
                Ok(())
            }
            conflict => {
                let thread = self.warp % self.warps_each * 32 + run.first;
                let access = if wrote { "write" } else { "read" };
                Err(self.explain(conflict, &run.start.name(bytes), &format!("{access} of thread {thread}")))
            }
        }
    }
}
