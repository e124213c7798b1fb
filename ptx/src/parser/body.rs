//! What stands in bodies: declarations, labels and instructions.
//!
//! PTX ISA, "Syntax: Statements" and "Instruction Operands".

use super::{DEEPEST, Parsed, Parser};
use crate::ast::{Guard, Instruction, Operand, Statement};
use crate::lexer::Token;

impl Parser<'_> {
    /// Statements up to the brace that closes the entry.
    pub(super) fn body(&mut self) -> Parsed<Vec<Statement>> {
        self.sources.begin(self.line());
        let mut body = Vec::new();
        let mut depth = 0;
        loop {
            let line = self.line();
            if self.take('{') {
                depth += 1;
                if depth > DEEPEST {
                    return self.error(format!("scopes are nested more than {DEEPEST} deep"));
                }
                body.push(Statement::Open);
            } else if self.take('}') {
                if depth == 0 {
                    return Ok(body);
                }
                depth -= 1;
                body.push(Statement::Close);
            } else if self.take(';') {
                // An empty statement.
            } else if self.take('@') {
                let negated = self.take('!');
                let predicate = self.word("a predicate")?.to_owned();
                let guard = Some(Guard { predicate, negated });
                body.push(Statement::Instruction(self.instruction(line, guard)?));
            } else {
                let word = self.word("a statement")?;
                if self.take(':') {
                    body.push(self.labelled(line, word)?);
                    continue;
                }
                self.at -= 1;
                if word.starts_with('.') {
                    self.declaration(word, &mut body)?;
                } else {
                    body.push(Statement::Instruction(self.instruction(line, None)?));
                }
            }
        }
    }

    /// What a name with a colon is: a label, or that of a list.
    fn labelled(&mut self, line: u32, name: &str) -> Parsed<Statement> {
        let name = name.to_owned();
        if self.directive(".branchtargets") {
            let mut labels = vec![self.word("a label")?.to_owned()];
            while self.take(',') {
                labels.push(self.word("a label")?.to_owned());
            }
            self.expect(';')?;
            Ok(Statement::Targets { name, labels })
        } else if self.directive(".callprototype") {
            let results = self.formals()?;
            self.word("`_`")?;
            let parameters = self.formals()?;
            self.directive(".noreturn");
            self.expect(';')?;
            Ok(Statement::Prototype { name, results, parameters })
        } else if self.directive(".calltargets") {
            let mut functions = vec![self.word("a function")?.to_owned()];
            while self.take(',') {
                functions.push(self.word("a function")?.to_owned());
            }
            self.expect(';')?;
            Ok(Statement::Callees { name, functions })
        } else {
            Ok(Statement::Label { line, name })
        }
    }

    fn declaration(&mut self, directive: &str, body: &mut Vec<Statement>) -> Parsed<()> {
        let line = self.line();
        match directive {
            ".reg" => {
                self.at += 1;
                let class = self.word("a register's type")?;
                if matches!(class, ".v2" | ".v4") {
                    return self.error("`.reg` of vectors is not known: declare their elements");
                }
                loop {
                    let name = self.word("a register's name")?.to_owned();
                    let mut count = None;
                    if self.take('<') {
                        let number = self.literal("a number of registers")?;
                        // More than there may be of a kernel, whatever is meant.
                        count = Some(number.try_into().unwrap_or(u32::MAX));
                        self.expect('>')?;
                    }
                    body.push(Statement::Registers { line, class: class.to_owned(), name, count });
                    if !self.take(',') {
                        break;
                    }
                }
                self.expect(';')
            }
            ".shared" | ".local" | ".param" => {
                body.extend(self.variables()?.into_iter().map(Statement::Variable));
                Ok(())
            }
            ".loc" => {
                self.at += 1;
                self.location(line)
            }
            // "nounroll" and such: for ptxas.
            ".pragma" => {
                self.at += 2;
                self.expect(';')
            }
            other => self.error(format!("directive `{other}` is not known")),
        }
    }

    fn instruction(&mut self, line: u32, guard: Option<Guard>) -> Parsed<Instruction> {
        let first = self.at;
        let opcode = self.word("an instruction")?.to_owned();
        let mut operands = Vec::new();
        if !self.take(';') {
            loop {
                // Elsewhere parentheses are those of constants.
                operands.push(if opcode.starts_with("call") && self.take('(') {
                    Operand::List(if self.take(')') { Vec::new() } else { self.list(')', 1)? })
                } else {
                    self.operand(0)?
                });
                if self.take(';') {
                    break;
                }
                self.expect(',')?;
            }
        }
        let span = self.tokens[first].start..self.tokens[self.at - 1].end;
        Ok(Instruction { line, span, guard, opcode, operands })
    }

    /// An operand inside of so many braces and parentheses.
    fn operand(&mut self, depth: usize) -> Parsed<Operand> {
        if depth > DEEPEST {
            return self.error(format!("operands are nested more than {DEEPEST} deep"));
        }
        if self.take('{') {
            return Ok(Operand::Vector(self.list('}', depth + 1)?));
        }
        if self.take('[') {
            return self.address(depth + 1);
        }
        match self.peek() {
            Some(Token::Word(_)) if self.names(0) => {
                let name = self.word("an operand")?.to_owned();
                if self.take('|') {
                    Ok(Operand::Pair(name, self.word("the operand after `|`")?.to_owned()))
                } else if self.take('+') {
                    Ok(Operand::Sum(name, self.integer("an offset")? as i64))
                } else if self.peek() == Some(Token::Mark('[')) {
                    self.error(format!("expected an operand, found a subscript: write `[{name}+BYTES]`"))
                } else {
                    Ok(Operand::Name(name))
                }
            }
            Some(Token::Float(bits)) => {
                self.at += 1;
                Ok(Operand::Float(bits))
            }
            Some(Token::Double(bits)) => {
                self.at += 1;
                Ok(Operand::Double(bits))
            }
            Some(Token::Mark('-')) if matches!(self.look(1), Some(Token::Double(_))) => {
                self.at += 1;
                match self.operand(depth)? {
                    Operand::Double(bits) => Ok(Operand::Double(bits ^ 1 << 63)),
                    other => Ok(other),
                }
            }
            Some(Token::Mark('-')) if self.names(1) => {
                self.at += 1;
                Ok(Operand::Negative(self.word("an operand")?.to_owned()))
            }
            Some(Token::Mark('!')) if self.names(1) => {
                self.at += 1;
                Ok(Operand::Not(self.word("a predicate")?.to_owned()))
            }
            _ => Ok(Operand::Integer(self.integer("an operand")?)),
        }
    }

    fn list(&mut self, close: char, depth: usize) -> Parsed<Vec<Operand>> {
        let mut all = Vec::new();
        loop {
            all.push(self.operand(depth)?);
            if self.take(close) {
                return Ok(all);
            }
            self.expect(',')?;
        }
    }

    /// What follows `[`.
    fn address(&mut self, depth: usize) -> Parsed<Operand> {
        let (base, mut offset) = match self.peek() {
            Some(Token::Word(_)) if self.names(0) => (Some(self.word("an address")?.to_owned()), 0),
            _ => (None, self.integer("an address")? as i64),
        };
        if self.take('+') || self.peek() == Some(Token::Mark('-')) {
            offset = offset.wrapping_add(self.integer("an offset")? as i64);
        }
        let mut coordinates = None;
        if self.take(',') {
            self.expect('{')?;
            coordinates = Some(self.list('}', depth)?);
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset, coordinates })
    }
}
