//! Which registers an operation reads and which it writes.

use super::op::Op;
use super::operand::{Address, Base, Bulk, Callee, Destination, Slot, Source, Tally, WgmmaA};
use super::register::{Condition, D, P, R, Register};

/// What an operation does with a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// An operand, or several, as the registers that it names.
trait Operands {
    fn each(&self, visit: &mut impl FnMut(Register));
}

impl Operands for P {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        visit(Register::P(*self));
    }
}

impl Operands for R {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        visit(Register::R(*self));
    }
}

impl Operands for D {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        visit(Register::D(*self));
    }
}

impl Operands for Condition {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        visit(Register::P(self.predicate));
    }
}

impl Operands for Address {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self.base {
            Base::None => {}
            Base::R(register) => register.each(visit),
            Base::D(register) => register.each(visit),
        }
    }
}

impl Operands for Source {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        visit(self.register());
    }
}

impl Operands for Destination {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Destination::R(register, _) => register.each(visit),
            Destination::D(register) => register.each(visit),
            Destination::Sink => {}
        }
    }
}

impl Operands for Slot {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Slot::R(register) => register.each(visit),
            Slot::D(register) => register.each(visit),
            Slot::Memory { .. } => {}
        }
    }
}

impl Operands for Callee {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Callee::Address(register) => register.each(visit),
            Callee::Function(_) | Callee::Print | Callee::Allocate | Callee::Free => {}
        }
    }
}

impl Operands for Bulk {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self {
            Bulk::Linear { global, shared, bytes } => (global, shared, bytes).each(visit),
            Bulk::Tensor { map, start, shared } => {
                (map, &start.coordinates, &start.offsets, shared).each(visit);
            }
        }
    }
}

impl Operands for WgmmaA {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        match self {
            WgmmaA::Shared(descriptor) => descriptor.each(visit),
            WgmmaA::Registers(registers) => registers.each(visit),
        }
    }
}

impl<T: Operands> Operands for Option<T> {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        self.iter().for_each(|operand| operand.each(visit));
    }
}

impl<T: Operands> Operands for [T] {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        self.iter().for_each(|operand| operand.each(visit));
    }
}

impl<T: Operands, const N: usize> Operands for [T; N] {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        self.as_slice().each(visit);
    }
}

impl<T: Operands + ?Sized> Operands for Box<T> {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        (**self).each(visit);
    }
}

impl<T: Operands + ?Sized> Operands for &T {
    fn each(&self, visit: &mut impl FnMut(Register)) {
        (**self).each(visit);
    }
}

impl Operands for () {
    fn each(&self, _: &mut impl FnMut(Register)) {}
}

macro_rules! tuples {
    ($($name:ident)+) => {
        #[expect(non_snake_case, reason = "the variables are named like the types")]
        impl<$($name: Operands),+> Operands for ($($name,)+) {
            fn each(&self, visit: &mut impl FnMut(Register)) {
                let ($($name,)+) = self;
                $($name.each(visit);)+
            }
        }
    };
}
tuples!(A B);
tuples!(A B C);
tuples!(A B C E);

