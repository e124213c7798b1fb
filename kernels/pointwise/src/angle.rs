//! Angles of rotary embeddings, in turns as fixed-point fractions: whole turns vanish by themselves, however large the position.

use tilewright_device::abi::PassedAsIs;

/// One over 2 pi, of 2^64.
const RADIAN: u64 = 0x28be_60db_9391_054a;
/// What follows: more of its bits.
const BEHIND: [u64; 2] = [0x7f09_d5f4_7d4d_3770, 0x36d8_a566_4f10_e410];

/// The frequencies theta^(-2 i / columns) of pairs i.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequencies {
    /// theta^(-2 / columns), of 2^64.
    ratio: u64,
    /// Its power of so many pairs as a thread has, of 2^64.
    by_piece: u64,
}

impl Frequencies {
    /// Of theta^(-2 / columns), which is below 1, for pieces of so many pairs.
    pub const fn new(ratio: f64, piece: u32) -> Self {
        // Times 2^64; the largest f64 below 1 stays below 2^64.
        let ratio = (ratio * 18_446_744_073_709_551_616.0) as u64;
        let (mut by_piece, mut pair) = (ratio, 1);
        while pair < piece {
            by_piece = times(by_piece, ratio);
            pair += 1;
        }
        Frequencies { ratio, by_piece }
    }
    /// The angle of the first pair of a piece at position 1: turns of 2^64.
    #[inline(always)]
    pub(crate) fn of(self, piece: u32) -> u64 {
        let (mut turns, mut square, mut left) = (RADIAN, self.by_piece, piece);
        while left > 0 {
            if left & 1 == 1 {
                turns = times(turns, square);
            }
            square = times(square, square);
            left >>= 1;
        }
        turns
    }
    /// The next pair's.
    #[inline(always)]
    pub(crate) fn next(self, turns: u64) -> u64 {
        times(turns, self.ratio)
    }
}

impl PassedAsIs for Frequencies {}

/// The product of fractions of 2^64.
#[inline(always)]
const fn times(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> 64) as u64
}

/// Cosine and sine of so much of a turn at one position, at `position`: to within 2e-7.
#[inline(always)]
pub(crate) fn cos_sin(turns: u64, position: i32) -> [f32; 2] {
    cos_sin_of((turns.wrapping_mul(position as i64 as u64) >> 32) as u32)
}

/// Cosine and sine of an angle: to within 2e-7, and of a small angle the sine relative to it. Of what is not finite, NaN.
#[inline(always)]
pub(crate) fn cos_sin_of_angle(x: f32) -> [f32; 2] {
    let (bits, size) = (x.to_bits(), f32::from_bits(x.to_bits() & 0x7fff_ffff));
    let mantissa = (bits & 0x7f_ffff | 0x80_0000) as u64;
    // The angle is its mantissa times a power of two: that of 1 / 2π wraps around at whole turns (Payne & Hanek 1983).
    let power = (bits >> 23 & 0xff) as i32 - 150;
    let turns = if power <= 0 {
        RADIAN >> if power < -63 { 63 } else { -power }
    } else {
        let [high, low] = if power < 64 { [RADIAN, BEHIND[0]] } else { BEHIND };
        high << (power & 63) | low >> 1 >> (63 - (power & 63))
    };
    let [cos, sin] = cos_sin_of((turns.wrapping_mul(mantissa) >> 32) as u32);
    if size < 0.5 {
        [cos, x + x * x * x * sine_series(x * x)]
    } else if size < f32::INFINITY {
        [cos, if x < 0.0 { -sin } else { sin }]
    } else {
        [f32::NAN; 2]
    }
}

/// (sin x - x) / x^3 of a square.
#[inline(always)]
fn sine_series(square: f32) -> f32 {
    -0.166_666_55 + square * (8.332_161e-3 - square * 1.951_529_6e-4)
}

/// Cosine and sine of a turn's fraction of 2^32.
///
/// The polynomials are those of Cephes' `sinf` and `cosf` (Moshier 1989), on an eighth of a turn to either side.
#[inline(always)]
fn cos_sin_of(turn: u32) -> [f32; 2] {
    let quarter = turn.wrapping_add(1 << 29) >> 30;
    let x = turn.wrapping_sub(quarter << 30) as i32 as f32 * (core::f32::consts::TAU / 4_294_967_296.0);
    let square = x * x;
    let sine = x + x * square * sine_series(square);
    let cosine = 1.0 - 0.5 * square
        + square * square * (4.166_664_6e-2 + square * (-1.388_731_6e-3 + square * 2.443_315_7e-5));
    let [cos, sin] = if quarter & 1 == 0 { [cosine, sine] } else { [sine, cosine] };
    [if quarter.wrapping_add(1) & 2 == 0 { cos } else { -cos }, if quarter & 2 == 0 { sin } else { -sin }]
}
