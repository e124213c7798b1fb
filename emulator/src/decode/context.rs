//! Names in scope, and the registers that they and the constants get.

use std::collections::HashMap;

use super::Decoded;
use super::types::Type;
use crate::LoadError;
use crate::memory::{PARAMETERS, SHARED_START};
use crate::program::{Address, Base, Condition, D, Destination, Order, P, R, Source, Special};
use crate::ptx::{Operand, Space, Variable};

/// What a name means.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Predicate(P),
    /// With the bits that it was declared with.
    Register(R, u32),
    Double(D),
    /// A variable, at an address of its own space.
    Variable(Space, u32),
}

/// Places variables one after the other.
#[derive(Default)]
pub(super) struct Layout {
    end: u32,
}

impl Layout {
    pub(super) fn place(&mut self, variable: &Variable) -> Decoded<u32> {
        let too_large =
            || LoadError::new(variable.line, format!("variable `{}` is too large", variable.name));
        let start = self.end.checked_next_multiple_of(variable.align).ok_or_else(too_large)?;
        let bytes = u32::try_from(variable.bytes).map_err(|_| too_large())?;
        self.end = start.checked_add(bytes).ok_or_else(too_large)?;
        Ok(start)
    }

    pub(super) fn align_to(&mut self, align: u32) -> Decoded<u32> {
        self.end =
            self.end.checked_next_multiple_of(align).ok_or_else(|| LoadError::new(1, "too much memory"))?;
        Ok(self.end)
    }

    pub(super) fn size(&self) -> u32 {
        self.end
    }
}

/// The names of an entry, and the registers given out so far.
pub(super) struct Context {
    scopes: Vec<HashMap<String, Meaning>>,
    predicates: u32,
    registers: u32,
    doubles: u32,
    constants32: HashMap<u32, R>,
    constants64: HashMap<u64, D>,
    specials: Vec<(Special, R)>,
    sink: Option<R>,
    sink64: Option<D>,
}

type Found<T> = Result<T, String>;

#[expect(clippy::wrong_self_convention, reason = "`to_r` is the register that is written to")]
impl Context {
    pub(super) fn new() -> Self {
        Self {
            scopes: vec![HashMap::new()],
            predicates: 0,
            registers: 0,
            doubles: 0,
            constants32: HashMap::new(),
            constants64: HashMap::new(),
            specials: Vec::new(),
            sink: None,
            sink64: None,
        }
    }

    pub(super) fn open(&mut self) {
        self.scopes.push(HashMap::new());
    }

    pub(super) fn close(&mut self) {
        self.scopes.pop();
    }

    /// Predicates, 32-bit registers and 64-bit registers.
    pub(super) fn counts(&self) -> [u32; 3] {
        [self.predicates, self.registers, self.doubles]
    }

    pub(super) fn constants32(&self) -> Vec<(R, u32)> {
        self.constants32.iter().map(|(&value, &register)| (register, value)).collect()
    }

    pub(super) fn constants64(&self) -> Vec<(D, u64)> {
        self.constants64.iter().map(|(&value, &register)| (register, value)).collect()
    }

    pub(super) fn specials(&self) -> Vec<(Special, R)> {
        self.specials.clone()
    }

    fn declare(&mut self, line: u32, name: String, meaning: Meaning) -> Decoded<()> {
        let scope = self.scopes.last_mut().expect("there is always a scope");
        match scope.insert(name.clone(), meaning) {
            Some(_) => Err(LoadError::new(line, format!("`{name}` is declared twice"))),
            None => Ok(()),
        }
    }

    pub(super) fn declare_registers(
        &mut self,
        line: u32,
        class: &str,
        name: &str,
        count: Option<u32>,
    ) -> Decoded<()> {
        let ty = class.strip_prefix('.').and_then(Type::parse);
        let Some(ty) = ty.filter(|ty| ty.bits() <= 64) else {
            return Err(LoadError::new(line, format!("registers of type `{class}` are not emulated")));
        };
        let names: Vec<_> = match count {
            None => vec![name.to_owned()],
            Some(count) => (0..count).map(|i| format!("{name}{i}")).collect(),
        };
        for name in names {
            let meaning = match ty.bits() {
                1 => Meaning::Predicate(self.new_p()),
                64 => Meaning::Double(self.new_d()),
                bits => Meaning::Register(self.new_r(), bits),
            };
            self.declare(line, name, meaning)?;
        }
        Ok(())
    }