impl Op {
    /// Visits every register that the operation names, reads before writes; a guard is not part of it.
    pub(crate) fn registers(&self, visit: &mut impl FnMut(Access, Register)) {
        let mut all = Both(visit);
        match self {
            Op::Move32(d, a) => all.go(a, d),
            Op::Move64(d, a) => all.go(a, d),
            Op::MovePredicate(d, a) => all.go(a, d),
            Op::SetPredicate(d, _) => all.go((), d),
            Op::F1_32(_, d, a) => all.go(a, d),
            Op::F1_64(_, d, a) => all.go(a, d),
            Op::F1_32to64(_, d, a) => all.go(a, d),
            Op::F1_64to32(_, d, a) => all.go(a, d),
            Op::F2_32(_, d, a, b) => all.go((a, b), d),
            Op::F2_64(_, d, a, b) => all.go((a, b), d),
            Op::F2Wide(_, d, a, b) => all.go((a, b), d),
            Op::Shift64(_, d, a, b) => all.go((a, b), d),
            Op::F3_32(_, d, sources) => all.go(sources, d),
            Op::F3_64(_, d, sources) => all.go(sources, d),
            Op::F3Wide(_, d, a, b, c) => all.go((a, b, c), d),
            Op::BitField64(_, d, a, b, c) => all.go((a, b, c), d),
            Op::Insert32([d, sources @ ..]) => all.go(sources, d),
            Op::Lop3 { d, sources, .. } => all.go(sources, d),
            Op::Permute { d, sources } => all.go(sources, d),
            Op::Select32(d, a, b, condition) => all.go((a, b, condition), d),
            Op::Select64(d, a, b, condition) => all.go((a, b, condition), d),
            Op::Compare32(_, a, b, outcome) => {
                all.go((a, b, outcome.combine.map(|(_, other)| other)), (outcome.p, outcome.q));
            }
            Op::Compare64(_, a, b, outcome) => {
                all.go((a, b, outcome.combine.map(|(_, other)| other)), (outcome.p, outcome.q));
            }
            Op::Predicates(_, d, a, b) => all.go((a, b), d),
            Op::Join64(d, low, high) => all.go((low, high), d),
            Op::Split64(low, high, a) => all.go(a, (low, high)),
            Op::Join32(d, low, high) => all.go((low, high), d),
            Op::Split32(low, high, a) => all.go(a, (low, high)),
            Op::Join16x4(d, parts) => all.go(parts, d),
            Op::Split16x4(parts, a) => all.go(a, parts),
            Op::Each(each) => all.go((&each.from, each.take), (each.d, each.leave)),
            Op::BranchIndexed { index, .. } => all.go(index, ()),
            Op::Call(call) => all.go((call.callee, &call.arguments), &call.results),
            Op::Clock32(d) => all.go((), d),
            Op::Clock64(d) => all.go((), d),
            Op::Load { to, at, .. } => all.go(at, to),
            Op::Store { from, at, .. } => all.go((at, from), ()),
            Op::Atomic { d, at, b, c, .. } => all.go((at, b, c), d),
            Op::Atomic128 { d, at, b, c, .. } => all.go((at, b, c), d),
            Op::ToGeneric { d, a, .. } | Op::FromGeneric { d, a, .. } => all.go(a, d),
            Op::Mapa { d, a, rank, .. } => all.go((a, rank), d),
            Op::StoreAsync { from, at, bar, .. } => all.go((at, from, bar), ()),
            Op::Shuffle { d, valid, a, b, c, members, .. } => all.go((a, b, c, members), (d, valid)),
            Op::Vote { d, a, members, .. } => all.go((a, members), d),
            Op::Ballot { d, a, members } => all.go((a, members), d),
            Op::Match { d, agree, a, members, .. } => all.go((a, members), (d, agree)),
            Op::Reduce { d, a, members, .. } => all.go((a, members), d),
            Op::ActiveMask(d) => all.go((), d),
            Op::Elect { d, p, members } => all.go(members, (d, p)),
            Op::SyncWarp { members } => all.go(members, ()),
            Op::Barrier { id, threads, .. } => all.go((id, threads), ()),
            Op::BarrierVote { id, a } => all.go((id, a), ()),
            Op::BarrierTally { id, to } => match to {
                Tally::Count(d) => all.go(id, d),
                Tally::All(d) | Tally::Any(d) => all.go(id, d),
            },
            Op::BarrierArrive { id, threads, .. } => all.go((id, threads), ()),
            Op::MbarInit { at, count, .. } => all.go((at, count), ()),
            Op::MbarInvalidate { at, .. } | Op::CopyAsyncArrive { at, .. } => all.go(at, ()),
            Op::MbarExpect { at, bytes, .. } | Op::MbarComplete { at, bytes, .. } => all.go((at, bytes), ()),
            Op::MbarArrive { at, count, expect, state, .. } => all.go((at, count, expect), state),
            Op::MbarTestParity { at, d, parity, .. } => all.go((at, parity), d),
            Op::MbarTestState { at, d, state, .. } => all.go((at, state), d),
            Op::MbarPendingCount { d, state } => all.go(state, d),
            Op::CopyAsync { to, from, source_bytes, ignore, .. } => {
                all.go((to, from, source_bytes, ignore), ());
            }
            Op::BulkLoad { copy, bar, multicast } => all.go((copy, bar, multicast), ()),
            Op::BulkStore(copy) | Op::BulkReduce { copy, .. } => all.go(copy, ()),
            Op::BulkShared { to, from, bytes, bar, .. } => all.go((to, from, bytes, bar), ()),
            Op::TensorMapReplace { at, value, .. } => all.go((at, value), ()),
            Op::TensorMapCopy { to, from } => all.go((to, from), ()),
            Op::Ldmatrix { to, at, .. } => all.go(at, to),
            Op::Stmatrix { from, at, .. } => all.go((at, from), ()),
            Op::Movmatrix { to, from } => all.go(from, to),
            Op::Mma(product) => all.go((&product.a, &product.b, &product.c), &product.d),
            Op::WmmaLoad(op) => all.go((op.at, op.stride), &op.registers),
            Op::WmmaStore(op) => all.go((op.at, op.stride, &op.registers), ()),
            Op::WarpProduct(product) => {
                all.go((&product.a, &product.b, &product.c, product.metadata), &product.d);
            }
            Op::Wgmma(product) => {
                let from = (&product.a, product.b, product.scale, product.metadata);
                all.go((from, &product.d), &product.d);
            }
            Op::Branch { .. }
            | Op::Return
            | Op::Exit
            | Op::Trap
            | Op::Nop
            | Op::ClusterArrive { .. }
            | Op::ClusterWait { .. }
            | Op::WaitForPreceding
            | Op::LaunchDependents
            | Op::Fence(_)
            | Op::ProxyFence(_)
            | Op::Commit { .. }
            | Op::WaitGroup { .. }
            | Op::WaitAllCopies
            | Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::WgmmaWait { .. }
            | Op::Sleep
            | Op::ThreadRegisters { .. } => {}
        }
    }
}

struct Both<'v, V>(&'v mut V);

impl<V: FnMut(Access, Register)> Both<'_, V> {
    fn go(&mut self, reads: impl Operands, writes: impl Operands) {
        reads.each(&mut |register| (self.0)(Access::Read, register));
        writes.each(&mut |register| (self.0)(Access::Write, register));
    }
}
