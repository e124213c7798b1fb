//! Tiles of codes of 8 bits, as tiles of 16-bit elements: operands of a gemm.

use crate::arch::shared;
use crate::arch::special::thread_x;
use crate::layout::SharedLayout;
use crate::tile::copy::load::PIECE;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::scratch::Scratch;
use crate::tile::memory::shared::{Shared, Src};
use crate::tile::quantized::bytes::{E4M3, I8};
use crate::tile::quantized::format::{Decode, Half};

/// The highest bit of each byte.
const HIGH: u32 = 0x8080_8080;
/// Registers of 16-bit pairs that a piece becomes.
const PAIRS: usize = PIECE as usize / 2;

/// What codes of 8 bits stand for, known when the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// e4m3 (Micikevicius et al. 2022). A NaN's code decodes to a number, ±480.
    E4M3,
    /// Integers from -128 to 127, in two's complement.
    Int8,
}

/// The values of 16 codes, exact.
#[inline(always)]
fn values<T: Half, F: Decode<T>>(words: [u32; 4]) -> [u32; PAIRS] {
    let [a, b, c, d] = words;
    let words = [a, b, c, d, 0, 0, 0, 0];
    let (mut values, mut i) = ([0; PAIRS], 0);
    while i < PAIRS {
        values[i] = F::register(&words, i as u32);
        i += 1;
    }
    values
}

impl<P: Collective, T: Half, L: SharedLayout, const R: usize, const C: usize> Scratch<P, Shared<T, R, C, L>>
where
    E4M3: Decode<T>,
    I8: Decode<T>,
{
    /// Makes the tile that of the values of a full tile's codes, exact: all have 8 bits and fewer of mantissa than `T`.
    ///
    /// As for a copy to the tile, gemms that read what was there are committed before. `codes` is the same in all threads.
    #[inline(always)]
    pub fn widen<S: SharedLayout>(&mut self, from: &Src<'_, Shared<u8, R, C, S>>, codes: Codes) {
        const {
            assert!(
                C.is_multiple_of(128) && R.is_multiple_of(8),
                "tiles of codes are of whole swizzles of 128 bytes"
            );
        }
        let (base, to) = (from.address, self.address());
        self.replace(|| match codes {
            // SAFETY: the tile of codes is full, and in `replace` the other is this CTA's to write.
            Codes::E4M3 => unsafe { each_piece::<P, S, L, R, C>(base, to, values::<T, E4M3>) },
            // The highest bit is what the least value takes off.
            // SAFETY: as above.
            Codes::Int8 => unsafe {
                each_piece::<P, S, L, R, C>(base, to, |words| values::<T, I8>(words.map(|word| word ^ HIGH)))
            },
        });
    }
}

/// Stores `values` of each piece of a tile of codes to its place in the tile of 16-bit elements.
///
/// # Safety
/// All threads that compute execute it; the tiles of `R` x `C` at `from` and `to` are readable, and writable.
#[inline(always)]
unsafe fn each_piece<P: Collective, S: SharedLayout, L: SharedLayout, const R: usize, const C: usize>(
    from: u32,
    to: u32,
    values: impl Fn([u32; 4]) -> [u32; PAIRS],
) {
    let (lines, line) = (R as u32, C as u32);
    let (across, threads) = (line / PIECE, const { P::CONSUMERS });
    // A thread's pieces lie below each other, whole patterns of the swizzle apart: one address for all.
    const {
        assert!(
            P::CONSUMERS.is_multiple_of(C as u32 / 2),
            "the threads cover whole patterns of the swizzle, of 8 lines"
        );
    }
    let (row, piece) = (thread_x() / across, thread_x() % across);
    // 64 columns of 16 bits are a tile's other half: with lines exchanged in one of them, eight threads meet all banks.
    let row = row ^ (piece / 4 % 2);
    let source = from + S::offset(lines, line, row, piece * PIECE);
    let target = [0, PIECE].map(|byte| to + L::offset(lines, 2 * line, row, 2 * piece * PIECE + byte));
    let mut first = 0;
    while first < lines {
        // Where the threads cover more lines than there are, the last ones have none.
        if threads / across <= lines - first || row < lines - first {
            // SAFETY: the caller's; pieces of 16 bytes of the tiles.
            unsafe {
                let words = values(shared::load_u32x4(source + S::offset(lines, line, first, 0)));
                let [low, high] = target.map(|at| at + L::offset(lines, 2 * line, first, 0));
                shared::store_u32x4(low, [words[0], words[1], words[2], words[3]]);
                shared::store_u32x4(high, [words[4], words[5], words[6], words[7]]);
            }
        }
        first += threads / across;
    }
}
