//! What is asked to be computed, checked.

use crate::ops::frame::{Named, check, of_shape};
use crate::ops::groups::{GroupRows, in_three};
use crate::tensor::{Places, Untyped};
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// Products of groups. A \[matrices, rows, K\], B \[groups, K, N\], C \[matrices, rows, N\].
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) a: Untyped,
    pub(super) b: Untyped,
    pub(super) c: Untyped,
    /// A factor of each row of C, \[matrices, rows, 1\].
    pub(super) scales: Option<Untyped>,
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
    pub(super) k: usize,
}

impl Problem {
    /// Checks that the tensors fit together.
    pub(super) fn new<T: Element>(
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
        scales: Option<&TensorView<'_, f32>>,
    ) -> Result<Self> {
        let wrong =
            |name, shape: &[usize], allowed: String| Err(Error::argument(name, of_shape(shape), allowed));
        let &[groups, k, n] = b.shape() else {
            return wrong("b", b.shape(), "of shape [groups, K, N]".to_owned());
        };
        let lines = rows.lines(a.shape(), [groups, k], "as many columns as matrices of `b` have rows")?;
        let of_c: Vec<_> = lines.iter().copied().chain([n]).collect();
        if c.shape() != of_c {
            return wrong("c", c.shape(), format!("{}: rows as `a`, columns as `b`", of_shape(&of_c)));
        }
        if let Some(scales) = scales.filter(|scales| scales.shape() != lines.as_slice()) {
            return wrong("scales", scales.shape(), format!("{}: one for each row of `c`", of_shape(&lines)));
        }
        let numbers = rows.of_groups(groups)?;
        let device = c.device();
        let read = [Named::read("a", a), Named::read("b", b), rows.named()];
        let read = read.into_iter().chain(scales.map(|scales| Named::read("scales", scales)));
        check(device, read.chain([Named::written("c", c)]))?;
        Ok(Problem {
            device: device.clone(),
            a: in_three(a.untyped())?,
            b: b.untyped(),
            c: in_three(c.untyped())?,
            scales: scales.map(|scales| in_columns(scales.untyped())).transpose()?,
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
            scales: self.scales.as_ref().map(of),
            numbers: of(&self.numbers),
            ..*self
        }
    }
}

/// Numbers of rows as columns of one of a batch, or of each.
fn in_columns(tensor: Untyped) -> Result<Untyped> {
    let layout = tensor.layout;
    let layout = layout.insert(layout.rank())?;
    in_three(Untyped { layout, ..tensor })
}
