//! The scale and the zero of one group.

use super::codes::{Codes, Kind, limited, product, round_even};
use super::half_type::HalfKind;

/// How a group's zero z and scale s make a weight w of the value q of its code.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// w = q s.
    None,
    /// w = (q - z) s, z of the scales' type.
    Original,
    /// w = q s - z, z of the scales' type.
    Rescaled,
    /// w = (q - z) s, z an integer in the format's range.
    Packed,
}

/// How weights are represented.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The codes.
    pub codes: Codes,
    /// How zeros shift the weights.
    pub shift: Shift,
    /// The type of scales and zeros.
    pub scales: HalfKind,
}

impl crate::abi::PassedAsIs for Rules {}

/// A scale and a zero, rounded to their types: what takes values to weights.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The scale.
    pub scale: f64,
    /// The zero; 0 without zeros.
    pub zero: f64,
}

/// The weights of a group.
pub trait Group {
    /// How many.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Calls with each of them, in order.
    fn each(&self, f: impl FnMut(f64));
}

impl Group for [f64] {
    fn len(&self) -> usize {
        <[f64]>::len(self)
    }
    fn each(&self, f: impl FnMut(f64)) {
        self.iter().copied().for_each(f);
    }
}

impl Rules {
    /// What kernels make of a value: rounded after each step, infinite or NaN beyond the range of the scales' type.
    #[inline]
    pub fn weight(&self, value: f64, Line { scale, zero }: Line) -> f64 {
        let round = |x| self.scales.round(x);
        match self.shift {
            Shift::None => round(value * scale),
            Shift::Rescaled => round(product(value, scale) - zero),
            Shift::Original | Shift::Packed => round(round(value - zero) * scale),
        }
    }

    /// The code whose weight is nearest to `x`.
    #[inline]
    pub fn code(&self, line: Line, x: f64) -> u32 {
        let Line { scale, zero } = line;
        if scale == 0.0 {
            return self.codes.nearest(0.0);
        }
        self.codes.nearest(match self.shift {
            Shift::None => x / scale,
            Shift::Original | Shift::Packed => x / scale + zero,
            Shift::Rescaled => (x + zero) / scale,
        })
    }
}

/// Chooses scales and zeros.
#[derive(Clone, Copy, Debug)]
pub struct Fitter {
    rules: Rules,
    /// The format's lowest and highest value.
    range: (f64, f64),
}

/// Parts of a group's range that are tried, in tenths: narrow formats lose less by clipping than by wide steps.
const NARROWED: core::ops::RangeInclusive<u32> = 2..=9;
/// Lines that are not narrower than a group's range: that with 0 in it, the range alone, and that with 0 by the next larger scale.
const UNCLIPPED: u32 = 3;
/// Values less the zero are at most this, as f16 has it, or twice a format's range, though bf16 has far larger ones: kernels add up their
/// products with activations before they scale the sum. Nothing is lost by it, for a larger zero is coarser than its group's range.
const LARGEST_VALUE: f64 = 65504.0;
/// Least-squares steps: mostly one or two make a difference.
const STEPS: usize = 8;

/// The extremes of a group, and what line has both and 0.
#[derive(Clone, Copy)]
struct Extremes {
    low: f64,
    high: f64,
    whole: Line,
}

impl Fitter {
    /// Of weights that are represented so.
    pub fn new(rules: Rules) -> Self {
        Fitter { rules, range: rules.codes.range() }
    }

    /// Calls with the nearest value of an integer format for each weight, and that weight; gives the sum of squared errors. Lines
    /// are rated by this many times over, so it makes no codes and does not divide.
    #[inline]
    fn rounded<G: Group + ?Sized>(&self, line: Line, group: &G, mut each: impl FnMut(f64, f64)) -> f64 {
        let Line { scale, zero } = line;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let (shift, offset) = match self.rules.shift {
            Shift::Rescaled => (product(zero, inverse), zero),
            _ => (zero, product(zero, scale)),
        };
        let (lowest, highest) = self.range;
        let step = self.rules.codes.step();
        let mut squares = 0.0;
        group.each(|x| {
            let steps = (limited(product(x, inverse) + shift, lowest, highest) - lowest) * (1.0 / step);
            let q = round_even(steps) * step + lowest;
            each(q, x);
            let off = product(q, scale) - offset - x;
            squares += product(off, off);
        });
        squares
    }

    /// The line that takes the value q to the weight q `slope` + `offset`, as nearly as its types can; `None` where they cannot.
    #[inline]
    fn line(&self, slope: f64, offset: f64) -> Option<Line> {
        let Rules { shift, scales, .. } = self.rules;
        let scale = scales.round(slope);
        let zero = match shift {
            Shift::None => 0.0,
            Shift::Rescaled => scales.round(-offset),
            _ if scale == 0.0 => 0.0,
            Shift::Original => scales.round(-offset / scale),
            Shift::Packed => limited(round_even(-offset / scale), self.range.0, self.range.1),
        };
        (scale.is_finite() && zero.is_finite()).then_some(Line { scale, zero })
    }

