//! Boxes of tensors between global and shared memory: `cp.async.bulk.tensor` in its tiled mode.
//!
//! PTX ISA, "Tensors", "Tiled mode", "Swizzling modes". The box is lines along the contiguous dimension, one after the other in
//! shared memory; where the map swizzles, each line begins a span of its own and its 16-byte pieces are permuted by
//! address bits. What lies outside the tensor, in any dimension and on either side, reads as the map's fill and is not written.
//!
//! Some of it is not in the manual but was seen on an H200, with elements of all sizes:
//! - Stores and reductions end at the tensor's last element in all dimensions but the first, and there at the end of
//!   the 16 bytes that it lies in: with rows that are not multiples of 16 bytes they overwrite what follows. Loads end at the
//!   element.
//! - A box begins at a multiple of 16 bytes in the first dimension, else the instruction is illegal.
//! - A store or reduction at a negative coordinate is illegal, as the CUDA programming guide says.

mod im2col;
#[cfg(test)]
mod tests;

use std::fmt;

use super::arith16::OUTSIDE;
use super::map::{Fill, MAX_RANK, TensorMap};
use super::memory::Memory;
use super::reduce::Combine;
use crate::error::Reason;

/// Bytes that the unit moves together.
const PIECE: usize = 16;

/// What the address of a box in shared memory is a multiple of.
pub(crate) const ALIGNMENT: u32 = 128;

/// Bytes of a line at most: 256 elements of 8.
const MAX_LINE: usize = 2048;

/// Why a box was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TmaFault<G, S> {
    /// Global memory refused an access.
    Global(G),
    /// Shared memory refused an access.
    Shared(S),
    /// The box's address in shared memory is not a multiple of [`ALIGNMENT`].
    Misaligned(u32),
    /// The instruction has so many coordinates, the map so many dimensions.
    Rank { coordinates: usize, map: usize },
    /// The first coordinate, of elements of so many bytes, is within 16 bytes.
    Split { coordinate: i32, bytes: usize },
    /// A store to this coordinate.
    Negative(i32),
    /// In im2col mode the first pixel is outside of the corners.
    Outside { coordinate: i32, first: i64, last: i64 },
}

impl<G: fmt::Display, S: fmt::Display> fmt::Display for TmaFault<G, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TmaFault::Global(fault) => fault.fmt(f),
            TmaFault::Shared(fault) => fault.fmt(f),
            TmaFault::Misaligned(address) => {
                write!(f, "a box at shared address {address:#x}, which is not a multiple of {ALIGNMENT}")
            }
            TmaFault::Rank { coordinates, map } => {
                write!(f, "{coordinates} coordinates for a tensor map of {map} dimensions")
            }
            TmaFault::Split { coordinate, bytes } => {
                write!(
                    f,
                    "a box at element {coordinate} of {bytes} bytes: must begin at a multiple of {PIECE} bytes"
                )
            }
            TmaFault::Outside { coordinate, first, last } => {
                write!(
                    f,
                    "a copy in im2col mode that begins at pixel {coordinate}, outside of the box from {first} to {last}"
                )
            }
            TmaFault::Negative(coordinate) => {
                write!(f, "a store to coordinate {coordinate}: only loads may begin before the tensor")
            }
        }
    }
}

impl TmaFault<Reason, Reason> {
    pub(crate) fn reason(self) -> Reason {
        match self {
            TmaFault::Global(reason) | TmaFault::Shared(reason) => reason,
            TmaFault::Misaligned(_) => Reason::misaligned(self.to_string()),
            _ => Reason::misuse(self.to_string()),
        }
    }
}

/// One line of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its address in shared memory, before the swizzle.
    pub(crate) shared: u32,
    /// The address in global memory of the part that is inside the tensor; of no meaning if that is empty.
    pub(crate) global: u64,
    /// Bytes before that part.
    pub(crate) skip: u32,
    /// Bytes of that part.
    pub(crate) bytes: u32,
}

/// The lines of the box at `coordinates`, of which there are as many as the map has dimensions, and in im2col mode as many offsets
/// as it has dimensions of pixels.
pub(crate) fn lines(map: &TensorMap, coordinates: &[i32], shared: u32) -> impl Iterator<Item = Line> {
    let map = *map;
    let mut at = [0; MAX_RANK];
    for (at, coordinate) in at.iter_mut().zip(coordinates) {
        *at = i64::from(*coordinate);
    }
    let size = map.data.bytes() as i64;
    // A swizzled line takes a whole span.
    let pitch = map.line_bytes().next_multiple_of(map.swizzle.span());
    let pixels = map.im2col.map_or_else(Vec::new, |im2col| im2col::pixels(&map, im2col, coordinates));
    let first = at[0].clamp(0, map.shape[0] as i64);
    let end = (at[0] + i64::from(map.tile[0])).clamp(first, map.shape[0] as i64);
    let (skip, bytes) =
        (((first - at[0]).min(map.tile[0].into()) * size) as u32, ((end - first) * size) as u32);
    (0..map.lines()).map(move |line| {
        let (mut rest, mut inside) = (line, true);
        let mut global = map.address.wrapping_add((first * size) as u64);
        for dimension in 1..map.rank {
            let at = match pixels.get(line as usize) {
                Some(pixel) => pixel[dimension - 1],
                None => {
                    let copied = map.copied(dimension);
                    let at = at[dimension] + i64::from(rest % copied * map.steps[dimension]);
                    rest /= copied;
                    at
                }
            };
            inside &= (0..map.shape[dimension] as i64).contains(&at);
            global = global.wrapping_add((at as u64).wrapping_mul(map.strides[dimension - 1]));
        }
        Line { shared: shared + line * pitch, global, skip, bytes: if inside { bytes } else { 0 } }
    })
}