    pub(super) fn declare_shared(&mut self, variable: &Variable, offset: u32) -> Decoded<()> {
        let meaning = Meaning::Variable(Space::Shared, SHARED_START + offset);
        self.declare(variable.line, variable.name.clone(), meaning)
    }

    pub(super) fn declare_local(&mut self, variable: &Variable, offset: u32) -> Decoded<()> {
        self.declare(variable.line, variable.name.clone(), Meaning::Variable(Space::Local, offset))
    }

    /// Lays out the parameter block, and gives its size.
    pub(super) fn parameters(&mut self, parameters: &[Variable]) -> Decoded<u32> {
        let mut layout = Layout::default();
        for parameter in parameters {
            let offset = layout.place(parameter)?;
            self.declare(parameter.line, parameter.name.clone(), Meaning::Variable(Space::Param, offset))?;
        }
        Ok(layout.size())
    }

    pub(super) fn new_p(&mut self) -> P {
        self.predicates += 1;
        P(self.predicates - 1)
    }

    fn new_r(&mut self) -> R {
        self.registers += 1;
        R(self.registers - 1)
    }

    fn new_d(&mut self) -> D {
        self.doubles += 1;
        D(self.doubles - 1)
    }

    fn find(&self, name: &str) -> Option<Meaning> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name).copied())
    }

    pub(super) fn predicate(&self, name: &str) -> Found<P> {
        match self.find(name) {
            Some(Meaning::Predicate(p)) => Ok(p),
            _ => Err(format!("`{name}` is no predicate")),
        }
    }

    /// A predicate that is written; `_` is one that nobody reads.
    pub(super) fn predicate_to(&mut self, name: &str) -> Found<P> {
        if name == "_" { Ok(self.new_p()) } else { self.predicate(name) }
    }

    pub(super) fn condition(&self, operand: &Operand) -> Found<Condition> {
        match operand {
            Operand::Name(name) => Ok(Condition { predicate: self.predicate(name)?, negated: false }),
            Operand::Not(name) => Ok(Condition { predicate: self.predicate(name)?, negated: true }),
            other => Err(format!("{other:?} is no predicate")),
        }
    }

    pub(super) fn is_predicate(&self, operand: &Operand) -> bool {
        matches!(operand, Operand::Name(name) if matches!(self.find(name), Some(Meaning::Predicate(_))))
    }

    pub(super) fn constant32(&mut self, value: u32) -> R {
        if let Some(&register) = self.constants32.get(&value) {
            return register;
        }
        let register = self.new_r();
        self.constants32.insert(value, register);
        register
    }

    pub(super) fn constant64(&mut self, value: u64) -> D {
        if let Some(&register) = self.constants64.get(&value) {
            return register;
        }
        let register = self.new_d();
        self.constants64.insert(value, register);
        register
    }

    fn special(&mut self, name: &str) -> Option<R> {
        let special = special(name)?;
        if let Some(&(_, register)) = self.specials.iter().find(|&&(known, _)| known == special) {
            return Some(register);
        }
        let register = self.new_r();
        self.specials.push((special, register));
        Some(register)
    }

    /// An operand of up to 32 bits, read as exactly `bits`.
    pub(super) fn r(&mut self, operand: &Operand, bits: u32) -> Found<R> {
        self.wide_r(operand, bits, bits)
    }

    /// The same, from a register that may be wider than `bits`, up to `most`.
    pub(super) fn wide_r(&mut self, operand: &Operand, bits: u32, most: u32) -> Found<R> {
        let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
        match operand {
            Operand::Integer(value) => Ok(self.constant32(*value as u32 & mask)),
            Operand::Float(value) if bits == 32 => Ok(self.constant32(*value)),
            Operand::Double(value) if bits == 32 => {
                Ok(self.constant32((f64::from_bits(*value) as f32).to_bits()))
            }
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Register(register, declared)) if (bits..=most).contains(&declared) => {
                    Ok(register)
                }
                Some(Meaning::Register(_, declared)) => {
                    Err(format!("`{name}` has {declared} bits, where {bits} are meant"))
                }
                Some(Meaning::Variable(Space::Shared | Space::Local | Space::Param, address))
                    if bits == 32 =>
                {
                    Ok(self.constant32(address))
                }
                Some(_) => Err(format!("`{name}` is no register of {bits} bits")),
                None => self.special(name).ok_or_else(|| format!("`{name}` is not known")),
            },
            Operand::Sum(name, offset) => match self.find(name) {
                Some(Meaning::Variable(Space::Shared | Space::Local | Space::Param, address))
                    if bits == 32 =>
                {
                    Ok(self.constant32(address.wrapping_add(*offset as u32)))
                }
                _ => Err(format!("`{name}` is no variable")),
            },
            other => Err(format!("{other:?} is no operand of {bits} bits")),
        }
    }

    /// An operand of 64 bits.
    pub(super) fn d(&mut self, operand: &Operand) -> Found<D> {
        match operand {
            Operand::Integer(value) | Operand::Double(value) => Ok(self.constant64(*value)),
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Double(register)) => Ok(register),
                // Addresses are of the variable's own space, as `mov` gives them.
                Some(Meaning::Variable(_, address)) => Ok(self.constant64(address.into())),
                Some(_) => Err(format!("`{name}` is no register of 64 bits")),
                None => Err(format!("`{name}` is not known")),
            },
            Operand::Sum(name, offset) => match self.find(name) {
                Some(Meaning::Variable(_, address)) => {
                    Ok(self.constant64(u64::from(address).wrapping_add(*offset as u64)))
                }
                _ => Err(format!("`{name}` is no variable")),
            },
            other => Err(format!("{other:?} is no operand of 64 bits")),
        }
    }

    /// A register of up to 32 bits that is written; `_` is one that nobody reads.
    pub(super) fn to_r(&mut self, operand: &Operand, bits: u32) -> Found<R> {
        if *operand == Operand::Name("_".into()) {
            if self.sink.is_none() {
                self.sink = Some(self.new_r());
            }
            return Ok(self.sink.expect("made above"));
        }
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Register(register, declared)) if declared == bits => Ok(register),
                Some(Meaning::Register(_, declared)) => {
                    Err(format!("`{name}` has {declared} bits, where {bits} are written"))
                }
                _ => Err(format!("`{name}` is no register of {bits} bits")),
            },
            other => Err(format!("{other:?} cannot be written")),
        }
    }

    pub(super) fn to_d(&mut self, operand: &Operand) -> Found<D> {
        if *operand == Operand::Name("_".into()) {
            if self.sink64.is_none() {
                self.sink64 = Some(self.new_d());
            }
            return Ok(self.sink64.expect("made above"));
        }
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Double(register)) => Ok(register),
                _ => Err(format!("`{name}` is no register of 64 bits")),
            },
            other => Err(format!("{other:?} cannot be written")),
        }
    }

    /// The register that a load of `bits` fills, which may be wider.
    pub(super) fn destination(&self, operand: &Operand, bits: u32) -> Found<Destination> {
        let Operand::Name(name) = operand else { return Err(format!("{operand:?} cannot be written")) };
        if name == "_" {
            return Ok(Destination::Sink);
        }
        match self.find(name) {
            Some(Meaning::Register(register, declared)) if declared >= bits => {
                Ok(Destination::R(register, declared))
            }
            Some(Meaning::Double(register)) => Ok(Destination::D(register)),
            _ => Err(format!("`{name}` is no register of at least {bits} bits")),
        }
    }

    /// What a store of `bits` reads, which may be wider.
    pub(super) fn source(&mut self, operand: &Operand, bits: u32) -> Found<Source> {
        if let Operand::Name(name) = operand
            && let Some(Meaning::Double(register)) = self.find(name)
        {
            return Ok(Source::D(register));
        }
        if bits == 64 {
            Ok(Source::D(self.d(operand)?))
        } else {
            Ok(Source::R(self.wide_r(operand, bits, 32)?))
        }
    }

    /// `[base+offset]` without coordinates.
    pub(super) fn address(&self, operand: &Operand) -> Found<Address> {
        match operand {
            Operand::Address { base, offset, coordinates: None } => self.base(base.as_deref(), *offset),
            other => Err(format!("{other:?} is no address")),
        }
    }

    /// The address in `[map, {x, y}]`, and the coordinates.
    pub(super) fn box_at(&mut self, operand: &Operand) -> Found<(Address, Box<[R]>)> {
        let Operand::Address { base, offset, coordinates: Some(coordinates) } = operand else {
            return Err(format!("{operand:?} is no tensor map with coordinates"));
        };
        let address = self.base(base.as_deref(), *offset)?;
        let coordinates = coordinates.iter().map(|c| self.r(c, 32)).collect::<Found<_>>()?;
        Ok((address, coordinates))
    }

    fn base(&self, base: Option<&str>, offset: i64) -> Found<Address> {
        let Some(name) = base else { return Ok(Address { base: Base::None, offset }) };
        match self.find(name) {
            Some(Meaning::Register(register, 32)) => Ok(Address { base: Base::R(register), offset }),
            Some(Meaning::Double(register)) => Ok(Address { base: Base::D(register), offset }),
            Some(Meaning::Variable(_, address)) => {
                Ok(Address { base: Base::None, offset: i64::from(address) + offset })
            }
            _ => Err(format!("`{name}` is no address")),
        }
    }

    /// The space of the variable that the operand names.
    pub(super) fn space_of(&self, operand: &Operand) -> Option<Space> {
        let (Operand::Name(name) | Operand::Sum(name, _) | Operand::Address { base: Some(name), .. }) =
            operand
        else {
            return None;
        };
        match self.find(name)? {
            Meaning::Variable(space, _) => Some(space),
            _ => None,
        }
    }
}

