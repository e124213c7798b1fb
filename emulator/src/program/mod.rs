//! A decoded kernel: instructions whose names are resolved to registers, targets and functions.

pub(crate) mod access;
pub(crate) mod class;
mod collective;
pub(crate) mod names;
pub(crate) mod op;
pub(crate) mod operand;
pub(crate) mod register;
pub(crate) mod shared;
pub(crate) mod undefined;
pub(crate) mod watched;

use std::ops::Range;
use std::sync::Arc;

use crate::arch::Target;
use class::Class;
use names::Names;
use op::Op;
use operand::Slot;
use register::{Condition, D, R, Register};
use shared::Shared;
use tilewright_ptx::source::Sources;
use watched::Watched;

/// A module, decoded.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) target: Target,
    pub(crate) programs: Vec<Program>,
    pub(crate) statics: Vec<Static>,
}

/// A variable of a module in global or constant memory.
#[derive(Debug)]
pub(crate) struct Static {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// Whether kernels must not write it.
    pub(crate) constant: bool,
    /// What it holds at first; zeros follow.
    pub(crate) initial: Vec<u8>,
}

/// A kernel, decoded.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The module's text, for messages.
    pub(crate) text: Arc<str>,
    /// The module's source code, for messages.
    pub(crate) sources: Arc<Sources>,
    pub(crate) code: Vec<Coded>,
    /// Where the kernel begins: after its functions, so that lanes that are in one go first.
    pub(crate) start: u32,
    pub(crate) functions: Vec<Function>,
    /// Where the frame of the function that a lane is in begins in local memory.
    pub(crate) frame: Option<R>,
    /// The register that has the end of what was taken from the stack, if anything ever is, and where that begins.
    pub(crate) stack: Option<(R, u32)>,
    pub(crate) watched: Watched,
    pub(crate) names: Names,
    /// Registers of each file, constants included.
    pub(crate) registers: [u32; 3],
    pub(crate) constants32: Vec<(R, u32)>,
    pub(crate) constants64: Vec<(D, u64)>,
    pub(crate) specials: Vec<(Special, R)>,
    /// Bytes of the parameter block.
    pub(crate) parameters: u32,
    pub(crate) shared: Shared,
    /// Bytes of local memory of a thread.
    pub(crate) local: u32,
    pub(crate) threads: Option<([u32; 3], bool)>,
    pub(crate) cluster: Option<[u32; 3]>,
    /// Registers of a thread when it begins, where the kernel has bounds for them.
    pub(crate) thread_registers: Option<u32>,
    /// Some of its fences and strong accesses are for a CTA or a cluster alone.
    pub(crate) narrow: bool,
    /// Some of its proxy fences are of one space of memory alone.
    pub(crate) proxies: bool,
    /// Threads of several clusters may wait for each other, or depend on each other's order.
    pub(crate) talks: bool,
}

impl Program {
    /// A line of the text, from 1.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("").trim()
    }
}

/// A function that a kernel calls.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// What a pointer to it holds.
    pub(crate) address: u64,
    pub(crate) start: u32,
    pub(crate) parameters: Box<[Slot]>,
    pub(crate) results: Box<[Slot]>,
    /// Bytes of its frame in local memory.
    pub(crate) frame: u32,
    /// Its registers of each file.
    pub(crate) registers: [Range<usize>; 3],
    /// Whether it may be called while it runs.
    pub(crate) recursive: bool,
}

impl Function {
    /// The registers that have a value where it begins, and those that it gives back.
    pub(crate) fn passed(&self) -> Vec<Register> {
        let register = |slot: &Slot| match *slot {
            Slot::R(register) => Some(Register::R(register)),
            Slot::D(register) => Some(Register::D(register)),
            Slot::Memory { .. } => None,
        };
        self.parameters.iter().chain(&self.results).filter_map(register).collect()
    }
}

/// An instruction with its guard.
#[derive(Debug)]
pub(crate) struct Coded {
    pub(crate) line: u32,
    pub(crate) class: Class,
    pub(crate) guard: Option<Condition>,
    /// Whether it touches a register that is watched.
    pub(crate) watched: bool,
    /// Whether it touches one that may be read before it is written.
    pub(crate) doubtful: bool,
    pub(crate) op: Op,
    /// It looks at what others may be about to write: a strong load, or an atomic operation.
    pub(crate) polls: bool,
}

/// Special registers whose value a warp knows when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(usize),
    Ntid(usize),
    Ctaid(usize),
    Nctaid(usize),
    Lane,
    LaneMask(Order),
    Warp,
    Warps,
    Sm,
    Sms,
    DynamicShared,
    TotalShared,
    ClusterRank,
    ClusterSize,
    ClusterCtaid(usize),
    ClusterNctaid(usize),
    Clusterid(usize),
    Nclusterid(usize),
    IsExplicitCluster,
    /// A half of the address of what cooperative groups keep of a grid, the low one first.
    Workspace(usize),
    /// Where the frame of the function begins: [`Program::frame`].
    Frame,
    /// The end of what was taken from the stack: [`Program::stack`].
    Stack,
    /// A place in the shared memory that the system has for itself, before that of the CTA.
    Reserved(u32),
}

/// How the lanes of a mask relate to the lane that reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}
