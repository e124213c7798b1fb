//! Narrow integers as int8: the left operand of a gemm with activations of int8, and the scales of its sums.

use crate::arch::mma::I8x2;
use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::held::{Held, Packed};
use crate::tile::fragment::row_vector::RowVector;
use crate::tile::fragment::{Operand, Rows};
use crate::tile::memory::part::Part;
use crate::tile::memory::shared::Src;
use crate::tile::quantized::bytes::I8;
use crate::tile::quantized::format::{Format, Half, I2, I4, U2, U4};
use crate::tile::quantized::weights::{Quantized, Weights, words};
use crate::tile::quantized::zeros::Zeros;

/// Pairs of int8 that are decoded at a time: two blocks' depth.
const PAIRS: usize = 64;
/// The highest bit of each byte.
const HIGH: u32 = 0x8080_8080;

/// A format of integers that int8 holds, packed for activations of int8 ([`Order::B8`](crate::layout::packed::Order::B8)).
#[diagnostic::on_unimplemented(message = "weights of format `{Self}` are no integers that int8 holds")]
pub trait Integers: Format {
    /// The value of code 0.
    const LEAST: i32;

    /// Register `register` of a lane's block of codes, four a step: four int8, each a value less a zero from the format's range,
    /// if there is one. `zero` has it in each byte, less [`LEAST`](Self::LEAST).
    #[inline(always)]
    fn register(words: &[u32; 8], register: u32, zero: Option<u32>) -> u32 {
        let in_word = 8 / Self::BITS;
        let word = words[(register / in_word) as usize] >> (register % in_word * Self::BITS);
        let mask = ((1 << Self::BITS) - 1) * 0x0101_0101;
        match (zero, Self::LEAST) {
            (None, 0) => word & mask,
            // The highest bit is what the least value takes off.
            (None, -128) => word ^ HIGH,
            // Above the highest bit of each byte nothing is borrowed from its neighbour.
            (zero, _) => {
                let zero = zero.unwrap_or((-Self::LEAST) as u32 * 0x0101_0101);
                ((word & mask | HIGH) - zero) ^ HIGH
            }
        }
    }
}

impl Integers for U4 {
    const LEAST: i32 = 0;
}
impl Integers for I4 {
    const LEAST: i32 = -8;
}
impl Integers for U2 {
    const LEAST: i32 = 0;
}
impl Integers for I2 {
    const LEAST: i32 = -2;
}
impl Integers for I8 {
    const LEAST: i32 = -128;
}

impl<F: Integers, Z: Zeros, T: Half> Weights<F, Z, T> {
    /// That part, of 128 each, of a full tile's depth as the left operand of a gemm of int8, whose depth is counted in pairs: values
    /// less their groups' zeros, not scaled. A group is a multiple of 64 along K.
    #[inline(always)]
    pub fn integers<const M: usize, const K: usize, L: FragmentLayout<M, PAIRS>>(
        &self,
        from: Src<'_, Quantized<F, Z, T, M, K>>,
        part: Part,
    ) -> Operand<I8x2, M, PAIRS, L> {
        const { assert!(K.is_multiple_of(2 * PAIRS), "tiles are of whole parts") };
        part.expect((K / (2 * PAIRS)) as u32);
        let mut packed = Packed::<L::Regs<[u32; 4]>>::none();
        let lane = thread_x() % 32;
        let mut unit = 0;
        while unit < L::Regs::<I8x2>::LEN / (PAIRS / 2) {
            // 16 rows are the part of a warp.
            let rows = L::coord(thread_x(), 0).0 / 16 + L::offset(unit * (PAIRS / 2)).0 / 16;
            let mut block = 0;
            while block < 2 {
                // SAFETY: the tile is full.
                let registers = unsafe {
                    integer_block::<F, Z, T, M, K>(from.address, rows, 2 * part.index() + block, lane)
                };
                let at = unit * 4 + 2 * block as usize;
                packed.0.set(at, registers[0]);
                packed.0.set(at + 1, registers[1]);
                block += 1;
            }
            unit += 1;
        }
        Operand::new(packed)
    }

