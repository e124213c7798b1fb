//! `malloc` and `free`, the driver's functions for memory of the device's heap.
//!
//! CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations": what one thread has allocated all may use and
//! free, also in later launches; where there is no room, or no byte is asked for, the address is null, which may be freed.

use super::frame::{Value, frames, read, write};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::warp::{Warp, lanes};
use crate::program::operand::{CallOp, Callee};

/// Allocates or frees for each of the lanes.
pub(super) fn call(warp: &mut Warp, env: &mut Env<'_>, op: &CallOp, mask: u32) -> Result<(), Reason> {
    let frames = frames(warp, env.launch.program);
    for lane in lanes(mask) {
        let argument = op.arguments.first().map_or(0, |&slot| read(warp, slot, &frames, lane).number());
        match op.callee {
            Callee::Allocate => {
                let address = env.global.allocate(argument).map_err(|what| warp.blame(lane, what))?;
                for &result in &op.results {
                    write(warp, result, &frames, lane, &Value::Number(address));
                }
            }
            _ if argument != 0 && !env.global.free(argument) => {
                let what = format!("free of {argument:#x}, where no memory of the heap begins");
                return Err(warp.blame(lane, Reason::misuse(what)));
            }
            _ => {}
        }
    }
    env.events += 1;
    Ok(())
}
