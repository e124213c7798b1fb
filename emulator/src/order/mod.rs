//! Whether accesses to memory are ordered by what the program waits for.
//!
//! All that is asynchronous takes effect when it is issued. What could have come out otherwise on a GPU is found by
//! vector clocks: each warp has one, and so has what works beside the warps: the copies that complete on an mbarrier,
//! those of `cp.async` and of bulk groups, and the products of a warpgroup. An access that conflicts with an earlier
//! one of the same bytes must be ordered after it.
//!
//! PTX ISA, "Memory Consistency Model", "Proxies" and "Asynchronous operations". The manual knows threads; here the
//! accesses of a warp are ordered among themselves, but for those of different lanes between two synchronisations; what some lanes
//! alone release is not what the others read and wrote, and what they alone acquire the others do not know. Writes that leave what
//! is there do not race, whoever made them. An arrival at an mbarrier that names no scope is for all who wait there, and so is every wait.

pub(crate) mod access;
mod alone;
mod by;
mod cell;
mod cells;
pub(crate) mod clock;
mod clusters;
pub(crate) mod global;
mod groups;
pub(crate) mod lanes;
pub(crate) mod preceding;
mod released;
mod releases;
mod report;
mod shadow;
pub(crate) mod spot;
mod synchronise;

use std::cell::Cell as Flag;
use std::collections::HashMap;

use crate::error::Reason;
use crate::memory::SHARED_START;
use crate::program::Program;
use access::{ASYNC, Access, GAP, NO_LANE};
use alone::Alone;
pub(crate) use by::{By, Moment, Phase};
use cell::{Check, Conflict, Issuer};
use clock::Clocks;
use global::{GlobalOrder, LOCATION};
use groups::Groups;
use lanes::Hole;
use preceding::Preceding;
use releases::Releases;
use shadow::{SHARED_CELL, Shadow};
use spot::Spot;

/// Reads of several clusters that a cell of shared and of global memory remembers: whole launches read the latter.
const READERS: [usize; 2] = [usize::MAX, 4];

/// A warp's clocks, and its groups of asynchronous operations.
#[derive(Debug, Default)]
struct Warp {
    clocks: Clocks,
    /// At its last fence: what later relaxed writes pass on. By scope, if the kernel has several.
    released: [Option<Clocks>; 3],
    /// What relaxed reads of lanes saw, of all of them with `u32::MAX`: a later fence of theirs puts it before what follows.
    seen: [Option<(Clocks, u32)>; 3],
    /// What some lanes have learnt, and the others not.
    alone: Alone,
    /// When its last fence was.
    fence: u32,
    /// It knows that all CTAs of its cluster have begun.
    met: bool,
    copies: Groups,
    bulk_reads: Groups,
    bulk_writes: Groups,
    /// The agent of a warpgroup's products, in its first warp.
    products: Option<u16>,
}

/// The order of a cluster's accesses.
#[derive(Debug)]
pub(crate) struct Order<'l> {
    program: &'l Program,
    cluster: u32,
    warps_each: usize,
    global: &'l GlobalOrder,
    /// Preceding grids that may still run, if there are some.
    preceding: Option<&'l Preceding>,
    /// The agent that stands for them: what they did comes before its time 1.
    preceding_agent: u16,
    /// Shared memory of the CTAs.
    shadows: Vec<Shadow>,
    /// The CTAs that have launched dependent grids.
    launched_dependents: Vec<bool>,
    /// The CTAs that have ended.
    ended: Vec<bool>,
    /// The agents that are warps, CTA after CTA.
    warps: Vec<Warp>,
    /// The releases of each of them.
    releases: Vec<Releases>,
    /// Agents so far.
    agents: usize,
    /// What strong writes passed on through a CTA's shared address.
    locations: HashMap<(usize, u32), Clocks>,
    /// What they passed on to the threads of a CTA or, without one, of the cluster, if the kernel has several scopes.
    narrow: HashMap<(Option<usize>, Spot), Clocks>,
    /// The agents of what completes on mbarriers.
    mbarriers: HashMap<(usize, u32), u16>,
    /// A warp that has read what nobody had written, and whether another one has shown that it should have waited.
    accused: Option<usize>,
    late: bool,
    /// The lane whose access was refused.
    culprit: Option<usize>,
    /// What the lanes of an instruction read and nobody wrote.
    holes: Vec<Hole>,
    /// Lanes of an instruction wrote different values to one place.
    contested: bool,
    /// The warp and the instruction whose accesses are told.
    warp: usize,
    pc: u32,
    /// The lanes that make those that are told as no single lane's.
    lanes: u32,
}

