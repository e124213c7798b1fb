//! A warp: its registers, and where its lanes are.

use call::Call;
use first::First;
use group::{Group, Wait};
use poll::Poll;
use products::Groups;
use watched::{Passing, Watched};
pub(super) mod call;
pub(super) mod first;
pub(super) mod group;
mod operand;
pub(super) mod poll;
pub(super) mod products;
pub(super) mod watched;

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::count::executed::Classes;
use crate::error::Reason;
use crate::program::Program;
use crate::program::class::Class;
use crate::program::operand::Source;
use crate::program::register::{Condition, D, L32, L64, LANES, P, R};

/// A warp while it runs.
#[derive(Debug, Default)]
pub(super) struct Warp {
    /// The CTA, by its rank in the cluster.
    pub(super) cta: usize,
    /// The warp's number in the CTA.
    pub(super) index: u32,
    /// The number of its first thread among those of some CTAs.
    pub(super) number: u32,
    pub(super) p: Vec<u32>,
    pub(super) r: Vec<L32>,
    pub(super) d: Vec<L64>,
    /// The lanes that have begun.
    begun: u32,
    /// The lanes that have not ended, by where they are.
    pub(super) groups: Vec<Group>,
    /// Where the lanes of an instruction that scatters them go: instructions and lanes.
    pub(super) targets: Vec<(u32, u32)>,
    /// The calls that have not returned, the innermost last.
    pub(super) calls: Vec<Call>,
    /// Lanes that have arrived at the cluster's barrier in this phase.
    pub(super) at_cluster: u32,
    /// The phase that they wait for.
    pub(super) cluster_generation: u64,
    /// Local memory, lane after lane.
    pub(super) local: Vec<u8>,
    /// Polls of mbarriers that fail from now on end: everybody waits.
    pub(super) give_up: bool,
    /// A poll of an mbarrier whose completion it cannot know of fails once.
    pub(super) misses: bool,
    /// Lanes that let others of the warp go first.
    pub(super) behind: u32,
    pub(super) poll: Option<Poll>,
    pub(super) wgmma: Groups,
    /// Registers of a thread, once it has changed them.
    pub(super) thread_registers: Option<u32>,
    /// By slot.
    pub(super) watched: Vec<Watched>,
    /// What is watched besides, for a while.
    pub(super) passing: Passing,
    /// The lane that did something wrong, where one is known.
    pub(super) culprit: Option<u32>,
    /// It was stopped for what another warp may be about to write.
    pub(super) early: bool,
    /// What its lanes printed last, of the first lane.
    pub(super) said: Option<String>,
    /// Instructions done.
    pub(super) retired: u64,
    /// The same by class.
    pub(super) classes: Classes,
}

impl Warp {
    /// Begins, in the memory of a warp of the same program that has ended, or of none.
    pub(super) fn begin(&mut self, program: &Program, first: &First, new: usize, index: u32, lanes: u32) {
        let mask = if lanes >= 32 { u32::MAX } else { (1 << lanes) - 1 };
        let Self {
            cta,
            index: own_index,
            number,
            p,
            r,
            d,
            begun,
            groups,
            targets,
            calls,
            at_cluster,
            cluster_generation,
            local,
            give_up,
            misses,
            behind,
            poll,
            wgmma,
            thread_registers,
            watched,
            passing,
            culprit,
            early,
            said,
            retired,
            classes,
        } = self;
        (*cta, *own_index, *number, *begun) = (new, index, 32 * index, mask);
        p.clear();
        p.resize(program.registers[0] as usize, 0);
        first.fill(r, d);
        groups.clear();
        groups.push(Group { pc: program.start, mask, wait: Wait::No });
        targets.clear();
        calls.clear();
        (*at_cluster, *cluster_generation, *behind) = (0, 0, 0);
        (*give_up, *misses) = (false, false);
        local.clear();
        local.resize(program.local as usize * LANES, 0xcd);
        (*poll, *thread_registers) = (None, None);
        (*wgmma, *passing) = (Groups::default(), Passing::default());
        watched.clear();
        watched.extend(Watched::all(program));
        (*culprit, *early, *said) = (None, false, None);
        (*retired, *classes) = (0, Classes::default());
    }

