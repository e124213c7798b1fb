//! What a product of int8 activations is asked to compute, checked.

use super::super::DeviceWeights;
use super::super::problem::{Others, Problem};
use super::table::{Kind, kernels, names};
use crate::ops::frame::{of_address, of_shape};
use crate::quant::{Format, Group, Order, Zeros};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Element, Error, Result, TensorView, TensorViewMut};

/// Bytes to which lines of A are aligned, and of which they are multiples.
const ALIGNED: usize = 16;

/// Checks that the views fit together and with the weights, and that kernels can read A.
pub(super) fn problem<C: Element>(
    a: &TensorView<'_, i8>,
    w: &DeviceWeights,
    c: &TensorViewMut<'_, C>,
    others: &Others<'_, C>,
) -> Result<Problem> {
    let problem = Problem::new(a, w, c, others, false)?;
    let [m, n, k] = problem.size;
    let tokens = match others.tokens {
        None => None,
        Some(tokens) => {
            if tokens.shape() != [m] {
                return Err(Error::argument("tokens", of_shape(tokens.shape()), format!("of shape [{m}]")));
            }
            Some(tokens.untyped().broadcast(&[n, m])?)
        }
    };
    if !k.is_multiple_of(ALIGNED) {
        let allowed = format!("of a multiple of {ALIGNED} columns: int8 is read {ALIGNED} bytes at a time");
        return Err(Error::argument("a", of_shape(a.shape()), allowed));
    }
    let (address, strides) = (a.address(), a.strides());
    if strides[1] != 1
        || (m > 1 && !strides[0].is_multiple_of(ALIGNED))
        || !address.is_multiple_of(ALIGNED as u64)
    {
        let was = format!("of strides {strides:?} at {}", of_address(address));
        let allowed = format!("of contiguous rows that begin at multiples of {ALIGNED} bytes");
        return Err(Error::argument("a", was, allowed));
    }
    // In pairs: to what moves them, they are any elements of 16 bits.
    let layout = Layout::strided(&[m, k / 2], &[strides[0] / 2, 1])?;
    let a = Untyped { dtype: DType::F16, layout, ..problem.a };
    let scales = (C::DTYPE != DType::I32).then(|| w.row_scales()).transpose()?;
    Ok(Problem { a, tokens, scales, ..problem })
}

/// The kind of kernel for these weights and an output of this type.
pub(super) fn kind(w: &DeviceWeights, output: DType) -> Result<Kind> {
    let (scheme, [_, k]) = (w.scheme(), w.shape());
    if w.order() != Order::B8 {
        return Err(w.error("order", "b16".to_owned(), "b8, for activations of int8".to_owned()));
    }
    let (element, format) = (scheme.scales.dtype().name(), scheme.format.name());
    let sums = output == DType::I32;
    if !sums && scheme.scales.dtype() != output {
        return Err(w.error("scales", element.to_owned(), format!("{output}, the output's type")));
    }
    let formats = names(|_| true, |kind| kind.1);
    if names(|kind| kind.1 == format, |kind| kind.1).is_empty() {
        return Err(w.error("format", format.to_owned(), format!("one of {formats}")));
    }
    let groups = scheme.group.count(k) > 1;
    // Sums need no scales, but zeros are staged for each 64 of depth.
    let fits = match (groups, sums) {
        (false, _) => true,
        (true, false) => scheme.group == Group::K128,
        (true, true) => scheme.group != Group::K32 || scheme.zeros == Zeros::None,
    };
    if !fits {
        let allowed = if sums { "groups of 64, 128 or a row" } else { "groups of 128 or a row" };
        return Err(w.error("group", scheme.group.to_string(), allowed.to_owned()));
    }
    let zeros = match scheme.zeros {
        Zeros::None => "none",
        Zeros::Original | Zeros::Packed if w.integer_zeros() => "original",
        Zeros::Original => {
            let (least, most) = Format::range(scheme.format);
            let allowed = format!("integers from {least} to {most}, for activations of int8");
            return Err(w.error("zeros", "original ones that are not".to_owned(), allowed));
        }
        Zeros::Packed | Zeros::Rescaled => {
            let allowed = "none, or original or packed ones that are integers".to_owned();
            return Err(w.error("zeros", scheme.zeros.to_string(), allowed));
        }
    };
    let kind = (element, format, zeros, groups && !sums);
    if kernels(kind).is_empty() {
        let like = |other: &Kind| (other.0, other.1, other.3) == (kind.0, kind.1, kind.3);
        let allowed = format!("one of {}", names(like, |kind| kind.2));
        return Err(w.error("zeros", scheme.zeros.to_string(), allowed));
    }
    Ok(kind)
}
