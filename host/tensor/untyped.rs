//! A view without its element type and lifetime: what operators work on once arguments are checked.

use tilewright_device::abi::GlobalAbi;

use super::argument::{Form, Reading, global, reading};
use super::layout::Layout;
use crate::backend::{Backend, L2Fetch};
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
        self.form(backend, Form::new(RANK, row_major, box_rows))
    }

    /// The same, row-major, for kernels that read whole tensors at the memory's speed: the L2 cache fetches the boxes' lines alone.
    pub(crate) fn streamed<T, const RANK: usize>(
        &self,
        backend: &dyn Backend,
        box_rows: u32,
    ) -> Result<GlobalAbi<T, RANK>> {
        self.streamed_boxes(backend, [box_rows, 1])
    }

    /// The same, with boxes that extend over some planes of the innermost leading dimension.
    pub(crate) fn streamed_boxes<T, const RANK: usize>(
        &self,
        backend: &dyn Backend,
        [box_rows, box_planes]: [u32; 2],
    ) -> Result<GlobalAbi<T, RANK>> {
        let form = Form::new(RANK, true, box_rows);
        self.form(backend, Form { box_planes, fetch: L2Fetch::Lines, ..form })
    }

    /// As [`arg`](Self::arg), with boxes that extend over some planes of the innermost leading dimension.
    pub(crate) fn boxes<T, const RANK: usize>(
        &self,
        backend: &dyn Backend,
        row_major: bool,
        [box_rows, box_planes]: [u32; 2],
    ) -> Result<GlobalAbi<T, RANK>> {
        self.form(backend, Form { box_planes, ..Form::new(RANK, row_major, box_rows) })
    }

    fn form<T, const RANK: usize>(&self, backend: &dyn Backend, form: Form) -> Result<GlobalAbi<T, RANK>> {
        global(backend, self.address, self.dtype, &self.layout, form)
    }
}
