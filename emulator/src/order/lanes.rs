//! The accesses of a warp's lanes, joined where they follow each other.

use std::cell::Cell as Flag;
use std::time::{Duration, Instant};

use super::access::{Access, MANY_LANES, NO_LANE};
use super::cell::{Check, Conflict};
use super::spot::Spot;
use super::{By, Order, READERS};
use crate::error::Reason;
use crate::memory::SHARED_START;
use crate::program::register::LANES;
use crate::wide::twice;

/// A store that was told of is done by then, however busy the machine's cores are.
const SOON: Duration = Duration::from_secs(1);

/// Lanes whose accesses follow each other.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: Spot,
    first: usize,
    lanes: usize,
}

impl Run {
    /// Its lanes.
    fn mask(&self) -> u32 {
        u32::MAX >> (LANES - self.lanes.clamp(1, LANES)) << (self.first % LANES)
    }
}

/// What all lanes do.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    /// Bytes of each: a power of two, up to 16.
    pub(crate) bytes: usize,
    pub(crate) kind: u8,
    /// Whether what is there matters.
    pub(crate) reads: bool,
    pub(crate) wrote: bool,
    /// Of a write, whether it gives what was there.
    pub(crate) gives: bool,
}

/// Bytes of shared memory that a lane reads and nobody wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hole {
    pub(crate) lane: usize,
    /// Where the lane's access begins.
    pub(crate) at: u32,
    /// A bit for each byte of the access.
    pub(crate) bytes: u16,
}

twice! {
    /// The lanes whose address is so many bytes behind that of the lane before, and those that have the same.
    fn neighbours(at: &[u64; LANES], bytes: u64) -> (u32, u32) {
        let (mut follows, mut alike) = (0, 0);
        for lane in 1..LANES {
            let away = at[lane].wrapping_sub(at[lane - 1]);
            follows |= u32::from(away == bytes) << lane;
            alike |= u32::from(away == 0) << lane;
        }
        (follows, alike)
    }
}

/// The lanes of a mask.
fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros() as usize;
        left &= left.wrapping_sub(1);
        (lane < LANES).then_some(lane)
    })
}

