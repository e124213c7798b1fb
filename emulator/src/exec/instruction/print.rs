//! `vprintf`, the driver's function that prints.
//!
//! CUDA C++ Programming Guide, "Formatted Output": the format of C's `printf`, and a buffer with the arguments one after the
//! other, each aligned to its size: numbers of 4 bytes and of 8, where `double` and addresses are of 8.

use super::frame::{Value, frames, read, write};
use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::memory;
use crate::exec::printf::{Argument, format};
use crate::exec::warp::{Warp, lanes};
use crate::memory::place;
use crate::program::operand::CallOp;

/// The longest format or text that is printed: a byte after it that ends it is looked for no further.
const LONGEST: usize = 1 << 16;

/// Prints for each of the lanes.
pub(super) fn call(warp: &mut Warp, env: &mut Env<'_>, op: &CallOp, mask: u32) -> Result<(), Reason> {
    let frames = frames(warp, env.launch.program);
    let mut first = None;
    for lane in lanes(mask) {
        let argument =
            |i: usize| op.arguments.get(i).map_or(0, |&slot| read(warp, slot, &frames, lane).number());
        let (text, count) =
            line(warp, env, lane, argument(0), argument(1)).map_err(|what| warp.blame(lane, what))?;
        env.launch.printed.add(env.cluster, text.clone())?;
        first.get_or_insert(text);
        for &result in &op.results {
            write(warp, result, &frames, lane, &Value::Number(count));
        }
    }
    if let Some(text) = first {
        warp.said = Some(text);
    }
    env.events += 1;
    Ok(())
}

/// The message of a trap: what the warp has printed last is most often the reason.
#[cold]
pub(super) fn trap(warp: &Warp) -> Reason {
    Reason::trap(match &warp.said {
        Some(text) => format!("trap: the kernel stopped itself, after it said `{}`", text.trim_end()),
        None => "trap: the kernel stopped itself".into(),
    })
}

/// What a lane prints, and how many arguments that took.
fn line(
    warp: &Warp,
    env: &mut Env<'_>,
    lane: usize,
    text: u64,
    arguments: u64,
) -> Result<(String, u64), Reason> {
    let template = string(warp, env, lane, text)?;
    let (mut at, mut count) = (arguments, 0);
    let line = format(&template, |argument| {
        count += 1;
        let bytes: usize = if argument == Argument::Word { 4 } else { 8 };
        at = at.next_multiple_of(bytes as u64);
        let mut value = [0; 8];
        memory::read(warp, env, place(at), lane, &mut value[..bytes])?;
        at += bytes as u64;
        let number = u64::from_le_bytes(value);
        match argument {
            Argument::String => Ok((number, string(warp, env, lane, number)?)),
            _ => Ok((number, Vec::new())),
        }
    })?;
    Ok((String::from_utf8_lossy(&line).into_owned(), count))
}

/// The bytes from an address up to a zero.
fn string(warp: &Warp, env: &mut Env<'_>, lane: usize, at: u64) -> Result<Vec<u8>, Reason> {
    let mut text = Vec::new();
    while text.len() < LONGEST {
        let mut byte = [0];
        memory::read(warp, env, place(at + text.len() as u64), lane, &mut byte)?;
        if byte == [0] {
            return Ok(text);
        }
        text.push(byte[0]);
    }
    Err(Reason::misuse(format!("vprintf of a text of more than {LONGEST} bytes, at {at:#x}")))
}
