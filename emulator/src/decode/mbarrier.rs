//! Barriers in shared memory.
//!
//! PTX ISA, "mbarrier".

use super::Result_;
use super::context::Context;
use super::memory::window;
use super::opcode::Opcode;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::Window;
use crate::program::register::{D, R};
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    const ACTIONS: [&str; 9] = [
        "arrive",
        "arrive_drop",
        "init",
        "inval",
        "expect_tx",
        "complete_tx",
        "test_wait",
        "try_wait",
        "pending_count",
    ];
    let action =
        ACTIONS.into_iter().find(|action| opcode.flag(action)).ok_or("has no action that is emulated")?;
    if action == "pending_count" {
        let [d, state] = operands else { return Err("takes two operands".into()) };
        opcode.flag("b64");
        return Ok(Op::MbarPendingCount { d: context.to_r(d, 32)?, state: context.d(state)? });
    }
    // `mbarrier.arrive.expect_tx` names both.
    let expects = action.starts_with("arrive") && opcode.flag("expect_tx");
    let uncompleted = opcode.flag("noComplete");
    // An arrival releases and a wait acquires, unless it is relaxed.
    let ordered = !opcode.flag("relaxed");
    opcode.any(&[("acquire", ()), ("release", ())]);
    let inside = opcode.any(&[("cta", true), ("cluster", false)]) == Some(true);
    let parity = opcode.flag("parity");
    let at = operands
        .iter()
        .find(|operand| matches!(operand, Operand::Address { .. }))
        .ok_or("takes an address")?;
    // Without a space the address is generic, within shared memory.
    let window = window(context, opcode, at);
    if !matches!(window, Window::Generic | Window::Cluster | Window::In(Space::Shared)) {
        return Err("barriers lie in shared memory".into());
    }
    match opcode.ty()? {
        Type::B(64) => {}
        ty => return opcode.refuse(ty),
    }
    let at = context.address(at)?;
    match (action, operands) {
        ("init", [_, count]) => Ok(Op::MbarInit { at, window, count: context.r(count, 32)? }),
        ("inval", [_]) => Ok(Op::MbarInvalidate { at, window }),
        ("expect_tx", [_, bytes]) => Ok(Op::MbarExpect { at, window, bytes: context.r(bytes, 32)? }),
        ("complete_tx", [_, bytes]) => Ok(Op::MbarComplete { at, window, bytes: context.r(bytes, 32)? }),
        ("arrive" | "arrive_drop", _) => {
            let (state, rest) = match operands {
                [Operand::Address { .. }, rest @ ..] => (None, rest),
                [state, _, rest @ ..] => (optional_state(context, state)?, rest),
                _ => return Err("takes an address".into()),
            };
            let (count, expect): (Option<R>, Option<R>) = match rest {
                [] if !expects && !uncompleted => (None, None),
                [bytes] if expects => (None, Some(context.r(bytes, 32)?)),
                [count] => (Some(context.r(count, 32)?), None),
                _ => return Err(format!("does not take {} operands", operands.len())),
            };
            Ok(Op::MbarArrive {
                at,
                window,
                count,
                expect,
                state,
                drop: action == "arrive_drop",
                uncompleted,
                ordered,
                inside,
            })
        }
        ("test_wait" | "try_wait", [Operand::Name(d), _, state, time @ ..]) if time.len() <= 1 => {
            // A time limit is a hint; here a wait that can end does.
            if let [time] = time {
                context.r(time, 32)?;
            }
            let (d, suspend) = (context.predicate_to(d)?, action == "try_wait");
            match parity {
                true => {
                    Ok(Op::MbarTestParity { at, window, d, parity: context.r(state, 32)?, suspend, ordered })
                }
                false => Ok(Op::MbarTestState { at, window, d, state: context.d(state)?, suspend, ordered }),
            }
        }
        _ => Err(format!("does not take {} operands", operands.len())),
    }
}

fn optional_state(context: &mut Context, operand: &Operand) -> Result<Option<D>, String> {
    if *operand == Operand::Name("_".into()) { Ok(None) } else { context.to_d(operand).map(Some) }
}
