//! A view without its element type and lifetime: what operators work on once arguments are checked.

use tilewright_device::abi::GlobalAbi;

use super::argument::{Form, Reading, global, reading};
use super::layout::Layout;
use crate::backend::Backend;
use crate::{DType, Result};

/// Where a tensor lies, of what type and how laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Untyped {
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

impl Untyped {
    /// With the last two dimensions exchanged.
    pub(crate) fn t(self) -> Result<Self> {
        let rank = self.layout.rank();
        Ok(Self { layout: self.layout.transpose(rank.saturating_sub(2), rank.saturating_sub(1))?, ..self })
    }

    /// Stretched to `shape`, as in [`TensorView::broadcast`](crate::TensorView::broadcast).
    pub(crate) fn broadcast(self, shape: &[usize]) -> Result<Self> {
        Ok(Self { layout: self.layout.broadcast(shape)?, ..self })
    }

    /// How kernels whose parameter is of this order can read it.
    pub(crate) fn reading(&self, backend: &dyn Backend, row_major: bool) -> Result<Reading> {
        reading(backend, self.address, self.dtype, &self.layout, row_major)
    }

    /// As [`TensorView::arg`](crate::TensorView::arg), for a kernel whose parameter is of this order; `box_rows` is 0 when
    /// it does not use TMA.
    pub(crate) fn arg<T, const RANK: usize>(
        &self,
        backend: &dyn Backend,
        row_major: bool,
        box_rows: u32,
    ) -> Result<GlobalAbi<T, RANK>> {
        let form = Form { rank: RANK, row_major, box_rows, box_planes: 1 };
        global(backend, self.address, self.dtype, &self.layout, form)
    }

    /// The same, row-major and with boxes that extend over some planes of the innermost leading dimension.
    pub(crate) fn boxed<T, const RANK: usize>(
        &self,
        backend: &dyn Backend,
        [box_rows, box_planes]: [u32; 2],
    ) -> Result<GlobalAbi<T, RANK>> {
        let form = Form { rank: RANK, row_major: true, box_rows, box_planes };
        global(backend, self.address, self.dtype, &self.layout, form)
    }
}
