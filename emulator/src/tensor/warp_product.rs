//! Products of a warp of all kinds: `wmma.mma`, and of `mma` those of f64, of single bits, of eight rows, and of a sparse A.
//!
//! Sums are as in [`super::product`]. Those of f64 are chains of fused products, in order of k from C on.

use super::float::{self, Rounding};
use super::fragment::{Fragment, Number};
use super::sparse::Sparse;
use crate::decode::float::fma64;
use crate::error::Reason;

/// How the elements of A and B are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Multiply,
    /// The bits of both that differ are counted.
    Xor,
    /// The bits that both have are counted.
    And,
}

/// One form of the instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpProduct {
    pub(crate) a: Fragment,
    pub(crate) b: Fragment,
    pub(crate) c: Fragment,
    pub(crate) d: Fragment,
    pub(crate) combine: Combine,
    pub(crate) saturate: bool,
    /// Of a sparse A.
    pub(crate) sparse: Option<Sparse>,
}

/// The bits of the operands' elements, row by row.
pub(crate) struct Operands {
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<u64>,
    pub(crate) c: Vec<u64>,
}

impl WarpProduct {
    /// Floating-point or integer operations of one instruction.
    pub(crate) fn operations(&self) -> u64 {
        2 * self.a.shape.iter().map(|&extent| extent as u64).product::<u64>()
    }

    /// The bits of D's elements, row by row. `metadata` is that of each lane, of a sparse A.
    pub(crate) fn compute(&self, operands: &Operands, metadata: &[u32; 32]) -> Result<Vec<u64>, Reason> {
        let [rows, depth] = self.a.extents();
        let columns = self.c.extents()[1];
        let mut d = Vec::with_capacity(rows * columns);
        for row in 0..rows {
            let places = (0..depth).map(|i| match self.sparse {
                Some(sparse) => sparse.column((self.a.number.bits(), depth), metadata, row, i),
                None => Ok(i),
            });
            let places = places.collect::<Result<Vec<_>, _>>()?;
            for column in 0..columns {
                let pairs = places
                    .iter()
                    .enumerate()
                    .map(|(i, &k)| (operands.a[row * depth + i], operands.b[k * columns + column]));
                d.push(self.element(pairs, operands.c[row * columns + column]));
            }
        }
        Ok(d)
    }

    /// One element of D, of the pairs of elements of A and B and the element of C.
    fn element(&self, pairs: impl Iterator<Item = (u64, u64)>, c: u64) -> u64 {
        let Self { a: Fragment { number: of_a, shape, .. }, b: Fragment { number: of_b, .. }, .. } = *self;
        match self.d.number {
            Number::F64 => {
                let add = |sum, (a, b)| fma64(f64::from_bits(a), f64::from_bits(b), sum);
                let sum = pairs.fold(f64::from_bits(c), add);
                // Of eight rows it is the NaN of the tensor cores, whatever those of the operands are, of sixteen that of `fma`.
                if sum.is_nan() && shape[0] == 8 { 0x7fff_ffff_ffff_ffff } else { sum.to_bits() }
            }
            Number::S32 => {
                let sum: i64 = match self.combine {
                    Combine::Multiply => pairs.map(|(a, b)| integer(of_a, a) * integer(of_b, b)).sum(),
                    Combine::Xor => pairs.map(|(a, b)| (a ^ b) as i64).sum(),
                    Combine::And => pairs.map(|(a, b)| (a & b) as i64).sum(),
                };
                let sum = sum + i64::from(c as u32 as i32);
                let sum = if self.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                u64::from(sum as u32)
            }
            to => {
                let sum = pairs.fold(0f32, |sum, (a, b)| sum + float(of_a, a) * float(of_b, b));
                let total = sum + float(self.c.number, c);
                match to {
                    Number::F16 => float::f32_to_f16(total, Rounding::Nearest).into(),
                    _ if total.is_nan() => float::NAN.into(),
                    _ => total.to_bits().into(),
                }
            }
        }
    }
}

fn integer(number: Number, bits: u64) -> i64 {
    match number {
        Number::S8 => i64::from(bits as i8),
        Number::S4 => (bits << 60) as i64 >> 60,
        _ => bits as i64,
    }
}

fn float(number: Number, bits: u64) -> f32 {
    match number {
        Number::F16 => float::f16_to_f32(bits as u16),
        Number::Bf16 => float::bf16_to_f32(bits as u16),
        Number::Tf32 => f32::from_bits(bits as u32 & 0xffff_e000),
        Number::E4m3 => float::e4m3_to_f32(bits as u8),
        Number::E5m2 => float::e5m2_to_f32(bits as u8),
        _ => f32::from_bits(bits as u32),
    }
}
