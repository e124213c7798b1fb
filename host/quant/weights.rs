//! Weights as codes, scales and zeros in natural order.

use tilewright_device::quantize::Line;

use super::{Format, Group, Halves, Scheme, Zeros};
use crate::Result;

/// The zeros of quantised weights \[N, groups\].
#[derive(Clone, Debug, PartialEq)]
pub enum ZeroPoints {
    /// See [`Zeros::None`].
    None,
    /// See [`Zeros::Original`].
    Original(Halves),
    /// See [`Zeros::Rescaled`].
    Rescaled(Halves),
    /// See [`Zeros::Packed`]: each an integer in the format's range.
    Packed(Vec<i16>),
}

impl ZeroPoints {
    /// How they shift the weights.
    pub const fn mode(&self) -> Zeros {
        match self {
            ZeroPoints::None => Zeros::None,
            ZeroPoints::Original(_) => Zeros::Original,
            ZeroPoints::Rescaled(_) => Zeros::Rescaled,
            ZeroPoints::Packed(_) => Zeros::Packed,
        }
    }
}

/// Narrow weights W \[N, K\] in natural order: a code for each weight, a scale and possibly a zero for each group of a row.
///
/// Made by [`quantize`](Self::quantize), from checkpoints by [`from_gptq`](Self::from_gptq) and
/// [`from_awq`](Self::from_awq), or of one's own codes by [`new`](Self::new); [`pack`](Self::pack) makes of them what kernels
/// read. Every error names the tensor, the format and the group.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedWeights {
    name: String,
    scheme: Scheme,
    n: usize,
    k: usize,
    codes: Vec<u8>,
    scales: Halves,
    zeros: ZeroPoints,
}

impl QuantizedWeights {
    /// Weights of given codes.
    ///
    /// - `name`: the tensor's name, for errors and files.
    /// - `shape`: \[N, K\], the output and the input features of a linear layer.
    /// - `codes` \[N, K\], row-major, each below [`Format::codes`].
    /// - `scales` \[N, groups\], row-major, finite; there are [`Group::count`]`(K)` groups.
    /// - `zeros` \[N, groups\], row-major, of the scales' type or integers in the format's range.
    ///
    /// Every weight, and with zeros in front of the scale every value less its zero, is a number of the scales' type: kernels
    /// round to it.
    pub fn new(
        name: impl Into<String>,
        format: Format,
        group: Group,
        shape: [usize; 2],
        codes: Vec<u8>,
        scales: Halves,
        zeros: ZeroPoints,
    ) -> Result<Self> {
        let ([n, k], name) = (shape, name.into());
        let scheme = Scheme { format, group, zeros: zeros.mode(), scales: scales.kind() };
        let weights = QuantizedWeights { name, scheme, n, k, codes, scales, zeros };
        weights.check()?;
        Ok(weights)
    }

    fn check(&self) -> Result<()> {
        let Self { name, scheme, n, k, .. } = self;
        let format = scheme.format;
        scheme.check(name)?;
        let (values, _) = scheme.count(name, *n, *k)?;
        self.expect("codes", self.codes.len(), values, "weight")?;
        if let Some(i) = self.codes.iter().position(|&code| usize::from(code) >= format.codes()) {
            let was = format!("{} at [{}, {}]", self.codes[i], i / k, i % k);
            return Err(scheme.error(name, "codes", was, format!("below {}", format.codes())));
        }
        self.check_halves("scales", &self.scales)?;
        self.check_zeros()?;
        self.check_range()
    }

    /// There are as many of `argument` as expected, one for `each`.
    fn expect(&self, argument: &'static str, found: usize, expected: usize, each: &str) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let allowed = format!("{expected} values: one for each {each} of [{}, {}]", self.n, self.k);
        Err(self.scheme.error(&self.name, argument, format!("{found} values"), allowed))
    }

    /// There is one for each group.
    fn expect_groups(&self, argument: &'static str, found: usize) -> Result<()> {
        self.expect(argument, found, self.n * self.groups(), &format!("group ({})", self.scheme.group))
    }

    /// The place of a group, as messages say it.
    fn at(&self, i: usize) -> String {
        format!("[{}, {}]", i / self.groups(), i % self.groups())
    }

