//! A CTA's shared memory and barriers.

use std::collections::HashMap;

use crate::error::Reason;
use crate::memory::{IN_CTA, RANK_SHIFT, SHARED_START};
use crate::order::clock::Meeting;
use crate::order::{Moment, Phase};
use crate::tensor::memory::Memory;

/// Named barriers of a CTA.
const BARRIERS: usize = 16;

/// What an mbarrier's tx-count may be, and the negative of it.
const MOST_BYTES: i64 = (1 << 20) - 1;

/// A named barrier: `bar.sync`.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier {
    /// Threads that have arrived, in whole warps.
    pub(super) arrived: u32,
    /// How many must; `None` for all of the CTA.
    pub(super) expected: Option<u32>,
    /// Whether they reduce: those who do not must not meet them.
    reduces: bool,
    /// Times that it has completed.
    pub(super) generation: u64,
    pub(super) meeting: Meeting,
    /// Of the threads that are about to arrive, those whose predicate holds, and all.
    pub(super) votes: [u32; 2],
    /// The same of those that met here last.
    pub(super) tally: [u32; 2],
}

impl Barrier {
    /// Whether nobody has been there.
    fn is_new(&self) -> bool {
        self.arrived == 0 && self.generation == 0 && self.votes == [0; 2]
    }
}

/// A barrier in shared memory.
#[derive(Clone, Debug)]
pub(super) struct Mbarrier {
    /// Arrivals of every phase.
    pub(super) expected: u32,
    /// Arrivals that this phase still waits for.
    pub(super) pending: u32,
    /// Bytes that this phase still waits for; negative when they came before they were expected.
    pub(super) bytes: i64,
    /// Phases completed.
    pub(super) phase: u64,
    /// When a warp completed the last of them, unless a copy did.
    pub(super) completed: Option<Moment>,
    /// For the order of accesses: who copies that complete a phase are, and who meets here.
    pub(super) agent: u16,
    pub(super) meeting: Meeting,
}

impl Mbarrier {
    pub(super) fn new(count: u32, agent: u16) -> Self {
        let meeting = Meeting::default();
        Self { expected: count, pending: count, bytes: 0, phase: 0, completed: None, agent, meeting }
    }

    fn settle(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.completed = None;
            self.pending = self.expected;
            self.meeting.raise(self.agent, self.phase as u32);
            self.meeting.complete();
        }
    }

    /// The current phase.
    pub(super) fn current(&self) -> Phase {
        Phase { agent: self.agent, number: self.phase as u32 }
    }

    pub(super) fn arrive(&mut self, count: u32) -> Result<(), Reason> {
        self.pending = self.pending.checked_sub(count).ok_or_else(|| {
            let Self { pending, expected, .. } = self;
            Reason::misuse(format!("{count} arrivals at an mbarrier that waits for {pending} of {expected}"))
        })?;
        self.settle();
        Ok(())
    }

    /// More bytes are to come, or fewer.
    pub(super) fn transact(&mut self, bytes: i64) -> Result<(), Reason> {
        self.bytes += bytes;
        match self.bytes.abs() {
            0..=MOST_BYTES => Ok(()),
            _ => Err(Reason::misuse(format!(
                "an mbarrier's tx-count of {}: must be from -{MOST_BYTES} to {MOST_BYTES}",
                self.bytes
            ))),
        }
    }

    pub(super) fn expect(&mut self, bytes: u32) -> Result<(), Reason> {
        self.transact(bytes.into())?;
        self.settle();
        Ok(())
    }

    pub(super) fn complete(&mut self, bytes: u32) -> Result<(), Reason> {
        self.transact(-i64::from(bytes))?;
        self.settle();
        Ok(())
    }

    /// Whether the phase of this parity is complete: the current one has the other.
    pub(super) fn passed(&self, parity: u32) -> bool {
        self.phase & 1 != u64::from(parity & 1)
    }

    /// Whether the phase in which an arrival gave this state is complete.
    pub(super) fn has_left(&self, state: u64) -> Result<bool, Reason> {
        let phase = state >> 20;
        if phase == self.phase || phase + 1 == self.phase {
            return Ok(phase < self.phase);
        }
        Err(Reason::misuse(format!(
            "a state of phase {phase} of an mbarrier, of which phase {} has begun: it must be of that or of the one before",
            self.phase
        )))
    }

    /// What `arrive` returns: the phase and the pending count.
    pub(super) fn state(&self) -> u64 {
        self.phase << 20 | u64::from(self.pending)
    }
}

