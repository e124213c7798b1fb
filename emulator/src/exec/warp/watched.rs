//! What is known of registers that are watched.
//!
//! Those are watched from the start that may be read before they are written. The others have a value, unless a lane
//! takes one where there is none: from a lane that does not take part in a shuffle, or from shared memory that nobody
//! wrote. From then on all registers of the warp are watched, until every one of them has a value again.

use super::Warp;
use crate::program::Program;
use crate::program::register::Register;
use crate::program::watched::Files;

/// What is known of a watched register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) value: Value,
    pub(crate) products: Products,
}

impl Watched {
    /// All of them at the start of a thread.
    pub(crate) fn all(program: &Program) -> impl Iterator<Item = Watched> {
        let new = |&doubtful: &bool| Watched { value: Value::new(doubtful), products: Products::UNTOUCHED };
        program.watched.doubtful().iter().map(new)
    }
}

/// What is known of its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    /// The lanes in which it has no value, or not all of one.
    pub(crate) lanes: u32,
    /// Those of them in which some of its bytes have one.
    partly: u32,
    /// Whose value it would have; `None` where it was never written.
    pub(crate) origin: Option<Origin>,
}

impl Value {
    /// At the start of a thread. A register that cannot be read before it is written has a value: it may get it where
    /// no instruction writes it, by a call.
    pub(crate) fn new(doubtful: bool) -> Self {
        Self { lanes: if doubtful { u32::MAX } else { 0 }, partly: 0, origin: None }
    }
}

/// Where a value went wrong: the instruction that took it where there was none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) pc: u32,
    pub(crate) cause: Cause,
}

/// Where there was no value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// In a register that nobody had written.
    Register(Register),
    /// In a lane that did not execute the shuffle.
    Lane(u32),
    /// In so many bytes of shared memory from this address on, of which nobody had written all.
    Shared { at: u32, bytes: u32 },
}

/// The registers that are watched for a while.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// By number, once there was one.
    values: Vec<Value>,
    /// Those that lack a value in some lane, of them and of those that are watched for products alone.
    lacking: u32,
}

impl Warp {
    /// Whether every register is watched.
    #[inline(always)]
    pub(crate) fn watches_all(&self) -> bool {
        self.passing.lacking != 0
    }

    #[inline]
    fn value(&self, program: &Program, register: Register) -> Option<&Value> {
        match program.watched.slot(register) {
            Some(slot) => Some(&self.watched[slot].value),
            None if !self.watches_all() => None,
            None => self.passing.values.get(files(program).number(register)),
        }
    }

    /// The lanes in which none of the register's bytes has a value. Where some have one, instructions are taken to use those: it is
    /// not looked at which they use.
    pub(crate) fn absent(&self, program: &Program, register: Register) -> u32 {
        self.value(program, register).map_or(0, |value| value.lanes & !value.partly)
    }

    /// The lanes in which the register has no value, or not all of one.
    #[inline]
    pub(crate) fn missing(&self, program: &Program, register: Register) -> u32 {
        self.value(program, register).map_or(0, |value| value.lanes)
    }

    /// Whose value the register would have.
    pub(crate) fn origin(&self, program: &Program, register: Register) -> Option<Origin> {
        self.value(program, register).and_then(|value| value.origin)
    }

    /// The register is written in the lanes of `mask`, and has no value in those of `without`.
    #[inline]
    pub(crate) fn define(
        &mut self,
        program: &Program,
        register: Register,
        mask: u32,
        without: u32,
        origin: Option<Origin>,
    ) {
        let (slot, without) = (program.watched.slot(register), without & mask);
        // Of one that is watched for products alone nobody asks whether it has a value, unless all are watched.
        let passing = slot.is_none_or(|slot| !program.watched.doubtful[slot]);
        if passing && without == 0 && !self.watches_all() {
            return;
        }
        let value = match slot {
            Some(slot) => &mut self.watched[slot].value,
            None => self.passing.value(program, register),
        };
        if without == 0 && value.lanes & mask == 0 {
            return;
        }
        let before = value.lanes != 0;
        value.lanes = value.lanes & !mask | without;
        value.partly &= !mask;
        value.origin = origin.or(value.origin);
        let after = value.lanes != 0;
        if passing {
            self.passing.lacking = self.passing.lacking + u32::from(after) - u32::from(before);
        }
    }

    /// The register is written in these lanes, in which some of its bytes have no value.
    pub(crate) fn define_partly(
        &mut self,
        program: &Program,
        register: Register,
        lanes: u32,
        origin: Option<Origin>,
    ) {
        self.define(program, register, lanes, lanes, origin);
        let value = match program.watched.slot(register) {
            Some(slot) => &mut self.watched[slot].value,
            None => self.passing.value(program, register),
        };
        value.partly |= lanes;
    }
}

impl Passing {
    fn value(&mut self, program: &Program, register: Register) -> &mut Value {
        let files = files(program);
        if self.values.is_empty() {
            self.values.resize(files.count(), Value::new(false));
        }
        &mut self.values[files.number(register)]
    }
}

fn files(program: &Program) -> Files {
    Files { registers: program.watched.registers }
}

/// What products have to do with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Products {
    /// The product that accumulates in it, or in what it is a copy of.
    pub(crate) accumulates: Option<Product>,
    /// Whether it is a copy.
    pub(crate) copy: bool,
    /// The last product that reads it as a part of A.
    pub(crate) reads: Option<Product>,
    /// The number of the fence that must come between the last access and a product.
    pub(crate) fence: u64,
}

impl Products {
    /// Of a register that nobody has accessed.
    pub(crate) const UNTOUCHED: Products = Products { accumulates: None, copy: false, reads: None, fence: 0 };
}

/// A product that was issued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) pc: u32,
    pub(crate) group: u64,
    /// n and k.
    pub(crate) shape: [u32; 2],
}
