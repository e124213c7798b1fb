//! What is asked to be computed, checked.

use crate::ops::frame::{Named, check, of_shape};
use crate::ops::groups::{GroupRows, Sides, in_three};
use crate::tensor::{Places, Untyped};
use crate::{Element, Error, Result, TensorView, TensorViewMut};

/// Products of groups, with B \[groups, K, N\].
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) sides: Sides,
    pub(super) b: Untyped,
    /// A factor of each row of C, \[matrices, rows, 1\].
    pub(super) scales: Option<Untyped>,
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
        let wrong = |name, shape: &[usize], allowed| Err(Error::argument(name, of_shape(shape), allowed));
        let &[groups, k, n] = b.shape() else {
            return wrong("b", b.shape(), "of shape [groups, K, N]".to_owned());
        };
        let why = ["as many columns as matrices of `b` have rows", "columns as `b`"];
        let sides = Sides::new((a.shape(), a.untyped()), [groups, n, k], rows, c, why)?;
        let lines = sides.by_rows(&[]);
        if let Some(scales) = scales.filter(|scales| scales.shape() != lines) {
            return wrong("scales", scales.shape(), format!("{}: one for each row of `c`", of_shape(&lines)));
        }
        let read = [Named::read("a", a), Named::read("b", b), rows.named()];
        let read = read.into_iter().chain(scales.map(|scales| Named::read("scales", scales)));
        check(&sides.device, read.chain([Named::written("c", c)]))?;
        let scales = scales.map(|scales| in_columns(scales.untyped())).transpose()?;
        Ok(Problem { sides, b: b.untyped(), scales })
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Problem { sides: self.sides.placed(places), b: of(&self.b), scales: self.scales.as_ref().map(of) }
    }
}

/// Numbers of rows as columns of one of a batch, or of each.
fn in_columns(tensor: Untyped) -> Result<Untyped> {
    let layout = tensor.layout;
    let layout = layout.insert(layout.rank())?;
    in_three(Untyped { layout, ..tensor })
}
