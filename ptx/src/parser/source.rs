//! Directives about the source code.
//!
//! PTX ISA, ".file" and ".loc".

use super::{Parsed, Parser};
use crate::lexer::Token;
use crate::source::Place;

impl Parser<'_> {
    /// `.file 1 "name", time, size`: what follows the first word.
    pub(super) fn file(&mut self) -> Parsed<()> {
        let number = self.integer("a file's number")?;
        let Some(Token::Text(name)) = self.peek() else { return self.expected("a file's name") };
        let name = name.to_owned();
        self.at += 1;
        while self.take(',') {
            self.integer("a number")?;
        }
        self.sources.file(number, name);
        Ok(())
    }

    /// `.loc 1 2 3, function_name label+4, inlined_at 5 6 7`: what follows the first word, which is on this line.
    pub(super) fn location(&mut self, ptx_line: u32) -> Parsed<()> {
        let place = self.place()?;
        let mut inlined_at = None;
        while self.take(',') {
            match self.word("an attribute of a location")? {
                "function_name" => {
                    self.word("a label")?;
                    if self.take('+') {
                        self.integer("an offset")?;
                    }
                }
                "inlined_at" => inlined_at = Some(self.place()?),
                other => return self.error(format!("`{other}` is no attribute of a location")),
            }
        }
        self.sources.location(ptx_line, place, inlined_at);
        Ok(())
    }

    fn place(&mut self) -> Parsed<Place> {
        let file = self.integer("a file's number")?;
        Ok(Place { file, line: self.number32("a line")?, column: self.number32("a column")? })
    }
}
