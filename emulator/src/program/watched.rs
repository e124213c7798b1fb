//! Registers that are watched while a kernel runs.

use super::register::{D, P, R, Register};

/// The registers of an entry, numbered: predicates, then those of 32 bits, then those of 64.
#[derive(Clone, Copy)]
pub(crate) struct Files {
    pub(crate) registers: [u32; 3],
}

impl Files {
    pub(crate) fn count(self) -> usize {
        self.registers.iter().sum::<u32>() as usize
    }

    /// The register of a number.
    fn register(self, number: usize) -> Register {
        let ([p, r, _], number) = (self.registers, number as u32);
        match number {
            _ if number < p => Register::P(P(number)),
            _ if number < p + r => Register::R(R(number - p)),
            _ => Register::D(D(number - p - r)),
        }
    }

    pub(crate) fn number(self, register: Register) -> usize {
        let [p, r, _] = self.registers;
        let number = match register {
            Register::P(P(i)) => i,
            Register::R(R(i)) => p + i,
            Register::D(D(i)) => p + r + i,
        };
        number as usize
    }
}

/// The registers that are watched while a kernel runs.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) registers: [u32; 3],
    /// By the register's number: its slot, if it has one.
    pub(crate) slots: Vec<Option<u32>>,
    pub(crate) doubtful: Vec<bool>,
}

impl Watched {
    /// By slot: whether the register may be read before it is written.
    pub(crate) fn doubtful(&self) -> &[bool] {
        &self.doubtful
    }

    /// Those that may be read before they are written.
    pub(crate) fn doubtful_registers(&self) -> impl Iterator<Item = Register> {
        let files = Files { registers: self.registers };
        let is_doubtful = |slot: &Option<u32>| slot.is_some_and(|slot| self.doubtful[slot as usize]);
        let doubtful = self.slots.iter().enumerate().filter(move |(_, slot)| is_doubtful(slot));
        doubtful.map(move |(number, _)| files.register(number))
    }

    /// The register's place among them.
    #[inline]
    pub(crate) fn slot(&self, register: Register) -> Option<usize> {
        let number = Files { registers: self.registers }.number(register);
        self.slots[number].map(|slot| slot as usize)
    }
}
