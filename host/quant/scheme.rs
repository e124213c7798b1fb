//! What is stored for each weight, and the errors that name it.

use std::borrow::Cow;

use tilewright_device::quantize::Rules;

use super::{Format, Group, HalfType, Zeros};
use crate::Error;

/// How weights are represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scheme {
    /// The format of the codes.
    pub format: Format,
    /// Weights that share a scale and a zero.
    pub group: Group,
    /// How zeros shift the weights.
    pub zeros: Zeros,
    /// The type of scales and zeros: that of the activations.
    pub scales: HalfType,
}

impl Scheme {
    /// An error about the tensor of this name.
    pub(crate) fn error(
        self,
        tensor: &str,
        argument: &'static str,
        was: impl Into<String>,
        allowed: impl Into<Cow<'static, str>>,
    ) -> Error {
        let (format, group) = (Some(self.format), Some(self.group));
        Error::Weights {
            tensor: tensor.to_owned(),
            format,
            group,
            argument,
            was: was.into(),
            allowed: allowed.into(),
        }
    }

    /// As kernels know it.
    pub(crate) const fn rules(self) -> Rules {
        Rules { codes: self.format.code_table(), shift: self.zeros.shift(), scales: self.scales.kind() }
    }

    /// Zeros that are integers need values that are.
    pub(crate) fn check(self, tensor: &str) -> Result<(), Error> {
        if self.zeros == Zeros::Packed && !self.format.is_integer() {
            return Err(self.error(tensor, "zeros", "packed", "none, original or rescaled for this format"));
        }
        Ok(())
    }

    /// The number of weights, and of groups of a row.
    pub(crate) fn count(self, tensor: &str, n: usize, k: usize) -> Result<(usize, usize), Error> {
        let too_many = || self.error(tensor, "shape", format!("[{n}, {k}]"), "of a size that memory has");
        if n == 0 || k == 0 {
            return Err(self.error(
                tensor,
                "shape",
                format!("[{n}, {k}]"),
                "[N, K] with N and K of at least 1",
            ));
        }
        // Padded, and with two bytes a scale: no size that follows is more.
        let padded = |len: usize| len.checked_next_multiple_of(64);
        let (rows, depth) = (padded(n).ok_or_else(too_many)?, padded(k).ok_or_else(too_many)?);
        let values = rows.checked_mul(depth).filter(|&values| values <= isize::MAX as usize / 2);
        values.ok_or_else(too_many)?;
        Ok((n * k, self.group.count(k)))
    }
}
