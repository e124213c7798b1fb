//! Operands as registers, constants and addresses.

use super::{Context, Found, Meaning};
use crate::program::operand::{Address, Base, Destination, Source};
use crate::program::register::{D, R};
use tilewright_ptx::ast::{Operand, Space};

#[expect(clippy::wrong_self_convention, reason = "`to_r` is the register that is written to")]
impl Context {
    /// An operand of up to 32 bits, read as exactly `bits`.
    pub(in crate::decode) fn r(&mut self, operand: &Operand, bits: u32) -> Found<R> {
        self.wide_r(operand, bits, bits)
    }

    /// The same, from a register that may be wider than `bits`, up to `most`.
    pub(in crate::decode) fn wide_r(&mut self, operand: &Operand, bits: u32, most: u32) -> Found<R> {
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
                Some(Meaning::Variable(Space::Shared | Space::Param, address)) if bits == 32 => {
                    Ok(self.constant32(address as u32))
                }
                Some(Meaning::Local(at, _)) if bits == 32 && !self.in_function => Ok(self.constant32(at)),
                Some(_) => Err(format!("`{name}` is no register of {bits} bits")),
                None => self.special(name).ok_or_else(|| format!("`{name}` is not known")),
            },
            Operand::Sum(name, offset) => match self.find(name) {
                Some(Meaning::Variable(Space::Shared | Space::Param, address)) if bits == 32 => {
                    Ok(self.constant32((address as u32).wrapping_add(*offset as u32)))
                }
                Some(Meaning::Local(at, _)) if bits == 32 && !self.in_function => {
                    Ok(self.constant32(at.wrapping_add(*offset as u32)))
                }
                _ => Err(format!("`{name}` is no variable")),
            },
            other => Err(format!("{other:?} is no operand of {bits} bits")),
        }
    }

    /// An operand of 64 bits.
    pub(in crate::decode) fn d(&mut self, operand: &Operand) -> Found<D> {
        match operand {
            Operand::Integer(value) | Operand::Double(value) => Ok(self.constant64(*value)),
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Double(register)) => Ok(register),
                // Addresses are of the variable's own space, as `mov` gives them.
                Some(Meaning::Variable(_, address) | Meaning::Function(address)) => {
                    Ok(self.constant64(address))
                }
                Some(Meaning::Local(at, _)) if !self.in_function => Ok(self.constant64(at.into())),
                Some(_) => Err(format!("`{name}` is no register of 64 bits")),
                None => Err(format!("`{name}` is not known")),
            },
            Operand::Sum(name, offset) => match self.find(name) {
                Some(Meaning::Variable(_, address)) => {
                    Ok(self.constant64(address.wrapping_add(*offset as u64)))
                }
                Some(Meaning::Local(at, _)) if !self.in_function => {
                    Ok(self.constant64(u64::from(at).wrapping_add(*offset as u64)))
                }
                _ => Err(format!("`{name}` is no variable")),
            },
            other => Err(format!("{other:?} is no operand of 64 bits")),
        }
    }

    /// A register of up to 32 bits that is written; `_` is one that nobody reads.
    pub(in crate::decode) fn to_r(&mut self, operand: &Operand, bits: u32) -> Found<R> {
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

    /// The halves of a register of 128 bits, low and high.
    pub(in crate::decode) fn quad(&self, operand: &Operand) -> Found<[D; 2]> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Some(Meaning::Quad(halves)) => Ok(halves),
                _ => Err(format!("`{name}` is no register of 128 bits")),
            },
            other => Err(format!("{other:?} is no operand of 128 bits")),
        }
    }

    pub(in crate::decode) fn to_d(&mut self, operand: &Operand) -> Found<D> {
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
    pub(in crate::decode) fn destination(&self, operand: &Operand, bits: u32) -> Found<Destination> {
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
    pub(in crate::decode) fn source(&mut self, operand: &Operand, bits: u32) -> Found<Source> {
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
    pub(in crate::decode) fn address(&self, operand: &Operand) -> Found<Address> {
        match operand {
            Operand::Address { base, offset, coordinates: None } => self.base(base.as_deref(), *offset),
            other => Err(format!("{other:?} is no address")),
        }
    }

    /// The address in `[map, {x, y}]`, and the coordinates.
    pub(in crate::decode) fn box_at(&mut self, operand: &Operand) -> Found<(Address, Box<[R]>)> {
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
                Ok(Address { base: Base::None, offset: (address as i64).wrapping_add(offset) })
            }
            Some(Meaning::Local(at, _)) => {
                let base = self.own_frame().map_or(Base::None, Base::R);
                Ok(Address { base, offset: i64::from(at).wrapping_add(offset) })
            }
            _ => Err(format!("`{name}` is no address")),
        }
    }

    /// The space of the variable that the operand names.
    pub(in crate::decode) fn space_of(&self, operand: &Operand) -> Option<Space> {
        let (Operand::Name(name) | Operand::Sum(name, _) | Operand::Address { base: Some(name), .. }) =
            operand
        else {
            return None;
        };
        match self.find(name)? {
            Meaning::Variable(space, _) => Some(space),
            Meaning::Local(..) => Some(Space::Local),
            _ => None,
        }
    }
}
