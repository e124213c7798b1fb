//! What is asked to be computed, checked.

use crate::ops::Activation;
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::groups::{GroupRows, Sides, in_three};
use crate::tensor::{Layout, Places, Untyped};
use crate::{Element, Error, Result, TensorView, TensorViewMut};

/// Products of groups, or gated units of them.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) sides: Sides,
    /// \[groups, K, N\]; \[groups, 2, N, K\] of gates and ups.
    pub(super) b: Untyped,
    /// What is applied to gates, if there are any.
    pub(super) gated: Option<Activation>,
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
        gated: Option<Activation>,
    ) -> Result<Self> {
        let wrong = |name, shape: &[usize], allowed| Err(Error::argument(name, of_shape(shape), allowed));
        let &[groups, k, columns] = b.shape() else {
            return wrong("b", b.shape(), "of shape [groups, K, N]".to_owned());
        };
        if gated.is_some() && !columns.is_multiple_of(2) {
            return wrong("b", b.shape(), "of shape [groups, K, 2 N]: gates, then as many ups".to_owned());
        }
        let (n, of_c) = match gated {
            None => (columns, "columns as `b`"),
            Some(_) => (columns / 2, "a column for each gate of `b`"),
        };
        let why = ["as many columns as matrices of `b` have rows", of_c];
        let sides = Sides::new((a.shape(), a.untyped()), [groups, n, k], rows, c, why)?;
        let lines = sides.by_rows(&[]);
        if let Some(scales) = scales.filter(|scales| scales.shape() != lines) {
            return wrong("scales", scales.shape(), format!("{}: one for each row of `c`", of_shape(&lines)));
        }
        let read = [Named::read("a", a), Named::read("b", b), rows.named()];
        let read = read.into_iter().chain(scales.map(|scales| Named::read("scales", scales)));
        check(&sides.device, read.chain([Named::written("c", c)]))?;
        let scales = scales.map(|scales| in_columns(scales.untyped())).transpose()?;
        let b = if gated.is_some() { gates_and_ups(b.untyped())? } else { b.untyped() };
        Ok(Problem { sides, b, gated, scales })
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        let (b, scales) = (of(&self.b), self.scales.as_ref().map(of));
        Problem { sides: self.sides.placed(places), b, scales, ..*self }
    }
}

/// Matrices of N gates and N ups, \[groups, K, 2 N\], as \[groups, 2, N, K\].
fn gates_and_ups(b: Untyped) -> Result<Untyped> {
    let (&[groups, k, columns], &[group, row, column]) = (b.layout.shape(), b.layout.strides()) else {
        return Ok(b);
    };
    let n = columns / 2;
    let layout = Layout::strided(&[groups, 2, n, k], &[group, column.saturating_mul(n), column, row])?;
    Ok(Untyped { layout, ..b })
}

/// Numbers of rows as columns of one of a batch, or of each.
fn in_columns(tensor: Untyped) -> Result<Untyped> {
    let layout = tensor.layout;
    let layout = layout.insert(layout.rank())?;
    in_three(Untyped { layout, ..tensor })
}
