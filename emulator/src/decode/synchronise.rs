//! Barriers, fences, the end of a thread, and what tells the hardware about resources.
//!
//! Memory is sequentially consistent here: fences say which accesses the program orders. Every fence of memory counts as
//! `fence.acq_rel` of its scope, also `fence.mbarrier_init`.
//!
//! PTX ISA, "Parallel Synchronization and Communication Instructions", "Control Flow Instructions" and "Miscellaneous
//! Instructions".

use super::Result_;
use super::context::Context;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Scope, Tally};
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match (opcode.name(), operands) {
        ("bar" | "barrier", _) => barrier(context, opcode, operands),
        ("fence" | "membar", []) => fence(opcode),
        ("griddepcontrol", []) => {
            let waits = opcode.any(&[("wait", true), ("launch_dependents", false)]);
            Ok(if waits.ok_or("needs an action")? { Op::WaitForPreceding } else { Op::LaunchDependents })
        }
        ("setmaxnreg", [Operand::Integer(count)]) => {
            let more = opcode.any(&[("inc", true), ("dec", false)]).ok_or("needs `.inc` or `.dec`")?;
            for modifier in ["sync", "aligned", "u32"] {
                if !opcode.flag(modifier) {
                    return Err(format!("needs `.{modifier}`"));
                }
            }
            match u32::try_from(*count) {
                Ok(count) if (24..=256).contains(&count) && count.is_multiple_of(8) => {
                    Ok(Op::ThreadRegisters { count, more })
                }
                _ => Err(format!("{count} registers: must be a multiple of 8 from 24 to 256")),
            }
        }
        ("exit", []) => Ok(Op::Exit),
        ("ret", []) => {
            opcode.flag("uni");
            Ok(if context.in_function() { Op::Return } else { Op::Exit })
        }
        ("trap" | "brkpt", []) => Ok(Op::Trap),
        ("nanosleep", [time]) => {
            opcode.flag("u32");
            context.r(time, 32)?;
            Ok(Op::Sleep)
        }
        ("pmevent", _) => {
            opcode.flag("mask");
            Ok(Op::Nop)
        }
        _ => Err(format!("is not emulated with {} operands", operands.len())),
    }
}

fn barrier(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let bar = opcode.name() == "bar";
    if opcode.flag("cluster") {
        let arrive = opcode.any(&[("arrive", true), ("wait", false)]).ok_or("needs `.arrive` or `.wait`")?;
        let ordered = !opcode.flag("relaxed");
        opcode.any(&[("release", ()), ("acquire", ())]);
        let aligned = opcode.flag("aligned");
        return match operands {
            [] if arrive => Ok(Op::ClusterArrive { ordered, aligned }),
            [] => Ok(Op::ClusterWait { aligned }),
            _ => Err("takes no operands".into()),
        };
    }
    if bar && opcode.flag("warp") {
        return match operands {
            [members] if opcode.flag("sync") => Ok(Op::SyncWarp { members: context.r(members, 32)? }),
            _ => Err("needs `.sync` and a mask of lanes".into()),
        };
    }
    opcode.flag("cta");
    let aligned = opcode.flag("aligned") || bar;
    let sync =
        opcode.any(&[("sync", true), ("arrive", false)]).ok_or("only `.sync` and `.arrive` are emulated")?;
    match operands {
        [id] if sync => Ok(Op::Barrier { id: context.r(id, 32)?, threads: None, aligned, reduces: false }),
        [id, threads] => {
            let (id, threads) = (context.r(id, 32)?, context.r(threads, 32)?);
            Ok(match sync {
                true => Op::Barrier { id, threads: Some(threads), aligned, reduces: false },
                false => Op::BarrierArrive { id, threads, aligned },
            })
        }
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

/// `bar.red`: votes, the barrier, and what the votes came to.
pub(super) fn reduce(
    context: &mut Context,
    opcode: &mut Opcode<'_>,
    operands: &[Operand],
) -> Result<Vec<Op>, String> {
    let aligned = opcode.name() == "bar" || opcode.has("aligned");
    ["red", "cta", "aligned"].iter().for_each(|modifier| {
        opcode.flag(modifier);
    });
    let kind = opcode.any(&[("popc", 'p'), ("and", 'a'), ("or", 'o')]).ok_or("has no operation")?;
    let ty = opcode.ty()?;
    let (d, id, threads, a) = match operands {
        [d, id, a] => (d, id, None, a),
        [d, id, threads, a] => (d, id, Some(context.r(threads, 32)?), a),
        _ => return Err(format!("does not take {} operands", operands.len())),
    };
    let to = match (kind, ty, d) {
        ('p', Type::U(32), d) => Tally::Count(context.to_r(d, 32)?),
        ('a', Type::Pred, Operand::Name(d)) => Tally::All(context.predicate_to(d)?),
        ('o', Type::Pred, Operand::Name(d)) => Tally::Any(context.predicate_to(d)?),
        _ => return opcode.refuse(ty),
    };
    let (id, a) = (context.r(id, 32)?, context.condition(a)?);
    Ok(vec![
        Op::BarrierVote { id, a },
        Op::Barrier { id, threads, aligned, reduces: true },
        Op::BarrierTally { id, to },
    ])
}

/// Takes the scope; without one, all threads are meant.
pub(super) fn scope(opcode: &mut Opcode<'_>) -> Scope {
    let scopes = [("cta", Scope::Cta), ("cluster", Scope::Cluster), ("gpu", Scope::Gpu), ("sys", Scope::Gpu)];
    opcode.any(&scopes).unwrap_or(Scope::Gpu)
}

fn fence(opcode: &mut Opcode<'_>) -> Result_ {
    if opcode.name() == "membar" {
        if opcode.flag("proxy") && opcode.flag("alias") {
            return Ok(Op::Nop);
        }
        return match opcode.any(&[("cta", Scope::Cta), ("gl", Scope::Gpu), ("sys", Scope::Gpu)]) {
            Some(scope) => Ok(Op::Fence(scope)),
            None => Err("needs a level".into()),
        };
    }
    let proxy = opcode.flag("proxy").then(|| {
        let proxies =
            [("async", true), ("async::generic", true), ("alias", false), ("tensormap::generic", false)];
        opcode.any(&proxies) == Some(true)
    });
    opcode.flag("mbarrier_init");
    // What follows: an ordering, a space, a scope.
    opcode.any(&[("sc", ()), ("acq_rel", ()), ("acquire", ()), ("release", ())]);
    opcode.any(&[("sync_restrict::shared::cta", ()), ("sync_restrict::shared::cluster", ())]);
    let spaces =
        [("global", Space::Global), ("shared::cta", Space::Shared), ("shared::cluster", Space::Shared)];
    let (space, scope) = (opcode.any(&spaces), scope(opcode));
    Ok(match proxy {
        Some(true) => Op::ProxyFence(space),
        Some(false) => Op::Nop,
        None => Op::Fence(scope),
    })
}
