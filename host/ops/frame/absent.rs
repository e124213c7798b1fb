//! The tensor that a call does without.

use std::marker::PhantomData;

use tilewright_device::abi::{GlobalAbi, TensorMap};

/// The argument for a tensor that a call does not have: without elements.
pub(in crate::ops) fn absent<const RANK: usize>() -> GlobalAbi<(), RANK> {
    GlobalAbi {
        map: TensorMap::NONE,
        address: 0,
        strides: [0; RANK],
        policy: 0,
        shape: [0; RANK],
        align: 16,
        tma: 0,
        element: PhantomData,
    }
}
