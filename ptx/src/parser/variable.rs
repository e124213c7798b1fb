//! Variables in memory.
//!
//! PTX ISA, "State Spaces, Types, and Variables: Variables".

use super::{Parsed, Parser};
use crate::ast::{Initial, Space, Variable};
use crate::lexer::Token;

/// Dimensions of an array at most, and one for its vectors.
const DIMENSIONS: usize = 64;

/// The type of a variable: elements, in vectors, in arrays.
pub(super) struct Shape {
    /// Bytes of an element.
    pub(super) element: u64,
    pub(super) float: bool,
    /// Elements in each dimension, the first outermost; 0 where it is not said. A vector is the last one.
    pub(super) extents: Vec<u64>,
}

impl Parser<'_> {
    /// `.shared .align 16 .b8 name[64], other;`
    pub(super) fn variables(&mut self) -> Parsed<Vec<Variable>> {
        let mut all = vec![self.variable()?];
        while self.take(',') {
            let line = self.line();
            let name = self.word("a variable's name")?.to_owned();
            let like = all[0].clone();
            if !matches!(self.peek(), Some(Token::Mark(';' | ','))) {
                return self.expected("`,` or `;` (declare arrays one by one)");
            }
            all.push(Variable { line, name, ..like });
        }
        self.expect(';')?;
        Ok(all)
    }

    /// `.attribute(.managed)` and such: where the host keeps a variable, which makes no difference here.
    pub(super) fn attribute(&mut self) -> Parsed<()> {
        if self.directive(".attribute") {
            self.expect('(')?;
            let mut open = 1;
            while open > 0 {
                match self.peek() {
                    Some(Token::Mark('(')) => open += 1,
                    Some(Token::Mark(')')) => open -= 1,
                    Some(_) => {}
                    None => return self.expected("`)`"),
                }
                self.at += 1;
            }
        }
        Ok(())
    }

    pub(super) fn variable(&mut self) -> Parsed<Variable> {
        let line = self.line();
        let space = match self.word("a state space")? {
            ".param" => Space::Param,
            ".shared" => Space::Shared,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".local" => Space::Local,
            other => return self.error(format!("state space `{other}` is not known")),
        };
        let mut align = 0;
        let mut pointer = false;
        let mut element = None;
        let mut vector = None;
        loop {
            self.attribute()?;
            let word = self.word("a type or a name")?;
            match word {
                // After `.ptr` it is what the pointer points to: a hint.
                ".align" if pointer => {
                    self.number32("an alignment")?;
                }
                ".align" => align = self.number32("an alignment")?,
                ".ptr" => pointer = true,
                ".global" | ".shared" | ".const" | ".local" if pointer => {}
                ".v2" => vector = Some(2),
                ".v4" => vector = Some(4),
                ".b8" | ".u8" | ".s8" => element = Some((1, false)),
                ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => element = Some((2, false)),
                ".b32" | ".u32" | ".s32" | ".f16x2" | ".bf16x2" => element = Some((4, false)),
                ".f32" => element = Some((4, true)),
                ".b64" | ".u64" | ".s64" => element = Some((8, false)),
                ".f64" => element = Some((8, true)),
                ".b128" => element = Some((16, false)),
                name if !name.starts_with('.') => {
                    let Some((element, float)) = element else {
                        return self.error(format!("`{name}` has no type"));
                    };
                    let mut extents = Vec::new();
                    while self.take('[') {
                        extents.push(match self.take(']') {
                            true => 0,
                            false => {
                                let count = self.integer("a number of elements")?;
                                self.expect(']')?;
                                count
                            }
                        });
                    }
                    extents.extend(vector);
                    if extents.len() > DIMENSIONS {
                        return self.error(format!("`{name}` has more than {DIMENSIONS} dimensions"));
                    }
                    let align = if align == 0 { (element * vector.unwrap_or(1)) as u32 } else { align };
                    if !align.is_power_of_two() {
                        return self.error(format!("an alignment of {align} is not a power of two"));
                    }
                    let mut shape = Shape { element, float, extents };
                    let initial =
                        if self.take('=') { self.initial(&mut shape, space)? } else { Initial::default() };
                    let Some(bytes) = shape.bytes() else {
                        return self.error(format!("variable `{name}` is too large"));
                    };
                    return Ok(Variable {
                        line,
                        name: name.into(),
                        space,
                        align,
                        bytes,
                        external: false,
                        initial,
                    });
                }
                other => {
                    self.at -= 1;
                    return self.error(format!("`{other}` in a variable's declaration is not known"));
                }
            }
        }
    }
}

impl Shape {
    fn bytes(&self) -> Option<u64> {
        self.extents.iter().try_fold(self.element, |bytes, &extent| bytes.checked_mul(extent))
    }

    /// The type of one part of the outermost dimension.
    pub(super) fn part(&self) -> Self {
        Self { element: self.element, float: self.float, extents: self.extents[1..].to_vec() }
    }

    /// Bytes of so many of these.
    pub(super) fn size(&self, count: u64) -> Option<u64> {
        self.bytes()?.checked_mul(count)
    }
}
