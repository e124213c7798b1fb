//! Addresses: generic ones, those of other CTAs, and what they lie in; cache policies.
//!
//! PTX ISA, "cvta", "mapa", "isspacep", "getctarank", "createpolicy".

use super::context::Context;
use super::each::each;
use super::opcode::Opcode;
use super::types::Type;
use super::{Result_, memory};
use crate::memory::{Place, RANK_SHIFT, SHARED, place};
use crate::program::op::Op;
use crate::program::operand::{Destination, EachOp, Source, Window};
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match opcode.name() {
        "cvta" => to_generic(context, opcode, operands),
        "mapa" => map_address(context, opcode, operands),
        "isspacep" => lies_in(context, opcode, operands),
        "getctarank" => rank(context, opcode, operands),
        _ => policy(context, opcode, operands),
    }
}

/// The register that has the CTA's rank in its cluster.
fn own_rank() -> Operand {
    Operand::Name("%cluster_ctarank".into())
}

/// The rank of the CTA that a `shared::cluster` address is of.
fn rank_of(address: u32, own: u64) -> u64 {
    match address >> RANK_SHIFT {
        0 => own,
        rank => u64::from(rank) - 1,
    }
}

fn lies_in(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    type Test = fn(Place, u64) -> bool;
    let spaces: [(&str, Test); 7] = [
        ("global", |place, _| matches!(place, Place::Global(_))),
        ("local", |place, _| matches!(place, Place::Local(_))),
        ("param", |place, _| matches!(place, Place::Parameters(_))),
        ("param::entry", |place, _| matches!(place, Place::Parameters(_))),
        ("shared::cluster", |place, _| matches!(place, Place::Shared(_))),
        ("shared", |place, own| matches!(place, Place::Shared(address) if rank_of(address, own) == own)),
        ("shared::cta", |place, own| matches!(place, Place::Shared(address) if rank_of(address, own) == own)),
    ];
    let test = opcode.any(&spaces).ok_or("has no state space that is emulated")?;
    let [Operand::Name(p), a] = operands else { return Err("takes a predicate and an address".into()) };
    let from = Box::new([context.source(a, 64)?, context.source(&own_rank(), 32)?]);
    let f = Box::new(move |[a, own, ..]: [u64; 4], _| (0, test(place(a), own)));
    let leave = Some(context.predicate_to(p)?);
    Ok(Op::Each(Box::new(EachOp { f, d: Destination::Sink, from, take: None, leave })))
}

fn rank(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let shared = opcode.flag("shared::cluster");
    let (ty, [d, a]) = (opcode.ty()?, operands) else { return Err("takes two operands".into()) };
    if !matches!(ty, Type::U(32) if shared) && ty != Type::U(64) {
        return opcode.refuse(ty);
    }
    let word = Type::U(32);
    each(context, (d, word), &[(a, ty), (&own_rank(), word)], move |[a, own, ..]| {
        rank_of(if shared { a } else { a.wrapping_sub(SHARED) } as u32, own)
    })
}

/// Policies are opaque, and change nothing here.
fn policy(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let (least, most) = opcode
        .any(&[("fractional", (1, 2)), ("range", (4, 4)), ("cvt", (2, 2))])
        .ok_or("has no kind that is emulated")?;
    opcode.flag("global");
    let levels = ["L2", "L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"];
    levels.iter().for_each(|level| {
        opcode.flag(level);
    });
    match (opcode.ty()?, operands) {
        (Type::B(64), [d, ..]) if (least..=most).contains(&operands.len()) => {
            Ok(Op::Move64(context.to_d(d)?, context.constant64(0)))
        }
        (Type::B(64), _) => Err(format!("does not take {} operands", operands.len())),
        (ty, _) => opcode.refuse(ty),
    }
}

fn to_generic(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let to_space = opcode.flag("to");
    let space = match memory::window(context, opcode, &Operand::Integer(0)) {
        Window::In(space) => space,
        Window::Cluster => Space::Shared,
        Window::Generic => return Err("names no state space".into()),
    };
    let [d, a] = operands else { return Err("takes two operands".into()) };
    match opcode.ty()? {
        Type::U(64) if to_space => Ok(Op::FromGeneric { space, d: context.to_d(d)?, a: context.d(a)? }),
        Type::U(64) => Ok(Op::ToGeneric { space, d: context.to_d(d)?, a: context.d(a)? }),
        ty => opcode.refuse(ty),
    }
}

fn map_address(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let shared = opcode.flag("shared::cluster");
    let [d, a, rank] = operands else { return Err("takes three operands".into()) };
    let rank = context.r(rank, 32)?;
    match opcode.ty()? {
        Type::U(32) if shared => Ok(Op::Mapa {
            d: context.destination(d, 32)?,
            a: Source::R(context.r(a, 32)?),
            rank,
            generic: false,
        }),
        Type::U(64) => Ok(Op::Mapa {
            d: context.destination(d, 64)?,
            a: Source::D(context.d(a)?),
            rank,
            generic: !shared,
        }),
        ty => opcode.refuse(ty),
    }
}
