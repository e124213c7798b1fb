//! Initial values of variables.
//!
//! PTX ISA, "Variables: Initializers".

use super::variable::Shape;
use super::{Parsed, Parser};
use crate::ast::{Initial, Named, Space};
use crate::lexer::Token;

/// Bytes of an initial value at most.
const LARGEST: u64 = 1 << 28;

impl Parser<'_> {
    /// What follows `=`. An outermost dimension that was left open gets as many parts as there are.
    pub(super) fn initial(&mut self, shape: &mut Shape, space: Space) -> Parsed<Initial> {
        if !matches!(space, Space::Global | Space::Const) {
            return self.error("only variables of `.global` and `.const` can have an initial value");
        }
        let mut initial = Initial::default();
        if shape.extents.is_empty() {
            self.scalar(shape, &mut initial)?;
        } else {
            let parts = self.parts(shape, &mut initial)?;
            if shape.extents[0] == 0 {
                shape.extents[0] = parts;
            }
        }
        Ok(initial)
    }

    /// `{a, b}`, each a part of the outermost dimension; gives how many there are.
    fn parts(&mut self, shape: &Shape, into: &mut Initial) -> Parsed<u64> {
        self.expect('{')?;
        let part = shape.part();
        let start = into.bytes.len();
        let mut count = 0;
        while !self.take('}') {
            if count > 0 {
                self.expect(',')?;
            }
            if shape.extents[0] != 0 && count == shape.extents[0] {
                return self.error(format!("more than {count} initial values"));
            }
            if part.extents.is_empty() {
                self.scalar(&part, into)?;
            } else {
                self.parts(&part, into)?;
            }
            count += 1;
            // The parts that are not named are zero.
            let bytes = part.size(count).map(|bytes| bytes.saturating_add(start as u64));
            let Some(bytes) = bytes.filter(|&bytes| bytes <= LARGEST) else {
                return self.error(format!("an initial value of more than {LARGEST} bytes"));
            };
            into.bytes.resize(bytes as usize, 0);
        }
        Ok(count)
    }

    fn scalar(&mut self, shape: &Shape, into: &mut Initial) -> Parsed<()> {
        let bytes = shape.element as usize;
        let first = self.peek();
        if let Some(Token::Integer(mask) | Token::Unsigned(mask)) = first
            && self.look(1) == Some(Token::Mark('('))
            && !shape.float
        {
            return self.masked(mask, bytes, into);
        }
        if !shape.float && self.names(0) {
            return self.named(bytes, 0, into);
        }
        let negative = first == Some(Token::Mark('-'));
        let value = match self.look(usize::from(negative)) {
            Some(Token::Float(bits)) if bytes == 4 || shape.float => {
                self.at += 1 + usize::from(negative);
                let bits = if negative { bits ^ 1 << 31 } else { bits };
                if bytes == 4 { bits.into() } else { f64::from(f32::from_bits(bits)).to_bits() }
            }
            Some(Token::Double(bits)) if shape.float => {
                self.at += 1 + usize::from(negative);
                let bits = if negative { bits ^ 1 << 63 } else { bits };
                if bytes == 8 { bits } else { (f64::from_bits(bits) as f32).to_bits().into() }
            }
            Some(_) if !shape.float => {
                let value = self.integer("an initial value of the variable's type")?;
                let unused = 64 - 8 * bytes.min(8) as u32;
                if value << unused >> unused != value && (value << unused) as i64 >> unused != value as i64 {
                    return self.error(format!("{} does not fit into {bytes} bytes", value as i64));
                }
                value
            }
            _ => return self.expected("an initial value of the variable's type"),
        };
        let mut all = [0; 16];
        all[..8].copy_from_slice(&value.to_le_bytes());
        into.bytes.extend_from_slice(&all[..bytes]);
        Ok(())
    }

    /// `0xff00(name)`: a byte of an address.
    fn masked(&mut self, mask: u64, bytes: usize, into: &mut Initial) -> Parsed<()> {
        let shift = mask.trailing_zeros();
        if bytes != 1 || !shift.is_multiple_of(8) || 0xffu64.checked_shl(shift) != Some(mask) {
            return self.error(format!(
                "mask {mask:#x} must choose one byte of an address, for a variable of bytes"
            ));
        }
        self.at += 2;
        self.named(bytes, shift, into)?;
        self.expect(')')
    }

    /// `name`, `generic(name)`, with an offset.
    fn named(&mut self, bytes: usize, shift: u32, into: &mut Initial) -> Parsed<()> {
        let line = self.line();
        let mut name = self.word("a name")?;
        // Addresses of global and constant memory are generic ones as they are.
        if name == "generic" && self.take('(') {
            name = self.word("a variable's name")?;
            self.expect(')')?;
        }
        let offset = match self.take('+') || self.peek() == Some(Token::Mark('-')) {
            true => self.integer("an offset")? as i64,
            false => 0,
        };
        into.names.push(Named { line, at: into.bytes.len(), bytes, name: name.to_owned(), offset, shift });
        into.bytes.resize(into.bytes.len() + bytes, 0);
        Ok(())
    }
}
