//! PTX text as a tree: modules, entries and statements, names not resolved yet.
//!
//! PTX ISA, "Syntax" and "State Spaces, Types, and Variables".

mod ast;
mod lexer;
mod parser;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use ast::{
    Entry, Formal, Function, Instruction, Module, Named, Operand, Space, Statement, Variable,
};
pub(crate) use parser::parse;
pub(crate) use source::Sources;
