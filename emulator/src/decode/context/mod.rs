//! Names in scope, and the registers that they and the constants get.

mod function;
mod layout;
mod operands;
mod special;

use std::collections::HashMap;

use super::Decoded;
use super::types::Type;
use crate::error::LoadError;
use crate::memory::SHARED_START;
use crate::program::Special;
use crate::program::names::Names;
use crate::program::register::{Condition, D, P, R, Register};
pub(super) use function::{Known, Signature, Size};
pub(super) use layout::Layout;
use tilewright_ptx::ast::{Operand, Space, Variable};

/// What a name means.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Predicate(P),
    /// With the bits that it was declared with.
    Register(R, u32),
    Double(D),
    /// 128 bits: the low half, and the high one.
    Quad([D; 2]),
    /// A variable, at an address of its own space.
    Variable(Space, u64),
    /// A variable of the frame, at this place, of so many bytes.
    Local(u32, u32),
    /// A function that has this address.
    Function(u64),
}

/// The names of an entry, and the registers given out so far.
pub(super) struct Context {
    scopes: Vec<HashMap<String, Meaning>>,
    predicates: u32,
    registers: u32,
    doubles: u32,
    constants32: HashMap<u32, R>,
    constants64: HashMap<u64, D>,
    specials: Vec<(Special, R)>,
    sink: Option<R>,
    sink64: Option<D>,
    names: Names,
    /// The carry of extended-precision arithmetic.
    carry: Option<P>,
    /// The predicate that holds nowhere: predicates are so at first, and nobody writes it.
    never: Option<P>,
    functions: HashMap<String, Known>,
    /// The variables of the frame.
    layout: Layout,
    frame: Option<R>,
    in_function: bool,
    /// Where the variables in shared memory lie, which may have the same names.
    shared: HashMap<*const Variable, u32>,
    /// What the module may still have of instructions, registers and names.
    left: u32,
}

/// Instructions, registers and names that a module may have, those of functions once for each kernel that calls them.
pub(super) const MOST: u32 = 1 << 24;
/// Registers that a kernel with its functions may have.
const REGISTERS: u32 = 1 << 20;

/// What an operand is, or what it is not.
type Found<T> = Result<T, String>;

