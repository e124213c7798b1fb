//! What is asked to be computed, checked.

use crate::ops::frame::{Named, check, of_shape};
use crate::ops::groups::{GroupRows, in_three};
use crate::ops::{FloatElement, HalfElement};
use crate::tensor::{Places, Untyped};
use crate::{DType, Device, Error, Result, TensorView, TensorViewMut};

/// Products over groups' rows. A \[matrices, rows, M\], B \[matrices, rows, N\], C \[groups, M, N\].
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) a: Untyped,
    pub(super) b: Untyped,
    pub(super) c: Untyped,
    /// Where groups begin, or how many rows they have.
    pub(super) numbers: Untyped,
    /// Whether each group has matrices of A and B.
    pub(super) apart: bool,
    /// Whether products are added to C.
    pub(super) accumulate: bool,
    pub(super) size: Size,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) groups: usize,
    /// Of each matrix of A and B.
    pub(super) rows: usize,
    pub(super) m: usize,
    pub(super) n: usize,
}

impl Problem {
    /// Checks that the tensors fit together.
    pub(super) fn new<T: HalfElement, U: FloatElement>(
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
        accumulate: bool,
    ) -> Result<Self> {
        let wrong =
            |name, shape: &[usize], allowed: String| Err(Error::argument(name, of_shape(shape), allowed));
        let &[groups, m, n] = c.shape() else {
            return wrong("c", c.shape(), "of shape [groups, M, N]".to_owned());
        };
        if U::DTYPE != T::DTYPE && U::DTYPE != DType::F32 {
            let was = format!("of {}", U::DTYPE.name());
            return Err(Error::argument(
                "c",
                was,
                format!("of {}, as `a` and `b`, or of f32", T::DTYPE.name()),
            ));
        }
        if accumulate && U::DTYPE != DType::F32 {
            let was = format!("of {}", U::DTYPE.name());
            return Err(Error::argument("c", was, "of f32, where products are added to it"));
        }
        let lines = rows.lines(a.shape(), [groups, m], "as many columns as matrices of `c` have rows")?;
        let of_b: Vec<_> = lines.iter().copied().chain([n]).collect();
        if b.shape() != of_b {
            return wrong("b", b.shape(), format!("{}: rows as `a`, columns as `c`", of_shape(&of_b)));
        }
        let (numbers, device) = (rows.of_groups(groups)?, c.device());
        let read = [Named::read("a", a), Named::read("b", b), rows.named()];
        check(device, read.into_iter().chain([Named::written("c", c)]))?;
        Ok(Problem {
            device: device.clone(),
            a: in_three(a.untyped())?,
            b: in_three(b.untyped())?,
            c: c.untyped(),
            numbers,
            apart: rows.are_apart(),
            accumulate,
            size: Size { groups, rows: lines[lines.len() - 1], m, n },
        })
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        let Size { groups, m, n, .. } = self.size;
        [groups, m, n].contains(&0)
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Problem {
            device: self.device.clone(),
            a: of(&self.a),
            b: of(&self.b),
            c: of(&self.c),
            numbers: of(&self.numbers),
            ..*self
        }
    }
}
