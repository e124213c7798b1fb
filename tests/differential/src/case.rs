//! What is run on both: kernels with their launches and their memory.

use tilewright_emulator::{Launch, TensorMap};

/// A module and the kernels of it that are run.
#[derive(Clone, Debug)]
pub struct Group {
    /// The text of the module.
    pub ptx: String,
    /// Launches of its kernels, each with memory of its own.
    pub cases: Vec<Case>,
    /// Whether the driver's compiler optimises it.
    pub optimised: bool,
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Case {
    /// What messages call it.
    pub name: String,
    /// The entry.
    pub kernel: String,
    /// What is between the entry's braces, or the part of it that other cases do not have.
    pub text: String,
    /// Grid, threads, clusters, dynamic shared memory.
    pub launch: Launch,
    /// The kernel's parameters.
    pub arguments: Vec<Argument>,
    /// How results are compared.
    pub agreement: Agreement,
    /// How results are shown.
    pub shape: Shape,
}

/// One parameter of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The address of memory with these bytes; what the kernel leaves there is the result.
    Memory(Vec<u8>),
    /// A tensor map, of 128 bytes aligned to 64, whose address counts from the start of that memory argument.
    Map(TensorMap, usize),
}

/// When results agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement {
    /// In every bit.
    Exact,
    /// As f32, within `relative` times the number or `absolute`, whichever is more; NaNs agree with NaNs.
    F32 {
        /// Of the larger number.
        relative: f64,
        /// In units of 1.
        absolute: f64,
    },
    /// The same for pairs of f16.
    F16 {
        /// Of the larger number.
        relative: f64,
        /// In units of 1.
        absolute: f64,
    },
    /// The same for pairs of bf16.
    Bf16 {
        /// Of the larger number.
        relative: f64,
        /// In units of 1.
        absolute: f64,
    },
}

/// What the memory of a case holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 32-bit words.
    Words,
    /// Slots of 8 bytes: for each thread, its inputs in the first memory, its results in the second. Both have one row
    /// of `threads` slots for each value.
    Lanes {
        /// Slots of a row.
        threads: usize,
    },
}

/// Where each parameter lies, and the bytes of all.
pub(crate) fn layout(arguments: &[Argument]) -> (Vec<usize>, usize) {
    let mut end = 0usize;
    let offsets = arguments.iter().map(|argument| {
        let (align, bytes) = match argument {
            Argument::Memory(_) => (8, 8),
            Argument::Map(..) => (64, 128),
        };
        let offset = end.next_multiple_of(align);
        end = offset + bytes;
        offset
    });
    (offsets.collect(), end)
}

impl Case {
    /// The memories' bytes before the launch.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &[u8]> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Memory(bytes) => Some(bytes.as_slice()),
            Argument::Map(..) => None,
        })
    }

    /// The parameter block, given the memories' addresses.
    pub(crate) fn parameters(
        &self,
        addresses: &[u64],
        mut encode: impl FnMut(&TensorMap) -> Result<[u64; 16], String>,
    ) -> Result<Vec<u8>, String> {
        let (offsets, bytes) = layout(&self.arguments);
        let mut block = vec![0; bytes];
        let mut next = addresses.iter();
        for (argument, &offset) in self.arguments.iter().zip(&offsets) {
            let words = match argument {
                Argument::Memory(_) => vec![*next.next().expect("an address for each memory")],
                Argument::Map(map, memory) => {
                    encode(&TensorMap { address: map.address + addresses[*memory], ..*map })?.to_vec()
                }
            };
            for (at, word) in (offset..).step_by(8).zip(words) {
                block[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        Ok(block)
    }
}
