//! What is asked to be computed, checked.

use super::BlockScaled;
use crate::ops::HalfElement;
use crate::ops::frame::{Named, check, of_shape, units};
use crate::ops::groups::{GroupRows, Sides, in_three};
use crate::ops::scaled_gemm::problem::BLOCK;
use crate::tensor::{Places, Untyped};
use crate::{Error, Result, TensorViewMut};

/// Products of groups, with A \[matrices, rows, K / 2\] and B \[groups, N, K / 2\] in pairs of bytes; its size has K in bytes.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) sides: Sides,
    pub(super) b: Untyped,
    /// Of A's rows \[matrices, rows, K / 128\] and of B's blocks \[groups, N / 128, K / 128\].
    pub(super) scales: [Untyped; 2],
}

impl Problem {
    /// Checks that the tensors fit together.
    pub(super) fn new<U: HalfElement>(
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let wrong = |name, shape: &[usize], allowed| Err(Error::argument(name, of_shape(shape), allowed));
        let &[groups, n, k] = b.codes.shape() else {
            return wrong("b", b.codes.shape(), "of shape [groups, N, K]".to_owned());
        };
        let why = ["as many columns as matrices of `b`", "a column for each row of `b`"];
        let of_a = (a.codes.shape(), units("a", &a.codes)?);
        let sides = Sides::new(of_a, [groups, n, k], rows, c, why)?;
        let blocks = k.div_ceil(BLOCK);
        let of_b = vec![groups, n.div_ceil(BLOCK), blocks];
        for (name, shape, expected, why) in [
            ("scale_a", a.scales.shape(), sides.by_rows(&[blocks]), "one for each 128 of a row of `a`"),
            ("scale_b", b.scales.shape(), of_b, "one for each 128 x 128 of `b`"),
        ] {
            if shape != expected {
                return wrong(name, shape, format!("{}: {why}", of_shape(&expected)));
            }
        }
        check(&sides.device, named(a, b, rows, c))?;
        let scales = [in_three(a.scales.untyped())?, b.scales.untyped()];
        Ok(Problem { sides, b: units("b", &b.codes)?, scales })
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Problem { sides: self.sides.placed(places), b: of(&self.b), scales: self.scales.each_ref().map(of) }
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