impl Context {
    /// For a kernel of a module that may still have so many instructions, registers and names.
    pub(super) fn new(left: u32) -> Self {
        Self {
            left,
            scopes: vec![HashMap::new()],
            predicates: 0,
            registers: 0,
            doubles: 0,
            constants32: HashMap::new(),
            constants64: HashMap::new(),
            specials: Vec::new(),
            sink: None,
            sink64: None,
            names: Names::default(),
            carry: None,
            never: None,
            functions: HashMap::new(),
            layout: Layout::default(),
            frame: None,
            in_function: false,
            shared: HashMap::new(),
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// What the module may have after this kernel.
    pub(super) fn left(&self) -> u32 {
        self.left
    }

    /// Takes so many instructions, registers or names of what the module may have.
    pub(super) fn take(&mut self, line: u32, count: usize) -> Decoded<()> {
        let left = u32::try_from(count).ok().and_then(|count| self.left.checked_sub(count));
        self.left = left.ok_or_else(|| {
            let what =
                "instructions, registers and names, those of functions once for each kernel that calls them";
            LoadError::new(line, format!("the module has more than {MOST} {what}"))
        })?;
        Ok(())
    }

    /// Predicates, 32-bit registers and 64-bit registers.
    pub(super) fn counts(&self) -> [u32; 3] {
        [self.predicates, self.registers, self.doubles]
    }

    pub(super) fn constants32(&self) -> Vec<(R, u32)> {
        self.constants32.iter().map(|(&value, &register)| (register, value)).collect()
    }

    pub(super) fn constants64(&self) -> Vec<(D, u64)> {
        self.constants64.iter().map(|(&value, &register)| (register, value)).collect()
    }

    /// The registers that have a value from the start.
    pub(super) fn known(&self) -> Vec<Register> {
        let narrow = self.constants32.values().chain(self.specials.iter().map(|(_, register)| register));
        let wide = self.constants64.values().map(|&d| Register::D(d));
        narrow.map(|&r| Register::R(r)).chain(wide).chain(self.never.map(Register::P)).collect()
    }

    pub(super) fn take_names(&mut self) -> Names {
        std::mem::take(&mut self.names)
    }

    pub(super) fn specials(&self) -> Vec<(Special, R)> {
        self.specials.clone()
    }

    fn declare(&mut self, line: u32, name: String, meaning: Meaning) -> Decoded<()> {
        let scope = self.scopes.last_mut().expect("there is always a scope");
        match scope.insert(name.clone(), meaning) {
            Some(_) => Err(LoadError::new(line, format!("`{name}` is declared twice"))),
            None => Ok(()),
        }
    }

    pub(super) fn declare_registers(
        &mut self,
        line: u32,
        class: &str,
        name: &str,
        count: Option<u32>,
    ) -> Decoded<()> {
        let ty = class.strip_prefix('.').and_then(Type::parse);
        let Some(ty) = ty else {
            return Err(LoadError::new(line, format!("registers of type `{class}` are not emulated")));
        };
        let first = match ty.bits() {
            1 => Register::P(P(self.predicates)),
            64 | 128 => Register::D(D(self.doubles)),
            _ => Register::R(R(self.registers)),
        };
        let (declared, new) = (self.counts().iter().sum::<u32>(), count.unwrap_or(1));
        if new
            .checked_mul(1 + ty.bits() / 128)
            .and_then(|new| declared.checked_add(new))
            .is_none_or(|all| all > REGISTERS)
        {
            return Err(LoadError::new(
                line,
                format!("`{name}`: a kernel has at most {REGISTERS} registers"),
            ));
        }
        self.take(line, new as usize)?;
        self.names.declare(first, name, count, 1 + ty.bits() / 128);
        let names: Vec<_> = match count {
            None => vec![name.to_owned()],
            Some(count) => (0..count).map(|i| format!("{name}{i}")).collect(),
        };
        for name in names {
            let meaning = match ty.bits() {
                1 => Meaning::Predicate(self.new_p()),
                64 => Meaning::Double(self.new_d()),
                128 => Meaning::Quad([self.new_d(), self.new_d()]),
                bits => Meaning::Register(self.new_r(), bits),
            };
            self.declare(line, name, meaning)?;
        }
        Ok(())
    }

    /// A variable of the module in global or constant memory.
    pub(super) fn declare_static(&mut self, variable: &Variable, address: u64) -> Decoded<()> {
        self.declare(variable.line, variable.name.clone(), Meaning::Variable(variable.space, address))
    }

    /// The variable in shared memory lies there.
    pub(super) fn place_shared(&mut self, variable: &Variable, offset: u32) {
        self.shared.insert(std::ptr::from_ref(variable), offset);
    }

    /// A variable in shared memory, which was placed.
    pub(super) fn declare_shared(&mut self, variable: &Variable) -> Decoded<()> {
        let offset = self.shared[&std::ptr::from_ref(variable)];
        let meaning = Meaning::Variable(Space::Shared, (SHARED_START + offset).into());
        self.declare(variable.line, variable.name.clone(), meaning)
    }

    /// Lays out the parameter block, and gives its size.
    pub(super) fn parameters(&mut self, parameters: &[Variable]) -> Decoded<u32> {
        let mut layout = Layout::default();
        for parameter in parameters {
            let offset = layout.place(parameter)?;
            self.declare(
                parameter.line,
                parameter.name.clone(),
                Meaning::Variable(Space::Param, offset.into()),
            )?;
        }
        Ok(layout.size())
    }

    pub(super) fn new_p(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }

    pub(super) fn carry(&mut self) -> P {
        let flag = self.carry.unwrap_or_else(|| self.new_p());
        self.carry = Some(flag);
        flag
    }

    pub(super) fn new_r(&mut self) -> R {
        self.registers += 1;
        R(self.registers - 1)
    }

    pub(super) fn new_d(&mut self) -> D {
        self.doubles += 1;
        D(self.doubles - 1)
    }

    fn find(&self, name: &str) -> Option<Meaning> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    pub(super) fn predicate(&self, name: &str) -> Found<P> {
        match self.find(name) {
            Some(Meaning::Predicate(p)) => Ok(p),
            _ => Err(format!("`{name}` is no predicate")),
        }
    }

    /// A predicate that is written; `_` is one that nobody reads.
    pub(super) fn predicate_to(&mut self, name: &str) -> Found<P> {
        if name == "_" { Ok(self.new_p()) } else { self.predicate(name) }
    }

    /// A predicate that is read: a register, its negation, or a number, which is false if it is 0.
    pub(super) fn condition(&mut self, operand: &Operand) -> Found<Condition> {
        match operand {
            &Operand::Integer(value) => {
                let predicate = self.never.unwrap_or_else(|| self.new_p());
                self.never = Some(predicate);
                Ok(Condition { predicate, negated: value != 0 })
            }
            Operand::Name(name) => Ok(Condition { predicate: self.predicate(name)?, negated: false }),
            Operand::Not(name) => Ok(Condition { predicate: self.predicate(name)?, negated: true }),
            other => Err(format!("{other:?} is no predicate")),
        }
    }

    pub(super) fn is_predicate(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Name(name) if matches!(self.find(name), Some(Meaning::Predicate(_))))
    }

    pub(super) fn constant32(&mut self, value: u32) -> R {
        if let Some(&register) = self.constants32.get(&value) {
            return register;
        }
        let register = self.new_r();
        self.constants32.insert(value, register);
        register
    }

    pub(super) fn constant64(&mut self, value: u64) -> D {
        if let Some(&register) = self.constants64.get(&value) {
            return register;
        }
        let register = self.new_d();
        self.constants64.insert(value, register);
        register
    }

    fn special(&mut self, name: &str) -> Option<R> {
        let special = special::named(name)?;
        if let Some(&(_, register)) = self.specials.iter().find(|&&(known, _)| known == special) {
            return Some(register);
        }
        let register = self.new_r();
        self.specials.push((special, register));
        Some(register)
    }
}
