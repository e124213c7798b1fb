//! Formats of narrow weights, and how a lane's words become registers of the tensor cores.

use crate::arch::half::{fma_bf16x2, fma_f16x2, mul_f16x2, sub_f16x2};
use crate::arch::math::lop3;
use crate::layout::Element;
use crate::layout::packed::{Order, Packed};
use half::{bf16, f16};

/// A format of narrow weights.
pub trait Format: Copy + Default + Send + Sync + 'static {
    /// Its name in kernels' names and messages.
    const NAME: &'static str;
    /// Bits of a code: 1, 2, 4 or 8.
    const BITS: u32;

    /// How codes lie in a block, for activations of 16 bits.
    const PACKED: Packed = match Packed::new(Order::B16, Self::BITS) {
        Some(packed) => packed,
        None => panic!("codes have 1, 2, 4 or 8 bits"),
    };
}

/// A format that can be decoded to `T`.
#[diagnostic::on_unimplemented(message = "weights of format `{Self}` cannot be decoded to `{T}`")]
pub trait Decode<T: Half>: Format {
    /// Register `register` of a lane's block of codes, four a step: a pair of values.
    fn register(words: &[u32; 8], register: u32) -> u32;
    /// The pair times `scale`, which is less than [`PLAIN_SCALES`](crate::tile::PLAIN_SCALES): rounded once.
    #[inline(always)]
    fn scaled(words: &[u32; 8], register: u32, scale: u32) -> u32 {
        T::mul(Self::register(words, register), scale)
    }

    /// Registers of even and of odd number have by [`unscaled`](Self::unscaled) the values times 2 to the minus so many.
    const UNITS: [i32; 2] = [0; 2];
    /// The pair, in the fewest instructions, but for [`UNITS`](Self::UNITS).
    #[inline(always)]
    fn unscaled(words: &[u32; 8], register: u32) -> u32 {
        Self::register(words, register)
    }

    /// The same of [`codes`](Self::codes).
    const CODES: [i32; 2] = Self::UNITS;
    /// The pair in the fewest instructions, where an fma follows: products with it may be below the normal numbers.
    #[inline(always)]
    fn codes(words: &[u32; 8], register: u32) -> u32 {
        Self::unscaled(words, register)
    }
}

/// A 16-bit type of activations: arithmetic of pairs.
pub trait Half: Element {
    /// 1, 1.
    const ONES: u32;
    /// The lowest bit of a number whose other bits are 0 stands for 2 to the minus so many: so do those above it, up to the exponent's lowest.
    const LOWEST: i32;
    /// Whether products with such numbers are normal ones of f32.
    const LOWEST_MULTIPLIES: bool;
    /// Where codes are the lowest bits of numbers, differences of them are numbers times 2 to the minus so many: the highest power of two makes them.
    const DIFFERENCES: i32;
    /// 2 to the `e`, in both halves.
    fn power(e: i32) -> u32;
    /// a b + c.
    fn fma(a: u32, b: u32, c: u32) -> u32;
    /// a b.
    fn mul(a: u32, b: u32) -> u32;
    /// a - b.
    fn sub(a: u32, b: u32) -> u32;
    /// The pair of integers of `bits` bits, 4 at most, from `position` of the word's halves on, `signed` or not: exact.
    fn integer(bits: u32, signed: bool, word: u32, position: u32) -> u32;
    /// The pair of integers of `bits` bits, 4 at most and not signed, times `scale`: rounded once.
    ///
    /// A code as the low bits of a power of two's mantissa, p + c, makes one fma of p + c, the scale and -p times the scale,
    /// which is exact.
    fn scaled(bits: u32, word: u32, position: u32, scale: u32) -> u32;
    /// -1 for codes of one bit that are 0, 1 for those that are 1.
    #[inline(always)]
    fn sign(word: u32, position: u32) -> u32 {
        lop3::<AND_XOR>(word << (15 - position), 0x8000_8000, Self::ONES | 0x8000_8000)
    }
}

