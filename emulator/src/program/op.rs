//! What the instructions of a kernel do.

use super::operand::{
    Address, AtomicOp, Bulk, CallOp, Destination, EachOp, FragmentOp, MmaOp, Ordering, Outcome, PredicateOp,
    Queue, Scope, Shuffle, Source, Tally, Vote, WarpProductOp, WgmmaOp, Window,
};
use super::register::{Compare, Condition, D, F1, F2, F3, P, R};
use crate::tensor::map::{DataType, Field};
use crate::tensor::reduce::Reduction;
use tilewright_ptx::ast::Space;

/// What an instruction does.
#[derive(Debug)]
pub(crate) enum Op {
    Move32(R, R),
    Move64(D, D),
    MovePredicate(P, Condition),
    SetPredicate(P, bool),
    F1_32(F1<u32, u32>, R, R),
    F1_64(F1<u64, u64>, D, D),
    F1_32to64(F1<u64, u32>, D, R),
    F1_64to32(F1<u32, u64>, R, D),
    F2_32(F2<u32, u32, u32>, R, R, R),
    F2_64(F2<u64, u64, u64>, D, D, D),
    F2Wide(F2<u64, u32, u32>, D, R, R),
    Shift64(F2<u64, u64, u32>, D, D, R),
    F3_32(F3<u32, u32, u32, u32>, R, [R; 3]),
    F3_64(F3<u64, u64, u64, u64>, D, [D; 3]),
    F3Wide(F3<u64, u32, u32, u64>, D, R, R, D),
    BitField64(F3<u64, u64, u32, u32>, D, D, R, R),
    Insert32([R; 5]),
    Lop3 {
        table: u8,
        d: R,
        sources: [R; 3],
    },
    /// `prmt`.
    Permute {
        d: R,
        sources: [R; 3],
    },
    Select32(R, R, R, Condition),
    Select64(D, D, D, Condition),
    Compare32(Compare<u32>, R, R, Outcome),
    Compare64(Compare<u64>, D, D, Outcome),
    Predicates(PredicateOp, P, Condition, Condition),
    /// Joins two halves: low, high.
    Join64(D, R, R),
    /// Splits into two halves.
    Split64(R, R, D),
    /// Joins two 16-bit registers.
    Join32(R, R, R),
    Split32(R, R, R),
    Join16x4(D, [R; 4]),
    Split16x4([R; 4], D),
    /// A counter: cycles, or nanoseconds.
    Clock32(R),
    Clock64(D),

    /// A function of each lane.
    Each(Box<EachOp>),

    Branch {
        target: u32,
    },
    /// To the target of this number.
    BranchIndexed {
        index: R,
        targets: Box<[u32]>,
    },
    Call(Box<CallOp>),
    /// Back to where the function was called.
    Return,
    Exit,
    Trap,
    Nop,
    /// Lets other warps run.
    Sleep,

    Load {
        window: Window,
        bytes: u32,
        signed: bool,
        to: Box<[Destination]>,
        at: Address,
        /// `None` for a weak access.
        ordering: Option<Ordering>,
        /// Of what nobody writes while the kernel runs.
        read_only: bool,
    },
    Store {
        window: Window,
        bytes: u32,
        from: Box<[Source]>,
        at: Address,
        ordering: Option<Ordering>,
    },
    Atomic {
        op: AtomicOp,
        window: Window,
        bytes: u32,
        d: Destination,
        at: Address,
        b: Source,
        c: Option<Source>,
        ordering: Ordering,
        /// `red` does not.
        returns: bool,
    },
    /// The same of 128 bits: an exchange or, with a third value, a compare-and-swap.
    Atomic128 {
        window: Window,
        at: Address,
        /// Low and high halves, as those of the others.
        d: Option<[D; 2]>,
        b: [D; 2],
        c: Option<[D; 2]>,
        ordering: Ordering,
    },
    /// Waits for the preceding grids.
    WaitForPreceding,
    /// Launches dependent grids.
    LaunchDependents,
    /// A fence of memory.
    Fence(Scope),
    /// A fence between the generic and the async proxy, of one space of memory or of all.
    ProxyFence(Option<Space>),
    /// An address of a space as a generic one.
    ToGeneric {
        space: Space,
        d: D,
        a: D,
    },
    FromGeneric {
        space: Space,
        d: D,
        a: D,
    },
    /// A narrow result of `cvta` or `mapa`.
    Mapa {
        d: Destination,
        a: Source,
        rank: R,
        generic: bool,
    },
    StoreAsync {
        bytes: u32,
        from: Box<[Source]>,
        at: Address,
        bar: Address,
        /// `red.async`: what is done with what is there.
        reduction: Option<AtomicOp>,
    },

