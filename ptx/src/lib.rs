//! Reads PTX.
//!
//! [`lexer`] has the tokens of a text, each with its place; [`parser`] makes of them a tree ([`ast`]): modules, entries
//! and statements, names not resolved yet. PTX ISA, "Syntax" and "State Spaces, Types, and Variables".

pub mod ast;
pub mod error;
pub mod lexer;
pub mod parser;
pub mod source;
#[cfg(test)]
mod tests;
