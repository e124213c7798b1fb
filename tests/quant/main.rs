//! Narrow weights on the host: formats, quantisation, packing, files, checkpoints.

mod awq;
mod case;
mod checkpoint;
mod codes;
mod errors;
mod files;
mod fit;
mod gptq;
mod packing;
