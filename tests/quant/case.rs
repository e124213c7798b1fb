//! Weights to test with.

use proptest::prelude::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tilewright::quant::{Format, Group, HalfType, Halves, QuantizedWeights, Scheme, ZeroPoints, Zeros};

/// Every combination that there is.
pub fn schemes() -> Vec<Scheme> {
    let mut all = Vec::new();
    for format in Format::ALL {
        for group in Group::ALL {
            for zeros in Zeros::ALL {
                if zeros == Zeros::Packed && !format.is_integer() {
                    continue;
                }
                for scales in [HalfType::F16, HalfType::BF16] {
                    all.push(Scheme { format, group, zeros, scales });
                }
            }
        }
    }
    all
}

pub fn any_scheme() -> impl Strategy<Value = Scheme> {
    prop::sample::select(schemes())
}

/// Bits that look random, from a seed.
pub struct Noise(pub Xoshiro256PlusPlus);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub fn next(&mut self) -> u32 {
        self.0.random()
    }

    /// From -1 to 1.
    pub fn unit(&mut self) -> f32 {
        self.0.random_range(-1.0..1.0)
    }
}

/// Numbers of any magnitude up to `most`, none of them by arithmetic.
pub fn halves(kind: HalfType, count: usize, most: f32, noise: &mut Noise) -> Halves {
    let mut bits = Vec::new();
    while bits.len() < 2 * count {
        let next = [noise.next() as u8, noise.next() as u8];
        if Halves::from_bytes(kind, &next).get(0).abs() <= most {
            bits.extend(next);
        }
    }
    Halves::from_bytes(kind, &bits)
}

/// The highest scale and zero: of the scales' type, all values of every format make numbers with them.
const MOST: [f32; 2] = [1.0, 4096.0];

/// Any codes, scales and zeros.
pub fn weights(scheme: Scheme, [n, k]: [usize; 2], seed: u64) -> QuantizedWeights {
    let Scheme { format, group, zeros, scales } = scheme;
    let mut noise = Noise::new(seed);
    let count = n * group.count(k);
    let codes = (0..n * k).map(|_| (noise.next() as usize % format.codes()) as u8).collect();
    let scale_values = halves(scales, count, MOST[0], &mut noise);
    let zeros = match zeros {
        Zeros::None => ZeroPoints::None,
        Zeros::Original => ZeroPoints::Original(halves(scales, count, MOST[1], &mut noise)),
        Zeros::Rescaled => ZeroPoints::Rescaled(halves(scales, count, MOST[1], &mut noise)),
        Zeros::Packed => {
            let (lowest, highest) = format.range();
            let span = (highest - lowest) as u32 + 1;
            ZeroPoints::Packed((0..count).map(|_| lowest as i16 + (noise.next() % span) as i16).collect())
        }
    };
    QuantizedWeights::new("layers.0.up_proj", format, group, [n, k], codes, scale_values, zeros).unwrap()
}
