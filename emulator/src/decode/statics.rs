//! The variables of a module: where they lie, and what they hold at first.
//!
//! PTX ISA, "State Spaces, Types, and Variables: Variables". Each module that is loaded has addresses of its own, far above
//! those that are allocated, and each variable is an allocation: what is beyond its end is out of bounds.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::graph::Graph;
use super::{Decoded, program};
use crate::error::LoadError;
use crate::memory::{MODULES_START, SHARED};
use crate::program::Static;
use tilewright_ptx::ast::{Module, Named, Space, Variable};

/// Variables are at least this far apart.
const GAP: u64 = 256;
/// Bytes that the variables of a module have together.
const MOST: u64 = 1 << 36;
/// Bytes that the variables of `.const` have together.
const CONSTANTS: u64 = 64 * 1024;

/// Where the next module's variables begin.
static NEXT: AtomicU64 = AtomicU64::new(MODULES_START);

/// The variables of a module.
pub(super) fn statics(module: &Module) -> Decoded<Vec<Static>> {
    let variables = module.variables.iter().filter(|variable| variable.space != Space::Shared);
    let (mut offsets, mut end, mut constants) = (HashMap::new(), 0u64, 0);
    for variable in variables.clone() {
        let error =
            |what: &str| LoadError::new(variable.line, format!("variable `{}` {what}", variable.name));
        if variable.external {
            return Err(error("is declared `.extern`: modules are not linked"));
        }
        if variable.bytes == 0 {
            return Err(error("has no size"));
        }
        let start = end.next_multiple_of(GAP.max(variable.align.into()));
        end = variable
            .bytes
            .checked_add(start + GAP)
            .filter(|&end| end <= MOST)
            .ok_or_else(|| error("is too large"))?;
        if variable.space == Space::Const {
            constants += variable.bytes;
            if constants > CONSTANTS {
                return Err(error(&format!("is beyond the {CONSTANTS} bytes of constant memory")));
            }
        }
        if offsets.insert(variable.name.as_str(), start).is_some() {
            return Err(error("is declared twice"));
        }
    }
    if offsets.is_empty() {
        return Ok(Vec::new());
    }
    // What is aligned to more than this is nowhere in PTX.
    let after = |base: u64| base.checked_add(end.next_multiple_of(1 << 16)).filter(|&next| next <= SHARED);
    let base = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
    let base = base.map_err(|_| LoadError::new(1, "the modules so far have used up all addresses"))?;
    let functions = Graph::new(module);
    let address = |name: &str| {
        let function = || functions.number(name).map(program::address);
        offsets.get(name).map(|offset| base + offset).or_else(function)
    };
    variables
        .map(|variable| {
            Ok(Static {
                name: variable.name.clone(),
                address: base + offsets[variable.name.as_str()],
                bytes: variable.bytes,
                constant: variable.space == Space::Const,
                initial: initial(variable, &address)?,
            })
        })
        .collect()
}

/// The bytes of a variable that are said, with the addresses of the names among them.
fn initial(variable: &Variable, address: &dyn Fn(&str) -> Option<u64>) -> Decoded<Vec<u8>> {
    let mut bytes = variable.initial.bytes.clone();
    for Named { line, at, bytes: count, name, offset, shift } in &variable.initial.names {
        let error = |what: String| LoadError::new(*line, what);
        let address = address(name)
            .ok_or_else(|| error(format!("`{name}` is no variable or function with an address")))?;
        let value = (address.wrapping_add(*offset as u64) >> shift).to_le_bytes();
        match count {
            8 => bytes[*at..*at + 8].copy_from_slice(&value),
            1 => bytes[*at] = value[0],
            _ => return Err(error(format!("an address does not fit into {count} bytes"))),
        }
    }
    Ok(bytes)
}