    /// An instruction of these lanes is done.
    #[inline(always)]
    pub(super) fn retire(&mut self, class: Class, lanes: u32) {
        self.retired += 1;
        self.classes.count(class, lanes);
    }

    /// What decides how it goes on, as long as nobody else does anything.
    pub(super) fn state(&self) -> u64 {
        let mut state = DefaultHasher::new();
        self.p.hash(&mut state);
        self.r.as_flattened().hash(&mut state);
        self.d.as_flattened().hash(&mut state);
        self.groups.hash(&mut state);
        self.calls.hash(&mut state);
        self.behind.hash(&mut state);
        self.local.hash(&mut state);
        state.finish()
    }

    /// Lanes that have not ended.
    pub(super) fn live(&self) -> u32 {
        self.groups.iter().fold(0, |live, group| live | group.mask)
    }

    /// Lanes, as `u32::MAX` if they are all that have begun.
    pub(super) fn all_of(&self, lanes: u32) -> u32 {
        if lanes == self.begun { u32::MAX } else { lanes }
    }

    #[inline(always)]
    pub(super) fn r(&self, R(register): R) -> &L32 {
        &self.r[register as usize]
    }

    #[inline(always)]
    pub(super) fn d(&self, D(register): D) -> &L64 {
        &self.d[register as usize]
    }

    #[inline(always)]
    pub(super) fn condition(&self, condition: Condition) -> u32 {
        let P(predicate) = condition.predicate;
        let value = self.p[predicate as usize];
        if condition.negated { !value } else { value }
    }

    #[inline(always)]
    pub(super) fn put_p(&mut self, P(predicate): P, mask: u32, value: u32) {
        let slot = &mut self.p[predicate as usize];
        *slot = *slot & !mask | value & mask;
    }

    #[inline(always)]
    pub(super) fn put_r(&mut self, R(register): R, mask: u32, value: &L32) {
        put(&mut self.r[register as usize], mask, value);
    }

    #[inline(always)]
    pub(super) fn put_d(&mut self, D(register): D, mask: u32, value: &L64) {
        put(&mut self.d[register as usize], mask, value);
    }

    /// The value of the first of these lanes, which must be the same in all.
    pub(super) fn uniform(&mut self, register: R, mask: u32) -> Result<u32, Reason> {
        let values = self.r(register);
        let first = values[mask.trailing_zeros() as usize % LANES];
        if self.is_same(Source::R(register), mask) {
            return Ok(first);
        }
        let other = lanes(mask).find(|&lane| values[lane] != first).unwrap_or(0);
        let what = "an operand differs between the lanes of a warp, where it must not";
        Err(self.blame(other, Reason::misuse(what)))
    }
}

#[inline(always)]
fn put<T: Copy>(slot: &mut [T; LANES], mask: u32, value: &[T; LANES]) {
    if mask == u32::MAX {
        *slot = *value;
    } else {
        for lane in 0..LANES {
            slot[lane] = if mask >> lane & 1 != 0 { value[lane] } else { slot[lane] };
        }
    }
}

/// Neighbouring lanes for which the same is given, as one.
pub(super) fn alike<T: PartialEq>(each: impl Iterator<Item = (usize, T)>) -> impl Iterator<Item = (T, u32)> {
    let mut each = each.peekable();
    std::iter::from_fn(move || {
        let (first, what) = each.next()?;
        let mut lanes = 1 << first;
        while let Some((lane, _)) = each.next_if(|(_, other)| *other == what) {
            lanes |= 1 << lane;
        }
        Some((what, lanes))
    })
}

/// The lanes of a mask.
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}
