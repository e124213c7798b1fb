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
use super::product::Product;
use descriptor::{Descriptor, PIECE};

/// Rows of A and D.
pub(crate) const ROWS: usize = 64;

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
    /// The instruction's K: 32 bytes.
    pub(crate) fn depth(&self) -> usize {
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
        Ok(())
    }

    /// Reads both operands. From `into`, [`Product::registers`] then makes the registers of D.
    pub(crate) fn gather<M: Memory<u32>>(
        &self,
        a: OperandA<'_>,
        b: u64,
        shared: &mut M,
        into: &mut Product,
    ) -> Result<(), M::Fault> {
        into.reset(ROWS, self.n as usize, self.depth());
        match a {
            OperandA::Registers(warps) => {
                for (warp, registers) in warps.iter().enumerate() {
                    into.put_a_registers(warp * 16, self.a, registers.iter(), self.negate_a);
                }
            }
            OperandA::Shared(bits) => {
                let matrix =
                    Matrix { bits, element: self.a, transposed: self.trans_a, negate: self.negate_a };
                matrix.read(ROWS, shared, |Place { outer, k }, values| match values.try_into() {
                    Ok(values) if self.trans_a => into.put_a_column(outer, k, values),
                    _ => into.put_a(outer, k, values),
                })?;
            }
        }
        let matrix = Matrix { bits: b, element: self.b, transposed: self.trans_b, negate: self.negate_b };
        matrix.read(self.n as usize, shared, |Place { outer, k }, values| match values.try_into() {
            Ok(values) if self.trans_b => into.put_b_row(k, outer, values),
            _ => into.put_b(k, outer, values),
        })
    }

    /// The shared-memory addresses of all 16-byte pieces that the operand reads, `extent` along M or N. Each eight are
    /// one access: free of bank conflicts if they are in different banks.
    pub(crate) fn pieces(bits: u64, transposed: bool, extent: usize) -> impl Iterator<Item = u32> {
        Descriptor::decode(bits).pieces(transposed, extent).map(|piece| piece.address)
    }
}

/// An operand in shared memory.
struct Matrix {
    bits: u64,
    element: Element,
    transposed: bool,
    negate: bool,
}

/// An element's place in an operand.
#[derive(Clone, Copy)]
struct Place {
    /// Along M or N.
    outer: usize,
    k: usize,
}

impl Matrix {
    /// Calls `put` with the place of each piece's first element and all its values: along K, or along M or N where the
    /// matrix is transposed.
    fn read<M: Memory<u32>>(
        &self,
        extent: usize,
        shared: &mut M,
        mut put: impl FnMut(Place, &[f32]),
    ) -> Result<(), M::Fault> {
        /// A core matrix is converted at once.
        const CORE: usize = 8;
        let Matrix { element, transposed, negate, .. } = *self;
        let per_piece = PIECE / 4 * element.per_register();
        let mut pieces = Descriptor::decode(self.bits).pieces(transposed, extent);
        // Elements of less than a byte.
        let mut many = vec![0.0; if per_piece <= PIECE { 0 } else { CORE * per_piece }];
        for _ in 0..extent / CORE * 2 {
            let mut places = [Place { outer: 0, k: 0 }; CORE];
            let mut words = [[0; PIECE / 4]; CORE];
            for ((place, words), piece) in places.iter_mut().zip(&mut words).zip(&mut pieces) {
                let mut bytes = [0; PIECE];
                shared.read(piece.address, &mut bytes)?;
                for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
                *place =
                    Place { outer: piece.outer, k: if transposed { piece.k } else { piece.k * per_piece } };
            }
            let mut few = [0.0; CORE * PIECE];
            let values = if per_piece <= PIECE { &mut few[..CORE * per_piece] } else { &mut many[..] };
            element.unpack(words.as_flattened(), values);
            if negate {
                values.iter_mut().for_each(|value| *value = -*value);
            }
            for (place, values) in places.iter().zip(values.chunks_exact(per_piece)) {
                put(*place, values);
            }
        }
        Ok(())
    }
}
