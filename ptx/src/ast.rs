//! What a module consists of.

use std::ops::Range;
use std::sync::Arc;

use crate::source::Sources;

/// A module.
#[derive(Debug, Default)]
pub struct Module {
    /// What `.target` names first: `sm_90a`.
    pub target: String,
    /// Variables outside of entries and functions.
    pub variables: Vec<Variable>,
    /// Functions, and declarations of functions.
    pub functions: Vec<Function>,
    /// Other names of functions: each with the name of the function that it means.
    pub aliases: Vec<(String, String)>,
    /// The kernels.
    pub entries: Vec<Entry>,
    /// Which source code it was made of.
    pub sources: Arc<Sources>,
}

/// A kernel.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<Variable>,
    /// `.maxntid` or `.reqntid`: threads in each dimension, and whether exactly those are required.
    pub threads: Option<([u32; 3], bool)>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.maxnreg`: registers of a thread.
    pub registers: Option<u32>,
    /// `.minnctapersm`: CTAs that an SM must have room for.
    pub resident: Option<u32>,
    /// Its statements.
    pub body: Body,
}

/// A function that kernels call.
#[derive(Debug)]
pub struct Function {
    /// Its line.
    pub line: u32,
    /// Its name.
    pub name: String,
    /// What it gives.
    pub results: Vec<Formal>,
    /// What it takes.
    pub parameters: Vec<Formal>,
    /// `None` for a declaration.
    pub body: Option<Body>,
}

/// A parameter or a result of a function.
#[derive(Clone, Debug)]
pub enum Formal {
    /// `.param .b32 name`.
    Memory(Variable),
    /// `.reg .b32 name`.
    Register {
        /// Its line.
        line: u32,
        /// Its type: `.b32`.
        class: String,
        /// Its name.
        name: String,
    },
}

/// The statements between an entry's braces.
pub type Body = Vec<Statement>;

/// Where a variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// `.param`.
    Param,
    /// `.shared`.
    Shared,
    /// `.global`.
    Global,
    /// `.const`.
    Const,
    /// `.local`.
    Local,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its line.
    pub line: u32,
    /// Its name.
    pub name: String,
    /// Where it lies.
    pub space: Space,
    /// What its address is a multiple of.
    pub align: u32,
    /// 0 for an array without bounds: the dynamic shared memory.
    pub bytes: u64,
    /// Whether it is another module's.
    pub external: bool,
    /// What it holds at first.
    pub initial: Initial,
}

/// What a variable holds at first; zeros after the bytes that are given.
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// The bytes; zeros where an address is.
    pub bytes: Vec<u8>,
    /// The addresses among them.
    pub names: Vec<Named>,
}

/// Bytes that are the address of a variable or a function.
#[derive(Clone, Debug)]
pub struct Named {
    /// The line.
    pub line: u32,
    /// Where in the initial value.
    pub at: usize,
    /// How many bytes of the address.
    pub bytes: usize,
    /// Whose address.
    pub name: String,
    /// What is added to it.
    pub offset: i64,
    /// `0xff00(name)`: the address is shifted right by so many bits.
    pub shift: u32,
}

/// A statement of a body.
#[derive(Debug)]
pub enum Statement {
    /// `{`, which opens a scope of names.
    Open,
    /// `}`.
    Close,
    /// `name:`.
    Label {
        /// Its line.
        line: u32,
        /// Its name.
        name: String,
    },
    /// `.reg .b32 %r<count>` or, with no count, one register.
    Registers {
        /// Its line.
        line: u32,
        /// Their type: `.b32`.
        class: String,
        /// What their names begin with, or the name of the one register.
        name: String,
        /// How many.
        count: Option<u32>,
    },
    /// A variable in memory.
    Variable(Variable),
    /// `name: .branchtargets a, b;`.
    Targets {
        /// The list's name.
        name: String,
        /// The labels in it.
        labels: Vec<String>,
    },
    /// `name: .callprototype (.param .b32 _) _ (.param .b64 _);`.
    Prototype {
        /// Its name.
        name: String,
        /// What such a function gives.
        results: Vec<Formal>,
        /// What it takes.
        parameters: Vec<Formal>,
    },
    /// `name: .calltargets f, g;`.
    Callees {
        /// The list's name.
        name: String,
        /// The functions in it.
        functions: Vec<String>,
    },
    /// An instruction.
    Instruction(Instruction),
}

/// An instruction.
#[derive(Debug)]
pub struct Instruction {
    /// Its line.
    pub line: u32,
    /// From its opcode to its semicolon.
    pub span: Range<usize>,
    /// Which lanes it is for.
    pub guard: Option<Guard>,
    /// The opcode with its modifiers, as written.
    pub opcode: String,
    /// Its operands.
    pub operands: Vec<Operand>,
}

/// `@p` or `@!p`.
#[derive(Debug)]
pub struct Guard {
    /// The register.
    pub predicate: String,
    /// Whether it is for the lanes whose predicate is false.
    pub negated: bool,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, a special register, a variable or a label.
    Name(String),
    /// `!p`.
    Not(String),
    /// `-r`.
    Negative(String),
    /// `a|b`.
    Pair(String, String),
    /// An integer, in two's complement.
    Integer(u64),
    /// `0f3F800000`, its bits.
    Float(u32),
    /// `0d3FF0000000000000`, its bits.
    Double(u64),
    /// `{a, b}`.
    Vector(Vec<Operand>),
    /// `(a, b)`: the arguments or the results of a call.
    List(Vec<Operand>),
    /// `name+8`, outside of brackets.
    Sum(String, i64),
    /// `[base+offset]`, `[map, {x, y}]`.
    Address {
        /// A register or a variable; `None` is zero.
        base: Option<String>,
        /// Bytes behind it.
        offset: i64,
        /// Coordinates in a tensor.
        coordinates: Option<Vec<Operand>>,
    },
}
