//! Constant expressions of integers.
//!
//! PTX ISA, "Constants: Constant Expressions": 64 bits, signed or not.

use super::{DEEPEST, Parsed, Parser};
use crate::lexer::Token;

/// A value, in two's complement.
#[derive(Clone, Copy)]
struct Value {
    bits: u64,
    unsigned: bool,
}

/// What stands between two operands, and how strongly it binds them.
const OPERATORS: [(&str, u8); 18] = [
    // Those of two characters first.
    ("<<", 8),
    (">>", 8),
    ("<=", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&&", 2),
    ("||", 1),
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("+", 9),
    ("-", 9),
    ("<", 7),
    (">", 7),
    ("&", 5),
    ("^", 4),
    ("|", 3),
];

impl Parser<'_> {
    /// An integer, or an expression of some.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<u64> {
        Ok(self.expression(what, 0)?.bits)
    }

    /// Whether the token so many behind the next is a name, and not that of a constant.
    pub(super) fn names(&self, ahead: usize) -> bool {
        matches!(self.look(ahead), Some(Token::Word(word)) if word != "WARP_SZ")
    }

    /// An integer alone.
    pub(super) fn literal(&mut self, what: &str) -> Parsed<u64> {
        let Some(Token::Integer(value) | Token::Unsigned(value)) = self.peek() else {
            return self.expected(what);
        };
        self.at += 1;
        Ok(value)
    }

    /// An expression inside of so many others.
    fn expression(&mut self, what: &str, depth: usize) -> Parsed<Value> {
        let condition = self.chain(what, 0, depth)?;
        if !self.take('?') {
            return Ok(condition);
        }
        let first = self.expression(what, depth + 1)?;
        self.expect(':')?;
        let second = self.expression(what, depth + 1)?;
        let chosen = if condition.bits != 0 { first } else { second };
        Ok(Value { unsigned: first.unsigned || second.unsigned, ..chosen })
    }

    /// Operands with operators between them that bind at least so strongly.
    fn chain(&mut self, what: &str, least: u8, depth: usize) -> Parsed<Value> {
        let mut left = self.operand_of(what, depth)?;
        while let Some((operator, strength)) = self.operator().filter(|&(_, strength)| strength >= least) {
            // The lexer takes a lone `%` for a word.
            self.at += operator.len();
            let right = self.chain(what, strength + 1, depth)?;
            left = match combine(operator, left, right) {
                Some(value) => value,
                None => return self.error("a constant is divided by zero"),
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<(&'static str, u8)> {
        let is = |at: usize, mark: char| match self.look(at) {
            Some(Token::Mark(found)) => found == mark,
            Some(Token::Word("%")) => mark == '%',
            _ => false,
        };
        OPERATORS
            .into_iter()
            .find(|(operator, _)| operator.chars().enumerate().all(|(at, mark)| is(at, mark)))
    }

    /// A number, one in parentheses, or one with what stands before it.
    fn operand_of(&mut self, what: &str, depth: usize) -> Parsed<Value> {
        if depth > DEEPEST {
            return self.error(format!("operands are nested more than {DEEPEST} deep"));
        }
        if self.take('(') {
            let cast = [(".s64", false), (".u64", true)].into_iter().find(|(ty, _)| self.directive(ty));
            if let Some((_, unsigned)) = cast {
                self.expect(')')?;
                return Ok(Value { unsigned, ..self.operand_of(what, depth + 1)? });
            }
            let value = self.expression(what, depth + 1)?;
            self.expect(')')?;
            return Ok(value);
        }
        if self.take('+') {
            return self.operand_of(what, depth + 1);
        }
        if self.take('-') {
            let value = self.operand_of(what, depth + 1)?;
            return Ok(Value { bits: value.bits.wrapping_neg(), ..value });
        }
        if self.take('~') {
            return Ok(Value { bits: !self.operand_of(what, depth + 1)?.bits, unsigned: true });
        }
        if self.take('!') {
            let bits = u64::from(self.operand_of(what, depth + 1)?.bits == 0);
            return Ok(Value { bits, unsigned: false });
        }
        if self.directive("WARP_SZ") {
            return Ok(Value { bits: 32, unsigned: false });
        }
        let marked = matches!(self.peek(), Some(Token::Unsigned(_)));
        let bits = self.literal(what)?;
        Ok(Value { bits, unsigned: marked || i64::try_from(bits).is_err() })
    }
}

/// What an operator makes of two values; `None` of a division by zero.
fn combine(operator: &str, left: Value, right: Value) -> Option<Value> {
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.bits, right.bits);
    let (signed_a, signed_b) = (a as i64, b as i64);
    let arithmetic = |bits: u64| Value { bits, unsigned };
    let holds = |holds: bool| Value { bits: holds.into(), unsigned: false };
    let bitwise = |bits: u64| Value { bits, unsigned: true };
    let less = if unsigned { a < b } else { signed_a < signed_b };
    Some(match operator {
        "*" => arithmetic(a.wrapping_mul(b)),
        "/" | "%" if b == 0 => return None,
        "/" if unsigned => arithmetic(a / b),
        "/" => arithmetic(signed_a.wrapping_div(signed_b) as u64),
        "%" if unsigned => arithmetic(a % b),
        "%" => arithmetic(signed_a.wrapping_rem(signed_b) as u64),
        "+" => arithmetic(a.wrapping_add(b)),
        "-" => arithmetic(a.wrapping_sub(b)),
        "<<" => Value { bits: if b < 64 { a << b } else { 0 }, ..left },
        ">>" if left.unsigned => Value { bits: if b < 64 { a >> b } else { 0 }, ..left },
        ">>" => Value { bits: (signed_a >> b.min(63)) as u64, ..left },
        "<" => holds(less),
        ">=" => holds(!less),
        ">" => holds(!less && a != b),
        "<=" => holds(less || a == b),
        "==" => holds(a == b),
        "!=" => holds(a != b),
        "&" => bitwise(a & b),
        "^" => bitwise(a ^ b),
        "|" => bitwise(a | b),
        "&&" => holds(a != 0 && b != 0),
        _ => holds(a != 0 || b != 0),
    })
}
