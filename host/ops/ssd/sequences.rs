//! Sequences of a call: each a matrix of its own, or packed into the rows of one.

use tilewright_device::abi::GlobalAbi;
use tilewright_ssd::Sequences;

use crate::ops::Indices;
use crate::ops::frame::{Named, Places, absent, of_shape};
use crate::ops::indices::log2_bytes;
use crate::tensor::{Layout, Untyped};
use crate::{Device, Error, Result};

/// The most that a grid has in its second and third dimension.
const MOST: usize = 65535;

/// Where packed sequences begin, and the most rows of one.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Packed<'a> {
    pub(in crate::ops) offsets: Indices<'a>,
    pub(in crate::ops) longest: usize,
}

impl Packed<'_> {
    /// As a tensor of the call.
    pub(in crate::ops) fn named(&self) -> Named<'_> {
        self.offsets.named("offsets")
    }

    /// At the place that a plan gives the tensor of this number.
    pub(in crate::ops) fn planned(&self, number: usize) -> Self {
        Packed { offsets: self.offsets.planned(number), ..*self }
    }
}

/// How many sequences there are, and what kernels are told of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Extent {
    pub(in crate::ops) count: usize,
    /// Rows of the longest.
    pub(in crate::ops) longest: usize,
    pub(in crate::ops) told: Sequences,
}

impl Extent {
    /// Of a tensor `x` of so many matrices and rows.
    pub(in crate::ops) fn new(packed: Option<&Packed<'_>>, [matrices, rows]: [usize; 2]) -> Result<Self> {
        let int = |n: usize| {
            let wrong = || Error::argument("x", format!("of {n} rows"), "of fewer than 2^31 rows");
            i32::try_from(n).map(i32::cast_unsigned).map_err(|_| wrong())
        };
        let all = int(rows)?;
        let Some(Packed { offsets, longest }) = packed else {
            let told = Sequences { offsets: 0, rows: all, longest: all, log2_bytes: 0, padding: 0 };
            return Extent { count: matrices, longest: rows, told }.checked();
        };
        if matrices != 1 {
            let allowed = "of a batch of 1: packed sequences follow each other in its rows";
            return Err(Error::argument("x", format!("of a batch of {matrices}"), allowed));
        }
        let offsets = offsets.untyped();
        let layout = &offsets.layout;
        if layout.rank() != 1 || layout.len() == 0 || !layout.is_contiguous() {
            let was = format!("of shape {:?} and strides {:?}", layout.shape(), layout.strides());
            let allowed = "of one dimension, contiguous, of one element or more: where each sequence begins and the last one ends";
            return Err(Error::argument("offsets", was, allowed));
        }
        let longest = (*longest).min(rows);
        let log2_bytes = log2_bytes(&offsets);
        let told =
            Sequences { offsets: offsets.address, rows: all, longest: int(longest)?, log2_bytes, padding: 0 };
        Extent { count: layout.len() - 1, longest, told }.checked()
    }

    /// The same with the offsets of a run.
    pub(in crate::ops) fn placed(self, places: &Places) -> Self {
        Extent { told: Sequences { offsets: places.at(self.told.offsets), ..self.told }, ..self }
    }

    fn checked(self) -> Result<Self> {
        if self.count > MOST {
            let allowed = format!("of at most {MOST}");
            return Err(Error::argument("x", format!("of {} sequences", self.count), allowed));
        }
        Ok(self)
    }
}

/// A dimension of a grid, of at most `most` CTAs.
pub(in crate::ops) fn ctas(n: usize, what: &str) -> Result<u32> {
    let count = u32::try_from(n).ok().filter(|&n| n as usize <= MOST);
    count.ok_or_else(|| Error::argument("x", format!("of {n} {what}"), format!("of at most {MOST}")))
}

/// Checks a tensor's shape.
pub(in crate::ops) fn expect(
    name: &'static str,
    shape: &[usize],
    want: &[usize],
    because: &str,
) -> Result<()> {
    if shape == want {
        return Ok(());
    }
    Err(Error::argument(name, of_shape(shape), format!("of shape {want:?}: {because}")))
}

/// The argument for a tensor that kernels read to registers.
pub(in crate::ops) fn argument<const RANK: usize>(
    device: &Device,
    tensor: Untyped,
) -> Result<GlobalAbi<(), RANK>> {
    tensor.arg(device.backend(), true, 0)
}

/// The argument for one that a call may lack.
pub(in crate::ops) fn optional<const RANK: usize>(
    device: &Device,
    tensor: Option<Untyped>,
) -> Result<GlobalAbi<(), RANK>> {
    tensor.map_or_else(|| Ok(absent()), |tensor| argument(device, tensor))
}

/// The argument for a vector of heads, as a column.
pub(in crate::ops) fn column(device: &Device, vector: Option<Untyped>) -> Result<GlobalAbi<(), 2>> {
    let column = |vector: Untyped| Ok(Untyped { layout: vector.layout.insert(1)?, ..vector });
    optional(device, vector.map(column).transpose()?)
}

/// A contiguous tensor of f32 at an address.
pub(in crate::ops) fn at(address: u64, shape: &[usize]) -> Result<Untyped> {
    Ok(Untyped { address, dtype: crate::DType::F32, layout: Layout::contiguous(shape)? })
}