/// A CTA while it runs.
#[derive(Debug)]
pub(super) struct Cta {
    /// Its place in the grid.
    pub(super) index: [u32; 3],
    /// Shared memory from [`SHARED_START`] on.
    shared: Vec<u8>,
    pub(super) barriers: Box<[Barrier; BARRIERS]>,
    mbarriers: HashMap<u32, Mbarrier>,
    /// Registers that warps have given back, in those of one thread of a warp.
    pub(super) spare_registers: u32,
    /// What each warp has changed of its registers, one after the other, and whether it has ended.
    pub(super) warps: Vec<(Vec<u32>, bool)>,
    /// Warps that have a thread left.
    pub(super) live_warps: u32,
}

impl Cta {
    /// A CTA before its first instruction, in the memory of one that has ended, if there is one.
    pub(super) fn new(index: [u32; 3], shared_bytes: u32, warps: u32, old: Option<Cta>) -> Self {
        let (mut shared, mut barriers) = old.map(|old| (old.shared, old.barriers)).unwrap_or_default();
        shared.clear();
        shared.resize(shared_bytes as usize, 0xcd);
        barriers.iter_mut().filter(|barrier| !barrier.is_new()).for_each(|used| *used = Barrier::default());
        Self {
            index,
            shared,
            barriers,
            mbarriers: HashMap::new(),
            spare_registers: 0,
            warps: vec![(Vec::new(), false); warps as usize],
            live_warps: warps,
        }
    }

    /// Counts a warp at a named barrier, and completes it when all are there.
    pub(super) fn arrive(&mut self, id: u32, expected: Option<u32>, reduces: bool) -> Result<(), Reason> {
        let count = BARRIERS;
        let barrier = self
            .barriers
            .get_mut(id as usize)
            .ok_or_else(|| Reason::misuse(format!("barrier {id} of {count}")))?;
        if let Some(expected) = expected
            && (expected == 0 || !expected.is_multiple_of(32))
        {
            return Err(Reason::misuse(format!(
                "barrier {id} for {expected} threads: must be a multiple of 32"
            )));
        }
        if barrier.arrived > 0 && barrier.expected != expected {
            let first = barrier.expected.map_or("all".into(), |n| n.to_string());
            let second = expected.map_or("all".into(), |n| n.to_string());
            return Err(Reason::misuse(format!(
                "barrier {id} for {second} threads, where others wait for {first}"
            )));
        }
        if barrier.arrived > 0 && barrier.reduces != reduces {
            let (own, others) = if reduces { ("reduces", "do not") } else { ("does not reduce", "do") };
            return Err(Reason::misuse(format!(
                "barrier {id}: the warp {own}, and others that wait there {others}"
            )));
        }
        (barrier.expected, barrier.reduces) = (expected, reduces);
        barrier.arrived += 32;
        self.settle(id as usize);
        Ok(())
    }

    #[inline]
    fn settle(&mut self, id: usize) {
        let barrier = &mut self.barriers[id];
        if barrier.arrived == 0 {
            return;
        }
        let expected = barrier.expected.unwrap_or(32 * self.live_warps);
        if barrier.arrived >= expected {
            (barrier.arrived, barrier.expected) = (0, None);
            barrier.generation += 1;
            barrier.tally = std::mem::take(&mut barrier.votes);
            barrier.meeting.complete();
        }
    }

    /// The warps of a warp's warpgroup.
    pub(super) fn warpgroup(&self, warp: u32) -> std::ops::Range<usize> {
        let first = warp as usize / 4 * 4;
        first..(first + 4).min(self.warps.len())
    }

