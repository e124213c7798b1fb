//! A view without its element type and lifetime: what operators work on once arguments are checked.

use tilewright_device::abi::GlobalAbi;

use super::argument::{Form, Reading, describe, described, global, reading};
use super::layout::Layout;
use crate::backend::{Backend, L2Fetch, Walk};
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

    /// Bytes to which its address and all lines along the last dimension are aligned, at most 16.
    #[cfg(feature = "rows")]
    pub(crate) fn alignment(&self) -> Result<u32> {
        Ok(describe(self.address, self.dtype, &self.layout, Form::new(self.layout.rank(), true, 0))?.align)
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

    /// Images \[images, height, width, groups, channels\] as kernels of patches take them, planes of volumes too; with a map in im2col mode for
    /// tiles of so many pixels, if there is a walk and TMA can address the images.
    pub(crate) fn images<T>(
        &self,
        backend: &dyn Backend,
        walk: Option<(Walk, u32)>,
    ) -> Result<GlobalAbi<T, 5>> {
        let Untyped { address, dtype, layout } = *self;
        let mut images = describe(address, dtype, &layout, Form::new(5, true, 0))?;
        if let Some((walk, pixels)) = walk
            && let Some(all) = self.ungrouped()
            && let all = all.in_volumes(walk.planes)?.layout
            && let Some(mut map) = describe(address, dtype, &all, Form::new(all.rank(), true, 1))?.map
        {
            map.tile[1] = pixels;
            map.walk = Some(walk);
            images.map = Some(map);
        }
        described(backend, address, &images)
    }

    /// Images \[images, height, width, groups, channels\] with the channels of all groups in one dimension, if they follow each other.
    pub(crate) fn ungrouped(&self) -> Option<Self> {
        let (&[images, height, width, groups, channels], &[n, h, w, g, c]) =
            (self.layout.shape(), self.layout.strides())
        else {
            return None;
        };
        if groups > 1 && channels > 1 && g != channels * c {
            return None;
        }
        let step = if channels > 1 { c } else { g };
        let layout = Layout::strided(&[images, height, width, groups * channels], &[n, h, w, step]).ok()?;
        Some(Untyped { layout, ..*self })
    }

    /// Images, the first dimension, as so many planes of volumes.
    fn in_volumes(&self, planes: Option<usize>) -> Result<Self> {
        let (Some(planes), &[images, height, width, channels], &[n, h, w, c]) =
            (planes, self.layout.shape(), self.layout.strides())
        else {
            return Ok(*self);
        };
        let (shape, volume) =
            ([images / planes.max(1), planes, height, width, channels], planes.saturating_mul(n));
        Ok(Untyped { layout: Layout::strided(&shape, &[volume, n, h, w, c])?, ..*self })
    }

    fn form<T, const RANK: usize>(&self, backend: &dyn Backend, form: Form) -> Result<GlobalAbi<T, RANK>> {
        global(backend, self.address, self.dtype, &self.layout, form)
    }
}
