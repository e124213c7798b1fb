//! Words, numbers and punctuation, each with its line.

use crate::error::LoadError;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name, a directive, or an opcode with all its modifiers.
    Word(String),
    Integer(u64),
    /// The bits of an f32.
    Float(u32),
    /// The bits of an f64.
    Double(u64),
    Text(String),
    Mark(char),
}

/// All tokens of the text.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, u32)>, LoadError> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut all = Vec::with_capacity(text.len() / 4);
    while let Some(token) = lexer.next()? {
        all.push((token, lexer.line));
    }
    Ok(all)
}

struct Lexer<'t> {
    rest: &'t str,
    line: u32,
}

impl Lexer<'_> {
    fn error<T>(&self, what: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError::new(self.line, what))
    }

    fn skip(&mut self, bytes: usize) {
        let (skipped, rest) = self.rest.split_at(bytes);
        self.line += skipped.bytes().filter(|&byte| byte == b'\n').count() as u32;
        self.rest = rest;
    }

    fn space(&mut self) -> Result<(), LoadError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.skip(blank);
            if self.rest.starts_with("//") {
                self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                match self.rest.find("*/") {
                    Some(end) => self.skip(end + 2),
                    None => return self.error("a comment that does not end"),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>, LoadError> {
        self.space()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            'a'..='z' | 'A'..='Z' | '_' | '$' | '%' | '.' => {
                let word = self.rest[..word_length(self.rest)].to_owned();
                self.skip(word.len());
                Token::Word(word)
            }
            '0'..='9' => self.number()?,
            '"' => match self.rest[1..].find('"') {
                Some(end) => {
                    let text = self.rest[1..=end].to_owned();
                    self.skip(end + 2);
                    Token::Text(text)
                }
                None => return self.error("a string that does not end"),
            },
            ',' | ';' | ':' | '{' | '}' | '[' | ']' | '(' | ')' | '<' | '>' | '+' | '-' | '|' | '!' | '@'
            | '=' => {
                self.skip(1);
                Token::Mark(first)
            }
            other => return self.error(format!("`{other}` is no part of PTX")),
        };
        Ok(Some(token))
    }

    fn number(&mut self) -> Result<Token, LoadError> {
        let length =
            self.rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'.').count();
        let word = &self.rest[..length];
        let lower = word.to_ascii_lowercase();
        let digits = lower.strip_suffix('u').unwrap_or(&lower);
        let token = if let Some(bits) = lower.strip_prefix("0f") {
            (bits.len() == 8).then(|| u32::from_str_radix(bits, 16).map(Token::Float))
        } else if let Some(bits) = lower.strip_prefix("0d") {
            (bits.len() == 16).then(|| u64::from_str_radix(bits, 16).map(Token::Double))
        } else if let Some(hex) = digits.strip_prefix("0x") {
            Some(u64::from_str_radix(hex, 16).map(Token::Integer))
        } else if let Some(binary) = digits.strip_prefix("0b") {
            Some(u64::from_str_radix(binary, 2).map(Token::Integer))
        } else if digits.contains('.') {
            digits.parse::<f64>().ok().map(|value| Ok(Token::Double(value.to_bits())))
        } else if digits.len() > 1 && digits.starts_with('0') {
            Some(u64::from_str_radix(digits, 8).map(Token::Integer))
        } else {
            Some(digits.parse().map(Token::Integer))
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
