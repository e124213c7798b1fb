//! The emulator against a GPU: the same PTX and inputs on both.
//!
//! - [`instructions`]: each instruction on special and random values.
//! - [`kernels`]: matrices, copies, tensors, clusters.
//! - [`fuzz`]: random programs.
//! - [`mutation`]: texts that were valid until something happened to them, on the emulator alone.
//! - [`recording`]: what an H200 computed, for machines without a GPU.
//! - [`case`]: what is run, [`emulated`] and [`gpu`] what runs it, [`compare`] whether results agree.

pub mod case;
pub mod compare;
pub mod emulated;
pub mod fuzz;
pub mod gpu;
pub mod instructions;
pub mod kernels;
pub mod mutation;
pub mod random;
pub mod recording;
pub mod values;

/// Everything but random programs.
pub fn all() -> Vec<case::Group> {
    instructions::groups().into_iter().chain(kernels::groups()).collect()
}
