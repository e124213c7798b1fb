//! How a view becomes a kernel's argument.

use std::marker::PhantomData;

use tilewright_device::abi::{GlobalAbi, SWIZZLE_BYTES, TensorMap};
use tilewright_device::arch::tma::EVICT_NORMAL;

use super::layout::{Layout, MAX_RANK};
use crate::backend::{Backend, L2Fetch, TensorMapShape};
use crate::{DType, Error, Result};

/// What TMA asks of addresses and strides, in bytes.
const TMA_ALIGN: u64 = 16;
/// Strides must be below this many bytes.
const TMA_MAX_STRIDE: u64 = 1 << 40;

/// How the kernel sees the tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Dimensions, the last two being rows and columns.
    pub(super) rank: usize,
    /// Whether columns are contiguous, rather than rows.
    pub(super) row_major: bool,
    /// Lines of a TMA box; 0 if the kernel uses none.
    pub(super) box_rows: u32,
    /// Extent of a TMA box along the innermost leading dimension.
    pub(super) box_planes: u32,
    pub(super) fetch: L2Fetch,
}

impl Form {
    /// With boxes of one plane.
    pub(super) fn new(rank: usize, row_major: bool, box_rows: u32) -> Self {
        Form { rank, row_major, box_rows, box_planes: 1, fetch: L2Fetch::default() }
    }
}

/// What [`GlobalAbi`] says, for any rank.
#[derive(Debug)]
pub(super) struct Described {
    strides: [u64; MAX_RANK],
    shape: [u32; MAX_RANK],
    pub(super) align: u32,
    pub(super) map: Option<TensorMapShape>,
}

/// Makes the argument; the view's dimensions are preceded by ones up to `RANK`.
pub(super) fn global<T, const RANK: usize>(
    backend: &dyn Backend,
    address: u64,
    dtype: DType,
    layout: &Layout,
    form: Form,
) -> Result<GlobalAbi<T, RANK>> {
    described(backend, address, &describe(address, dtype, layout, form)?)
}

/// Makes the argument that is described so.
pub(super) fn described<T, const RANK: usize>(
    backend: &dyn Backend,
    address: u64,
    described: &Described,
) -> Result<GlobalAbi<T, RANK>> {
    let map = match &described.map {
        Some(shape) => backend.encode(shape)?,
        None => None,
    };
    let (mut strides, mut shape) = ([0; RANK], [0; RANK]);
    strides.copy_from_slice(&described.strides[..RANK]);
    shape.copy_from_slice(&described.shape[..RANK]);
    Ok(GlobalAbi {
        map: map.unwrap_or(TensorMap::NONE),
        address,
        strides,
        policy: EVICT_NORMAL,
        shape,
        align: described.align,
        tma: map.is_some().into(),
        element: PhantomData,
    })
}

/// How kernels can read a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Bytes to which the address and every line along the contiguous dimension are aligned, at most 16.
    pub(crate) align: u32,
    /// Whether TMA can address it.
    pub(crate) tma: bool,
}

/// An address that any driver takes in a map, aligned as every map's is.
const SOME_ADDRESS: u64 = 1 << 32;

/// How kernels whose parameter is of this order can read the tensor.
pub(super) fn reading(
    backend: &dyn Backend,
    address: u64,
    dtype: DType,
    layout: &Layout,
    row_major: bool,
) -> Result<Reading> {
    let form = Form::new(layout.rank(), row_major, 1);
    let Described { align, map, .. } = describe(address, dtype, layout, form)?;
    let tma = match map {
        None => false,
        // Whether elements may repeat is for the driver to say, of memory anywhere: a plan's places lie beyond what it takes.
        Some(map) => {
            let somewhere = TensorMapShape { address: SOME_ADDRESS, ..map };
            map.is_nested() || layout.is_injective() || backend.encode(&somewhere)?.is_some()
        }
    };
    Ok(Reading { align, tma })
}

pub(super) fn describe(address: u64, dtype: DType, layout: &Layout, form: Form) -> Result<Described> {
    let (rank, width) = (form.rank, dtype.bytes() as u64);
    let Some(lead) = rank.checked_sub(layout.rank()).filter(|_| rank <= MAX_RANK) else {
        let allowed = format!("of at most {} dimensions", rank.min(MAX_RANK));
        return Err(Error::argument("view", format!("of shape {:?}", layout.shape()), allowed));
    };
    let mut shape = [1u32; MAX_RANK];
    let mut strides = [0u64; MAX_RANK];
    for ((size, stride), (n, s)) in shape[lead..].iter_mut().zip(&mut strides[lead..]).zip(layout.dims()) {
        *size = u32::try_from(n).map_err(|_| {
            Error::argument("view", format!("of shape {:?}", layout.shape()), "of sizes below 2^32")
        })?;
        *stride = s as u64;
    }

    // The contiguous dimension first, then the other of the last two, then outwards.
    let mut order = [0; MAX_RANK];
    for (at, dim) in order.iter_mut().zip((0..rank).rev()) {
        *at = dim;
    }
    if !form.row_major && rank > 1 {
        order.swap(0, 1);
    }
    let order = &order[..rank];

    let mut aligned = address | 16;
    let mut unit = true;
    for (at, &dim) in order.iter().enumerate().filter(|&(_, &dim)| shape[dim] > 1) {
        if at > 0 {
            // Strides of a tensor without elements may be anything.
            aligned |= strides[dim].wrapping_mul(width);
        } else {
            unit = strides[dim] == 1;
        }
    }
    // Without a contiguous dimension only single elements can be read.
    let align = if unit { 1 << aligned.trailing_zeros() } else { width as u32 };
    let map = (unit && form.box_rows > 0)
        .then(|| map_shape(address, dtype, order, &shape, &strides, form))
        .flatten();
    Ok(Described { strides, shape, align, map })
}

