//! What buffers hold at first.

use std::collections::TryReserveError;
use std::f64::consts::TAU;

use crate::element::{Element, Number};

/// How the elements of a buffer are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Nobody wrote them.
    Empty,
    /// All are this.
    Constant(Number),
    /// Normal, of mean 0 and variance 1; of integer types, each value is as likely as every other.
    Normal {
        /// The same numbers for the same seed.
        seed: u64,
    },
    /// Each value from `low` up to `high` is as likely as every other; `high` is among them for integer types alone.
    Uniform {
        /// The least.
        low: Number,
        /// The largest.
        high: Number,
        /// The same numbers for the same seed.
        seed: u64,
    },
    /// `start`, `start + step`, `start + 2 step`, …
    Range {
        /// The first.
        start: Number,
        /// From each to the next.
        step: Number,
    },
}

/// The bytes of so many elements; `None` where nobody writes them. Numbers that integer types do not have wrap.
///
/// An error if the host has no room for them.
pub fn fill(how: Fill, element: Element, count: usize) -> Result<Option<Vec<u8>>, TryReserveError> {
    let mut bytes = Vec::new();
    if how == Fill::Empty {
        return Ok(None);
    }
    bytes.try_reserve_exact(count.saturating_mul(element.bytes()))?;
    match how {
        Fill::Empty => {}
        Fill::Constant(number) => {
            let one = encode(element, number);
            (0..count).for_each(|_| bytes.extend_from_slice(&one));
        }
        Fill::Normal { seed } => {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..count {
                match element.is_float() {
                    true => bytes.extend(encode(element, Number::Float(normal(&mut random)))),
                    false => bytes.extend_from_slice(&random.u64(..).to_le_bytes()[..element.bytes()]),
                }
            }
        }
        Fill::Uniform { low, high, seed } => {
            let mut random = fastrand::Rng::with_seed(seed);
            for _ in 0..count {
                let number = match (low, high) {
                    (Number::Integer(low), Number::Integer(high)) => {
                        Number::Integer(random.i128(low..=high.max(low)))
                    }
                    (low, high) => {
                        let (low, high) = (low.float(), high.float());
                        Number::Float(low + (high - low) * random.f64())
                    }
                };
                bytes.extend(encode(element, number));
            }
        }
        Fill::Range { start, step } => {
            for i in 0..count {
                let number = match (start, step) {
                    (Number::Integer(start), Number::Integer(step)) => {
                        Number::Integer(start.wrapping_add(step.wrapping_mul(i as i128)))
                    }
                    (start, step) => Number::Float(start.float() + step.float() * i as f64),
                };
                bytes.extend(encode(element, number));
            }
        }
    }
    Ok(Some(bytes))
}

/// The bytes of a number; those of an integer that the type does not have are its lowest ones.
fn encode(element: Element, number: Number) -> Vec<u8> {
    element.encode(number).unwrap_or_else(|| match number {
        Number::Integer(value) => value.to_le_bytes()[..element.bytes()].to_vec(),
        Number::Float(_) => vec![0; element.bytes()],
    })
}

/// A normal number. Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
fn normal(random: &mut fastrand::Rng) -> f64 {
    // From 0, which has no logarithm, to 1, which has.
    let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
    radius * (TAU * random.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::{Fill, fill};
    use crate::element::{Element, Number};

    fn numbers(how: Fill, element: Element, count: usize) -> Vec<f64> {
        let bytes = fill(how, element, count).unwrap().unwrap();
        bytes.chunks(element.bytes()).map(|bytes| element.decode(bytes).float()).collect()
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let numbers = numbers(Fill::Normal { seed: 7 }, Element::F32, 100_000);
        let mean = |of: &dyn Fn(f64) -> f64| numbers.iter().map(|x| of(*x)).sum::<f64>() / 1e5;
        // Four standard errors of the mean, the variance and the fourth moment.
        assert!(mean(&|x| x).abs() < 0.0127);
        assert!((mean(&|x| x * x) - 1.0).abs() < 0.018);
        assert!((mean(&|x| x.powi(4)) - 3.0).abs() < 0.13);
    }

    #[test]
    fn seeds_choose_and_ranges_step() {
        let seeded = |seed| numbers(Fill::Normal { seed }, Element::I32, 8);
        assert_eq!(seeded(1), seeded(1));
        assert_ne!(seeded(1), seeded(2));
        let whole =
            |low, high| Fill::Uniform { low: Number::Integer(low), high: Number::Integer(high), seed: 1 };
        let dice = numbers(whole(1, 6), Element::U8, 1000);
        assert!(
            (1..=6).all(|x| dice.contains(&f64::from(x))) && dice.iter().all(|x| (1.0..=6.0).contains(x))
        );
        let range = Fill::Range { start: Number::Integer(250), step: Number::Integer(3) };
        assert_eq!(numbers(range, Element::U8, 3), [250.0, 253.0, 0.0]);
        let range = Fill::Range { start: Number::Float(0.5), step: Number::Float(-1.0) };
        assert_eq!(numbers(range, Element::F16, 3), [0.5, -0.5, -1.5]);
        assert_eq!(fill(Fill::Empty, Element::F32, 3), Ok(None));
        assert!(fill(Fill::Constant(Number::Integer(0)), Element::F64, usize::MAX / 2).is_err());
    }
}