/// Both halves.
const fn twice(half: u32) -> u32 {
    half | half << 16
}

/// (a & b) | c.
const AND_OR: u32 = 0xea;

/// (a & b) ^ c.
const AND_XOR: u32 = 0x6a;

/// 2 to the `e`, as f16.
const fn f16_power(e: i32) -> u32 {
    ((e + 15) as u32) << 10
}

/// An integer below 2048 as f16, rounded down to 11 bits.
const fn f16_integer(x: u32) -> u32 {
    if x == 0 {
        return 0;
    }
    let e = 31 - x.leading_zeros();
    (e + 15) << 10 | ((x << 10 >> e) & 0x3ff)
}

/// An integer below 256 as bf16.
const fn bf16_integer(x: u32) -> u32 {
    if x == 0 {
        return 0;
    }
    let e = 31 - x.leading_zeros();
    (e + 127) << 7 | ((x << 7 >> e) & 0x7f)
}

impl Half for f16 {
    const ONES: u32 = 0x3c00_3c00;
    const LOWEST: i32 = 24;
    const LOWEST_MULTIPLIES: bool = true;
    const DIFFERENCES: i32 = 9;
    #[inline(always)]
    fn power(e: i32) -> u32 {
        twice(f16_power(e))
    }
    #[inline(always)]
    fn fma(a: u32, b: u32, c: u32) -> u32 {
        fma_f16x2(a, b, c)
    }
    #[inline(always)]
    fn mul(a: u32, b: u32) -> u32 {
        mul_f16x2(a, b)
    }
    #[inline(always)]
    fn sub(a: u32, b: u32) -> u32 {
        sub_f16x2(a, b)
    }
    /// The code, from the least value on, as the low bits of 1024's mantissa, 2^p too high: one fma takes that off.
    #[inline(always)]
    fn integer(bits: u32, signed: bool, word: u32, position: u32) -> u32 {
        let centre = if signed { 1 << (bits - 1) } else { 0 };
        let p = position % 8;
        let mask = twice(((1 << bits) - 1) << p);
        let x = lop3::<AND_OR>(word >> (position - p), mask, 0x6400_6400);
        if p == 0 {
            sub_f16x2(x, twice(f16_integer(1024 + centre)))
        } else {
            let bias = 0x8000 | f16_integer((1024 >> p) + centre);
            fma_f16x2(x, twice(f16_power(-(p as i32))), twice(bias))
        }
    }
    #[inline(always)]
    fn scaled(bits: u32, word: u32, position: u32, scale: u32) -> u32 {
        let p = position % 8;
        let (mask, power) = (twice(((1 << bits) - 1) << p), f16_power(10 - p as i32));
        let x = lop3::<AND_OR>(word >> (position - p), mask, twice(power));
        fma_f16x2(x, scale, mul_f16x2(scale, twice(0x8000 | power)))
    }
}

impl Half for bf16 {
    const ONES: u32 = 0x3f80_3f80;
    const LOWEST: i32 = 133;
    const LOWEST_MULTIPLIES: bool = false;
    const DIFFERENCES: i32 = 6;
    #[inline(always)]
    fn power(e: i32) -> u32 {
        twice(((e + 127) as u32) << 7)
    }
    #[inline(always)]
    fn fma(a: u32, b: u32, c: u32) -> u32 {
        fma_bf16x2(a, b, c)
    }
    #[inline(always)]
    fn mul(a: u32, b: u32) -> u32 {
        fma_bf16x2(a, b, 0x8000_8000)
    }
    #[inline(always)]
    fn sub(a: u32, b: u32) -> u32 {
        fma_bf16x2(b, 0xbf80_bf80, a)
    }
    /// The code, from the least value on, as the low bits of 128's mantissa.
    #[inline(always)]
    fn integer(bits: u32, signed: bool, word: u32, position: u32) -> u32 {
        let centre = if signed { 1 << (bits - 1) } else { 0 };
        let x = lop3::<AND_OR>(word >> position, twice((1 << bits) - 1), 0x4300_4300);
        fma_bf16x2(x, Self::ONES, twice(0x8000 | bf16_integer(128 + centre)))
    }
    #[inline(always)]
    fn scaled(bits: u32, word: u32, position: u32, scale: u32) -> u32 {
        let x = lop3::<AND_OR>(word >> position, twice((1 << bits) - 1), 0x4300_4300);
        fma_bf16x2(x, scale, Self::mul(scale, 0xc300_c300))
    }
}