impl<'l> Order<'l> {
    pub(crate) fn new(
        program: &'l Program,
        (global, preceding): (&'l GlobalOrder, &'l Preceding),
        cluster: u32,
        [ctas, warps_each, shared]: [usize; 3],
    ) -> Self {
        let mut warps: Vec<_> = (0..ctas * warps_each).map(|_| Warp::default()).collect();
        for (agent, warp) in (0..).zip(&mut warps) {
            warp.clocks.known.raise(agent, 1);
        }
        Self {
            program,
            cluster,
            warps_each,
            global,
            preceding: Some(preceding).filter(|preceding| !preceding.is_empty()),
            preceding_agent: warps.len() as u16,
            shadows: (0..ctas).map(|_| Self::shadow(program, global, shared)).collect(),
            launched_dependents: vec![false; ctas],
            ended: vec![false; ctas],
            releases: warps.iter().map(|_| Releases::default()).collect(),
            agents: warps.len() + 1,
            warps,
            locations: HashMap::new(),
            narrow: HashMap::new(),
            mbarriers: HashMap::new(),
            accused: None,
            late: false,
            culprit: None,
            holes: Vec::new(),
            contested: false,
            warp: 0,
            pc: 0,
            lanes: u32::MAX,
        }
    }

    /// Of shared memory of so many bytes, before anybody has accessed it.
    fn shadow(program: &Program, global: &GlobalOrder, bytes: usize) -> Shadow {
        let mut shadow = Shadow::new(bytes, SHARED_CELL);
        for (variable, gap) in program.shared.gaps() {
            let new = Access { kind: GAP, pc: variable as u32, lane: NO_LANE, ..Access::default() };
            let before = &Clocks::default();
            let releases = (&[][..], global.released());
            let readers = READERS[0];
            let (unwritten, alone) = (None, None);
            let (wrote, warps_each, proxy, issuer) = (true, 1, 0, None);
            let check =
                Check { new, wrote, before, unwritten, readers, releases, alone, warps_each, proxy, issuer };
            // Nobody has accessed it, so nothing conflicts.
            let _ = shadow.access(gap.start as usize, gap.len(), &check);
        }
        shadow
    }

    /// Bytes that what is known of accesses takes.
    pub(crate) fn bytes(&self) -> u64 {
        let groups = |warp: &Warp| warp.copies.bytes() + warp.bulk_reads.bytes() + warp.bulk_writes.bytes();
        let passed = (self.locations.len() + self.narrow.len()) as u64 * LOCATION;
        let warps = self.warps.iter().map(groups).sum::<u64>();
        self.shadows.iter().map(Shadow::bytes).sum::<u64>() + warps + passed
    }

    /// Bytes more that cells of shared memory take if all of it is accessed.
    pub(crate) fn bytes_to_come(&self) -> u64 {
        self.shadows.iter().map(Shadow::bytes_to_come).sum()
    }

    /// What follows is of this instruction of a warp.
    #[inline]
    pub(crate) fn issue(&mut self, cta: usize, index: u32, pc: u32) {
        self.warp = cta * self.warps_each + index as usize;
        self.pc = pc;
        self.lanes = u32::MAX;
    }

    /// What follows is of this lane of it.
    pub(crate) fn of_lane(&mut self, lane: usize) {
        self.lanes = 1 << lane;
    }

    /// The warp has read what nobody has written: who writes it later has come too late.
    pub(crate) fn accuse(&mut self, cta: usize, index: u32) {
        self.accused = Some(cta * self.warps_each + index as usize);
    }

    /// Whether another warp has come too late for the one that was accused.
    pub(crate) fn is_late(&self) -> bool {
        self.late
    }

    /// The lane whose access was refused, if it was a single one's.
    pub(crate) fn culprit(&self) -> Option<usize> {
        self.culprit
    }

    /// The instruction whose accesses are told.
    pub(crate) fn pc(&self) -> u32 {
        self.pc
    }

    fn new_agent(agents: &mut usize) -> Result<u16, Reason> {
        *agents += 1;
        u16::try_from(*agents - 1)
            .map_err(|_| Reason::limit("more mbarriers than can be told apart in a cluster"))
    }

    /// The access that the instruction makes.
    fn access(&mut self, by: By, kind: u8) -> Result<Access, Reason> {
        let mut access =
            Access { cluster: self.cluster, pc: self.pc, lane: NO_LANE, kind, shift: 4, ..Access::default() };
        let warp = &mut self.warps[self.warp];
        let (groups, lanes) = match by {
            By::Warp | By::Lanes(..) => {
                access.agent = self.warp as u16;
                access.clock = warp.clocks.known.get(access.agent);
                if let By::Lanes(lane, shift) = by {
                    (access.lane, access.shift) = (lane, shift);
                    self.lanes = 1 << (lane & 31);
                }
                return Ok(access);
            }
            By::Phase(Phase { agent, number }) => {
                (access.agent, access.clock) = (agent, number + 1);
                return Ok(access);
            }
            By::Copies(lanes) => (&mut warp.copies, lanes),
            By::BulkReads(lanes) => (&mut warp.bulk_reads, lanes),
            By::BulkWrites(lanes) => (&mut warp.bulk_writes, lanes),
        };
        access.clock = groups.issue(lanes);
        access.agent = match groups.agent {
            Some(agent) => agent,
            None => *groups.agent.insert(Self::new_agent(&mut self.agents)?),
        };
        Ok(access)
    }

