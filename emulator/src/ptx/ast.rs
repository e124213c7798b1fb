//! The tree.

use std::sync::Arc;

use super::source::Sources;

/// A module.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// What `.target` names first: `sm_90a`.
    pub(crate) target: String,
    /// Variables outside of entries and functions.
    pub(crate) variables: Vec<Variable>,
    /// Functions, and declarations of functions.
    pub(crate) functions: Vec<Function>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) sources: Arc<Sources>,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) parameters: Vec<Variable>,
    /// `.maxntid` or `.reqntid`: threads in each dimension, and whether exactly those are required.
    pub(crate) threads: Option<([u32; 3], bool)>,
    /// `.reqnctapercluster`.
    pub(crate) cluster: Option<[u32; 3]>,
    /// `.maxnreg`: registers of a thread.
    pub(crate) registers: Option<u32>,
    /// `.minnctapersm`: CTAs that an SM must have room for.
    pub(crate) resident: Option<u32>,
    pub(crate) body: Body,
}

/// A function that kernels call.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) results: Vec<Formal>,
    pub(crate) parameters: Vec<Formal>,
    /// `None` for a declaration.
    pub(crate) body: Option<Body>,
}

/// A parameter or a result of a function.
#[derive(Clone, Debug)]
pub(crate) enum Formal {
    /// `.param .b32 name`.
    Memory(Variable),
    /// `.reg .b32 name`.
    Register { line: u32, class: String, name: String },
}

/// The statements between an entry's braces.
pub(crate) type Body = Vec<Statement>;

/// Where a variable lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Param,
    Shared,
    Global,
    Const,
    Local,
}

/// A variable in memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) line: u32,
    pub(crate) name: String,
    pub(crate) space: Space,
    pub(crate) align: u32,
    /// 0 for an array without bounds: the dynamic shared memory.
    pub(crate) bytes: u64,
    /// Whether it is another module's.
    pub(crate) external: bool,
    pub(crate) initial: Initial,
}

/// What a variable holds at first; zeros after the bytes that are given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Initial {
    pub(crate) bytes: Vec<u8>,
    pub(crate) names: Vec<Named>,
}

/// Bytes that are the address of a variable or a function.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) line: u32,
    /// Where in the initial value.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    pub(crate) name: String,
    pub(crate) offset: i64,
    /// `0xff00(name)`: the address is shifted right by so many bits.
    pub(crate) shift: u32,
}

#[derive(Debug)]
pub(crate) enum Statement {
    /// `{`, which opens a scope of names.
    Open,
    /// `}`.
    Close,
    Label {
        line: u32,
        name: String,
    },
    /// `.reg .b32 %r<count>` or, with no count, one register.
    Registers {
        line: u32,
        class: String,
        name: String,
        count: Option<u32>,
    },
    Variable(Variable),
    /// `name: .branchtargets a, b;`.
    Targets {
        name: String,
        labels: Vec<String>,
    },
    /// `name: .callprototype (.param .b32 _) _ (.param .b64 _);`.
    Prototype {
        name: String,
        results: Vec<Formal>,
        parameters: Vec<Formal>,
    },
    Instruction(Instruction),
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) line: u32,
    pub(crate) guard: Option<Guard>,
    /// The opcode with its modifiers, as written.
    pub(crate) opcode: String,
    pub(crate) operands: Vec<Operand>,
}

/// `@p` or `@!p`.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) predicate: String,
    pub(crate) negated: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand {
    /// A register, a special register, a variable or a label.
    Name(String),
    /// `!p`.
    Not(String),
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
    /// `[base+offset]`, and the coordinates of `[map, {x, y}]`; a base of `None` is zero.
    Address { base: Option<String>, offset: i64, coordinates: Option<Vec<Operand>> },
}
