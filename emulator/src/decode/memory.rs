//! Loads and stores.
//!
//! Cache hints and eviction priorities are taken and change nothing. Memory is sequentially consistent here; orderings say
//! which accesses the program orders. `.volatile` and `.mmio` count as `.relaxed`.
//!
//! PTX ISA, "Data Movement and Conversion Instructions".

use super::Result_;
use super::context::Context;
use super::opcode::Opcode;
use super::synchronise::scope;
use super::types::Type;
use crate::program::op::Op;
use crate::program::operand::{Ordering, Scope, Window};
use tilewright_ptx::ast::{Operand, Space};

pub(super) fn decode(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    match opcode.name() {
        "ld" | "ldu" => load(context, opcode, operands),
        "st" => store(context, opcode, operands),
        "prefetch" | "prefetchu" | "applypriority" => {
            opcode.any(&[("global", ()), ("local", ()), ("const", ()), ("param", ())]);
            opcode
                .any(&[
                    ("L1", ()),
                    ("L2", ()),
                    ("tensormap", ()),
                    ("L2::evict_last", ()),
                    ("L2::evict_normal", ()),
                ])
                .ok_or("needs a level")?;
            let (address, rest) = operands.split_first().ok_or("takes an address")?;
            if !matches!((opcode.name(), rest), ("applypriority", [Operand::Integer(128)]) | (_, [])) {
                return Err(format!("does not take {} operands", operands.len()));
            }
            context.address(address)?;
            Ok(Op::Nop)
        }
        _ => Err("this instruction is not emulated".into()),
    }
}

/// Takes the state space; without one, an address is generic, unless it names a variable.
pub(super) fn window(context: &Context, opcode: &mut Opcode<'_>, address: &Operand) -> Window {
    let named = opcode.any(&[
        ("global", Window::In(Space::Global)),
        ("shared", Window::In(Space::Shared)),
        ("shared::cta", Window::In(Space::Shared)),
        ("shared::cluster", Window::Cluster),
        ("param::entry", Window::In(Space::Param)),
        ("local", Window::In(Space::Local)),
        ("const", Window::In(Space::Const)),
    ]);
    let named = named.or_else(|| {
        // Parameters of a function, and the arguments of calls, lie in local memory.
        let param = opcode.any(&[("param", ()), ("param::func", ())]);
        param.map(|()| match context.in_function() || context.space_of(address) == Some(Space::Local) {
            true => Window::In(Space::Local),
            false => Window::In(Space::Param),
        })
    });
    named.unwrap_or_else(|| context.space_of(address).map_or(Window::Generic, Window::In))
}

/// What says how an access is ordered, or how it is cached.
pub(super) struct Hints {
    /// A cache policy follows as an operand.
    pub(super) policy: bool,
    /// Of a strong access.
    pub(super) ordering: Option<Ordering>,
    pub(super) scope: Scope,
}

/// Takes it.
pub(super) fn hints(opcode: &mut Opcode<'_>) -> Hints {
    const ORDERS: [(&str, Option<Ordering>); 8] = [
        ("weak", None),
        ("nc", None),
        ("relaxed", Some(Ordering::RELAXED)),
        ("volatile", Some(Ordering::RELAXED)),
        ("mmio", Some(Ordering::RELAXED)),
        ("acquire", Some(Ordering { acquire: true, ..Ordering::RELAXED })),
        ("release", Some(Ordering { release: true, ..Ordering::RELAXED })),
        ("acq_rel", Some(Ordering { acquire: true, release: true, ..Ordering::RELAXED })),
    ];
    const CACHES: [&str; 17] = [
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::evict_normal",
        "L2::evict_first",
        "L2::evict_last",
        "L2::64B",
        "L2::128B",
    ];
    // `ld.relaxed.volatile` does not exist, but `.mmio.relaxed` does.
    let ordering =
        ORDERS.iter().filter(|(name, _)| opcode.flag(name)).fold(None, |all, (_, this)| all.or(*this));
    let scope = scope(opcode);
    for modifier in CACHES.iter().chain(&["L2::256B", "noftz"]) {
        opcode.flag(modifier);
    }
    let ordering = ordering.map(|ordering| Ordering { scope, ..ordering });
    Hints { policy: opcode.flag("L2::cache_hint"), ordering, scope }
}

