//! The order that brings rows into groups.

use tilewright_device::tile::division::Division;
use tilewright_grouped_gemm::{Entries, KERNELS, ORDER, OrderGroupsArgs};

use crate::ops::Indices;
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::indices::log2_bytes;
use crate::{Error, Launch, Result, Stream, TensorViewMut};

/// The most entries that are counted.
const MOST: usize = 1 << 30;

/// Brings the entries of rows into the order of their groups: what a router's choice of experts becomes before a [`GroupedGemm`](super::GroupedGemm).
///
/// - `groups`, \[rows, each\], of `i32`, `u32` or `i64`, has the groups that each row goes to, as [`top_k`](fn@crate::ops::top_k) gives them.
/// - `offsets`, \[groups + 1\]: where each group begins in the order, and the last one ends.
/// - `order`, \[rows · each\]: the row of each entry in the order, by which [`embedding`](fn@crate::ops::embedding) gathers; -1 behind the last.
/// - `places`, \[rows, each\]: where each entry is in the order, which [`group_combine`](super::group_combine) takes; -1 if it is nowhere.
/// - Entries of one group are in the order of rows. A group that is not there, a negative one as well, leaves the entry out.
/// - All are contiguous. At most 2³⁰ entries.
///
/// One launch: a CTA for each group counts those before its own, and places its own. A call allocates nothing and does not wait; it can be
/// captured in a [`Graph`](crate::Graph). The same call gives the same result.
///
/// # Errors
/// Shapes do not fit, a view is not contiguous or lies on another device, or what is written overlaps another tensor; the error names it.
///
/// ```
/// use tilewright::ops::group_order;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let experts = Tensor::<u32>::from_slice(&device, &[2, 0, 0, 1, 2, 1], &[3, 2])?;
/// let mut offsets = Tensor::<i32>::zeros(&device, &[4])?;
/// let mut order = Tensor::<i32>::zeros(&device, &[6])?;
/// let mut places = Tensor::<i32>::zeros(&device, &[3, 2])?;
/// let stream = device.default_stream();
/// let outputs = (&mut offsets.view_mut(), &mut order.view_mut(), &mut places.view_mut());
/// group_order(&stream, experts.view(), outputs.0, outputs.1, outputs.2)?;
/// assert_eq!(offsets.to_vec()?, [0, 2, 4, 6]);
/// assert_eq!(order.to_vec()?, [0, 1, 1, 2, 0, 2]);
/// assert_eq!(places.to_vec()?, [4, 0, 1, 2, 5, 3]);
/// # Ok(())
/// # }
/// ```
pub fn group_order<'a>(
    stream: &Stream,
    groups: impl Into<Indices<'a>>,
    offsets: &mut TensorViewMut<'_, i32>,
    order: &mut TensorViewMut<'_, i32>,
    places: &mut TensorViewMut<'_, i32>,
) -> Result<()> {
    let groups = groups.into();
    let of = groups.untyped();
    let &[rows, each] = of.layout.shape() else {
        let allowed = "of shape [rows, each]: the groups that each row goes to";
        return Err(Error::argument("groups", of_shape(of.layout.shape()), allowed));
    };
    let count = rows.saturating_mul(each);
    if count > MOST {
        return Err(Error::argument(
            "groups",
            of_shape(&[rows, each]),
            format!("of at most {MOST} elements"),
        ));
    }
    let expect = |name, was: &[usize], allowed: &[usize]| {
        let right = was == allowed;
        let error = || Error::argument(name, of_shape(was), of_shape(allowed));
        if right { Ok(()) } else { Err(error()) }
    };
    expect("order", order.shape(), &[count])?;
    expect("places", places.shape(), &[rows, each])?;
    let Some(number) =
        offsets.shape().first().filter(|_| offsets.shape().len() == 1).and_then(|len| len.checked_sub(1))
    else {
        return Err(Error::argument("offsets", of_shape(offsets.shape()), "of shape [groups + 1]"));
    };
    if number > MOST {
        return Err(Error::argument(
            "offsets",
            of_shape(offsets.shape()),
            format!("of at most {MOST} groups"),
        ));
    }
    let contiguous = [
        ("groups", of.layout.is_contiguous()),
        ("offsets", offsets.is_contiguous()),
        ("order", order.is_contiguous()),
        ("places", places.is_contiguous()),
    ];
    if let Some((name, _)) = contiguous.into_iter().find(|(_, contiguous)| !contiguous) {
        return Err(Error::argument(name, "not contiguous", "contiguous"));
    }
    let device = offsets.device();
    stream.expect_on(device)?;
    let written = [
        Named::written("offsets", offsets),
        Named::written("order", order),
        Named::written("places", places),
    ];
    check(device, [groups.named("groups")].into_iter().chain(written))?;
    if number == 0 && count > 0 {
        return Err(Error::argument(
            "offsets",
            of_shape(offsets.shape()),
            "of shape [groups + 1], of 1 group or more",
        ));
    }
    let Some(kernel) = ORDER.first() else {
        return Ok(());
    };
    let entries = Entries {
        groups: of.address,
        offsets: offsets.address(),
        rows: order.address(),
        places: places.address(),
        count: count as u32,
        log2_bytes: log2_bytes(&of),
        by_row: Division::by(each as u32),
        padding: 0,
    };
    let launch = Launch::grid([number.max(1) as u32, 1, 1]);
    // SAFETY: the arguments are those of `order_groups`. The views are borrowed by the caller, what is written exclusively; the lists have the lengths that
    // the kernel is told.
    unsafe { device.listed(&KERNELS, kernel)?.launch_block(stream, &launch, &OrderGroupsArgs { entries }) }
}
