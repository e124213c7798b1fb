//! Tokens to the tree, by recursive descent.

mod body;
mod initial;
mod module;
mod source;
mod variable;

use super::ast::Module;
use super::lexer::{Token, tokens};
use super::source::Sources;
use crate::error::LoadError;

/// Parses the text of a module.
pub(crate) fn parse(text: &str) -> Result<Module, LoadError> {
    let tokens = tokens(text)?;
    Parser { tokens: &tokens, at: 0, sources: Sources::default() }.module()
}

struct Parser<'t> {
    tokens: &'t [(Token, u32)],
    at: usize,
    sources: Sources,
}

type Parsed<T> = Result<T, LoadError>;

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    /// The line of the next token, or of the last one.
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |&(_, line)| line)
    }

    fn error<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(LoadError::new(self.line(), what))
    }

    /// An error for the next token, which is not what it should be.
    fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            Some(Token::Word(word)) => format!("`{word}`"),
            Some(Token::Mark(mark)) => format!("`{mark}`"),
            Some(Token::Integer(value)) => format!("`{value}`"),
            Some(Token::Float(bits)) => format!("`0f{bits:08X}`"),
            Some(Token::Double(bits)) => format!("`0d{bits:016X}`"),
            Some(Token::Text(text)) => format!("\"{text}\""),
            None => "the end".into(),
        };
        self.error(format!("expected {what}, found {found}"))
    }

    fn take(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(&Token::Mark(mark));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, mark: char) -> Parsed<()> {
        if self.take(mark) { Ok(()) } else { self.expected(&format!("`{mark}`")) }
    }

    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                let word = word.clone();
                self.at += 1;
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn integer(&mut self, what: &str) -> Parsed<u64> {
        let negative = self.take('-');
        match self.peek() {
            Some(&Token::Integer(value)) => {
                self.at += 1;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => self.expected(what),
        }
    }

    fn number32(&mut self, what: &str) -> Parsed<u32> {
        let value = self.integer(what)?;
        value.try_into().or_else(|_| self.error(format!("{value} is too large for {what}")))
    }
}
