//! Changes and copies of tensor maps.

use crate::error::Reason;
use crate::exec::env::Env;
use crate::exec::memory::{read, write};
use crate::exec::result::{Active, Next};
use crate::exec::warp::{Warp, lanes};
use crate::memory::Place;
use crate::order::By;
use crate::program::op::Op;
use crate::program::operand::{Address, Window};
use crate::tensor::map::Field;
use tilewright_ptx::ast::Space;

/// Bytes of a map, and of what its address is a multiple of.
const BYTES: usize = 128;
/// Bytes that are accessed at a time.
const PIECE: usize = 16;

pub(super) fn step(warp: &mut Warp, env: &mut Env<'_>, op: &Op, active: Active) -> Result<Next, Reason> {
    match *op {
        Op::TensorMapReplace { field, window, at, value } => {
            for lane in lanes(active.mask) {
                let value = warp.source(value, lane);
                replace(warp, env, (window, at), lane, (field, value))
                    .map_err(|what| warp.blame(lane, what))?;
            }
        }
        Op::TensorMapCopy { to, from } => {
            if let Some(next) = active.whole(warp)? {
                return Ok(next);
            }
            for at in [to, from] {
                if let Some(lane) =
                    lanes(active.mask).find(|&lane| warp.address(at, lane) != warp.address(at, 0))
                {
                    return Err(warp.blame(
                        lane,
                        Reason::misuse("the address of a tensor map differs between the lanes"),
                    ));
                }
            }
            let map = load(warp, env, (Window::In(Space::Shared), from), (0, By::Warp))?;
            store(warp, env, (Window::In(Space::Global), to), (0, By::Warp), &map)?;
        }
        _ => unreachable!("no tensor map"),
    }
    Ok(Next::Advance)
}

fn replace(
    warp: &mut Warp,
    env: &mut Env<'_>,
    map: (Window, Address),
    lane: usize,
    (field, value): (Field, u64),
) -> Result<(), Reason> {
    // Each piece is of 2^4 bytes.
    let by = By::Lanes(lane as u8, 4);
    let bytes = load(warp, env, map, (lane, by))?;
    let mut words = [0; BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    field.replace(&mut words, value).map_err(|error| Reason::misuse(error.to_string()))?;
    let mut bytes = [0; BYTES];
    for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    store(warp, env, map, (lane, by), &bytes)
}

/// The pieces of a map, whose address is checked.
fn pieces(
    warp: &Warp,
    (window, at): (Window, Address),
    lane: usize,
) -> Result<[Place; BYTES / PIECE], Reason> {
    let address = warp.address(at, lane);
    if !address.is_multiple_of(BYTES as u64) {
        return Err(Reason::misaligned(format!(
            "a tensor map at {address:#x}: must be a multiple of {BYTES}"
        )));
    }
    let piece = |i: usize| Address { offset: at.offset.wrapping_add((i * PIECE) as i64), ..at };
    Ok(std::array::from_fn(|i| warp.place(window, piece(i), lane)))
}

/// Tells the order of accesses of a piece.
fn tell(warp: &Warp, env: &mut Env<'_>, place: Place, by: By, wrote: bool) -> Result<(), Reason> {
    let Some(order) = &mut env.order else { return Ok(()) };
    match place {
        Place::Global(at) => order.global(at, PIECE, (by, 0), wrote),
        Place::Shared(at) => {
            let spot = crate::exec::cta::in_cluster(at, warp.cta, env.ctas.len())?;
            order.shared(spot, PIECE, (by, 0), wrote)
        }
        other => {
            Err(Reason::misuse(format!("a tensor map at {other:x?}: must be in global or shared memory")))
        }
    }
}

fn load(
    warp: &mut Warp,
    env: &mut Env<'_>,
    map: (Window, Address),
    (lane, by): (usize, By),
) -> Result<[u8; BYTES], Reason> {
    let mut bytes = [0; BYTES];
    for (place, bytes) in pieces(warp, map, lane)?.into_iter().zip(bytes.as_chunks_mut::<PIECE>().0) {
        read(warp, env, place, lane, bytes)?;
        tell(warp, env, place, by, false)?;
    }
    Ok(bytes)
}

fn store(
    warp: &mut Warp,
    env: &mut Env<'_>,
    map: (Window, Address),
    (lane, by): (usize, By),
    bytes: &[u8; BYTES],
) -> Result<(), Reason> {
    for (place, bytes) in pieces(warp, map, lane)?.into_iter().zip(bytes.as_chunks::<PIECE>().0) {
        write(warp, env, place, lane, bytes)?;
        tell(warp, env, place, by, true)?;
    }
    Ok(())
}