/// Takes the cache policy from the end of the operands.
pub(super) fn without_policy<'o>(
    context: &mut Context,
    operands: &'o [Operand],
    hint: bool,
) -> Result<&'o [Operand], String> {
    if !hint {
        return Ok(operands);
    }
    let (policy, rest) = operands.split_last().ok_or("takes a cache policy")?;
    context.d(policy)?;
    Ok(rest)
}

fn elements(opcode: &mut Opcode<'_>) -> Result<(usize, Type), String> {
    let count = opcode.any(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1);
    let ty = opcode.ty()?;
    match ty {
        Type::Pred | Type::B(128) => opcode.refuse(ty),
        _ if count as u32 * ty.bits() > 128 => Err("more than 16 bytes are not emulated".into()),
        _ => Ok((count, ty)),
    }
}

pub(super) fn parts(operand: &Operand, count: usize) -> Result<&[Operand], String> {
    let parts = match operand {
        Operand::Vector(parts) => parts.as_slice(),
        single => std::slice::from_ref(single),
    };
    if parts.len() == count {
        Ok(parts)
    } else {
        Err(format!("{} registers for {count} elements", parts.len()))
    }
}

fn load(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    let read_only = opcode.has("nc");
    let Hints { policy, ordering, .. } = hints(opcode);
    let [to, from] = without_policy(context, operands, policy)? else {
        return Err("takes two operands".into());
    };
    let window = window(context, opcode, from);
    let ordering = ordering.map(|ordering| ordering.at(window));
    let (count, ty) = elements(opcode)?;
    let to = parts(to, count)?.iter().map(|part| context.destination(part, ty.bits()));
    let to = to.collect::<Result<_, _>>()?;
    let at = context.address(from)?;
    Ok(Op::Load { window, bytes: ty.bits() / 8, signed: ty.is_signed(), to, at, ordering, read_only })
}

fn store(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    if opcode.flag("async") {
        return store_async(context, opcode, operands);
    }
    let Hints { policy, ordering, .. } = hints(opcode);
    let [to, from] = without_policy(context, operands, policy)? else {
        return Err("takes two operands".into());
    };
    let window = window(context, opcode, to);
    let ordering = ordering.map(|ordering| ordering.at(window));
    let (count, ty) = elements(opcode)?;
    let from = parts(from, count)?.iter().map(|part| context.source(part, ty.bits()));
    let from = from.collect::<Result<_, _>>()?;
    if matches!(window, Window::In(Space::Param | Space::Const)) {
        return Err("parameters and constants cannot be written".into());
    }
    Ok(Op::Store { window, bytes: ty.bits() / 8, from, at: context.address(to)?, ordering })
}

fn store_async(context: &mut Context, opcode: &mut Opcode<'_>, operands: &[Operand]) -> Result_ {
    opcode.flag("weak");
    opcode.flag("shared::cluster");
    if !opcode.flag("mbarrier::complete_tx::bytes") {
        return Err("needs `.mbarrier::complete_tx::bytes`".into());
    }
    let (count, ty) = elements(opcode)?;
    let [to, from, bar] = operands else { return Err("takes three operands".into()) };
    let from = parts(from, count)?.iter().map(|part| context.source(part, ty.bits()));
    let from = from.collect::<Result<_, _>>()?;
    let (at, bar) = (context.address(to)?, context.address(bar)?);
    Ok(Op::StoreAsync { bytes: ty.bits() / 8, from, at, bar, reduction: None })
}