    Shuffle {
        kind: Shuffle,
        d: R,
        valid: Option<P>,
        a: R,
        b: R,
        c: R,
        members: R,
    },
    Vote {
        kind: Vote,
        d: P,
        a: Condition,
        members: R,
    },
    Ballot {
        d: R,
        a: Condition,
        members: R,
    },
    Match {
        d: R,
        /// Whether all lanes must agree, and where it goes whether they do.
        all: bool,
        agree: Option<P>,
        a: Source,
        members: R,
    },
    Reduce {
        op: AtomicOp,
        d: R,
        a: R,
        members: R,
    },
    ActiveMask(R),
    Elect {
        d: Option<R>,
        p: P,
        members: R,
    },
    SyncWarp {
        members: R,
    },
    /// `setmaxnreg`.
    ThreadRegisters {
        count: u32,
        more: bool,
    },

    /// `bar.sync` or `barrier.sync`; without a count, all threads of the CTA.
    Barrier {
        id: R,
        threads: Option<R>,
        aligned: bool,
        /// Between a [`BarrierVote`](Op::BarrierVote) and a [`BarrierTally`](Op::BarrierTally).
        reduces: bool,
    },
    /// Counts the lanes that a reduction at a barrier is about to take in.
    BarrierVote {
        id: R,
        a: Condition,
    },
    /// What the reduction at the barrier that has just completed gave.
    BarrierTally {
        id: R,
        to: Tally,
    },
    BarrierArrive {
        id: R,
        threads: R,
        aligned: bool,
    },
    ClusterArrive {
        /// Not relaxed.
        ordered: bool,
        aligned: bool,
    },
    ClusterWait {
        aligned: bool,
    },

    MbarInit {
        at: Address,
        window: Window,
        count: R,
    },
    MbarInvalidate {
        at: Address,
        window: Window,
    },
    MbarExpect {
        at: Address,
        window: Window,
        bytes: R,
    },
    MbarComplete {
        at: Address,
        window: Window,
        bytes: R,
    },
    MbarArrive {
        at: Address,
        window: Window,
        count: Option<R>,
        expect: Option<R>,
        state: Option<D>,
        drop: bool,
        /// It must not be the last.
        uncompleted: bool,
        ordered: bool,
        /// It says that it is for threads of its own CTA alone. What says nothing is taken to be for those that wait there.
        inside: bool,
    },
    MbarTestParity {
        at: Address,
        window: Window,
        d: P,
        parity: R,
        suspend: bool,
        ordered: bool,
    },
    MbarTestState {
        at: Address,
        window: Window,
        d: P,
        state: D,
        suspend: bool,
        ordered: bool,
    },
    MbarPendingCount {
        d: R,
        state: D,
    },

    CopyAsync {
        to: Address,
        from: Address,
        bytes: u32,
        source_bytes: Option<R>,
        ignore: Option<Condition>,
    },
    CopyAsyncArrive {
        at: Address,
        window: Window,
        counted: bool,
    },

    /// Closes a group of `cp.async`, or of bulk copies.
    Commit {
        queue: Queue,
    },
    /// Waits for all but the last groups.
    WaitGroup {
        queue: Queue,
        pending: u32,
    },
    /// Waits for every `cp.async`.
    WaitAllCopies,

    BulkLoad {
        copy: Bulk,
        bar: Address,
        multicast: Option<R>,
    },
    BulkStore(Bulk),
    BulkReduce {
        copy: Bulk,
        op: Reduction,
        data: Option<DataType>,
    },
    /// Shared memory to that of another CTA.
    BulkShared {
        to: Address,
        from: Address,
        bytes: R,
        bar: Address,
        reduction: Option<(Reduction, DataType)>,
    },

    /// `tensormap.replace`.
    TensorMapReplace {
        field: Field,
        window: Window,
        at: Address,
        value: Source,
    },
    /// A tensor map from shared to global memory.
    TensorMapCopy {
        to: Address,
        from: Address,
    },

    Ldmatrix {
        to: Box<[R]>,
        trans: bool,
        window: Window,
        at: Address,
    },
    Stmatrix {
        from: Box<[R]>,
        trans: bool,
        window: Window,
        at: Address,
    },
    Movmatrix {
        to: R,
        from: R,
    },
    Mma(Box<MmaOp>),
    WmmaLoad(Box<FragmentOp>),
    WmmaStore(Box<FragmentOp>),
    WarpProduct(Box<WarpProductOp>),
    Wgmma(Box<WgmmaOp>),
    WgmmaFence,
    /// Closes a group of products.
    WgmmaCommit,
    /// Waits for all but the last groups.
    WgmmaWait {
        pending: u32,
    },
}

impl Op {
    /// The threads that it orders accesses with, or synchronises with.
    pub(crate) fn scope(&self) -> Option<Scope> {
        match *self {
            Op::Fence(scope) => Some(scope),
            Op::Load { ordering, .. } | Op::Store { ordering, .. } => ordering.map(|ordering| ordering.scope),
            Op::Atomic { ordering, .. } | Op::Atomic128 { ordering, .. } => Some(ordering.scope),
            _ => None,
        }
    }
}
