//! Tokens to the tree, by recursive descent.

use super::ast::{Entry, Guard, Instruction, Module, Operand, Space, Statement, Variable};
use super::lexer::{Token, tokens};
use crate::LoadError;

/// Parses the text of a module.
pub(crate) fn parse(text: &str) -> Result<Module, LoadError> {
    let tokens = tokens(text)?;
    Parser { tokens: &tokens, at: 0 }.module()
}

struct Parser<'t> {
    tokens: &'t [(Token, u32)],
    at: usize,
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

    fn module(mut self) -> Parsed<Module> {
        let mut module = Module::default();
        while let Some(token) = self.peek() {
            let Token::Word(word) = token else { return self.expected("a directive") };
            match word.as_str() {
                ".version" => {
                    self.at += 2;
                }
                ".target" => {
                    self.at += 1;
                    module.target = self.word("a target")?;
                    while self.take(',') {
                        self.word("a target's option")?;
                    }
                }
                ".address_size" => {
                    self.at += 1;
                    let bits = self.integer("the size of addresses")?;
                    if bits != 64 {
                        return self
                            .error(format!("addresses of {bits} bits: only those of 64 are emulated"));
                    }
                }
                ".visible" | ".weak" | ".extern" | ".common" => self.at += 1,
                ".entry" => {
                    self.at += 1;
                    module.entries.push(self.entry()?);
                }
                ".file" => {
                    self.at += 1;
                    self.integer("a file's number")?;
                    self.at += 1;
                    while self.take(',') {
                        self.integer("a number")?;
                    }
                }
                ".section" => self.section()?,
                ".shared" | ".global" | ".const" => module.variables.extend(self.variables()?),
                other => return self.error(format!("directive `{other}` is not emulated")),
            }
        }
        Ok(module)
    }

    /// Skips debug information: `.section .debug_… { … }`.
    fn section(&mut self) -> Parsed<()> {
        self.at += 2;
        self.expect('{')?;
        while !self.take('}') {
            if self.peek().is_none() {
                return self.expected("`}`");
            }
            self.at += 1;
        }
        Ok(())
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let name = self.word("the entry's name")?;
        let mut parameters = Vec::new();
        if self.take('(') && !self.take(')') {
            loop {
                parameters.push(self.variable()?);
                if self.take(')') {
                    break;
                }
                self.expect(',')?;
            }
        }
        let mut entry = Entry { name, parameters, threads: None, cluster: None, body: Vec::new() };
        while !self.take('{') {
            let directive = self.word("`{` or a directive")?;
            match directive.as_str() {
                ".maxntid" => entry.threads = Some((self.extents()?, false)),
                ".reqntid" => entry.threads = Some((self.extents()?, true)),
                ".reqnctapercluster" => entry.cluster = Some(self.extents()?),
                // Hints for ptxas: registers and occupancy are not emulated.
                ".minnctapersm" | ".maxnreg" | ".maxnctapersm" | ".maxclusterrank" => {
                    self.extents()?;
                }
                ".explicitcluster" => {}
                other => {
                    self.at -= 1;
                    return self.error(format!("directive `{other}` is not emulated"));
                }
            }
        }
        entry.body = self.body()?;
        Ok(entry)
    }

    /// One to three numbers.
    fn extents(&mut self) -> Parsed<[u32; 3]> {
        let mut extents = [1; 3];
        extents[0] = self.number32("an extent")?;
        for extent in &mut extents[1..] {
            if !self.take(',') {
                break;
            }
            *extent = self.number32("an extent")?;
        }
        Ok(extents)
    }

    /// `.shared .align 16 .b8 name[64], other;`
    fn variables(&mut self) -> Parsed<Vec<Variable>> {
        let mut all = vec![self.variable()?];
        while self.take(',') {
            let line = self.line();
            let name = self.word("a variable's name")?;
            let like = all[0].clone();
            if self.peek() != Some(&Token::Mark(';')) && self.peek() != Some(&Token::Mark(',')) {
                return self.expected("`,` or `;` (declare arrays one by one)");
            }
            all.push(Variable { line, name, ..like });
        }
        self.expect(';')?;
        Ok(all)
    }

    fn variable(&mut self) -> Parsed<Variable> {
        let line = self.line();
        let space = match self.word("a state space")?.as_str() {
            ".param" => Space::Param,
            ".shared" => Space::Shared,
            ".global" => Space::Global,
            ".const" => Space::Const,
            ".local" => Space::Local,
            other => return self.error(format!("state space `{other}` is not emulated")),
        };
        let mut align = 0;
        let mut element = None;
        let mut elements = 1;
        loop {
            let word = self.word("a type or a name")?;
            match word.as_str() {
                ".align" => align = self.number32("an alignment")?,
                // The space that a pointer parameter points into: a hint.
                ".ptr" | ".global" | ".shared" | ".const" => {}
                ".v2" => elements = 2,
                ".v4" => elements = 4,
                ".b8" | ".u8" | ".s8" => element = Some(1),
                ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => element = Some(2),
                ".b32" | ".u32" | ".s32" | ".f32" => element = Some(4),
                ".b64" | ".u64" | ".s64" | ".f64" => element = Some(8),
                ".b128" => element = Some(16),
                name if !name.starts_with('.') => {
                    let Some(element) = element else { return self.error(format!("`{name}` has no type")) };
                    let mut bytes = element * elements;
                    while self.take('[') {
                        bytes *= if self.take(']') {
                            0
                        } else {
                            let count = self.integer("a number of elements")?;
                            self.expect(']')?;
                            count
                        };
                    }
                    let align = if align == 0 { (element * elements) as u32 } else { align };
                    if !align.is_power_of_two() {
                        return self.error(format!("an alignment of {align} is not a power of two"));
                    }
                    return Ok(Variable { line, name: name.into(), space, align, bytes });
                }
                other => {
                    self.at -= 1;
                    return self.error(format!("`{other}` in a variable's declaration is not emulated"));
                }
            }
        }
    }

    /// Statements up to the brace that closes the entry.
    fn body(&mut self) -> Parsed<Vec<Statement>> {
        let mut body = Vec::new();
        let mut depth = 0;
        loop {
            let line = self.line();
            if self.take('{') {
                depth += 1;
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
                let predicate = self.word("a predicate")?;
                let opcode = self.word("an instruction")?;
                let guard = Some(Guard { predicate, negated });
                body.push(Statement::Instruction(self.instruction(line, guard, opcode)?));
            } else {
                let word = self.word("a statement")?;
                if self.take(':') {
                    body.push(Statement::Label { line, name: word });
                } else if word.starts_with('.') {
                    self.at -= 1;
                    self.declaration(&word, &mut body)?;
                } else {
                    body.push(Statement::Instruction(self.instruction(line, None, word)?));
                }
            }
        }
    }

    fn declaration(&mut self, directive: &str, body: &mut Vec<Statement>) -> Parsed<()> {
        let line = self.line();
        match directive {
            ".reg" => {
                self.at += 1;
                let class = self.word("a register's type")?;
                loop {
                    let name = self.word("a register's name")?;
                    let mut count = None;
                    if self.take('<') {
                        count = Some(self.number32("a number of registers")?);
                        self.expect('>')?;
                    }
                    body.push(Statement::Registers { line, class: class.clone(), name, count });
                    if !self.take(',') {
                        break;
                    }
                }
                self.expect(';')
            }
            ".shared" | ".local" => {
                body.extend(self.variables()?.into_iter().map(Statement::Variable));
                Ok(())
            }
            // Where the source is: the line's number, and what was inlined there.
            ".loc" => {
                self.at += 1;
                while matches!(self.peek(), Some(Token::Integer(_))) {
                    self.at += 1;
                }
                while self.take(',') {
                    self.word("an attribute of a location")?;
                    while !matches!(self.peek(), None | Some(Token::Mark(',')))
                        && self.tokens[self.at].1 == line
                    {
                        self.at += 1;
                    }
                }
                Ok(())
            }
            // "nounroll" and such: for ptxas.
            ".pragma" => {
                self.at += 2;
                self.expect(';')
            }
            other => self.error(format!("directive `{other}` is not emulated")),
        }
    }

    fn instruction(&mut self, line: u32, guard: Option<Guard>, opcode: String) -> Parsed<Instruction> {
        let mut operands = Vec::new();
        if !self.take(';') {
            loop {
                operands.push(self.operand()?);
                if self.take(';') {
                    break;
                }
                self.expect(',')?;
            }
        }
        Ok(Instruction { line, guard, opcode, operands })
    }

    fn operand(&mut self) -> Parsed<Operand> {
        if self.take('{') {
            return Ok(Operand::Vector(self.list('}')?));
        }
        if self.take('[') {
            return self.address();
        }
        if self.take('!') {
            return Ok(Operand::Not(self.word("a predicate")?));
        }
        match self.peek() {
            Some(Token::Word(_)) => {
                let name = self.word("an operand")?;
                if self.take('|') {
                    Ok(Operand::Pair(name, self.word("the operand after `|`")?))
                } else if self.take('+') {
                    Ok(Operand::Sum(name, self.integer("an offset")? as i64))
                } else {
                    Ok(Operand::Name(name))
                }
            }
            Some(&Token::Float(bits)) => {
                self.at += 1;
                Ok(Operand::Float(bits))
            }
            Some(&Token::Double(bits)) => {
                self.at += 1;
                Ok(Operand::Double(bits))
            }
            Some(Token::Mark('-')) if matches!(self.tokens.get(self.at + 1), Some((Token::Double(_), _))) => {
                self.at += 1;
                match self.operand()? {
                    Operand::Double(bits) => Ok(Operand::Double(bits ^ 1 << 63)),
                    other => Ok(other),
                }
            }
            _ => Ok(Operand::Integer(self.integer("an operand")?)),
        }
    }

    fn list(&mut self, close: char) -> Parsed<Vec<Operand>> {
        let mut all = Vec::new();
        loop {
            all.push(self.operand()?);
            if self.take(close) {
                return Ok(all);
            }
            self.expect(',')?;
        }
    }

    /// What follows `[`.
    fn address(&mut self) -> Parsed<Operand> {
        let (base, mut offset) = match self.peek() {
            Some(Token::Word(_)) => (Some(self.word("an address")?), 0),
            _ => (None, self.integer("an address")? as i64),
        };
        if self.take('+') || self.peek() == Some(&Token::Mark('-')) {
            offset += self.integer("an offset")? as i64;
        }
        let mut coordinates = None;
        if self.take(',') {
            self.expect('{')?;
            coordinates = Some(self.list('}')?);
        }
        self.expect(']')?;
        Ok(Operand::Address { base, offset, coordinates })
    }
}
