//! What stands outside of bodies: directives, kernels and functions.
//!
//! PTX ISA, "Directives".

use std::sync::Arc;

use super::{Parsed, Parser};
use crate::ast::{Entry, Formal, Function, Module, Space, Variable};
use crate::lexer::Token;

impl Parser<'_> {
    pub(super) fn module(mut self) -> Parsed<Module> {
        let mut module = Module::default();
        while let Some(token) = self.peek() {
            let Token::Word(word) = token else { return self.expected("a directive") };
            match word {
                ".version" => {
                    self.at += 2;
                }
                ".target" => {
                    self.at += 1;
                    module.target = self.word("a target")?.to_owned();
                    while self.take(',') {
                        self.word("a target's option")?;
                    }
                }
                ".address_size" => {
                    self.at += 1;
                    let bits = self.integer("the size of addresses")?;
                    if bits != 64 {
                        return self.error(format!("addresses of {bits} bits: only those of 64 are known"));
                    }
                }
                ".visible" | ".weak" | ".common" => self.at += 1,
                ".extern" => {
                    self.at += 1;
                    if self.peek() != Some(Token::Word(".func")) {
                        let variables = self.variables()?;
                        module.variables.extend(variables.into_iter().map(|variable| {
                            let external = variable.space != Space::Shared;
                            Variable { external, ..variable }
                        }));
                    }
                }
                ".func" => {
                    self.at += 1;
                    module.functions.push(self.function()?);
                }
                ".entry" => {
                    self.at += 1;
                    module.entries.push(self.entry()?);
                }
                ".file" => {
                    self.at += 1;
                    self.file()?;
                }
                ".section" => self.section()?,
                ".shared" | ".global" | ".const" => module.variables.extend(self.variables()?),
                ".alias" => {
                    self.at += 1;
                    let name = self.word("a function's other name")?.to_owned();
                    self.expect(',')?;
                    module.aliases.push((name, self.word("a function's name")?.to_owned()));
                    self.expect(';')?;
                }
                // For ptxas.
                ".pragma" => {
                    self.at += 2;
                    self.expect(';')?;
                }
                other => return self.error(format!("directive `{other}` is not known")),
            }
        }
        module.sources = Arc::new(self.sources);
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
        let name = self.word("the entry's name")?.to_owned();
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
        let mut entry = Entry {
            name,
            parameters,
            threads: None,
            cluster: None,
            registers: None,
            resident: None,
            body: Vec::new(),
        };
        while !self.take('{') {
            let directive = self.word("`{` or a directive")?;
            match directive {
                ".maxntid" => entry.threads = Some((self.extents()?, false)),
                ".reqntid" => entry.threads = Some((self.extents()?, true)),
                ".reqnctapercluster" => entry.cluster = Some(self.extents()?),
                ".maxnreg" => entry.registers = Some(self.extents()?[0]),
                ".minnctapersm" => entry.resident = Some(self.extents()?[0]),
                // Hints for ptxas.
                ".maxnctapersm" | ".maxclusterrank" => {
                    self.extents()?;
                }
                ".explicitcluster" => {}
                ".pragma" => {
                    self.at += 1;
                    self.expect(';')?;
                }
                other => {
                    self.at -= 1;
                    return self.error(format!("directive `{other}` is not known"));
                }
            }
        }
        entry.body = self.body()?;
        Ok(entry)
    }

    /// A function, or the declaration of one.
    fn function(&mut self) -> Parsed<Function> {
        self.attribute()?;
        let line = self.line();
        let results = self.formals()?;
        let name = self.word("the function's name")?.to_owned();
        let parameters = self.formals()?;
        let mut function = Function { line, name, results, parameters, body: None };
        loop {
            if self.take(';') {
                return Ok(function);
            }
            if self.take('{') {
                function.body = Some(self.body()?);
                return Ok(function);
            }
            match self.word("`{`, `;` or a directive")? {
                ".noreturn" => {}
                other => {
                    self.at -= 1;
                    return self.error(format!("directive `{other}` is not known"));
                }
            }
        }
    }

    /// The parameters or the results of a function; none where there are no parentheses.
    pub(super) fn formals(&mut self) -> Parsed<Vec<Formal>> {
        let mut all = Vec::new();
        if !self.take('(') {
            return Ok(all);
        }
        while !self.take(')') {
            if !all.is_empty() {
                self.expect(',')?;
            }
            let line = self.line();
            all.push(if self.directive(".reg") {
                let class = self.word("a register's type")?.to_owned();
                Formal::Register { line, class, name: self.word("a register's name")?.to_owned() }
            } else {
                Formal::Memory(self.variable()?)
            });
        }
        Ok(all)
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
}