    /// A warp has ended: barriers for all threads no longer wait for it.
    pub(super) fn warp_ended(&mut self, warp: u32) -> Result<(), Reason> {
        self.live_warps -= 1;
        let changes = self.warps[warp as usize].0.len();
        self.warps[warp as usize].1 = true;
        if let Some(other) = self.warpgroup(warp).find(|&other| self.warps[other].0.len() > changes) {
            return Err(Reason::misuse(format!(
                "warp {warp} ends, and warp {other} of its warpgroup has executed a setmaxnreg more than it"
            )));
        }
        (0..BARRIERS).for_each(|id| self.settle(id));
        let unexpected = |(_, barrier): &(&u32, &Mbarrier)| barrier.bytes < 0;
        match self.mbarriers.iter().filter(unexpected).min_by_key(|(at, _)| **at) {
            Some((at, barrier)) if self.live_warps == 0 => Err(Reason::misuse(format!(
                "a CTA ends, and {} bytes were copied that the mbarrier at {at:#x} never expected",
                -barrier.bytes
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn init_mbarrier(&mut self, at: u32, count: u32, agent: u16) -> Result<(), Reason> {
        if count == 0 || count >= 1 << 20 {
            return Err(Reason::misuse(format!(
                "an mbarrier of {count} arrivals: must be from 1 to {}",
                (1 << 20) - 1
            )));
        }
        if !at.is_multiple_of(8) {
            return Err(Reason::misaligned(format!(
                "an mbarrier at shared address {at:#x}: must be a multiple of 8"
            )));
        }
        if self.mbarriers.contains_key(&at) {
            return Err(Reason::misuse(format!(
                "the mbarrier at shared address {at:#x} is initialised again, and no mbarrier.inval has ended it"
            )));
        }
        self.write(at, &0xbaba_baba_baba_babau64.to_le_bytes())?;
        self.mbarriers.insert(at, Mbarrier::new(count, agent));
        Ok(())
    }

    pub(super) fn invalidate_mbarrier(&mut self, at: u32) -> Result<(), Reason> {
        self.mbarrier(at)?;
        self.mbarriers.remove(&at);
        Ok(())
    }

    pub(super) fn mbarrier(&mut self, at: u32) -> Result<&mut Mbarrier, Reason> {
        self.mbarriers
            .get_mut(&at)
            .ok_or_else(|| Reason::misuse(format!("no mbarrier was initialised at shared address {at:#x}")))
    }

    /// Those that are initialised, by their addresses.
    pub(super) fn mbarriers(&self) -> &HashMap<u32, Mbarrier> {
        &self.mbarriers
    }

    #[inline(always)]
    fn range(&self, at: u32, bytes: usize) -> Result<std::ops::Range<usize>, Reason> {
        let start = at.wrapping_sub(SHARED_START) as usize;
        if at < SHARED_START || start + bytes > self.shared.len() {
            return Err(self.outside(at, bytes));
        }
        Ok(start..start + bytes)
    }

    #[cold]
    fn outside(&self, at: u32, bytes: usize) -> Reason {
        let (first, end) = (SHARED_START, SHARED_START as usize + self.shared.len());
        Reason::address(format!(
            "{bytes} bytes of shared memory at {at:#x}: out of bounds; the CTA has {first:#x} to {end:#x}"
        ))
    }

    /// Shared memory, from [`SHARED_START`] on.
    #[inline]
    pub(super) fn shared(&self) -> &[u8] {
        &self.shared
    }

    #[inline]
    pub(super) fn shared_mut(&mut self) -> &mut [u8] {
        &mut self.shared
    }

    /// The bytes at an address.
    #[inline]
    pub(super) fn bytes(&self, at: u32, bytes: usize) -> Result<&[u8], Reason> {
        let range = self.range(at, bytes)?;
        Ok(&self.shared[range])
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self, at: u32, bytes: usize) -> Result<&mut [u8], Reason> {
        let range = self.range(at, bytes)?;
        Ok(&mut self.shared[range])
    }
}

/// Whole pieces, aligned to their size: what the matrix instructions and the TMA unit access.
impl Memory<u32> for Cta {
    type Fault = Reason;

    #[inline(always)]
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Reason> {
        aligned(at, into.len())?;
        into.copy_from_slice(self.bytes(at, into.len())?);
        Ok(())
    }

    #[inline]
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Reason> {
        aligned(at, from.len())?;
        self.bytes_mut(at, from.len())?.copy_from_slice(from);
        Ok(())
    }
}

#[inline(always)]
fn aligned(at: u32, bytes: usize) -> Result<(), Reason> {
    let align = if bytes.is_power_of_two() { bytes.min(16) } else { 1 };
    if (at as usize).is_multiple_of(align) {
        Ok(())
    } else {
        Err(Reason::misaligned(format!("{bytes} bytes of shared memory at {at:#x}: misaligned")))
    }
}

/// The CTA that a `shared::cluster` address names, and the address in it.
#[inline(always)]
pub(super) fn in_cluster(address: u32, own: usize, size: usize) -> Result<(usize, u32), Reason> {
    match (address >> RANK_SHIFT) as usize {
        0 => Ok((own, address)),
        rank if rank <= size => Ok((rank - 1, address & IN_CTA)),
        rank => Err(Reason::address(format!(
            "shared address {address:#x} is of CTA {}, in a cluster of {size}",
            rank - 1
        ))),
    }
}