    /// The line that takes the format's range to that from `low` to `high`, or to one around 0 without zeros.
    #[inline]
    fn over(&self, low: f64, high: f64) -> Option<Line> {
        let (lowest, highest) = self.range;
        if self.rules.shift == Shift::None {
            let negative = if lowest < 0.0 { low / lowest } else { 0.0 };
            return self.line(self.at_least(negative.max(high / highest).max(0.0)), 0.0);
        }
        let slope = self.at_least((high - low) / (highest - lowest));
        let slope = match self.rules.shift {
            // Values less the zero are weights over the scale: numbers of its type too, with some room for rounding.
            Shift::Original => {
                let largest = self.rules.scales.max().min(LARGEST_VALUE.max(product(2.0, highest - lowest)));
                slope.max(low.abs().max(high.abs()) / (0.9 * largest))
            }
            _ => slope,
        };
        // Middle to middle: where the slope is larger than it must be, floating-point values are finest around 0.
        self.line(slope, (low + high) / 2.0 - product(slope, (lowest + highest) / 2.0))
    }

    /// The scale of a floating-point format of 8 bits has all its digits: there is room for that in the exponents of the codes.
    #[inline]
    fn at_least(&self, scale: f64) -> f64 {
        let wide = self.rules.codes.kind() == Kind::Float && self.rules.codes.bits() == 8;
        if wide && scale > 0.0 { scale.max(self.rules.scales.min_normal()) } else { scale }
    }

    /// Whether both extremes become numbers; weights between the two are between theirs.
    #[inline]
    fn holds(&self, line: Line, Extremes { low, high, .. }: Extremes) -> bool {
        let Rules { codes, .. } = self.rules;
        let number = |x: f64| self.rules.weight(codes.value(self.rules.code(line, x)), line).is_finite();
        number(low) && number(high)
    }

    /// A line that is tried: one of those that clip nothing, then narrowed ones.
    #[inline]
    fn tried(&self, number: u32, Extremes { low, high, whole }: Extremes) -> Option<Line> {
        let loose = matches!(self.rules.shift, Shift::Original | Shift::Rescaled);
        match number {
            0 => Some(whole),
            1 => {
                if loose && low < high {
                    self.over(low, high)
                } else {
                    None
                }
            }
            2 => {
                // Below the range of its type's full precision a scale may be rounded down far enough to clip.
                let up = Line { scale: self.rules.scales.next_up(whole.scale), ..whole };
                up.scale.is_finite().then_some(up)
            }
            _ => {
                let part = (number - UNCLIPPED + *NARROWED.start()) as f64 / 10.0;
                if loose {
                    let (middle, half) = ((low + high) / 2.0, product((high - low) / 2.0, part));
                    self.over(middle - half, middle + half)
                } else {
                    self.over(product(low.min(0.0), part), product(high.max(0.0), part))
                }
            }
        }
    }

    /// Scale and zero of a group of finite weights; `None` if its range is beyond that of their types, or weights are.
    pub fn fit<G: Group + ?Sized>(&self, group: &G) -> Option<Line> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        group.each(|x| (low, high) = (low.min(x), high.max(x)));
        // A range with 0 in it needs no zero that is larger than the format's range.
        let whole = self.over(low.min(0.0), high.max(0.0))?;
        let extremes = Extremes { low, high, whole };
        if !self.rules.codes.are_integers() {
            // Nearly equal weights may be too near for a scale: the wide range has one.
            let tight =
                self.tried(1, extremes).filter(|line| line.scale > 0.0 && self.holds(*line, extremes));
            return tight.or(Some(whole).filter(|line| self.holds(*line, extremes)));
        }
        let (mut error, mut best) = (f64::INFINITY, None);
        for number in 0..UNCLIPPED + *NARROWED.end() - *NARROWED.start() + 1 {
            // Where only a part of the range has a scale there is none.
            if number == UNCLIPPED && best.is_none() {
                return None;
            }
            let Some(line) = self.tried(number, extremes).filter(|line| self.holds(*line, extremes)) else {
                continue;
            };
            let its = self.rounded(line, group, |_, _| {});
            if best.is_none() || its < error {
                (error, best) = (its, Some(line));
            }
        }
        let mut best = best?;
        for _ in 0..STEPS {
            let next = self.refined(best, group).filter(|line| self.holds(*line, extremes));
            let Some(next) = next else { break };
            let next_error = self.rounded(next, group, |_, _| {});
            if next_error >= error {
                break;
            }
            (error, best) = (next_error, next);
        }
        Some(best)
    }

    /// The line of least squared error for the codes that `line` gives.
    fn refined<G: Group + ?Sized>(&self, line: Line, group: &G) -> Option<Line> {
        let shift = if self.rules.shift == Shift::Packed { line.zero } else { 0.0 };
        let (mut squares, mut products, mut q_sum, mut x_sum) = (0.0, 0.0, 0.0, 0.0);
        self.rounded(line, group, |q, x| {
            let q = q - shift;
            squares += product(q, q);
            products += product(q, x);
            q_sum += q;
            x_sum += x;
        });
        match self.rules.shift {
            Shift::None if squares > 0.0 => self.line(products / squares, 0.0),
            Shift::Packed if squares > 0.0 => {
                self.line(products / squares, product(-shift, products) / squares)
            }
            Shift::None | Shift::Packed => None,
            Shift::Original | Shift::Rescaled => {
                let count = group.len() as f64;
                let variance = squares - product(q_sum, q_sum) / count;
                let slope = (products - product(q_sum, x_sum) / count) / variance;
                if variance > 0.0 { self.line(slope, (x_sum - product(slope, q_sum)) / count) } else { None }
            }
        }
    }
}