impl Order<'_> {
    /// The accesses of the lanes of a mask, which follow each other from this address on, of global memory or a CTA's shared memory;
    /// otherwise as [`Order::lanes`].
    #[inline]
    pub(crate) fn row(
        &mut self,
        first: u64,
        mask: u32,
        shared: Option<usize>,
        what: Lanes,
        mut same: impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> Result<(), Reason> {
        let start = match shared {
            Some(cta) => Spot::Shared(cta, first as u32),
            None => Spot::Global(first),
        };
        let run =
            Run { start, first: mask.trailing_zeros() as usize % LANES, lanes: mask.count_ones() as usize };
        self.runs(std::iter::once(run), what, &mut same)
    }

    /// The accesses of the lanes of a mask at these addresses, of global memory or a CTA's shared memory; otherwise as
    /// [`Order::lanes`].
    #[inline]
    pub(crate) fn together(
        &mut self,
        at: &[u64; LANES],
        mask: u32,
        shared: Option<usize>,
        what: Lanes,
        mut same: impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> Result<(), Reason> {
        let spot = |lane: usize| match shared {
            Some(cta) => Spot::Shared(cta, at[lane] as u32),
            None => Spot::Global(at[lane]),
        };
        let (follows, alike) = neighbours(at, what.bytes as u64);
        let first = mask.trailing_zeros() % LANES as u32;
        let others = mask & mask.wrapping_sub(1);
        let gaps = !(u64::from(mask >> first) + 1).is_power_of_two();
        if gaps || !what.wrote && alike & others != 0 {
            let spots = lanes(mask).map(|lane| (lane, spot(lane)));
            return self.lanes(spots, what, same);
        }
        let starts = mask & !(follows & others);
        let runs = lanes(starts).map(|first| {
            let behind = ((mask & !starts) >> first >> 1).trailing_ones() as usize;
            Run { start: spot(first), first, lanes: 1 + behind }
        });
        self.runs(runs, what, &mut same)
    }

    /// The accesses of lanes. `same` says whether a lane writes what another lane of the instruction does or, without one,
    /// what is there: then it does not matter which comes last. `None` where the other one goes elsewhere.
    #[inline]
    pub(crate) fn lanes(
        &mut self,
        spots: impl Iterator<Item = (usize, Spot)> + Clone,
        what: Lanes,
        mut same: impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> Result<(), Reason> {
        let (mut runs, mut count) = ([Run { start: Spot::Global(0), first: 0, lanes: 0 }; LANES], 0usize);
        // Of lanes that read the same, two stand for all that know the same: who wrote it is one of them at most.
        let together = !self.has_alone();
        let (mut last, mut alike) = (None, 0);
        for (lane, spot) in spots.clone() {
            alike = if last == Some(spot) { alike + 1 } else { 0 };
            last = Some(spot);
            if !what.wrote && alike > 1 && together {
                continue;
            }
            if let Some(run) = count.checked_sub(1).and_then(|last: usize| runs.get_mut(last))
                && lane == run.first + run.lanes
                && spot == run.start.plus(run.lanes * what.bytes)
            {
                run.lanes += 1;
            } else if let Some(next) = runs.get_mut(count) {
                *next = Run { start: spot, first: lane, lanes: 1 };
                count += 1;
            }
        }
        self.runs(runs[..count].iter().copied(), what, &mut same)?;
        if !what.wrote && !self.holes.is_empty() {
            self.repeat_holes(spots);
        }
        Ok(())
    }

    /// What a lane read and nobody wrote, those behind it that read the same did, too.
    #[cold]
    fn repeat_holes(&mut self, spots: impl Iterator<Item = (usize, Spot)>) {
        let found = std::mem::take(&mut self.holes);
        let mut last: Option<(Spot, Option<Hole>)> = None;
        for (lane, spot) in spots {
            let own = found.iter().find(|hole| hole.lane == lane);
            let hole = match last {
                Some((same, hole)) if same == spot => hole.map(|hole| Hole { lane, ..hole }),
                _ => own.copied(),
            };
            self.holes.extend(hole);
            last = Some((spot, hole));
        }
    }

    /// Whether something comes to hold that another cluster on another core is about to do.
    #[cold]
    fn settles(&self, mut holds: impl FnMut() -> bool) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < SOON && !self.global.has_raced() {
            if holds() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    /// Takes note of what lanes read and nobody wrote.
    fn find_holes(&mut self, run: Run, bytes: usize) {
        for i in 0..run.lanes {
            let Spot::Shared(cta, at) = run.start.plus(i * bytes) else { return };
            let missing = self.shadows[cta].unwritten(at.wrapping_sub(SHARED_START) as usize, bytes);
            if missing != 0 {
                self.holes.push(Hole { lane: run.first + i, at, bytes: missing });
            }
        }
    }

    /// What lanes have just read and nobody wrote.
    #[inline]
    pub(crate) fn take_holes(&mut self) -> Vec<Hole> {
        std::mem::take(&mut self.holes)
    }

    /// Whether a lane's access is of the instruction that is executed.
    fn is_now(&self, access: &Access) -> bool {
        let now = self.warps[self.warp].clocks.known.get(access.agent);
        access.pc == self.pc
            && access.cluster == self.cluster
            && usize::from(access.agent) == self.warp
            && access.clock == now
            && access.lane != NO_LANE
    }

    /// Whether a lane may write where another one did: what that wrote, or, in the same instruction, something else.
    fn may_write(
        &mut self,
        (first, new): (&Access, Access),
        run: Run,
        bytes: usize,
        same: &mut impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> bool {
        let mut with = |other| same(other, run.first, run.start);
        let beside = match usize::from(first.lane) {
            _ if !self.is_now(first) => None,
            lane @ 0..LANES => with(Some(lane)),
            _ => (0..run.first).find_map(|lane| with(Some(lane))),
        };
        match beside {
            Some(true) => true,
            Some(false) => {
                // One of them wins, and from here on none of them knows what is there.
                let new = Access { lane: MANY_LANES, ..new };
                self.contested = true;
                self.spot(run.start, bytes, new, true, &Flag::new(false)).is_ok()
            }
            None => {
                let mut is_there = || with(None) == Some(true);
                is_there() || first.cluster != self.cluster && self.settles(is_there)
            }
        }
    }

    /// Whether lanes of the instruction have just written different values to one place.
    #[inline]
    pub(crate) fn take_contested(&mut self) -> bool {
        std::mem::take(&mut self.contested)
    }

    fn runs(
        &mut self,
        mut runs: impl Iterator<Item = Run> + Clone,
        what: Lanes,
        same: &mut impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> Result<(), Reason> {
        let plain = self.plain(runs.clone(), what)?;
        runs.try_for_each(|run| if run.first < plain { Ok(()) } else { self.run(run, what, same) })
    }

    /// Checks and remembers the accesses of the first runs of which there is nothing to say, and gives the lane that they end at.
    fn plain(&mut self, runs: impl Iterator<Item = Run>, what: Lanes) -> Result<usize, Reason> {
        let Lanes { bytes, kind, wrote, reads, .. } = what;
        if wrote && reads {
            return Ok(0);
        }
        let new = self.access(By::Lanes(0, bytes.trailing_zeros() as u8), kind)?;
        let unwritten = Flag::new(false);
        let warp = &self.warps[self.warp];
        let mut check = Check {
            new,
            wrote,
            before: &warp.clocks,
            unwritten: None,
            readers: READERS[1],
            releases: (&self.releases[..], self.global.released()),
            alone: None,
            warps_each: self.warps_each,
            // The lanes' accesses are of the generic proxy.
            proxy: 0,
            issuer: None,
        };
        for run in runs {
            check.new.lane = run.first as u8;
            check.alone = warp.alone.of(run.mask());
            let all = run.lanes * bytes;
            let done = match run.start {
                Spot::Global(at) => {
                    let behind = self.behind_preceding((at, all), wrote, run.mask());
                    behind.and_then(|()| self.global.access(at, all, &check))
                }
                // Of others' it is to be known that they have begun.
                Spot::Shared(cta, at) if cta == self.warp / self.warps_each && !self.ended[cta] => {
                    let check = Check { unwritten: Some(&unwritten), readers: READERS[0], ..check };
                    self.shadows[cta].access(at.wrapping_sub(SHARED_START) as usize, all, &check)
                }
                Spot::Shared(..) => return Ok(run.first),
            };
            if done.is_err() || unwritten.get() {
                return Ok(run.first);
            }
        }
        Ok(LANES)
    }

    fn run(
        &mut self,
        run: Run,
        what: Lanes,
        same: &mut impl FnMut(Option<usize>, usize, Spot) -> Option<bool>,
    ) -> Result<(), Reason> {
        let Lanes { bytes, kind, wrote, gives, .. } = what;
        let shift = bytes.trailing_zeros() as u8;
        let new = Access { gives, ..self.access(By::Lanes(run.first as u8, shift), kind)? };
        self.lanes = run.mask();
        if wrote && what.reads {
            self.find_holes(run, bytes);
        }
        let unwritten = Flag::new(false);
        let conflict = match self.spot(run.start, run.lanes * bytes, new, wrote, &unwritten) {
            Ok(()) => {
                if unwritten.get() {
                    self.find_holes(run, bytes);
                }
                return Ok(());
            }
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
            Conflict::Race { first, wrote: true }
            | Conflict::Lanes { first, wrote: true }
            | Conflict::Loose { first, wrote: true }
            | Conflict::Alone { first, wrote: true }
                if wrote
                    && usize::from(first.agent) < self.warps.len()
                    && self.may_write((&first, new), run, bytes, same) =>
            {
                Ok(())
            }
            conflict => {
                self.culprit = Some(run.first);
                if let Conflict::Race { first, .. } = conflict
                    && first.cluster == self.cluster
                    && self.accused == Some(first.agent.into())
                {
                    self.late = true;
                }
                let thread = self.warp % self.warps_each * 32 + run.first;
                let access = if wrote { "write" } else { "read" };
                Err(self.explain(conflict, &run.start.name(bytes), &format!("{access} of thread {thread}")))
            }
        }
    }
}