/// Codes of `bits` bits as the lowest of numbers; those of odd registers above those of even ones, so that a shift serves two.
#[inline(always)]
fn lowest(words: &[u32; 8], bits: u32, register: u32) -> u32 {
    let (in_word, above) = (16 / bits, register % 2 * bits);
    let word = words[(register / in_word) as usize] >> (register % in_word * bits - above);
    word & twice(((1 << bits) - 1) << above)
}

/// What their lowest bits stand for, of registers of even and of odd number: 2 to the minus so many.
const fn lowest_units<T: Half>(bits: i32) -> [i32; 2] {
    [T::LOWEST, T::LOWEST - bits]
}

macro_rules! integers {
    ($($(#[$doc:meta])* $format:ident $name:literal $bits:literal $signed:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $format;

        impl Format for $format {
            const NAME: &'static str = $name;
            const BITS: u32 = $bits;
        }

        impl<T: Half> Decode<T> for $format {
            #[inline(always)]
            fn register(words: &[u32; 8], register: u32) -> u32 {
                const IN_WORD: u32 = 16 / $bits;
                T::integer($bits, $signed, words[(register / IN_WORD) as usize], register % IN_WORD * $bits)
            }
            #[inline(always)]
            fn scaled(words: &[u32; 8], register: u32, scale: u32) -> u32 {
                const IN_WORD: u32 = 16 / $bits;
                if $signed {
                    return T::mul(<Self as Decode<T>>::register(words, register), scale);
                }
                T::scaled($bits, words[(register / IN_WORD) as usize], register % IN_WORD * $bits, scale)
            }

            const UNITS: [i32; 2] =
                if !$signed && T::LOWEST_MULTIPLIES { lowest_units::<T>($bits) } else { [T::DIFFERENCES; 2] };
            #[inline(always)]
            fn unscaled(words: &[u32; 8], register: u32) -> u32 {
                let codes = lowest(words, $bits, register);
                let unit = T::power(lowest_units::<T>($bits)[register as usize % 2] - T::DIFFERENCES);
                if $signed {
                    T::fma(codes, unit, T::power($bits - 1 - T::DIFFERENCES) ^ 0x8000_8000)
                } else if T::LOWEST_MULTIPLIES {
                    codes
                } else {
                    T::mul(codes, unit)
                }
            }

            const CODES: [i32; 2] = if $signed { [T::DIFFERENCES; 2] } else { lowest_units::<T>($bits) };
            #[inline(always)]
            fn codes(words: &[u32; 8], register: u32) -> u32 {
                if $signed { <Self as Decode<T>>::unscaled(words, register) } else { lowest(words, $bits, register) }
            }
        }
    )* };
}

integers! {
    /// Integers from 0 to 15.
    U4 "u4" 4 false;
    /// Integers from -8 to 7, stored from the least on, as 0 to 15.
    I4 "i4" 4 true;
    /// Integers from 0 to 3.
    U2 "u2" 2 false;
    /// Integers from -2 to 1, stored from the least on, as 0 to 3.
    I2 "i2" 2 true;
    /// Integers 0 and 1.
    U1 "u1" 1 false;
}

/// -1 and 1, stored as 0 and 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct I1;

impl Format for I1 {
    const NAME: &'static str = "i1";
    const BITS: u32 = 1;
}

impl<T: Half> Decode<T> for I1 {
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32) -> u32 {
        T::sign(words[0], register)
    }
}
