//! What bulk copies name: an address in shared memory, and tensors.

use super::env::Env;
use super::memory;
use super::warp::Warp;
use crate::program::{Address, Bulk, R, Window};
use crate::tensor::map::TensorMap;

/// Where it reads or writes shared memory.
pub(super) fn shared_of(copy: &Bulk) -> Address {
    match copy {
        Bulk::Linear { shared, .. } | Bulk::Tensor { shared, .. } => *shared,
    }
}

/// The coordinates that a lane gives.
pub(super) fn coordinates_of(warp: &Warp, coordinates: &[R], lane: usize) -> Vec<i32> {
    coordinates.iter().map(|&coordinate| warp.r(coordinate)[lane] as i32).collect()
}

/// Reads the tensor map at a generic address.
pub(super) fn tensor_map(
    warp: &Warp,
    env: &mut Env<'_>,
    at: Address,
    lane: usize,
) -> Result<TensorMap, String> {
    let address = warp.address(at, lane);
    if !address.is_multiple_of(64) {
        return Err(format!("a tensor map at {address:#x}: must be a multiple of 64"));
    }
    let mut words = [0; 16];
    for (i, word) in (0..).zip(&mut words) {
        let at = Address { offset: at.offset + 8 * i, ..at };
        let mut bytes = [0; 8];
        memory::read(warp, env, warp.place(Window::Generic, at, lane), lane, &mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    TensorMap::decode(&words).map_err(|error| format!("the tensor map at {address:#x}: {error}"))
}
