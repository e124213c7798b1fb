//! Rows put together from those of groups.

use tilewright_device::abi::GlobalAbi;
use tilewright_grouped_gemm::{COMBINE, CombineArgs, KERNELS, Places};

use crate::ops::HalfElement;
use crate::ops::frame::{Named, check, of_shape};
use crate::{Error, Launch, Result, Stream, TensorView, TensorViewMut};

/// The most CTAs along a grid's second dimension.
const MOST_COLUMNS: usize = 65535;

/// y\[row\] = the sum of weights\[row, i\] · x\[places\[row, i\]\]: what experts computed becomes the rows that the router took apart.
///
/// - x is \[entries, N\], y \[rows, N\], of `f16` or `bf16`; weights, \[rows, each\], of f32: a router's. Each has any strides.
/// - `places`, \[rows, each\], contiguous, as [`group_order`](super::group_order) gives them: those that x has not, -1 among them, add nothing, whatever
///   their weights are.
/// - Summed up in f32 in the order of i, and rounded once, to nearest even. Without entries y is 0.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
///
/// # Errors
/// Shapes do not fit, places are not contiguous, a view lies on another device, or y overlaps another tensor; the error names it.
pub fn group_combine<T: HalfElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    weights: &TensorView<'_, f32>,
    places: &TensorView<'_, i32>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    let wrong = |name, shape: &[usize], allowed: String| Err(Error::argument(name, of_shape(shape), allowed));
    let &[rows, n] = y.shape() else {
        return wrong("y", y.shape(), "of shape [rows, N]".to_owned());
    };
    let &[_, each] = places.shape() else {
        return wrong("places", places.shape(), "of shape [rows, entries of each]".to_owned());
    };
    if places.shape() != [rows, each] {
        return wrong("places", places.shape(), format!("of shape [{rows}, {each}]: as many rows as `y`"));
    }
    if weights.shape() != [rows, each] {
        return wrong("weights", weights.shape(), format!("of shape [{rows}, {each}], as `places`"));
    }
    if x.shape().len() != 2 || x.shape()[1] != n {
        return wrong("x", x.shape(), format!("of shape [entries, {n}]: as many columns as `y`"));
    }
    if !places.is_contiguous() {
        let was = format!("of strides {:?}", places.strides());
        return Err(Error::argument("places", was, "contiguous"));
    }
    let device = y.device();
    stream.expect_on(device)?;
    let read = [Named::read("x", x), Named::read("weights", weights), Named::read("places", places)];
    check(device, read.into_iter().chain([Named::written("y", y)]))?;
    let Some(kernel) = COMBINE.iter().find(|kernel| kernel.element == T::DTYPE.name()) else {
        return Ok(());
    };
    let [high, wide] = kernel.tile.map(|size| size as usize);
    if n.div_ceil(wide) > MOST_COLUMNS {
        return wrong("y", y.shape(), format!("of at most {} columns", MOST_COLUMNS * wide));
    }
    if y.is_empty() {
        return Ok(());
    }
    let backend = device.backend();
    let of_places = Places { address: places.address(), each: each as u32, padding: 0 };
    let x: GlobalAbi<(), 2> = x.untyped().arg(backend, true, 0)?;
    let weights: GlobalAbi<(), 2> = weights.untyped().arg(backend, true, 0)?;
    let launch = Launch::grid([rows.div_ceil(high) as u32, n.div_ceil(wide) as u32, 1]);
    let y: GlobalAbi<(), 2> = y.untyped().arg(backend, true, 0)?;
    let args = CombineArgs { x, weights, y, places: of_places };
    // SAFETY: the arguments are those of `combine`. The views are borrowed by the caller, y exclusively, and reach no further than their shapes, which the
    // kernel keeps to.
    unsafe { device.listed(&KERNELS, kernel)?.launch_block(stream, &launch, &args) }
}