/// The parameter window's base is part of the addresses that `cvta.param` makes; here it only must exist.
const _: () = assert!(PARAMETERS != 0);

fn special(name: &str) -> Option<Special> {
    let (register, axis) = match name.rsplit_once('.') {
        Some((register, "x")) => (register, 0),
        Some((register, "y")) => (register, 1),
        Some((register, "z")) => (register, 2),
        _ => (name, usize::MAX),
    };
    Some(match (register, axis) {
        ("%tid", 0..3) => Special::Tid(axis),
        ("%ntid", 0..3) => Special::Ntid(axis),
        ("%ctaid", 0..3) => Special::Ctaid(axis),
        ("%nctaid", 0..3) => Special::Nctaid(axis),
        ("%cluster_ctaid", 0..3) => Special::ClusterCtaid(axis),
        ("%cluster_nctaid", 0..3) => Special::ClusterNctaid(axis),
        ("%clusterid", 0..3) => Special::Clusterid(axis),
        ("%nclusterid", 0..3) => Special::Nclusterid(axis),
        (_, 0..3) => return None,
        ("%laneid", _) => Special::Lane,
        ("%warpid", _) => Special::Warp,
        ("%nwarpid", _) => Special::Warps,
        ("%smid", _) => Special::Sm,
        ("%nsmid", _) => Special::Sms,
        ("%lanemask_eq", _) => Special::LaneMask(Order::Equal),
        ("%lanemask_lt", _) => Special::LaneMask(Order::Less),
        ("%lanemask_le", _) => Special::LaneMask(Order::LessOrEqual),
        ("%lanemask_gt", _) => Special::LaneMask(Order::Greater),
        ("%lanemask_ge", _) => Special::LaneMask(Order::GreaterOrEqual),
        ("%dynamic_smem_size", _) => Special::DynamicShared,
        ("%total_smem_size", _) => Special::TotalShared,
        ("%cluster_ctarank", _) => Special::ClusterRank,
        ("%cluster_nctarank", _) => Special::ClusterSize,
        ("%is_explicit_cluster", _) => Special::IsExplicitCluster,
        _ => return None,
    })
}
