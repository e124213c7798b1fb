//! What is known of registers that are watched.

use crate::program::Program;
use crate::program::register::Register;

/// What is known of a watched register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watched {
    pub(crate) value: Value,
    pub(crate) products: Products,
}

impl Watched {
    /// All of them at the start of a thread.
    pub(crate) fn all(program: &Program) -> Vec<Watched> {
        let new = |&doubtful: &bool| Watched { value: Value::new(doubtful), products: Products::UNTOUCHED };
        program.watched.doubtful().iter().map(new).collect()
    }
}

/// What is known of its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    /// The lanes in which it has no value.
    pub(crate) lanes: u32,
    /// Whose value it would have; `None` where it was never written.
    pub(crate) origin: Option<Origin>,
}

impl Value {
    /// At the start of a thread. A register that cannot be read before it is written has a value: it may get it where
    /// no instruction writes it, by a call.
    pub(crate) fn new(doubtful: bool) -> Self {
        Self { lanes: if doubtful { u32::MAX } else { 0 }, origin: None }
    }
}

/// Where a value went wrong: the instruction that read a register that nobody had written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) pc: u32,
    pub(crate) register: Register,
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
