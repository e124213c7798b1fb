//! From the tree to a [`Program`]: resolves names, and gives every instruction its function.
//!
//! An instruction is looked up by the first part of its opcode in a family (a file each); a family takes the
//! modifiers that it knows, and what is left over is an error.

mod address;
mod arithmetic;
mod atomic;
mod body;
mod call;
mod carry;
mod collective;
mod compare;
mod context;
mod convert;
mod copy;
mod directed;
mod each;
pub(crate) mod float;
mod fragments;
mod graph;
mod half;
mod instruction;
mod lanes;
pub(crate) mod logic;
mod matrix;
mod mbarrier;
mod memory;
mod moves;
mod names;
mod opcode;
mod program;
mod rare;
mod seldom;
mod several;
mod simd;
mod stack;
mod statics;
mod synchronise;
mod talk;
mod target;
mod tensormap;
mod types;
mod video;
mod wide;

use std::sync::Arc;

use crate::error::LoadError;
use crate::program::Image;
use crate::program::op::Op;
use tilewright_ptx::ast::Module;

type Decoded<T> = Result<T, LoadError>;
/// What a family answers: the operation, or what it does not know.
type Result_ = Result<Op, String>;

/// Decodes a module.
pub(crate) fn decode(module: &Module, text: &Arc<str>) -> Decoded<Image> {
    let target = target::check(module)?;
    let statics = statics::statics(module)?;
    Ok(Image { target, programs: program::programs(module, &statics, text)?, statics })
}
