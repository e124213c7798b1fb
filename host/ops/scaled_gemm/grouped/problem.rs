//! What is asked to be computed, checked.

use super::BlockScaled;
use crate::ops::HalfElement;
use crate::ops::frame::{Named, check, of_shape, units};
use crate::ops::groups::{GroupRows, in_three};
use crate::ops::scaled_gemm::problem::BLOCK;
use crate::tensor::{Places, Untyped};
use crate::{Device, Error, Result, TensorViewMut};

/// Products of groups. A \[matrices, rows, K / 2\], B \[groups, N, K / 2\], in pairs of bytes, C \[matrices, rows, N\].
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) a: Untyped,
    pub(super) b: Untyped,
    pub(super) c: Untyped,
    /// Of A's rows \[matrices, rows, K / 128\] and of B's blocks \[groups, N / 128, K / 128\].
    pub(super) scales: [Untyped; 2],
    /// Where groups begin, or how many rows they have.
    pub(super) numbers: Untyped,
    /// Whether each group has a matrix of A.
    pub(super) apart: bool,
    pub(super) size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) groups: usize,
    /// Of each matrix of A.
    pub(super) rows: usize,
    pub(super) n: usize,
    /// In bytes.
    pub(super) k: usize,
}

impl Problem {
    /// Checks that the tensors fit together.
    pub(super) fn new<U: HalfElement>(
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let wrong = |name, shape: &[usize], allowed: String| Error::argument(name, of_shape(shape), allowed);
        let &[groups, n, k] = b.codes.shape() else {
            return Err(wrong("b", b.codes.shape(), "of shape [groups, N, K]".to_owned()));
        };
        let lines = rows.lines(a.codes.shape(), [groups, k], "as many columns as matrices of `b`")?;
        let with = |columns| lines.iter().copied().chain([columns]).collect::<Vec<_>>();
        let blocks = k.div_ceil(BLOCK);
        let of_b = vec![groups, n.div_ceil(BLOCK), blocks];
        for (name, shape, expected, why) in [
            ("c", c.shape(), with(n), "rows as `a`, a column for each row of `b`"),
            ("scale_a", a.scales.shape(), with(blocks), "one for each 128 of a row of `a`"),
            ("scale_b", b.scales.shape(), of_b, "one for each 128 x 128 of `b`"),
        ] {
            if shape != expected {
                return Err(wrong(name, shape, format!("{}: {why}", of_shape(&expected))));
            }
        }
        let (numbers, device) = (rows.of_groups(groups)?, c.device());
        check(device, named(a, b, rows, c))?;
        Ok(Problem {
            device: device.clone(),
            a: in_three(units("a", &a.codes)?)?,
            b: units("b", &b.codes)?,
            c: in_three(c.untyped())?,
            scales: [in_three(a.scales.untyped())?, b.scales.untyped()],
            numbers,
            apart: rows.are_apart(),
            size: Size { groups, rows: lines[lines.len() - 1], n, k },
        })
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        let Size { groups, rows, n, .. } = self.size;
        [groups, rows, n].contains(&0)
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Problem {
            device: self.device.clone(),
            a: of(&self.a),
            b: of(&self.b),
            c: of(&self.c),
            scales: self.scales.each_ref().map(of),
            numbers: of(&self.numbers),
            ..*self
        }
    }
}

/// The tensors, in the order of a plan's.
pub(super) fn named<'v, U: HalfElement>(
    a: &'v BlockScaled<'_>,
    b: &'v BlockScaled<'_>,
    rows: &'v GroupRows<'_>,
    c: &'v TensorViewMut<'_, U>,
) -> [Named<'v>; 6] {
    [
        Named::read("a", &a.codes),
        Named::read("b", &b.codes),
        Named::read("scale_a", &a.scales),
        Named::read("scale_b", &b.scales),
        rows.named(),
        Named::written("c", c),
    ]
}