/// The addresses in shared memory of all 16-byte pieces of the box.
pub(crate) fn pieces(map: &TensorMap, shared: u32) -> impl Iterator<Item = u32> {
    let (swizzle, line_bytes) = (map.swizzle, map.line_bytes());
    lines(map, &[], shared).flat_map(move |line| {
        (0..line_bytes).step_by(16).map(move |offset| swizzle.place(line.shared + offset))
    })
}

/// Checks what is the same for all copies.
fn check<G, S>(map: &TensorMap, coordinates: &[i32], shared: u32) -> Result<(), TmaFault<G, S>> {
    let offsets = if map.im2col.is_some() { map.rank - 2 } else { 0 };
    if coordinates.len() != map.rank + offsets {
        return Err(TmaFault::Rank { coordinates: coordinates.len(), map: map.rank + offsets });
    }
    if let Some(im2col) = map.im2col {
        im2col::check(map, im2col, coordinates)?;
    }
    if !shared.is_multiple_of(ALIGNMENT) {
        return Err(TmaFault::Misaligned(shared));
    }
    let bytes = map.data.bytes();
    match coordinates[0] {
        first if i64::from(first) * bytes as i64 % PIECE as i64 == 0 => Ok(()),
        coordinate => Err(TmaFault::Split { coordinate, bytes }),
    }
}

/// Loads the box at `coordinates` to address `to` of shared memory.
pub(crate) fn load<G: Memory<u64>, S: Memory<u32>>(
    map: &TensorMap,
    coordinates: &[i32],
    to: u32,
    global: &mut G,
    shared: &mut S,
) -> Result<(), TmaFault<G::Fault, S::Fault>> {
    check(map, coordinates, to)?;
    let mut buffer = [0; MAX_LINE];
    let buffer = &mut buffer[..map.line_bytes() as usize];
    for line in lines(map, coordinates, to) {
        fill(map, buffer);
        if line.bytes > 0 {
            let inside = &mut buffer[line.skip as usize..][..line.bytes as usize];
            global.read(line.global, inside).map_err(TmaFault::Global)?;
        }
        for (i, piece) in (0..).zip(buffer.as_chunks::<PIECE>().0) {
            shared.write(map.swizzle.place(line.shared + 16 * i), piece).map_err(TmaFault::Shared)?;
        }
    }
    Ok(())
}

/// Stores the box at address `from` of shared memory to `coordinates`.
pub(crate) fn store<G: Memory<u64>, S: Memory<u32>>(
    map: &TensorMap,
    coordinates: &[i32],
    from: u32,
    global: &mut G,
    shared: &mut S,
) -> Result<(), TmaFault<G::Fault, S::Fault>> {
    write(map, coordinates, from, shared, |at, bytes| global.write(at, bytes))
}

/// Combines the box at `coordinates` with the one at address `from` of shared memory.
pub(crate) fn reduce<G: Memory<u64>, S: Memory<u32>>(
    map: &TensorMap,
    coordinates: &[i32],
    from: u32,
    combine: Combine,
    global: &mut G,
    shared: &mut S,
) -> Result<(), TmaFault<G::Fault, S::Fault>> {
    write(map, coordinates, from, shared, |at, bytes| {
        global.update(at, bytes.len(), &mut |into| combine(into, bytes))
    })
}

/// Calls `put` with the part of each line that is inside the tensor, with the last piece of a row whole.
fn write<F, S: Memory<u32>>(
    map: &TensorMap,
    coordinates: &[i32],
    from: u32,
    shared: &mut S,
    mut put: impl FnMut(u64, &[u8]) -> Result<(), F>,
) -> Result<(), TmaFault<F, S::Fault>> {
    check(map, coordinates, from)?;
    let negative = coordinates.iter().find(|&&coordinate| coordinate < 0);
    if let (Some(&negative), None) = (negative, map.im2col) {
        return Err(TmaFault::Negative(negative));
    }
    let mut padded = *map;
    padded.shape[0] = map.shape[0].next_multiple_of((PIECE / map.data.bytes()) as u64);
    let mut buffer = [0; MAX_LINE];
    let buffer = &mut buffer[..map.line_bytes() as usize];
    for line in lines(&padded, coordinates, from).filter(|line| line.bytes > 0) {
        for (i, piece) in (0..).zip(buffer.as_chunks_mut::<PIECE>().0) {
            // Pieces that are outside altogether need not be in shared memory's initialised part.
            if 16 * i + 16 > line.skip && 16 * i < line.skip + line.bytes {
                shared.read(map.swizzle.place(line.shared + 16 * i), piece).map_err(TmaFault::Shared)?;
            }
        }
        let inside = &buffer[line.skip as usize..][..line.bytes as usize];
        put(line.global, inside).map_err(TmaFault::Global)?;
    }
    Ok(())
}

/// Fills a line with what is outside the tensor.
fn fill(map: &TensorMap, line: &mut [u8]) {
    line.fill(0);
    if map.fill == Fill::Nan {
        // A NaN of every type.
        line.as_chunks_mut().0.fill(OUTSIDE.to_le_bytes());
    }
}
