//! What orders: barriers, fences, waits, and strong accesses.

use super::access::{Access, ENDS, MBARRIER};
use super::cell::Conflict;
use super::clock::{Clocks, Meeting};
use super::groups::Groups;
use super::releases::Releases;
use super::spot::Spot;
use super::{By, Moment, Order, Phase, Warp};
use crate::error::Reason;
use crate::memory::SHARED_START;
use crate::program::operand::{Ordering, Queue, Scope};
use tilewright_ptx::ast::Space;

impl Order<'_> {
    /// What the warp does from here on is not what others learn of.
    pub(crate) fn tick(&mut self) {
        let agent = self.warp as u16;
        let known = &mut self.warps[self.warp].clocks.known;
        known.raise(agent, known.get(agent) + 1);
    }

    /// The warp's lanes meet: from here on they know what each of them has done and what each knows.
    pub(crate) fn meet(&mut self) {
        self.meet_lanes(u32::MAX);
    }

    /// Lanes of the warp meet, all of them with `u32::MAX`. What they did is taken to be known to the others too.
    pub(crate) fn meet_lanes(&mut self, lanes: u32) {
        self.tick();
        let now = self.now();
        self.releases[self.warp].meet(now);
        let warp = &mut self.warps[self.warp];
        warp.alone.meet(lanes);
        warp.seen
            .iter_mut()
            .flatten()
            .filter(|(_, own)| *own & lanes != 0)
            .for_each(|(_, own)| *own |= lanes);
    }

    fn now(&self) -> u32 {
        self.warps[self.warp].clocks.known.get(self.warp as u16)
    }

    /// Lanes of the warp, all of them with `u32::MAX`, arrive where threads of this scope meet.
    pub(crate) fn arrive(&mut self, meeting: &mut Meeting, scope: Scope, release: bool, lanes: u32) {
        let (now, level, warp) = (self.now(), self.level(scope), &self.warps[self.warp]);
        if release {
            meeting.arrived.join(&warp.clocks);
            self.releases[self.warp].release(now, lanes);
            self.tick();
        } else if let Some(released) = &warp.released[level] {
            meeting.arrived.join(released);
            self.releases[self.warp].release_fenced(warp.fence, lanes);
        }
    }

    /// Lanes of the warp, all of them with `u32::MAX`, go on behind a completion.
    pub(crate) fn leave(&mut self, meeting: &Meeting, acquire: bool, lanes: u32) {
        self.learn_in(Scope::Cta, &meeting.completed, acquire, lanes);
        if lanes == u32::MAX {
            let now = self.now();
            self.releases[self.warp].leave(now);
        }
    }

    /// The warp has waited for all threads of the cluster.
    pub(crate) fn meet_cluster(&mut self) {
        self.warps[self.warp].met = true;
        self.meet();
    }

    /// Lanes learn what was passed on to all threads of this scope.
    fn learn_in(&mut self, scope: Scope, clocks: &Clocks, acquire: bool, lanes: u32) {
        if acquire {
            return self.learn(clocks, lanes);
        }
        let level = self.level(scope);
        let (seen, by) = self.warps[self.warp].seen[level].get_or_insert_default();
        seen.join(clocks);
        *by |= lanes;
    }

    fn learn(&mut self, clocks: &Clocks, lanes: u32) {
        let Warp { clocks: warp, alone, .. } = &mut self.warps[self.warp];
        alone.learn(lanes, (self.warp as u16, &warp.known), |known| known.join(&clocks.known));
        warp.join(clocks);
    }

    /// Lanes know that an agent's work is done up to this time.
    fn learn_of(&mut self, agent: u16, to: u32, lanes: u32) {
        let Warp { clocks: warp, alone, .. } = &mut self.warps[self.warp];
        if alone.is_empty() && warp.known.get(agent) >= to {
            return;
        }
        alone.learn(lanes, (self.warp as u16, &warp.known), |known| known.raise(agent, to));
        warp.known.raise(agent, to);
    }

    /// Whether some lanes of the warp have learnt what the others do not know.
    pub(super) fn has_alone(&self) -> bool {
        !self.warps[self.warp].alone.is_empty()
    }

    /// The place of a scope among what is kept of each: there is but one where the kernel has no narrow ones.
    fn level(&self, scope: Scope) -> usize {
        if self.program.narrow { scope as usize } else { 0 }
    }

    /// A fence of memory, of lanes or, with `u32::MAX`, of all.
    pub(crate) fn fence(&mut self, scope: Scope, lanes: u32) {
        let (level, now) = (self.level(scope), self.now());
        for inside in 0..=level {
            if let Some((seen, by)) = self.warps[self.warp].seen[inside].take() {
                if by & lanes != 0 {
                    self.learn(&seen, by & lanes);
                }
                // The others that saw it may have a fence of their own.
                self.warps[self.warp].seen[inside] = Some((seen, by & !lanes)).filter(|(_, by)| *by != 0);
            }
        }
        let warp = &mut self.warps[self.warp];
        warp.fence = now;
        warp.released[..=level].fill(Some(warp.clocks.clone()));
        self.tick();
    }

    /// A fence between the generic and the async proxy, of this space or of both, of lanes or, with `u32::MAX`, of all.
    pub(crate) fn proxy_fence(&mut self, space: Option<Space>, lanes: u32) {
        let proxies = match space {
            _ if !self.program.proxies => 0..1,
            None => 0..2,
            Some(Space::Global) => 1..2,
            Some(_) => 0..1,
        };
        let met = self.releases[self.warp].met();
        self.warps[self.warp].clocks.fence(proxies, self.warp as u16, lanes, met);
        self.tick();
    }

    /// A strong access of an address by lanes, all of them with `u32::MAX`.
    pub(crate) fn strong(
        &mut self,
        (spot, lanes): (Spot, u32),
        reads: bool,
        writes: bool,
        ordering: Ordering,
    ) -> Result<(), Reason> {
        let wide = ordering.scope == Scope::Gpu;
        if reads && wide {
            let passed = match spot {
                Spot::Shared(cta, at) => self.locations.get(&(cta, at)).cloned(),
                Spot::Global(at) => self.global.location(at, self.cluster),
            };
            if let Some(passed) = passed {
                self.learn_in(Scope::Gpu, &passed, ordering.acquire, lanes);
            }
        }
        if self.program.narrow {
            self.strong_inside((spot, lanes), reads, writes, ordering);
        }
        let level = self.level(Scope::Gpu);
        let warp = &self.warps[self.warp];
        let passes = if ordering.release { Some(&warp.clocks) } else { warp.released[level].as_ref() };
        if writes
            && wide
            && let Some(passes) = passes
        {
            match spot {
                Spot::Shared(cta, at) => self.locations.entry((cta, at)).or_default().join(passes),
                Spot::Global(at) => {
                    let passed = self.global.pass(at, self.cluster, passes);
                    passed.map_err(|conflict| self.explain(conflict, &spot.name(0), "write"))?;
                }
            }
        }
        Ok(())
    }

    /// Lanes, all of them with `u32::MAX`, have made strong writes.
    pub(crate) fn released(&mut self, ordering: Ordering, lanes: u32) -> Result<(), Reason> {
        let (now, own) = (self.now(), self.warp as u16);
        let fence = self.warps[self.warp].fence;
        let note = |releases: &mut Releases| match ordering.release {
            true => releases.release(now, lanes),
            false => releases.release_fenced(fence, lanes),
        };
        if !ordering.release && self.warps[self.warp].released[0].is_none() {
            return Ok(());
        }
        let releases = &mut self.releases[self.warp];
        note(releases);
        let passed = self.global.release((self.cluster, own), lanes != u32::MAX, |others| {
            others.follow(releases);
            note(others);
        });
        passed.map_err(|conflict| self.explain(conflict, "a release", "write"))
    }

    /// The same between the threads of the CTA, and between those of the cluster, as far as the access is for them.
    fn strong_inside(&mut self, (spot, lanes): (Spot, u32), reads: bool, writes: bool, ordering: Ordering) {
        let cta = Some(self.warp / self.warps_each);
        for (scope, threads) in [(Scope::Cta, cta), (Scope::Cluster, None)] {
            if ordering.scope < scope {
                continue;
            }
            if reads && let Some(passed) = self.narrow.get(&(threads, spot)).cloned() {
                self.learn_in(scope, &passed, ordering.acquire, lanes);
            }
            let warp = &self.warps[self.warp];
            let released = &warp.released[scope as usize];
            let passes = if ordering.release { Some(&warp.clocks) } else { released.as_ref() };
            if writes && let Some(passes) = passes {
                self.narrow.entry((threads, spot)).or_default().join(passes);
            }
        }
    }

    /// Lanes, all of them with `u32::MAX`, have waited for the preceding grids.
    pub(crate) fn wait_for_preceding(&mut self, lanes: u32) {
        self.learn_of(self.preceding_agent, 1, lanes);
    }

    /// Whether these lanes know that the preceding grids have ended, from whichever CTA that waited.
    fn knows_preceding(&self, lanes: u32) -> bool {
        let warp = &self.warps[self.warp];
        let ended =
            Access { cluster: self.cluster, agent: self.preceding_agent, clock: 1, ..Access::default() };
        let alone = || warp.alone.of(lanes);
        warp.clocks.known.has(self.cluster, &ended)
            && alone().is_none_or(|(alone, lanes)| alone.knows(lanes, self.cluster, &ended))
            || warp.clocks.known.is_known_outside(self.preceding_agent)
    }

    /// Whether these lanes may access so many bytes of global memory though preceding grids may still run.
    #[inline]
    pub(super) fn behind_preceding(
        &self,
        (at, bytes): (u64, usize),
        wrote: bool,
        lanes: u32,
    ) -> Result<(), Conflict> {
        let Some(preceding) = self.preceding.filter(|_| !self.knows_preceding(lanes)) else { return Ok(()) };
        match preceding.meets(at, bytes, wrote) {
            Some(wrote) => Err(Conflict::Preceding { wrote }),
            None => Ok(()),
        }
    }

    /// Lanes, all of them with `u32::MAX`, launch dependent grids, as far as it is their CTA's to do so.
    pub(crate) fn launch_dependents(&mut self, lanes: u32) {
        let cta = self.warp / self.warps_each;
        if !std::mem::replace(&mut self.launched_dependents[cta], true) && self.knows_preceding(lanes) {
            self.global.set_waited();
        }
    }

    /// An mbarrier begins here. Gives the agent of the copies that complete on it.
    pub(crate) fn begin_mbarrier(&mut self, cta: usize, at: u32, lane: usize) -> Result<u16, Reason> {
        self.shared((cta, at), 8, (By::Lanes(lane as u8, 3), MBARRIER), true)?;
        if let Some(&agent) = self.mbarriers.get(&(cta, at)) {
            return Ok(agent);
        }
        let agent = Self::new_agent(&mut self.agents)?;
        self.mbarriers.insert((cta, at), agent);
        Ok(agent)
    }

    /// An mbarrier ends: its bytes are like any other.
    pub(crate) fn end_mbarrier(&mut self, cta: usize, at: u32, lane: usize) -> Result<(), Reason> {
        self.shared((cta, at), 8, (By::Lanes(lane as u8, 3), ENDS), true)
    }

    /// What the warp does now.
    pub(crate) fn moment(&self) -> Moment {
        Moment { agent: self.warp as u16, time: self.now() }
    }

    /// Whether the warp knows that the phases before this one are complete, of which a warp may have completed the last, and so cannot miss
    /// it.
    pub(crate) fn has_seen(&self, phase: Phase, completed: Option<Moment>) -> bool {
        let known = &self.warps[self.warp].clocks.known;
        known.get(phase.agent) >= phase.number
            || completed.is_some_and(|Moment { agent, time }| known.get(agent) >= time)
    }

    /// An mbarrier is used: it must have begun before.
    pub(crate) fn use_mbarrier(&mut self, cta: usize, at: u32) -> Result<(), Reason> {
        if self.ended[cta] {
            return Err(self.explain(Conflict::Ended, &format!("an mbarrier at {at:#x}"), "use"));
        }
        if !self.has_begun(cta) {
            return Err(self.explain(Conflict::NotBegun, &format!("an mbarrier at {at:#x}"), "use"));
        }
        let begun = self.shadows[cta].written(at.wrapping_sub(SHARED_START) as usize);
        if self.warps[self.warp].clocks.known.has(self.cluster, &begun) {
            return Ok(());
        }
        let mbarrier = format!("the mbarrier at shared address {at:#x}");
        Err(self.explain(Conflict::Race { first: begun, wrote: true }, &mbarrier, "use"))
    }

    /// Lanes commit a group.
    pub(crate) fn commit(&mut self, queue: Queue, lanes: u32) {
        let warp = &mut self.warps[self.warp];
        match queue {
            Queue::Copies => warp.copies.commit(lanes),
            Queue::BulkReads | Queue::Bulk => {
                warp.bulk_reads.commit(lanes);
                warp.bulk_writes.commit(lanes);
            }
        }
    }

    /// Lanes, all of them with `u32::MAX`, wait for all but the last `keep` groups.
    pub(crate) fn wait(&mut self, queue: Queue, lanes: u32, keep: u32) {
        let Warp { copies, bulk_reads, bulk_writes, .. } = &mut self.warps[self.warp];
        let wait = |groups: &mut Groups| {
            let completed = groups.wait(lanes, keep);
            groups.agent.map(|agent| (agent, completed))
        };
        let completed = match queue {
            Queue::Copies => [wait(copies), None],
            Queue::BulkReads => [wait(bulk_reads), None],
            Queue::Bulk => [wait(bulk_reads), wait(bulk_writes)],
        };
        for (agent, completed) in completed.into_iter().flatten() {
            self.learn_of(agent, completed, lanes);
        }
    }

    /// Lanes wait for all copies of `cp.async`, committed or not.
    pub(crate) fn wait_all_copies(&mut self, lanes: u32) {
        self.commit(Queue::Copies, lanes);
        self.wait(Queue::Copies, lanes, 0);
    }

    /// All copies that the warp has issued come before the completion of the mbarrier's phase.
    pub(crate) fn arrive_behind_copies(&mut self, meeting: &mut Meeting) {
        let copies = &mut self.warps[self.warp].copies;
        let issued = copies.mark();
        if let Some(agent) = copies.agent {
            meeting.arrived.known.raise(agent, issued);
        }
    }

    /// The warp has waited for the products of its warpgroup up to this group.
    pub(crate) fn wait_products(&mut self, group: u32) {
        let first = self.warp - self.warp % self.warps_each % 4;
        if let Some(agent) = self.warps[first].products {
            self.learn_of(agent, group, u32::MAX);
        }
    }

    /// A CTA has ended: what others do with its shared memory must have come before, and no more may come.
    pub(crate) fn end(&mut self, cta: usize) -> Result<(), Reason> {
        let own = cta * self.warps_each..(cta + 1) * self.warps_each;
        let mut before = Clocks::default();
        self.warps[own.clone()].iter().for_each(|warp| before.join(&warp.clocks));
        // A thread's own cp.async and products are complete when it has ended.
        let mut outside = vec![false; self.agents];
        outside[..self.warps.len()].fill(true);
        outside[own].fill(false);
        self.mbarriers.values().for_each(|&agent| outside[usize::from(agent)] = true);
        let is_late =
            |access: &Access| outside[usize::from(access.agent)] && !before.known.has(self.cluster, access);
        let late = if outside.contains(&true) { self.shadows[cta].find(&is_late) } else { None };
        self.ended[cta] = true;
        if !self.launched_dependents[cta] && before.known.get(self.preceding_agent) > 0 {
            self.global.set_waited();
        }
        match late {
            Some((access, wrote)) => {
                let conflict = Conflict::Race { first: access, wrote };
                Err(self.explain(conflict, "shared memory of a CTA that ends", "end"))
            }
            None => Ok(()),
        }
    }

    /// What lanes that end have left behind.
    pub(crate) fn exit(&self, lanes: u32) -> Result<(), Reason> {
        match self.warps[self.warp].bulk_reads.has(lanes) {
            true => Err(Reason::race(
                "a thread ends, and its bulk copies may still read shared memory (cp.async.bulk.wait_group.read)",
            )),
            false => Ok(()),
        }
    }
}
