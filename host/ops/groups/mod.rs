//! What operators on groups of rows share.

mod estimate;
mod rows;
mod sides;
mod tiles;

pub(super) use estimate::Work;
pub use rows::GroupRows;
pub(super) use sides::{Sides, Size};
pub(super) use tiles::{BOX, Loaded, Tiled};

use crate::Result;
use crate::tensor::{Layout, Untyped};

/// A matrix as one of a batch.
pub(super) fn in_three(tensor: Untyped) -> Result<Untyped> {
    let (&[rows, columns], &[row, column]) = (tensor.layout.shape(), tensor.layout.strides()) else {
        return Ok(tensor);
    };
    Ok(Untyped { layout: Layout::strided(&[1, rows, columns], &[0, row, column])?, ..tensor })
}
