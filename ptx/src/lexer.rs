//! Words, numbers, punctuation and comments, each with its place.

use crate::error::Error;

/// What a text consists of, but for space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'t> {
    /// A name, a directive, or an opcode with all its modifiers.
    Word(&'t str),
    /// An integer.
    Integer(u64),
    /// An integer with a `U` behind it.
    Unsigned(u64),
    /// The bits of an f32.
    Float(u32),
    /// The bits of an f64.
    Double(u64),
    /// What is between quotation marks.
    Text(&'t str),
    /// Any other character.
    Mark(char),
    /// A comment with what marks it.
    Comment(&'t str),
}

/// A token where it is in a text.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'t> {
    /// What it is.
    pub token: Token<'t>,
    /// Its line, from 1.
    pub line: u32,
    /// Where it begins, in bytes.
    pub start: usize,
    /// One past its end.
    pub end: usize,
}

/// The tokens of a text.
#[derive(Clone, Debug)]
pub struct Lexer<'t> {
    text: &'t str,
    at: usize,
    line: u32,
}

impl<'t> Iterator for Lexer<'t> {
    type Item = Result<Placed<'t>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest();
        self.skip_lines(rest.len() - rest.trim_start().len());
        let (line, start) = (self.line, self.at);
        let token = self.token()?;
        Some(token.map(|token| Placed { token, line, start, end: self.at }))
    }
}

impl<'t> Lexer<'t> {
    /// From the beginning of a text.
    pub fn new(text: &'t str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// An error, behind which there are no more tokens.
    fn error<T>(&mut self, what: impl Into<String>) -> Result<T, Error> {
        self.at = self.text.len();
        Err(Error { line: self.line, what: what.into() })
    }

    /// Passes over bytes of one line.
    fn skip(&mut self, bytes: usize) -> &'t str {
        let skipped = &self.rest()[..bytes];
        self.at += bytes;
        skipped
    }

    fn skip_lines(&mut self, bytes: usize) -> &'t str {
        let skipped = self.skip(bytes);
        self.line += skipped.bytes().filter(|&byte| byte == b'\n').count() as u32;
        skipped
    }

    fn token(&mut self) -> Option<Result<Token<'t>, Error>> {
        let rest = self.rest();
        Some(Ok(match rest.chars().next()? {
            '/' if rest.starts_with("//") => Token::Comment(self.skip(rest.find('\n').unwrap_or(rest.len()))),
            '/' if rest.starts_with("/*") => match rest.find("*/") {
                Some(end) => Token::Comment(self.skip_lines(end + 2)),
                None => return Some(self.error("a comment that does not end")),
            },
            '.' if rest[1..].starts_with(|next: char| next.is_ascii_digit()) => return Some(self.number()),
            'a'..='z' | 'A'..='Z' | '_' | '$' | '%' | '.' => Token::Word(self.skip(word_length(rest))),
            '0'..='9' => return Some(self.number()),
            '"' => match rest[1..].find('"') {
                Some(end) => Token::Text(&self.skip_lines(end + 2)[1..=end]),
                None => return Some(self.error("a string that does not end")),
            },
            mark if mark.is_ascii_punctuation() => {
                self.skip(1);
                Token::Mark(mark)
            }
            other => return Some(self.error(format!("`{other}` is no part of PTX"))),
        }))
    }

    fn number(&mut self) -> Result<Token<'t>, Error> {
        let rest = self.rest();
        let part = |text: &str| text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'.').count();
        let mut length = part(rest);
        // `1.5e-3`.
        let decimal = !matches!(rest.as_bytes().get(1), Some(b'x' | b'X' | b'f' | b'F' | b'd' | b'D'));
        if decimal && rest[..length].ends_with(['e', 'E']) && rest[length..].starts_with(['+', '-']) {
            length += 1 + part(&rest[length + 1..]);
        }
        let word = &rest[..length];
        let lower = word.to_ascii_lowercase();
        let marked = lower.strip_suffix('u');
        let (digits, integer): (_, fn(u64) -> Token<'t>) = match marked {
            Some(digits) => (digits, Token::Unsigned),
            None => (lower.as_str(), Token::Integer),
        };
        let token = if let Some(bits) = lower.strip_prefix("0f") {
            (bits.len() == 8).then(|| u32::from_str_radix(bits, 16).map(Token::Float))
        } else if let Some(bits) = lower.strip_prefix("0d") {
            (bits.len() == 16).then(|| u64::from_str_radix(bits, 16).map(Token::Double))
        } else if let Some(hex) = digits.strip_prefix("0x") {
            Some(u64::from_str_radix(hex, 16).map(integer))
        } else if let Some(binary) = digits.strip_prefix("0b") {
            Some(u64::from_str_radix(binary, 2).map(integer))
        } else if digits.contains(['.', 'e']) {
            digits.parse::<f64>().ok().map(|value| Ok(Token::Double(value.to_bits())))
        } else if digits.len() > 1 && digits.starts_with('0') {
            Some(u64::from_str_radix(digits, 8).map(integer))
        } else {
            Some(digits.parse().map(integer))
        };
        match token {
            Some(Ok(token)) => {
                self.skip(length);
                Ok(token)
            }
            _ => self.error(format!("`{word}` is no number")),
        }
    }
}

/// The length of the word at the start of the text: `ld.shared::cluster.u32` and `%tid.x` are one word each, `.reg.b16`
/// are two.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let dots = bytes[0] != b'.';
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || dots && byte == b'.';
    let mut end = 1;
    while end < bytes.len() {
        if part(bytes[end]) {
            end += 1;
        } else if bytes[end..].starts_with(b"::") && bytes.get(end + 2).is_some_and(|&byte| part(byte)) {
            end += 2;
        } else {
            break;
        }
    }
    end
}