    /// The scales of the rows' groups in that part, of 128 each, of a full tile's depth. A group is a multiple of 128 along K.
    #[inline(always)]
    pub fn scales<const M: usize, const K: usize, const N: usize, L: FragmentLayout<M, N>>(
        &self,
        from: Src<'_, Quantized<F, Z, T, M, K>>,
        part: Part,
    ) -> Rows<f32, M, N, L> {
        part.expect((K / (2 * PAIRS)) as u32);
        let line = Quantized::<F, Z, T, M, K>::scales(4 * part.index());
        // SAFETY: the tile is full, and nobody writes it while it is.
        Rows::from_vector(unsafe { RowVector::<T, M>::at(from.address + line) })
    }
}

/// The registers of the two steps of the 16 rows `part` of the tile in its `block`-th 64 of depth.
///
/// # Safety
/// A full tile lies at `tile`.
#[inline(always)]
unsafe fn integer_block<F: Integers, Z: Zeros, T: Half, const M: usize, const K: usize>(
    tile: u32,
    part: u32,
    block: u32,
    lane: u32,
) -> [[u32; 4]; 2] {
    let blocks = Quantized::<F, Z, T, M, K>::BLOCKS[1];
    let codes = tile + (part / 4 * blocks + block) * F::PACKED.block_bytes();
    let zeros = Quantized::<F, Z, T, M, K>::ZEROS - Quantized::<F, Z, T, M, K>::scales(0);
    let zeros = tile + Quantized::<F, Z, T, M, K>::scales(2 * block) + zeros + (part * 16 + lane / 4) * 2;
    // SAFETY: the caller's; all of it lies inside the tile.
    unsafe {
        let words = words::<F>(codes, part % 4 * 32 + lane);
        let zero =
            if Z::STORED { [Some(zero::<F, T>(zeros)), Some(zero::<F, T>(zeros + 16))] } else { [None; 2] };
        let mut registers = [[0; 4]; 2];
        let mut i = 0;
        while i < 8 {
            registers[i / 4][i % 4] = F::register(&words, i as u32, zero[i % 2]);
            i += 1;
        }
        registers
    }
}

/// A zero, less the format's least value, in each byte.
///
/// # Safety
/// The address is readable.
#[inline(always)]
unsafe fn zero<F: Integers, T: Half>(at: u32) -> u32 {
    // SAFETY: the caller's.
    let zero = T::from_bits(unsafe { shared::load_u16(at) } as u32).to_f32();
    (zero as i32 - F::LEAST) as u32 * 0x0101_0101
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::packed::{Order, Packed};

    /// Every code of a format in every register, with every zero: what the packed form says is what is decoded.
    fn decodes<F: Integers>(zeros: impl Iterator<Item = i32> + Clone) {
        let layout = Packed::new(Order::B8, F::BITS).unwrap();
        for shift in 0..1 << F::BITS {
            let code = |i: u32| (i * 7 + shift) % (1 << F::BITS);
            let mut words = [0; 8];
            for i in 0..32 {
                let bit = layout.bit(i);
                words[bit as usize / 32] |= code(i) << (bit % 32);
            }
            for zero in [None].into_iter().chain(zeros.clone().map(Some)) {
                let packed = zero.map(|zero| (zero - F::LEAST) as u32 * 0x0101_0101);
                for register in 0..8 {
                    let bytes = F::register(&words, register, packed).to_le_bytes();
                    for (e, byte) in bytes.into_iter().enumerate() {
                        let value = code(register * 4 + e as u32) as i32 + F::LEAST - zero.unwrap_or(0);
                        assert_eq!(i32::from(byte as i8), value, "{} register {register}", F::NAME);
                    }
                }
            }
        }
    }

    #[test]
    fn registers_are_the_codes_values_less_their_zeros() {
        decodes::<U4>(0..16);
        decodes::<I4>(-8..8);
        decodes::<U2>(0..4);
        decodes::<I2>(-2..2);
        decodes::<I8>(0..0);
    }
}
