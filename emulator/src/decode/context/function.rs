//! The functions that a body sees, and the frame of the one that is decoded.
//!
//! PTX ISA, "Function Declarations and Definitions" and "Parameter State Space".

use super::{Context, Found, Layout, Meaning, Type};
use crate::decode::Decoded;
use crate::decode::program::FRAME_ALIGN;
use crate::error::LoadError;
use crate::program::Special;
use crate::program::operand::Slot;
use crate::program::register::R;
use tilewright_ptx::ast::{Formal, Function, Operand, Variable};

/// The size of a parameter or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode) enum Size {
    /// Bytes in the frame.
    Memory(u32),
    /// Bits of a register.
    Register(u32),
}

impl Size {
    fn new(formal: &Formal) -> Found<Self> {
        match formal {
            Formal::Memory(variable) => {
                let bytes = u32::try_from(variable.bytes).ok().filter(|&bytes| bytes > 0);
                bytes.map(Size::Memory).ok_or_else(|| format!("parameter `{}` has no size", variable.name))
            }
            Formal::Register { class, name, .. } => {
                let ty = class.strip_prefix('.').and_then(Type::parse).map(Type::bits);
                let bits = ty.filter(|bits| [8, 16, 32, 64].contains(bits));
                bits.map(Size::Register)
                    .ok_or_else(|| format!("parameter `{name}` of type `{class}` is not emulated"))
            }
        }
    }
}

/// What a function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::decode) struct Signature {
    pub(in crate::decode) parameters: Vec<Size>,
    pub(in crate::decode) results: Vec<Size>,
}

impl Signature {
    pub(in crate::decode) fn new(results: &[Formal], parameters: &[Formal]) -> Found<Self> {
        let sizes = |formals: &[Formal]| formals.iter().map(Size::new).collect::<Found<_>>();
        Ok(Self { parameters: sizes(parameters)?, results: sizes(results)? })
    }
}

/// A function of the module.
pub(in crate::decode) struct Known {
    pub(in crate::decode) signature: Signature,
    /// Its number in the program.
    pub(in crate::decode) place: Option<usize>,
}

impl Context {
    /// A function of the module, or the declaration of one. One that has a body has an address.
    pub(in crate::decode) fn declare_function(
        &mut self,
        function: &Function,
        number: Option<usize>,
        address: u64,
    ) -> Found<()> {
        let signature = Signature::new(&function.results, &function.parameters)?;
        if let Some(known) = self.functions.get(&function.name) {
            return match known.signature == signature {
                true => Ok(()),
                false => Err("was declared with other parameters or results".into()),
            };
        }
        self.functions.insert(function.name.clone(), Known { signature, place: None });
        match number {
            Some(_) => self
                .declare(function.line, function.name.clone(), Meaning::Function(address))
                .map_err(|error| error.what),
            None => Ok(()),
        }
    }

    /// The function has this number in the program.
    pub(in crate::decode) fn place_function(&mut self, name: &str, place: usize) {
        if let Some(known) = self.functions.get_mut(name) {
            known.place = Some(place);
        }
    }

    /// The function of this name.
    pub(in crate::decode) fn function(&self, name: &str) -> Option<&Known> {
        self.functions.get(name)
    }

    /// Begins a function: names of its own, a frame of its own.
    pub(in crate::decode) fn enter_function(&mut self) {
        self.open();
        self.layout = Layout::default();
        if self.frame.is_none() {
            let frame = self.new_r();
            self.specials.push((Special::Frame, frame));
            self.frame = Some(frame);
        }
        self.in_function = true;
    }

    /// Begins the kernel, whose frame is at zero.
    pub(in crate::decode) fn enter_kernel(&mut self) {
        self.open();
        self.layout = Layout::default();
        self.in_function = false;
    }

    /// The register that has the beginning of the frame, if there are functions.
    pub(in crate::decode) fn frame(&self) -> Option<R> {
        self.frame
    }

    /// The register that has the end of what was taken from the stack.
    pub(in crate::decode) fn stack(&mut self) -> R {
        let known = self.specials.iter().find(|(special, _)| *special == Special::Stack);
        known.map(|&(_, stack)| stack).unwrap_or_else(|| {
            let stack = self.new_r();
            self.specials.push((Special::Stack, stack));
            stack
        })
    }

    /// The same in a function: in the kernel it is zero.
    pub(super) fn own_frame(&self) -> Option<R> {
        self.frame.filter(|_| self.in_function)
    }

    /// Whether a function is decoded, no kernel.
    pub(in crate::decode) fn in_function(&self) -> bool {
        self.in_function
    }

    /// Bytes of the frame so far, as a whole number of frames' alignment.
    pub(in crate::decode) fn frame_bytes(&self) -> u32 {
        let size = self.layout.size().next_multiple_of(FRAME_ALIGN);
        if self.in_function { size.max(FRAME_ALIGN) } else { size }
    }

    /// Declares the parameters or the results of the function that is decoded.
    pub(in crate::decode) fn formals(&mut self, formals: &[Formal]) -> Decoded<Box<[Slot]>> {
        let each = formals.iter().map(|formal| match formal {
            Formal::Memory(variable) => {
                let at = self.declare_local(variable)?;
                Ok(Slot::Memory { at, bytes: variable.bytes as u32 })
            }
            Formal::Register { line, class, name } => {
                self.declare_registers(*line, class, name, None)?;
                match self.find(name) {
                    Some(Meaning::Register(register, _)) => Ok(Slot::R(register)),
                    Some(Meaning::Double(register)) => Ok(Slot::D(register)),
                    _ => Err(LoadError::new(*line, format!("`{name}` cannot be passed"))),
                }
            }
        });
        each.collect()
    }

    /// A variable of the frame: one in `.local`, or one that arguments are passed in. Gives its place.
    pub(in crate::decode) fn declare_local(&mut self, variable: &Variable) -> Decoded<u32> {
        if self.in_function && variable.align > FRAME_ALIGN {
            let what = format!(
                "variable `{}` of a function is aligned to {}: at most {FRAME_ALIGN} is emulated",
                variable.name, variable.align
            );
            return Err(LoadError::new(variable.line, what));
        }
        let at = self.layout.place(variable)?;
        let meaning = Meaning::Local(at, variable.bytes as u32);
        self.declare(variable.line, variable.name.clone(), meaning)?;
        Ok(at)
    }

    /// The place and the size of a variable of the frame.
    pub(in crate::decode) fn local(&self, operand: &Operand) -> Option<(u32, u32)> {
        match operand {
            Operand::Name(name) => match self.find(name)? {
                Meaning::Local(at, bytes) => Some((at, bytes)),
                _ => None,
            },
            _ => None,
        }
    }

    /// What is added to the frame's beginning for the address of a variable of a function.
    pub(in crate::decode) fn in_frame(&self, operand: &Operand) -> Option<(R, u32)> {
        let (name, offset) = match operand {
            Operand::Name(name) => (name, 0),
            Operand::Sum(name, offset) => (name, *offset as u32),
            _ => return None,
        };
        match self.find(name)? {
            Meaning::Local(at, _) => Some((self.own_frame()?, at.wrapping_add(offset))),
            _ => None,
        }
    }
}
