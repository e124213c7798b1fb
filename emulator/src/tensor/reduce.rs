//! The operations of `cp.reduce.async.bulk` and `red.async`: elements of memory combined with others.
//!
//! PTX ISA, "cp.reduce.async.bulk", "cp.reduce.async.bulk.tensor". Sums are rounded to nearest; those of f32 flush subnormal
//! numbers to zero, as `red.add.f32` does on global memory, those of f16 and bf16 keep them (`.noftz`). A sum of f64 with a
//! NaN is that NaN, which the manual leaves open; on an H200 it is.

use super::approx::flush;
use super::arith16;
use super::float::{self, Format};
use super::map::DataType;

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Add,
    Min,
    Max,
    /// Up by one, from the operand on to zero.
    Inc,
    /// Down by one, from zero on (or from above the operand) to the operand.
    Dec,
    And,
    Or,
    Xor,
}

/// Combines each element of the first slice with that of the second, of the same length.
pub(crate) type Combine = fn(&mut [u8], &[u8]);

/// The function of a reduction of such elements; `None` where PTX has none.
pub(crate) fn combine(reduction: Reduction, data: DataType) -> Option<Combine> {
    macro_rules! with {
        ($t:ty, |$a:ident, $b:ident| $result:expr) => {
            Some(|into: &mut [u8], from: &[u8]| {
                for (into, from) in into.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
                    let ($a, $b) = (<$t>::from_le_bytes(*into), <$t>::from_le_bytes(*from));
                    *into = <$t>::to_le_bytes($result);
                }
            })
        };
    }
    use DataType::*;
    use Reduction::*;
    match (reduction, data) {
        (Add, U32 | I32) => with!(u32, |a, b| a.wrapping_add(b)),
        (Add, U64 | I64) => with!(u64, |a, b| a.wrapping_add(b)),
        (Add, F32) => with!(f32, |a, b| add_f32(a, b)),
        (Add, F64) => with!(f64, |a, b| add_f64(a, b)),
        (Add, F16) => with!(u16, |a, b| arith16::add(Format::F16, a, b)),
        (Add, Bf16) => with!(u16, |a, b| arith16::add(Format::BF16, a, b)),
        (Min, F16) => with!(u16, |a, b| arith16::min(Format::F16, a, b, false)),
        (Min, Bf16) => with!(u16, |a, b| arith16::min(Format::BF16, a, b, false)),
        (Max, F16) => with!(u16, |a, b| arith16::max(Format::F16, a, b, false)),
        (Max, Bf16) => with!(u16, |a, b| arith16::max(Format::BF16, a, b, false)),
        (Min, U32) => with!(u32, |a, b| a.min(b)),
        (Min, I32) => with!(i32, |a, b| a.min(b)),
        (Min, U64) => with!(u64, |a, b| a.min(b)),
        (Min, I64) => with!(i64, |a, b| a.min(b)),
        (Max, U32) => with!(u32, |a, b| a.max(b)),
        (Max, I32) => with!(i32, |a, b| a.max(b)),
        (Max, U64) => with!(u64, |a, b| a.max(b)),
        (Max, I64) => with!(i64, |a, b| a.max(b)),
        (Inc, U32) => with!(u32, |a, b| if a >= b { 0 } else { a + 1 }),
        (Dec, U32) => with!(u32, |a, b| if a == 0 || a > b { b } else { a - 1 }),
        (And, U32 | I32) => with!(u32, |a, b| a & b),
        (And, U64 | I64) => with!(u64, |a, b| a & b),
        (Or, U32 | I32) => with!(u32, |a, b| a | b),
        (Or, U64 | I64) => with!(u64, |a, b| a | b),
        (Xor, U32 | I32) => with!(u32, |a, b| a ^ b),
        (Xor, U64 | I64) => with!(u64, |a, b| a ^ b),
        _ => None,
    }
}

/// The sum in f32, subnormal numbers flushed.
pub(crate) fn add_f32(a: f32, b: f32) -> f32 {
    let sum = flush(flush(a, true) + flush(b, true), true);
    if sum.is_nan() { f32::from_bits(float::NAN) } else { sum }
}

