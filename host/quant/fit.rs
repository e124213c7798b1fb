//! The scale and the zero of one group.

use super::format::round_even;
use super::{Format, Scheme, Zeros};

/// A scale and a zero, rounded to their types: what takes values to weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) scale: f64,
    /// 0 without zeros.
    pub(super) zero: f64,
}

/// Chooses scales and zeros.
pub(super) struct Fitter {
    scheme: Scheme,
    /// The format's lowest and highest value.
    range: (f64, f64),
}

/// Parts of a group's range that are tried, in tenths: narrow formats lose less by clipping than by wide steps.
const NARROWED: std::ops::RangeInclusive<u32> = 2..=9;
/// Least-squares steps: mostly one or two make a difference.
const STEPS: usize = 8;

impl Fitter {
    pub(super) fn new(scheme: Scheme) -> Self {
        let (lowest, highest) = scheme.format.range();
        Fitter { scheme, range: (lowest.into(), highest.into()) }
    }

    /// The code whose weight is nearest to `x`.
    pub(super) fn code(&self, line: Line, x: f64) -> u8 {
        let Line { scale, zero } = line;
        if scale == 0.0 {
            return self.scheme.format.nearest(0.0);
        }
        self.scheme.format.nearest(match self.scheme.zeros {
            Zeros::None => x / scale,
            Zeros::Original | Zeros::Packed => x / scale + zero,
            Zeros::Rescaled => (x + zero) / scale,
        })
    }

    /// Calls with the nearest value of an integer format for each weight, and that weight; gives the sum of squared errors. Lines
    /// are rated by this many times over, so it makes no codes and does not divide.
    fn rounded(&self, line: Line, group: &[f64], mut each: impl FnMut(f64, f64)) -> f64 {
        let Line { scale, zero } = line;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let (shift, offset) = match self.scheme.zeros {
            Zeros::Rescaled => (zero * inverse, zero),
            _ => (zero, zero * scale),
        };
        let (lowest, highest) = self.range;
        let step = if self.scheme.format == Format::I1 { 2.0 } else { 1.0 };
        let squares = group.iter().map(|&x| {
            let steps = ((x * inverse + shift).clamp(lowest, highest) - lowest) * (1.0 / step);
            let q = round_even(steps) * step + lowest;
            each(q, x);
            (q * scale - offset - x).powi(2)
        });
        squares.sum()
    }

    fn error(&self, line: Line, group: &[f64]) -> f64 {
        self.rounded(line, group, |_, _| {})
    }

    /// The line that takes the value q to the weight q `slope` + `offset`, as nearly as its types can; `None` where they cannot.
    fn line(&self, slope: f64, offset: f64) -> Option<Line> {
        let Scheme { zeros, scales, .. } = self.scheme;
        let scale = scales.round(slope);
        let zero = match zeros {
            Zeros::None => 0.0,
            Zeros::Rescaled => scales.round(-offset),
            _ if scale == 0.0 => 0.0,
            Zeros::Original => scales.round(-offset / scale),
            Zeros::Packed => (-offset / scale).round_ties_even().clamp(self.range.0, self.range.1),
        };
        (scale.is_finite() && zero.is_finite()).then_some(Line { scale, zero })
    }

    /// The line that takes the format's range to that from `low` to `high`, or to one around 0 without zeros.
    fn over(&self, low: f64, high: f64) -> Option<Line> {
        let (lowest, highest) = self.range;
        if self.scheme.zeros == Zeros::None {
            let negative = if lowest < 0.0 { low / lowest } else { 0.0 };
            return self.line(self.at_least(negative.max(high / highest).max(0.0)), 0.0);
        }
        let slope = self.at_least((high - low) / (highest - lowest));
        let slope = match self.scheme.zeros {
            // Values less the zero are weights over the scale: numbers of its type too, with some room for rounding.
            Zeros::Original => slope.max(low.abs().max(high.abs()) / (0.9 * self.scheme.scales.max())),
            _ => slope,
        };
        // Middle to middle: where the slope is larger than it must be, floating-point values are finest around 0.
        self.line(slope, (low + high) / 2.0 - slope * ((lowest + highest) / 2.0))
    }

