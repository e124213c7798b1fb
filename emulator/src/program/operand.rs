//! What the instructions of a kernel work on.

use std::fmt;

use super::register::{Condition, D, P, R, Register};
use crate::tensor::element::Accumulator;
use crate::tensor::fragment::Fragment;
use crate::tensor::map::DataType;
use crate::tensor::mma::Mma;
use crate::tensor::reduce::Reduction;
use crate::tensor::warp_product::WarpProduct;
use crate::tensor::wgmma::Wgmma;
use tilewright_ptx::ast::Space;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    None,
    R(R),
    D(D),
}

/// An address: a register plus a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) base: Base,
    pub(crate) offset: i64,
}

/// Where an instruction says its address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Generic,
    In(Space),
    /// Shared memory of any CTA of the cluster.
    Cluster,
}

/// A register that a load fills.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination {
    /// Of so many bits.
    R(R, u32),
    D(D),
    Sink,
}

/// A register that a store reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    R(R),
    D(D),
}

impl Source {
    pub(crate) fn register(self) -> Register {
        match self {
            Source::R(register) => Register::R(register),
            Source::D(register) => Register::D(register),
        }
    }
}

/// Which operation an atomic does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Exchange,
    CompareAndSwap,
    And,
    Or,
    Xor,
    AddInteger,
    AddFloat,
    MinUnsigned,
    MaxUnsigned,
    MinSigned,
    MaxSigned,
    Increment,
    Decrement,
    /// On each 16 bits.
    Halves(Reduction, DataType),
}

/// How `shfl` finds the lane to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Any,
    All,
    Uniform,
}

/// What is wanted of the predicates at a barrier, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tally {
    Count(R),
    All(P),
    Any(P),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredicateOp {
    And,
    Or,
    Xor,
}

/// The bytes that a bulk copy moves.
#[derive(Debug)]
pub(crate) enum Bulk {
    /// Contiguous bytes: global and shared address, and how many.
    Linear { global: Address, shared: Address, bytes: R },
    /// A box of a tensor map.
    Tensor { map: Address, start: Box<Start>, shared: Address },
}

/// Where in a tensor a copy begins.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) coordinates: Box<[R]>,
    /// In im2col mode, for its dimensions of pixels; none of stores.
    pub(crate) offsets: Option<Box<[R]>>,
}

/// A matrix product of a warpgroup.
#[derive(Debug)]
pub(crate) struct WgmmaOp {
    pub(crate) shape: Wgmma,
    pub(crate) accumulator: Accumulator,
    pub(crate) d: Box<[R]>,
    pub(crate) a: WgmmaA,
    pub(crate) b: D,
    /// Where the elements of a sparse A are.
    pub(crate) metadata: Option<R>,
    /// Where false, the product overwrites the accumulators.
    pub(crate) scale: Condition,
}

#[derive(Debug)]
pub(crate) enum WgmmaA {
    Shared(D),
    Registers([R; 4]),
}

/// What is computed lane by lane: too rare for a function of whole registers.
pub(crate) struct EachOp {
    pub(crate) f: Each,
    pub(crate) d: Destination,
    pub(crate) from: Box<[Source]>,
    /// The flag that it takes: the carry.
    pub(crate) take: Option<P>,
    /// The flag that it leaves.
    pub(crate) leave: Option<P>,
}

/// A function of up to four operands and a flag.
pub(crate) type Each = Box<dyn Fn([u64; 4], bool) -> (u64, bool) + Send + Sync>;

impl fmt::Debug for EachOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { f: _, d, from, take, leave } = self;
        write!(f, "Each {{ {d:?}, {from:?}, {take:?}, {leave:?} }}")
    }
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct CallOp {
    pub(crate) callee: Callee,
    pub(crate) arguments: Box<[Slot]>,
    /// Where the results go.
    pub(crate) results: Box<[Slot]>,
    /// Bytes of the caller's frame: the callee's follows.
    pub(crate) frame: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Callee {
    /// Its number in the program.
    Function(usize),
    /// The one at this address.
    Address(D),
    /// The driver's `vprintf`.
    Print,
    /// Its `malloc`.
    Allocate,
    /// Its `free`.
    Free,
}

/// Where an argument or a result is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    /// In the frame.
    Memory {
        at: u32,
        bytes: u32,
    },
    R(R),
    D(D),
}

/// A matrix product of a warp.
#[derive(Debug)]
pub(crate) struct MmaOp {
    pub(crate) shape: Mma,
    pub(crate) accumulator: Accumulator,
    pub(crate) d: Box<[R]>,
    pub(crate) a: Box<[R]>,
    pub(crate) b: Box<[R]>,
    pub(crate) c: Box<[R]>,
}

/// A matrix of a warp that is loaded or stored.
#[derive(Debug)]
pub(crate) struct FragmentOp {
    pub(crate) fragment: Fragment,
    /// How it lies in memory.
    pub(crate) by_rows: bool,
    pub(crate) window: Window,
    pub(crate) at: Address,
    /// Elements from a row or a column to the next, if they do not follow each other.
    pub(crate) stride: Option<R>,
    pub(crate) registers: Box<[Source]>,
}

/// A matrix product of a warp whose operands are fragments.
#[derive(Debug)]
pub(crate) struct WarpProductOp {
    pub(crate) form: WarpProduct,
    pub(crate) d: Box<[Source]>,
    pub(crate) a: Box<[Source]>,
    pub(crate) b: Box<[Source]>,
    pub(crate) c: Box<[Source]>,
    /// Where the elements of a sparse A are.
    pub(crate) metadata: Option<R>,
}

/// Where a comparison's result goes, and what it is combined with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) p: P,
    /// `p|q`: q is the result of the negated comparison.
    pub(crate) q: Option<P>,
    pub(crate) combine: Option<(PredicateOp, Condition)>,
}

/// How a strong access, an arrival or a wait orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordering {
    pub(crate) acquire: bool,
    pub(crate) release: bool,
    pub(crate) scope: Scope,
}

impl Ordering {
    pub(crate) const RELAXED: Self = Self { acquire: false, release: false, scope: Scope::Gpu };

    /// The same of an access in this window: it is the CTA alone that can reach its own shared memory so.
    pub(crate) fn at(self, window: Window) -> Self {
        match window {
            Window::In(Space::Shared) => Self { scope: Scope::Gpu, ..self },
            _ => self,
        }
    }
}

/// The threads that a strong access or a fence is for, from few to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Cta,
    Cluster,
    /// Of the device, or of the system.
    Gpu,
}

/// Groups that a warp waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Copies,
    /// Of a bulk group: until it has read, or until it has written too.
    BulkReads,
    Bulk,
}