/// The tensor map's parameters, if TMA can address the tensor.
fn map_shape(
    address: u64,
    dtype: DType,
    order: &[usize],
    shape: &[u32; MAX_RANK],
    strides: &[u64; MAX_RANK],
    Form { box_rows, box_planes, fetch, .. }: Form,
) -> Option<TensorMapShape> {
    let width = dtype.bytes() as u64;
    let mut map = TensorMapShape {
        dtype,
        address,
        rank: order.len(),
        shape: [1; MAX_RANK],
        strides: [0; MAX_RANK - 1],
        tile: [1; MAX_RANK],
        fetch,
        walk: None,
    };
    map.tile[0] = SWIZZLE_BYTES / width as u32;
    if let Some(rows) = map.tile.get_mut(1) {
        *rows = box_rows;
    }
    if let Some(planes) = map.tile[..order.len()].get_mut(2) {
        *planes = box_planes;
    }
    // Bytes up to the next line, for dimensions of size 1, whose own stride means nothing.
    let mut packed = width;
    for (at, &dim) in order.iter().enumerate() {
        let size = shape[dim];
        // The kernels' coordinates are signed.
        if size == 0 || i32::try_from(size).is_err() {
            return None;
        }
        map.shape[at] = size.into();
        if let Some(stride) = at.checked_sub(1).and_then(|outer| map.strides.get_mut(outer)) {
            *stride = if size > 1 {
                strides[dim].saturating_mul(width)
            } else {
                packed.next_multiple_of(TMA_ALIGN)
            };
            packed = *stride;
        }
        packed = packed.saturating_mul(size.into()).min(TMA_MAX_STRIDE / 2);
    }
    // A line of the box is in two lines of L2 there, and would have four fetched: seven products of depth 1000 to 5000 took 2 to 22 % longer (H200, 2026-11-28).
    if !(address | map.strides[0]).is_multiple_of(SWIZZLE_BYTES.into()) {
        map.fetch = L2Fetch::Lines;
    }
    let strides = map.strides.iter().take(order.len().saturating_sub(1));
    let fits = strides.copied().all(|s| s.is_multiple_of(TMA_ALIGN) && s < TMA_MAX_STRIDE);
    (fits && address.is_multiple_of(TMA_ALIGN)).then_some(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(address: u64, shape: &[usize], strides: &[usize], row_major: bool) -> Described {
        let layout = Layout::strided(shape, strides).unwrap();
        describe(address, DType::F16, &layout, Form::new(3, row_major, 64)).unwrap()
    }

    #[test]
    fn a_matrix_gets_a_leading_one_and_a_map() {
        let d = of(256, &[100, 64], &[64, 1], true);
        assert_eq!((d.shape, d.align), ([1, 100, 64, 1, 1], 16));
        assert_eq!(&d.strides[1..3], [64, 1]);
        let map = d.map.unwrap();
        assert_eq!((map.rank, map.shape), (3, [64, 100, 1, 1, 1]));
        assert_eq!(map.strides[..2], [128, 12800]);
        assert_eq!(map.tile, [64, 64, 1, 1, 1]);
    }

    #[test]
    fn column_major_exchanges_the_first_two_dimensions_of_the_map() {
        let map = of(256, &[2, 100, 64], &[8000, 1, 104], false).map.unwrap();
        assert_eq!(map.shape[..3], [100, 64, 2]);
        assert_eq!(map.strides[..2], [208, 16000]);
    }

    #[test]
    fn alignment_is_that_of_the_address_and_the_strides() {
        for (address, stride, align) in
            [(256, 64, 16), (264, 64, 8), (256, 66, 4), (256, 65, 2), (258, 64, 2)]
        {
            let d = of(address, &[10, 64], &[stride, 1], true);
            assert_eq!(d.align, align, "{address} {stride}");
            assert_eq!(d.map.is_some(), align == 16);
        }
    }

    #[test]
    fn strides_of_single_lines_do_not_matter() {
        let d = of(256, &[1, 7], &[7, 1], true);
        assert_eq!(d.align, 16);
        assert_eq!(d.map.unwrap().strides[..2], [16, 16]);
    }

    #[test]
    fn without_a_contiguous_dimension_elements_are_read_one_by_one() {
        let d = of(256, &[10, 64], &[128, 2], true);
        assert_eq!((d.align, d.map), (2, None));
        assert!(of(256, &[10, 64], &[1, 16], true).map.is_none());
    }

    #[test]
    fn what_tma_cannot_address_has_no_map() {
        assert!(of(256, &[0, 64], &[64, 1], true).map.is_none());
        assert!(of(256, &[2, 64], &[1 << 40, 1], true).map.is_none());
        assert!(of(256, &[1 << 31, 8], &[8, 1], true).map.is_none());
    }

    #[test]
    fn too_many_dimensions_are_refused() {
        let layout = Layout::contiguous(&[2, 2, 2, 2]).unwrap();
        let form = Form::new(3, true, 64);
        let error = describe(0, DType::F16, &layout, form).unwrap_err();
        assert_eq!(error.to_string(), "`view` was of shape [2, 2, 2, 2]; it must be of at most 3 dimensions");
    }
}