/// The sum in f64.
pub(crate) fn add_f64(a: f64, b: f64) -> f64 {
    if b.is_nan() {
        b
    } else if a.is_nan() {
        a
    } else {
        a + b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply<const N: usize>(reduction: Reduction, data: DataType, into: [u8; N], from: [u8; N]) -> [u8; N] {
        let mut into = into;
        combine(reduction, data).expect("a reduction that exists")(&mut into, &from);
        into
    }

    fn u32s(reduction: Reduction, data: DataType, a: u32, b: u32) -> u32 {
        u32::from_le_bytes(apply(reduction, data, a.to_le_bytes(), b.to_le_bytes()))
    }

    fn f32s(a: f32, b: f32) -> f32 {
        f32::from_le_bytes(apply(Reduction::Add, DataType::F32, a.to_le_bytes(), b.to_le_bytes()))
    }

    fn u16s(reduction: Reduction, data: DataType, a: u16, b: u16) -> u16 {
        u16::from_le_bytes(apply(reduction, data, a.to_le_bytes(), b.to_le_bytes()))
    }

    #[test]
    fn integers() {
        use DataType::*;
        assert_eq!(u32s(Reduction::Add, U32, u32::MAX, 3), 2);
        assert_eq!(u32s(Reduction::Min, U32, u32::MAX, 3), 3);
        assert_eq!(u32s(Reduction::Min, I32, u32::MAX, 3), u32::MAX);
        assert_eq!(u32s(Reduction::Max, I32, u32::MAX, 3), 3);
        assert_eq!([0, 1, 5, 9].map(|a| u32s(Reduction::Inc, U32, a, 5)), [1, 2, 0, 0]);
        assert_eq!([0, 1, 5, 9].map(|a| u32s(Reduction::Dec, U32, a, 5)), [5, 0, 4, 5]);
        assert_eq!(u32s(Reduction::Xor, I32, 0b1100, 0b1010), 0b0110);
        let (a, b) = (i64::MIN.to_le_bytes(), 1i64.to_le_bytes());
        assert_eq!(i64::from_le_bytes(apply(Reduction::Max, I64, a, b)), 1);
        assert_eq!(i64::from_le_bytes(apply(Reduction::Min, U64, a, b)), 1);
    }

    #[test]
    fn sums_of_f32_flush_subnormal_numbers() {
        assert_eq!(f32s(1.5, 2.25), 3.75);
        assert_eq!(f32s(f32::MIN_POSITIVE, -1.5 * f32::MIN_POSITIVE).to_bits(), 1 << 31);
        assert_eq!(f32s(1e-40, 0.0), 0.0);
        assert_eq!(f32s(f32::INFINITY, f32::NEG_INFINITY).to_bits(), float::NAN);
    }

    #[test]
    fn sums_of_f64_keep_nans() {
        let sum = |a: u64, b: u64| {
            u64::from_le_bytes(apply(Reduction::Add, DataType::F64, a.to_le_bytes(), b.to_le_bytes()))
        };
        let (signalling, quiet) = (0xfff0_0000_0000_1234, 0x7ff8_0000_0000_0000);
        assert_eq!(
            [sum(signalling, 0), sum(0, signalling), sum(signalling, quiet)],
            [signalling, signalling, quiet]
        );
        assert_eq!(sum(1f64.to_bits(), 2f64.to_bits()), 3f64.to_bits());
    }

    #[test]
    fn halves_round_once_and_keep_subnormal_numbers() {
        use DataType::{Bf16, F16};
        let h = |x: f32| half::f16::from_f32(x).to_bits();
        assert_eq!(u16s(Reduction::Add, F16, h(2048.0), h(1.0)), h(2048.0));
        assert_eq!(u16s(Reduction::Add, F16, 1, 2), 3);
        assert_eq!(u16s(Reduction::Add, F16, h(65504.0), h(16.0)), 0x7c00);
        assert_eq!(u16s(Reduction::Min, F16, 0x7e00, h(3.0)), h(3.0));
        assert_eq!(u16s(Reduction::Max, F16, 0x8000, 0), 0);
        assert_eq!(u16s(Reduction::Min, F16, 0, 0x8000), 0x8000);
        assert_eq!(u16s(Reduction::Max, F16, 0x7e00, 0xfe00), 0x7fff);
        let b = |x: f32| half::bf16::from_f32(x).to_bits();
        assert_eq!(u16s(Reduction::Add, Bf16, b(256.0), b(1.0)), b(256.0));
        assert_eq!(u16s(Reduction::Max, Bf16, b(-2.0), b(-3.0)), b(-2.0));
    }

    #[test]
    fn every_element_of_the_slices() {
        let mut into = [0, 1, 2, 3].map(f32::to_bits_of).as_flattened().to_vec();
        let from = [10, 20, 30, 40].map(f32::to_bits_of).as_flattened().to_vec();
        combine(Reduction::Add, DataType::F32).expect("exists")(&mut into, &from);
        assert_eq!(into, [10, 21, 32, 43].map(f32::to_bits_of).as_flattened());
    }

    /// The bytes of an integer as f32.
    trait Bytes {
        fn to_bits_of(x: i32) -> [u8; 4];
    }

    impl Bytes for f32 {
        fn to_bits_of(x: i32) -> [u8; 4] {
            (x as f32).to_le_bytes()
        }
    }

    #[test]
    fn reductions_that_do_not_exist() {
        assert!(combine(Reduction::Min, DataType::F32).is_none());
        assert!(combine(Reduction::Inc, DataType::I32).is_none());
        assert!(combine(Reduction::And, DataType::F16).is_none());
        assert!(combine(Reduction::Add, DataType::U8).is_none());
    }
}
