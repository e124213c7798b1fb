//! Tokens to the tree, by recursive descent.

mod body;
mod expression;
mod initial;
mod module;
mod source;
mod variable;

use super::ast::Module;
use super::lexer::{Lexer, Placed, Token};
use super::source::Sources;
use crate::error::Error;

/// Parses the text of a module.
pub fn parse(text: &str) -> Result<Module, Error> {
    let mut tokens = Vec::with_capacity(text.len() / 4);
    for placed in Lexer::new(text) {
        let placed = placed?;
        if !matches!(placed.token, Token::Comment(_)) {
            tokens.push(placed);
        }
    }
    Parser { tokens, at: 0, sources: Sources::default() }.module()
}

/// Scopes of names that may be open in each other, and parentheses of operands. Compilers open two.
const DEEPEST: usize = 64;

struct Parser<'t> {
    tokens: Vec<Placed<'t>>,
    at: usize,
    sources: Sources,
}

type Parsed<T> = Result<T, Error>;

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<Token<'t>> {
        self.look(0)
    }

    /// The token that is so many behind the next.
    fn look(&self, ahead: usize) -> Option<Token<'t>> {
        self.tokens.get(self.at + ahead).map(|placed| placed.token)
    }

    /// The line of the next token, or of the last one.
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |placed| placed.line)
    }

    fn error<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(Error { line: self.line(), what: what.into() })
    }

    /// An error for the next token, which is not what it should be.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            Some(Token::Word(word)) => format!("`{word}`"),
            Some(Token::Mark(mark)) => format!("`{mark}`"),
            Some(Token::Integer(value) | Token::Unsigned(value)) => format!("`{value}`"),
            Some(Token::Float(bits)) => format!("`0f{bits:08X}`"),
            Some(Token::Double(bits)) => format!("`0d{bits:016X}`"),
            Some(Token::Text(text)) => format!("\"{text}\""),
            Some(Token::Comment(_)) | None => "the end".into(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    /// Takes a directive, if it is the next token.
    fn directive(&mut self, directive: &str) -> bool {
        let found = self.peek() == Some(Token::Word(directive));
        self.at += usize::from(found);
        found
    }

    fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.take(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    fn word(&mut self, what: &str) -> Parsed<&'t str> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn number32(&mut self, what: &str) -> Parsed<u32> {
        let value = self.integer(what)?;
        value.try_into().or_else(|_| self.error(format!("{value} is too large for {what}")))
    }
}
