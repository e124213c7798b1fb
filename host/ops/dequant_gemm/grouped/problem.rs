//! What is asked to be computed, checked.

use tilewright_device::layout::packed::ROWS;

use super::super::DeviceWeights;
use crate::ops::frame::{Named, check};
use crate::ops::groups::{GroupRows, Sides};
use crate::tensor::Places;
use crate::{Element, Result, TensorView, TensorViewMut};

/// Products of groups with narrow weights, whose matrices are below each other.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) sides: Sides,
    /// Blocks along N of a group's matrix.
    pub(super) blocks: u32,
    /// Neighbours along K that have one scale.
    pub(super) scaled: usize,
    /// Bytes of a group's matrix.
    pub(super) bytes: u64,
}

impl Problem {
    /// Checks that the tensors fit together and with the weights.
    pub(super) fn new<T: Element>(
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let ([all, k], groups) = (w.shape(), rows.count()?);
        let n = c.shape().last().copied().unwrap_or(0);
        if groups.checked_mul(n) != Some(all) {
            let of = rows.name();
            let allowed = format!(
                "[{groups} · {n}, {k}]: a matrix for each group of `{of}`, a row for each column of `c`"
            );
            return Err(w.error("shape", format!("[{all}, {k}]"), allowed));
        }
        if groups > 1 && !n.is_multiple_of(ROWS as usize) {
            let allowed =
                format!("of groups of a multiple of {ROWS} rows: packed weights are in blocks of so many");
            return Err(w.error("shape", format!("[{groups} · {n}, {k}]"), allowed));
        }
        let why = [(); 2].map(|()| format!("the weights `{}` are [{groups} · {n}, {k}]", w.name()));
        let sides =
            Sides::new((a.shape(), a.untyped()), [groups, n, k], rows, c, why.each_ref().map(|why| &**why))?;
        check(&sides.device, named(a, rows, c).into_iter().flatten())?;
        sides.device.expect_same(w.device(), "w")?;
        Ok(Problem {
            // Sizes are below 2^31.
            blocks: n.div_ceil(ROWS as usize) as u32,
            scaled: w.scheme().group.len(k),
            bytes: (w.bytes() / groups.max(1)) as u64,
            sides,
        })
    }

    /// That of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        Problem { sides: self.sides.placed(places), ..*self }
    }
}

/// The tensors, in the order of a plan's.
pub(super) fn named<'v, T: Element>(
    a: &'v TensorView<'_, T>,
    rows: &'v GroupRows<'_>,
    c: &'v TensorViewMut<'_, T>,
) -> [Option<Named<'v>>; 3] {
    [Some(Named::read("a", a)), Some(rows.named()), Some(Named::written("c", c))]
}
