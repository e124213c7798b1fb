//! What a warp waits for, in words.

use crate::exec::cta::in_cluster;
use crate::exec::env::Env;
use crate::exec::warp::group::{Group, Wait};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::program::op::Op;
use crate::program::operand::Window;
use crate::program::register::LANES;
use crate::program::{Coded, Program};
use tilewright_ptx::ast::Space;

/// Lanes of a warp that do not go on.
pub(super) struct Waiting {
    pub(super) who: String,
    /// The instruction's line.
    pub(super) line: u32,
    /// What has not come.
    pub(super) reason: String,
}

/// What these lanes wait for.
pub(super) fn describe(warp: &Warp, group: Group, env: &Env<'_>) -> Waiting {
    let cta = &env.ctas[warp.cta];
    let [x, y, z] = cta.index;
    let who = format!("CTA ({x}, {y}, {z}) warp {} lanes {:#010x}", warp.index, group.mask);
    let (pc, reason) = match group.wait {
        Wait::Barrier { id, .. } => {
            let barrier = &cta.barriers[id as usize];
            let expected = barrier.expected.unwrap_or(32 * cta.live_warps);
            (group.pc, format!("barrier {id}, where {} of {expected} threads are", barrier.arrived))
        }
        Wait::Cluster { .. } => (group.pc, "the cluster's barrier".into()),
        Wait::Lanes => (group.pc, absent(warp, group, env)),
        Wait::Accused => (group.pc, "nothing: it is wrong".into()),
        Wait::Warpgroup => (group.pc, "the other warps of its warpgroup".into()),
        Wait::Registers { needed } => {
            (group.pc, format!("{needed} more registers a thread than its CTA has to give"))
        }
        Wait::Mbarrier => (group.pc, mbarrier(warp, group, group.pc, env)),
        Wait::No => match warp.poll {
            Some(poll) if poll.events == env.events => (poll.pc, polled(warp, group, poll.pc, env)),
            _ => match weak_load(env.launch.program, group.pc) {
                Some(pc) => (pc, "another value: an ordinary load need never see what others write".into()),
                None => (group.pc, "what never comes: it goes round in a loop".into()),
            },
        },
    };
    Waiting { who, line: env.launch.program.code[pc as usize].line, reason }
}

/// The lanes that have not come.
fn absent(warp: &Warp, group: Group, env: &Env<'_>) -> String {
    match env.launch.program.code[group.pc as usize].op.members() {
        Some(members) => {
            let named = warp.r(members)[group.mask.trailing_zeros() as usize % LANES];
            let absent = named & warp.live() & !group.mask;
            format!("lanes {absent:#010x} of its warp at the same instruction, with the mask {named:#010x}")
        }
        None => "the other lanes of its warp".into(),
    }
}

/// The ordinary load in the innermost loop around an instruction, if there is one.
fn weak_load(program: &Program, pc: u32) -> Option<u32> {
    let back = |(at, coded): (usize, &Coded)| match coded.op {
        Op::Branch { target } if (target..=at as u32).contains(&pc) => Some((target, at as u32)),
        _ => None,
    };
    let (first, last) =
        program.code.iter().enumerate().filter_map(back).min_by_key(|(first, last)| last - first)?;
    let loads = |pc: &u32| match program.code[*pc as usize].op {
        Op::Load { window, ordering: None, .. } => {
            !matches!(window, Window::In(Space::Param | Space::Local | Space::Const))
        }
        _ => false,
    };
    (first..=last).find(loads)
}

/// What an instruction looks at again and again.
fn polled(warp: &Warp, group: Group, pc: u32, env: &Env<'_>) -> String {
    match env.launch.program.code[pc as usize].op {
        Op::Load { at, .. } | Op::Atomic { at, .. } => {
            let lane = lanes(group.mask).next().unwrap_or(0);
            format!("another value at {:#x}", warp.address(at, lane))
        }
        _ => mbarrier(warp, group, pc, env),
    }
}

fn mbarrier(warp: &Warp, group: Group, pc: u32, env: &Env<'_>) -> String {
    let lane = lanes(group.mask).next().unwrap_or(0);
    let place = match env.launch.program.code[pc as usize].op {
        Op::MbarTestParity { at, window, .. } | Op::MbarTestState { at, window, .. } => {
            warp.place(window, at, lane)
        }
        _ => return "what never comes: it goes round in a loop".into(),
    };
    let Place::Shared(address) = place else { return "an mbarrier".into() };
    let found = in_cluster(address, warp.cta, env.ctas.len())
        .ok()
        .and_then(|(cta, at)| env.ctas[cta].mbarriers().get(&at).map(|barrier| (cta, at, barrier)));
    let Some((cta, at, barrier)) = found else { return "an mbarrier".into() };
    let owner = if cta == warp.cta { String::new() } else { format!(" of the cluster's CTA {cta}") };
    format!(
        "an mbarrier, {at:#x}{owner}, that has completed {} phases and needs {} of {} arrivals and {} bytes for the next",
        barrier.phase, barrier.pending, barrier.expected, barrier.bytes
    )
}
