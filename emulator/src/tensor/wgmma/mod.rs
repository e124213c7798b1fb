//! `wgmma.mma_async`: products of a warpgroup, B and perhaps A in shared memory.
//!
//! PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". What is computed is
//! [`Product`]'s business, where the operands lie [`descriptor`]'s.

pub(crate) mod descriptor;
#[cfg(test)]
mod tests;

use super::Register;
use super::element::{Accumulator, Element, Family};
use super::memory::Memory;
use super::product::{Lines, Product};
use super::sparse::Sparse;
use crate::error::Reason;
use descriptor::{Descriptor, PIECE};

/// Rows of A and D.
pub(crate) const ROWS: usize = 64;
/// Core matrices of A along K: 32 bytes, or 16 rows where it is transposed.
const CORES: u32 = 2;

/// One form of the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wgmma {
    /// Columns of B and D.
    pub(crate) n: u32,
    /// The type of A.
    pub(crate) a: Element,
    /// The type of B.
    pub(crate) b: Element,
    /// `imm-trans-a`: A is contiguous along M.
    pub(crate) trans_a: bool,
    /// `imm-trans-b`: B is contiguous along N.
    pub(crate) trans_b: bool,
    /// `imm-scale-a` is -1.
    pub(crate) negate_a: bool,
    /// `imm-scale-b` is -1.
    pub(crate) negate_b: bool,
    /// A is sparse: half of each row is stored.
    pub(crate) sparse: Option<Sparse>,
}

/// Where A is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OperandA<'a> {
    /// In shared memory, as the descriptor says.
    Shared(u64),
    /// In registers: four of each warp. Where there is but one warp, it becomes warp 0 of the product.
    Registers(&'a [[Register; 4]]),
}

impl Wgmma {
    /// The instruction's K: 32 bytes, or 64 with a sparse A.
    pub(crate) fn depth(&self) -> usize {
        self.stored() * if self.sparse.is_some() { 2 } else { 1 }
    }

    /// Elements of a row of A that are stored.
    fn stored(&self) -> usize {
        (256 / self.a.bits()) as usize
    }

    /// Floating-point or integer operations of one instruction.
    pub(crate) fn operations(&self) -> u64 {
        2 * ROWS as u64 * u64::from(self.n) * self.depth() as u64
    }

    /// What PTX does not have of this form, for one with A in registers or not.
    pub(crate) fn check(&self, accumulator: Accumulator, a_in_registers: bool) -> Result<(), String> {
        let Wgmma { n, a, b, .. } = *self;
        let family = a.family();
        if family != b.family() || family == Family::Nibbles {
            return Err(format!("wgmma does not multiply {a:?} and {b:?}"));
        }
        if !accumulator.takes(family) {
            return Err(format!("wgmma does not accumulate products of {a:?} and {b:?} in {accumulator:?}"));
        }
        let integer = matches!(family, Family::Bytes | Family::Bits);
        if n == 0 || n > 256 || n % 8 != 0 || integer && n > 24 && n % 16 != 0 {
            return Err(format!("wgmma of {a:?} has no shape with n = {n}"));
        }
        if (self.trans_a || self.trans_b) && a.bits() != 16 || self.trans_a && a_in_registers {
            return Err("wgmma transposes only 16-bit operands in shared memory".into());
        }
        if (self.negate_a || self.negate_b) && integer {
            return Err("wgmma negates only floating-point operands".into());
        }
        match self.sparse {
            Some(_) if family == Family::Bits => Err("wgmma has no sparse A of single bits".into()),
            Some(sparse) => sparse.check(a.bits(), self.stored()),
            None => Ok(()),
        }
    }

    /// Of a sparse A, the column of each element, row by row, as the metadata of the warps have it.
    pub(crate) fn columns(&self, sparse: Sparse, metadata: [&Register; 4]) -> Result<Vec<u16>, Reason> {
        let (bits, stored) = (self.a.bits(), self.stored());
        let column = |at: usize| {
            let (row, i) = (at / stored, at % stored);
            sparse.column((bits, stored), metadata[row / 16 % 4], row % 16, i).map(|column| column as u16)
        };
        (0..ROWS * stored).map(column).collect()
    }

    /// What is wrong with the descriptor of B, whose rows must not be longer than its swizzle's where there is one.
    pub(crate) fn check_b(&self, bits: u64) -> Result<(), Reason> {
        match self.sparse.is_some() && !self.trans_b && Descriptor::decode(bits).span == 32 {
            true => Err(Reason::misuse(
                "B of a product with a sparse A has 64 bytes along K, and its descriptor a swizzle of 32 bytes",
            )),
            false => Ok(()),
        }
    }

    /// Reads both operands, of a sparse A with its [columns](Wgmma::columns). From `into`, [`Product::registers`] then makes the
    /// registers of D.
    pub(crate) fn gather<M: Memory<u32>>(
        &self,
        (a, columns): (OperandA<'_>, &[u16]),
        b: u64,
        shared: &mut M,
        into: &mut Product,
    ) -> Result<(), M::Fault> {
        match self.sparse {
            None => into.reset(ROWS, self.n as usize, self.depth()),
            Some(_) => into.reset_sparse(ROWS, self.n as usize, self.depth(), columns),
        }
        match a {
            OperandA::Registers(warps) => {
                for (warp, registers) in warps.iter().enumerate() {
                    into.put_a_registers(warp * 16, self.a, registers.iter(), self.negate_a);
                }
            }
            OperandA::Shared(bits) => {
                let how = Lines { element: self.a, transposed: self.trans_a, negate: self.negate_a };
                read(bits, self.trans_a, [ROWS as u32, CORES], shared, |at, words| {
                    into.put_core_a(how, at, words);
                })?;
            }
        }
        let how = Lines { element: self.b, transposed: self.trans_b, negate: self.negate_b };
        read(b, self.trans_b, [self.n, self.cores_b()], shared, |at, words| into.put_core_b(how, at, words))
    }

    /// Core matrices of B along K.
    fn cores_b(&self) -> u32 {
        if self.sparse.is_some() { 2 * CORES } else { CORES }
    }

    /// The shared-memory addresses of all 16-byte pieces that are read of an A with this descriptor. Each eight are
    /// one access: free of bank conflicts if they are in different banks.
    pub(crate) fn pieces_a(&self, bits: u64) -> impl Iterator<Item = u32> {
        Descriptor::decode(bits).pieces(self.trans_a, ROWS as u32, CORES)
    }

    /// The same of B.
    pub(crate) fn pieces_b(&self, bits: u64) -> impl Iterator<Item = u32> {
        Descriptor::decode(bits).pieces(self.trans_b, self.n, self.cores_b())
    }
}

/// Calls `put` with each core matrix of an operand in shared memory: its number along M or N and along K, and its words, piece by piece.
fn read<M: Memory<u32>>(
    bits: u64,
    transposed: bool,
    [extent, cores]: [u32; 2],
    shared: &mut M,
    mut put: impl FnMut([usize; 2], &Register),
) -> Result<(), M::Fault> {
    let descriptor = Descriptor::decode(bits);
    for group in 0..extent / 8 {
        for core in 0..cores {
            let begin = descriptor.core(transposed, group, core);
            let mut words = [0; 32];
            for (row, words) in (0..).zip(words.as_chunks_mut::<{ PIECE / 4 }>().0) {
                let mut bytes = [0; PIECE];
                shared.read(descriptor.piece(begin, row), &mut bytes)?;
                for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
            }
            put([group as usize, core as usize], &words);
        }
    }
    Ok(())
}
