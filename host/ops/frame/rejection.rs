//! Why a kernel cannot do what is asked for.

use std::fmt;

use crate::Arch;
use crate::kernel::left_out;

/// A reason, in numbers: most are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The device does not run its code.
    Architecture(Arch),
    /// The device would run its code, and the build is without it.
    LeftOut(Arch),
    /// The device has less shared memory than it needs.
    SharedMemory {
        /// Bytes of a CTA.
        needs: u32,
        /// Bytes that a CTA may have.
        has: u32,
    },
    /// It reads pieces of 16 bytes, and lines of the operand begin elsewhere, or are contiguous the other way.
    Unaligned {
        /// The operand.
        operand: &'static str,
        /// How it reads the operand.
        row_major: bool,
    },
    /// It reads pieces of 16 bytes, and the operand's lines end inside one.
    Ragged {
        /// The operand.
        operand: &'static str,
    },
    /// It reads boxes, and TMA has none of this tensor.
    NoMap {
        /// The operand.
        operand: &'static str,
    },
    /// It takes no more than so many of something.
    AtMost {
        /// Of what.
        what: &'static str,
        /// How many.
        most: u32,
    },
    /// It takes something in multiples alone.
    Multiples {
        /// What.
        what: &'static str,
        /// Of how many.
        of: u32,
    },
    /// What the operator says of it.
    Because(&'static str),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::Architecture(arch) => write!(f, "it is compiled for {}", arch.target()),
            Rejection::LeftOut(arch) => f.write_str(&left_out(*arch)),
            Rejection::SharedMemory { needs, has } => {
                write!(f, "it needs {needs} bytes of shared memory, of {has}")
            }
            Rejection::Unaligned { operand, row_major } => {
                let order = if *row_major { "row" } else { "column" };
                write!(f, "it reads {operand} {order}-major, in lines aligned to 16 bytes")
            }
            Rejection::Ragged { operand } => {
                write!(f, "it reads {operand} in lines that are multiples of 16 bytes long")
            }
            Rejection::NoMap { operand } => write!(f, "TMA cannot address its {operand}"),
            Rejection::AtMost { what, most } => write!(f, "it takes {what} up to {most}"),
            Rejection::Multiples { what, of } => write!(f, "it takes {what} in multiples of {of}"),
            Rejection::Because(reason) => f.write_str(reason),
        }
    }
}
