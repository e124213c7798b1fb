//! What bulk copies between global and shared memory move.

use super::env::Env;
use super::memory;
use super::warp::Warp;
use crate::error::Reason;
use crate::program::operand::{Address, Bulk, Start, Window};
use crate::program::register::R;
use crate::tensor::map::TensorMap;

/// A bulk copy of one lane, its operands read.
pub(super) struct Transfer {
    /// The CTA whose shared memory it is, and the address there.
    pub(super) shared: (usize, u32),
    pub(super) global: Extent,
}

/// What a bulk copy covers of global memory.
pub(super) enum Extent {
    /// Contiguous bytes from an address on.
    Linear { at: u64, bytes: usize },
    /// The box of a tensor at these coordinates.
    Box { map: TensorMap, at: Vec<i32> },
}

impl Transfer {
    pub(super) fn of(warp: &Warp, env: &mut Env<'_>, copy: &Bulk, lane: usize) -> Result<Self, Reason> {
        match *copy {
            Bulk::Linear { global, shared, bytes } => {
                let shared = env.lane_shared(warp, Window::Cluster, shared, lane)?;
                let at = warp.address(global, lane);
                let bytes = linear_size(warp, bytes, lane, &[at, shared.1.into()])?;
                Ok(Self { shared, global: Extent::Linear { at, bytes } })
            }
            Bulk::Tensor { map, ref start, shared } => {
                let Start { coordinates, offsets } = &**start;
                let map = tensor_map(warp, env, map, lane)?;
                if map.im2col.is_some() != offsets.is_some() {
                    let mode = |im2col| if im2col { "im2col" } else { "tiled" };
                    return Err(Reason::misuse(format!(
                        "a copy in {} mode with a tensor map in {} mode",
                        mode(offsets.is_some()),
                        mode(map.im2col.is_some())
                    )));
                }
                let shared = env.lane_shared(warp, Window::Cluster, shared, lane)?;
                let coordinates = coordinates.iter().map(|&coordinate| warp.r(coordinate)[lane] as i32);
                let mut at: Vec<i32> = coordinates.collect();
                if let Some(offsets) = offsets {
                    // Without offsets there are zeros.
                    let given = offsets.iter().map(|&offset| (warp.r(offset)[lane] & 0xffff) as i32);
                    let offsets: Vec<i32> = given.chain([0; 3]).take(map.rank - 2).collect();
                    // They have 16 bits together.
                    let most = match map.rank {
                        3 => 0xffff,
                        4 => 255,
                        _ => 31,
                    };
                    if let Some(offset) = offsets.iter().find(|&&offset| offset > most) {
                        return Err(Reason::misuse(format!(
                            "an offset of {offset} in im2col mode: of {} dimensions it is at most {most}",
                            map.rank
                        )));
                    }
                    at.extend(offsets);
                }
                Ok(Self { shared, global: Extent::Box { map, at } })
            }
        }
    }
}

impl Extent {
    /// Bytes that the copy moves, those that lie outside of a tensor too.
    pub(super) fn bytes(&self) -> u32 {
        match self {
            Extent::Linear { bytes, .. } => *bytes as u32,
            Extent::Box { map, .. } => map.bytes(),
        }
    }
}

/// The bytes of a copy of contiguous memory between these addresses.
pub(super) fn linear_size(warp: &Warp, bytes: R, lane: usize, addresses: &[u64]) -> Result<usize, Reason> {
    let bytes = warp.r(bytes)[lane];
    let what = || {
        let addresses: Vec<_> = addresses.iter().map(|at| format!("{at:#x}")).collect();
        format!("a bulk copy of {bytes} bytes at {}: all must be multiples of 16", addresses.join(" and "))
    };
    if addresses.iter().any(|at| !at.is_multiple_of(16)) {
        return Err(Reason::misaligned(what()));
    }
    if bytes.is_multiple_of(16) { Ok(bytes as usize) } else { Err(Reason::misuse(what())) }
}

/// Reads the tensor map at a generic address.
fn tensor_map(warp: &Warp, env: &mut Env<'_>, at: Address, lane: usize) -> Result<TensorMap, Reason> {
    let address = warp.address(at, lane);
    if !address.is_multiple_of(64) {
        return Err(Reason::misaligned(format!("a tensor map at {address:#x}: must be a multiple of 64")));
    }
    let mut words = [0; 16];
    for (i, word) in (0..).zip(&mut words) {
        let at = Address { offset: at.offset + 8 * i, ..at };
        let mut bytes = [0; 8];
        memory::read(warp, env, warp.place(Window::Generic, at, lane), lane, &mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    TensorMap::decode(&words)
        .map_err(|error| Reason::misuse(format!("the tensor map at {address:#x}: {error}")))
}
