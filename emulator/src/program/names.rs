//! The names of registers, for messages.

use super::register::{D, P, R, Register};

/// `.reg .b32 %r<count>`, or one register: with the first register that it got.
#[derive(Debug)]
struct Declaration {
    first: Register,
    name: String,
    count: Option<u32>,
    /// How many registers each has here: those of 128 bits are two.
    parts: u32,
}

/// What registers were declared as.
#[derive(Debug, Default)]
pub(crate) struct Names {
    declarations: Vec<Declaration>,
}

impl Names {
    /// Notes that so many registers of so many parts, the first of which is this one, were declared by this name.
    pub(crate) fn declare(&mut self, first: Register, name: &str, count: Option<u32>, parts: u32) {
        self.declarations.push(Declaration { first, name: name.into(), count, parts });
    }

    /// The register's name.
    pub(crate) fn of(&self, register: Register) -> String {
        let within = |declaration: &Declaration| {
            let offset = match (register, declaration.first) {
                (Register::P(P(i)), Register::P(P(first)))
                | (Register::R(R(i)), Register::R(R(first)))
                | (Register::D(D(i)), Register::D(D(first))) => i.checked_sub(first)?,
                _ => return None,
            };
            let offset = offset / declaration.parts;
            (offset < declaration.count.unwrap_or(1)).then(|| match declaration.count {
                Some(_) => format!("{}{offset}", declaration.name),
                None => declaration.name.clone(),
            })
        };
        self.declarations.iter().find_map(within).unwrap_or_else(|| "a register".into())
    }
}