    /// An access of a CTA's shared memory.
    pub(crate) fn shared(
        &mut self,
        (cta, at): (usize, u32),
        bytes: usize,
        (by, kind): (By, u8),
        wrote: bool,
    ) -> Result<(), Reason> {
        let (new, unwritten) = (self.access(by, kind)?, Flag::new(false));
        let done = self.spot(Spot::Shared(cta, at), bytes, new, wrote, &unwritten);
        let done = done.and_then(|()| if unwritten.get() { Err(Conflict::Unwritten) } else { Ok(()) });
        done.map_err(|conflict| self.explain(conflict, &Spot::Shared(cta, at).name(bytes), said(wrote)))
    }

    /// An access of global memory.
    pub(crate) fn global(
        &mut self,
        at: u64,
        bytes: usize,
        (by, kind): (By, u8),
        wrote: bool,
    ) -> Result<(), Reason> {
        let new = self.access(by, kind)?;
        self.spot(Spot::Global(at), bytes, new, wrote, &Flag::new(false))
            .map_err(|conflict| self.explain(conflict, &Spot::Global(at).name(bytes), said(wrote)))
    }

    /// Whether the warp knows that a CTA has begun.
    #[inline]
    fn has_begun(&self, cta: usize) -> bool {
        let (warp, first) = (&self.warps[self.warp], cta * self.warps_each);
        let knows = |agent: usize| warp.clocks.known.get(agent as u16) > 0;
        self.warp / self.warps_each == cta || warp.met || (first..first + self.warps_each).any(knows)
    }

    /// The async proxy of this memory, among those that the program's fences tell apart.
    #[inline]
    fn proxy(&self, spot: Spot) -> usize {
        usize::from(self.program.proxies && matches!(spot, Spot::Global(_)))
    }

    #[inline]
    fn spot(
        &mut self,
        spot: Spot,
        bytes: usize,
        new: Access,
        wrote: bool,
        unwritten: &Flag<bool>,
    ) -> Result<(), Conflict> {
        let warp = &self.warps[self.warp];
        let mut check = Check {
            new,
            wrote,
            before: &warp.clocks,
            unwritten: Some(unwritten),
            readers: READERS[0],
            releases: (&self.releases[..], self.global.released()),
            alone: warp.alone.of(self.lanes),
            warps_each: self.warps_each,
            proxy: self.proxy(spot),
            issuer: (new.kind & ASYNC != 0 && self.lanes != u32::MAX).then(|| Issuer {
                warp: self.warp as u16,
                lanes: self.lanes,
                apart: self.releases[self.warp].apart(),
            }),
        };
        match spot {
            Spot::Shared(cta, _) if self.ended[cta] => Err(Conflict::Ended),
            Spot::Shared(cta, at) => {
                self.shadows[cta].access(at.wrapping_sub(SHARED_START) as usize, bytes, &check)?;
                if self.has_begun(cta) { Ok(()) } else { Err(Conflict::NotBegun) }
            }
            Spot::Global(at) => {
                self.behind_preceding((at, bytes), wrote, self.lanes)?;
                (check.unwritten, check.readers) = (None, READERS[1]);
                self.global.access(at, bytes, &check)
            }
        }
    }

    /// The pieces of 16 bytes that a product of a warpgroup reads; the warp is its first.
    pub(crate) fn product(
        &mut self,
        cta: usize,
        group: u32,
        pieces: impl Iterator<Item = u32>,
    ) -> Result<(), Reason> {
        let agent = match self.warps[self.warp].products {
            Some(agent) => agent,
            None => *self.warps[self.warp].products.insert(Self::new_agent(&mut self.agents)?),
        };
        let new = Access { agent, clock: group, ..self.access(By::Warp, ASYNC)? };
        // What one of the warps does not know to be ready, it reads too early.
        let mut before = self.warps[self.warp].clocks.clone();
        self.warps[self.warp + 1..self.warp + 4].iter().for_each(|warp| before.meet(&warp.clocks));
        let (unwritten, warps_each) = (Flag::new(false), self.warps_each);
        let releases = (&self.releases[..], self.global.released());
        let check = Check {
            new,
            wrote: false,
            before: &before,
            unwritten: Some(&unwritten),
            readers: READERS[0],
            releases,
            // The lanes execute it together, whoever waited for what it reads.
            alone: None,
            warps_each,
            proxy: 0,
            issuer: None,
        };
        for at in pieces {
            let from = at.wrapping_sub(SHARED_START) as usize;
            let done = self.shadows[cta].access(from, 16, &check);
            let done = done.and_then(|()| if unwritten.get() { Err(Conflict::Unwritten) } else { Ok(()) });
            done.map_err(|conflict| self.explain(conflict, &Spot::Shared(cta, at).name(16), said(false)))?;
        }
        Ok(())
    }
}

fn said(wrote: bool) -> &'static str {
    if wrote { "write" } else { "read" }
}
