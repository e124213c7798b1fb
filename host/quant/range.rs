//! Whether a scale and a zero make numbers that the scales' type holds.

use tilewright_device::quantize::Line;

use super::{Scheme, Zeros};
use crate::Error;

impl Scheme {
    /// Whether the line makes numbers of all values of the format. Weights lie between those of the extremes.
    pub(super) fn holds_all(self, line: Line) -> bool {
        let (lowest, highest) = self.format.range();
        [lowest, highest].into_iter().all(|value| self.rules().weight(value.into(), line).is_finite())
    }

    /// Whether the line makes a number of a code's value. Codes that are no numbers themselves pass.
    pub(super) fn holds(self, code: u8, line: Line) -> bool {
        let value = f64::from(self.format.value(code));
        !value.is_finite() || self.rules().weight(value, line).is_finite()
    }

    /// Refuses a code that the line does not [hold](Self::holds).
    pub(super) fn expect_number(
        self,
        tensor: &str,
        code: u8,
        line: Line,
        at: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if self.holds(code, line) {
            return Ok(());
        }
        let value = self.format.value(code);
        let Line { scale, zero } = line;
        let of = match self.zeros {
            Zeros::None => format!("{value} times the scale {scale}"),
            Zeros::Rescaled => format!("{value} times the scale {scale} less the zero {zero}"),
            Zeros::Original | Zeros::Packed => {
                format!("{value} less the zero {zero} times the scale {scale}")
            }
        };
        let allowed = format!("in the range of {}, the type of the scales", self.scales.dtype());
        Err(self.error(tensor, "weights", format!("{of} at {}", at()), allowed))
    }
}