    /// The scale of a floating-point format has all its digits: there is room for that in the exponents of the codes.
    fn at_least(&self, scale: f64) -> f64 {
        let wide = matches!(self.scheme.format, Format::E4M3 | Format::E5M2);
        if wide && scale > 0.0 { scale.max(self.scheme.scales.min_normal()) } else { scale }
    }

    /// Scale and zero of a group of finite weights; `None` if its range is beyond that of their types, or weights are.
    pub(super) fn fit(&self, group: &[f64]) -> Option<Line> {
        let low = group.iter().copied().fold(f64::INFINITY, f64::min);
        let high = group.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A range with 0 in it needs no zero that is larger than the format's range.
        let (wide_low, wide_high) = (low.min(0.0), high.max(0.0));
        let whole = self.over(wide_low, wide_high)?;
        // Weights between the two are between theirs.
        let holds =
            |line: &Line| [low, high].into_iter().all(|x| self.scheme.holds(self.code(*line, x), *line));
        let tight = match self.scheme.zeros {
            Zeros::Original | Zeros::Rescaled if low < high => self.over(low, high),
            _ => None,
        };
        if !self.scheme.format.is_integer() {
            // Nearly equal weights may be too near for a scale: the wide range has one.
            return tight.filter(|line| line.scale > 0.0 && holds(line)).or(Some(whole).filter(holds));
        }
        let narrowed = NARROWED.filter_map(|tenths| {
            let part = f64::from(tenths) / 10.0;
            match self.scheme.zeros {
                Zeros::Original | Zeros::Rescaled => {
                    let (middle, half) = ((low + high) / 2.0, (high - low) / 2.0 * part);
                    self.over(middle - half, middle + half)
                }
                Zeros::None | Zeros::Packed => self.over(wide_low * part, wide_high * part),
            }
        });
        // Below the range of its type's full precision a scale may be rounded down far enough to clip.
        let up = Line { scale: self.scheme.scales.next_up(whole.scale), ..whole };
        let up = up.scale.is_finite().then_some(up);
        let mut unclipped = [Some(whole), tight, up].into_iter().flatten().filter(holds).peekable();
        // Where only a part of the range has a scale there is none.
        unclipped.peek()?;
        let rated = unclipped.chain(narrowed.filter(holds)).map(|line| (self.error(line, group), line));
        let (mut error, mut best) = rated.min_by(|a, b| a.0.total_cmp(&b.0))?;
        for _ in 0..STEPS {
            let Some(next) = self.refined(best, group).filter(holds) else { break };
            let next_error = self.error(next, group);
            if next_error >= error {
                break;
            }
            (error, best) = (next_error, next);
        }
        Some(best)
    }

    /// The line of least squared error for the codes that `line` gives.
    fn refined(&self, line: Line, group: &[f64]) -> Option<Line> {
        let shift = if self.scheme.zeros == Zeros::Packed { line.zero } else { 0.0 };
        let (mut squares, mut products, mut q_sum, mut x_sum) = (0.0, 0.0, 0.0, 0.0);
        self.rounded(line, group, |q, x| {
            let q = q - shift;
            squares += q * q;
            products += q * x;
            q_sum += q;
            x_sum += x;
        });
        match self.scheme.zeros {
            Zeros::None => (squares > 0.0).then(|| self.line(products / squares, 0.0))?,
            Zeros::Packed => {
                (squares > 0.0).then(|| self.line(products / squares, -shift * products / squares))?
            }
            Zeros::Original | Zeros::Rescaled => {
                let count = group.len() as f64;
                let variance = squares - q_sum * q_sum / count;
                let slope = (products - q_sum * x_sum / count) / variance;
                (variance > 0.0).then(|| self.line(slope, (x_sum - slope * q_sum) / count))?
            }
        }
    }
}