    fn check_halves(&self, argument: &'static str, halves: &Halves) -> Result<()> {
        self.expect_groups(argument, halves.len())?;
        match halves.not_finite() {
            None => Ok(()),
            Some(i) => {
                let was = format!("{} at {}", halves.get(i), self.at(i));
                Err(self.scheme.error(&self.name, argument, was, "finite"))
            }
        }
    }

    fn check_zeros(&self) -> Result<()> {
        let Self { name, scheme, .. } = self;
        match &self.zeros {
            ZeroPoints::None => Ok(()),
            ZeroPoints::Original(zeros) | ZeroPoints::Rescaled(zeros) => {
                if zeros.kind() != scheme.scales {
                    let was = zeros.kind().dtype().name();
                    let allowed = format!("{}, as the scales are", scheme.scales.dtype());
                    return Err(scheme.error(name, "zeros", was, allowed));
                }
                self.check_halves("zeros", zeros)
            }
            ZeroPoints::Packed(zeros) => {
                self.expect_groups("zeros", zeros.len())?;
                let (lowest, highest) = scheme.format.range();
                let outside = |zero: &i16| f32::from(*zero) < lowest || f32::from(*zero) > highest;
                match zeros.iter().position(outside) {
                    None => Ok(()),
                    Some(i) => {
                        let was = format!("{} at {}", zeros[i], self.at(i));
                        Err(scheme.error(name, "zeros", was, format!("from {lowest} to {highest}")))
                    }
                }
            }
        }
    }

    /// Weights are numbers of the scales' type.
    fn check_range(&self) -> Result<()> {
        let Self { name, scheme, k, .. } = self;
        let (groups, len) = (self.groups(), scheme.group.len(*k));
        for (i, codes) in self.codes.chunks(*k).flat_map(|row| row.chunks(len)).enumerate() {
            let line = self.line(i);
            if scheme.holds_all(line) {
                continue;
            }
            let (row, first) = (i / groups, i % groups * len);
            for (j, &code) in codes.iter().enumerate() {
                scheme.expect_number(name, code, line, || format!("[{row}, {}]", first + j))?;
            }
        }
        Ok(())
    }

    /// The scale and the zero of a group.
    fn line(&self, i: usize) -> Line {
        let zero = match &self.zeros {
            ZeroPoints::None => 0.0,
            ZeroPoints::Original(zeros) | ZeroPoints::Rescaled(zeros) => zeros.get(i).into(),
            ZeroPoints::Packed(zeros) => zeros[i].into(),
        };
        Line { scale: self.scales.get(i).into(), zero }
    }

    /// The tensor's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// How the weights are represented.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }
    /// Rows N and columns K.
    pub const fn shape(&self) -> [usize; 2] {
        [self.n, self.k]
    }
    /// Groups of a row.
    pub const fn groups(&self) -> usize {
        self.scheme.group.count(self.k)
    }
    /// The codes \[N, K\], row-major.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }
    /// The scales \[N, groups\], row-major.
    pub const fn scales(&self) -> &Halves {
        &self.scales
    }
    /// The zeros \[N, groups\], row-major.
    pub const fn zeros(&self) -> &ZeroPoints {
        &self.zeros
    }

    /// The weights that the codes stand for \[N, K\], row-major: (q - z) s or q s - z in f64.
    pub fn dequantize(&self) -> Vec<f64> {
        (0..self.n).flat_map(|row| self.dequantize_row(row)).collect()
    }

    /// Row `row` of [`dequantize`](Self::dequantize); panics from N on.
    pub fn dequantize_row(&self, row: usize) -> Vec<f64> {
        let (groups, len) = (self.groups(), self.scheme.group.len(self.k));
        let values: Vec<f64> =
            (0..self.scheme.format.codes()).map(|code| self.scheme.format.value(code as u8).into()).collect();
        let codes = self.codes[row * self.k..(row + 1) * self.k].chunks(len).enumerate();
        codes
            .flat_map(|(group, codes)| {
                let Line { scale, zero } = self.line(row * groups + group);
                let (before, after) = match self.scheme.zeros {
                    Zeros::Rescaled => (0.0, zero),
                    _ => (zero, 0.0),
                };
                let values = &values;
                codes.iter().map(move |&code| (values[usize::from(code)] - before) * scale - after)
            })
            .collect()
    }
}
