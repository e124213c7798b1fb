//! Shapes and strides, and what views do to them.

use crate::{Error, Result};

/// Dimensions that a tensor may have: as many as the TMA unit addresses.
pub const MAX_RANK: usize = 5;

/// More elements than any memory has; products and sums of sizes up to this cannot overflow in bytes.
const MAX_ELEMENTS: usize = isize::MAX as usize / 16;

/// A shape with strides in elements.
///
/// The number of elements and the distance to the last one are at most [`MAX_ELEMENTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    rank: usize,
    shape: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
}

fn product(shape: &[usize]) -> Option<usize> {
    // Zeros first: a shape with a zero has no elements, however long its other dimensions are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).filter(|&n| n <= MAX_ELEMENTS)
}

fn copied(dims: &[usize]) -> Option<[usize; MAX_RANK]> {
    let mut out = [0; MAX_RANK];
    out.get_mut(..dims.len())?.copy_from_slice(dims);
    Some(out)
}

impl Layout {
    /// Row-major: the last dimension is the contiguous one.
    pub(crate) fn contiguous(shape: &[usize]) -> Result<Self> {
        let mut strides = [1usize; MAX_RANK];
        for dim in (1..shape.len().min(MAX_RANK)).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(shape[dim].max(1));
        }
        // With too many dimensions any strides do: the shape is refused first.
        Self::strided(shape, strides.get(..shape.len()).unwrap_or(&strides))
    }

    /// Any strides.
    pub(crate) fn strided(shape: &[usize], strides: &[usize]) -> Result<Self> {
        let (Some(dims), true) = (copied(shape), product(shape).is_some()) else {
            return Err(Error::argument(
                "shape",
                format!("{shape:?}"),
                format!("at most {MAX_RANK} dimensions whose product fits in memory"),
            ));
        };
        let steps = copied(strides).filter(|_| strides.len() == shape.len()).ok_or_else(|| {
            Error::argument(
                "strides",
                format!("{strides:?}"),
                format!("{} numbers, one a dimension", shape.len()),
            )
        })?;
        let layout = Self { rank: shape.len(), shape: dims, strides: steps };
        let last = shape.iter().zip(strides).try_fold(0usize, |sum, (&n, &s)| {
            n.saturating_sub(1).checked_mul(s).and_then(|x| x.checked_add(sum))
        });
        if layout.len() > 0 && last.is_none_or(|last| last >= MAX_ELEMENTS) {
            return Err(Error::argument(
                "strides",
                format!("{strides:?} with shape {shape:?}"),
                "such that the last element's offset fits in memory",
            ));
        }
        Ok(layout)
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }
    pub(crate) fn shape(&self) -> &[usize] {
        self.shape.get(..self.rank).unwrap_or(&[])
    }
    pub(crate) fn strides(&self) -> &[usize] {
        self.strides.get(..self.rank).unwrap_or(&[])
    }
    /// Size and stride of each dimension.
    pub(crate) fn dims(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> + ExactSizeIterator + Clone {
        self.shape().iter().copied().zip(self.strides().iter().copied())
    }
    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        product(self.shape()).unwrap_or(0)
    }
    /// Elements from the first to behind the last.
    pub(crate) fn extent(&self) -> usize {
        if self.len() == 0 { 0 } else { 1 + self.dims().map(|(n, s)| (n - 1) * s).sum::<usize>() }
    }

    /// Whether the elements lie in memory in row-major order without gaps.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut next = 1;
        self.len() == 0
            || self.dims().rev().all(|(n, s)| {
                let fits = n == 1 || s == next;
                next *= n;
                fits
            })
    }

    /// Whether no two indices mean the same element.
    ///
    /// Interleaved dimensions, where one begins inside another's reach, count as overlapping; messages say so.
    pub(crate) fn is_injective(&self) -> bool {
        let mut dims: Vec<_> = self.dims().filter(|&(n, _)| n > 1).map(|(n, s)| (s, n)).collect();
        dims.sort_unstable();
        let mut reach = 1;
        self.len() == 0
            || dims.into_iter().all(|(s, n)| {
                let clear = s >= reach;
                reach += (n - 1) * s;
                clear
            })
    }

    fn check_dim(&self, argument: &'static str, dim: usize) -> Result<()> {
        if dim < self.rank {
            return Ok(());
        }
        let allowed = match self.rank {
            0 => "a dimension of the view, which has none: its shape is []".to_owned(),
            rank => format!("a dimension of shape {:?}, below {rank}", self.shape()),
        };
        Err(Error::argument(argument, dim.to_string(), allowed))
    }

    /// With two dimensions exchanged.
    pub(crate) fn transpose(mut self, i: usize, j: usize) -> Result<Self> {
        self.check_dim("i", i)?;
        self.check_dim("j", j)?;
        self.shape.swap(i, j);
        self.strides.swap(i, j);
        Ok(self)
    }

    /// `len` indices of a dimension from `start` on, and the offset of the first element.
    pub(crate) fn narrow(mut self, dim: usize, start: usize, len: usize) -> Result<(Self, usize)> {
        self.check_dim("dim", dim)?;
        let (n, stride) = (self.shape[dim], self.strides[dim]);
        if start > n || len > n - start {
            let was = format!("{start}..{}", start.saturating_add(len));
            return Err(Error::argument(
                "start..start + len",
                was,
                format!("within 0..{n}, dimension {dim}"),
            ));
        }
        self.shape[dim] = len;
        // Nothing lies at the offset of an empty view: stay at the base, so that it is always inside.
        Ok((self, if self.len() == 0 { 0 } else { start * stride }))
    }

    /// One index of a dimension, which goes away, and the offset of the first element.
    pub(crate) fn select(self, dim: usize, index: usize) -> Result<(Self, usize)> {
        self.check_dim("dim", dim)?;
        if index >= self.shape[dim] {
            let allowed = format!("below {}, the size of dimension {dim}", self.shape[dim]);
            return Err(Error::argument("index", index.to_string(), allowed));
        }
        let (mut rest, offset) = self.narrow(dim, index, 1)?;
        rest.shape.copy_within(dim + 1.., dim);
        rest.strides.copy_within(dim + 1.., dim);
        rest.rank -= 1;
        Ok((rest, offset))
    }

    /// With a dimension of size 1 put in front of `dim`.
    pub(crate) fn insert(&self, dim: usize) -> Result<Self> {
        if dim > self.rank || self.rank == MAX_RANK {
            let allowed = format!("at most {}, in a view of fewer than {MAX_RANK} dimensions", self.rank);
            return Err(Error::argument("dim", dim.to_string(), allowed));
        }
        let mut layout = *self;
        layout.shape.copy_within(dim..self.rank, dim + 1);
        layout.strides.copy_within(dim..self.rank, dim + 1);
        layout.shape[dim] = 1;
        layout.strides[dim] = self.dims().nth(dim).map_or(1, |(n, s)| n.max(1).saturating_mul(s));
        layout.rank += 1;
        Ok(layout)
    }

    /// Stretched to `shape`: dimensions of size 1, and missing leading ones, repeat.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Result<Self> {
        let error = || {
            let allowed = format!("{:?} with sizes of 1 stretched and dimensions put in front", self.shape());
            Error::argument("shape", format!("{shape:?}"), allowed)
        };
        let lead =
            shape.len().checked_sub(self.rank).filter(|_| shape.len() <= MAX_RANK).ok_or_else(error)?;
        let mut strides = [0; MAX_RANK];
        for ((stride, &to), (n, s)) in strides[lead..].iter_mut().zip(&shape[lead..]).zip(self.dims()) {
            *stride = match n {
                n if n == to => s,
                1 => 0,
                _ => return Err(error()),
            };
        }
        Self::strided(shape, &strides[..shape.len()])
    }

    /// The same elements in the same order under another shape, if strides can say that.
    pub(crate) fn reshape(&self, shape: &[usize]) -> Result<Self> {
        let target = Self::contiguous(shape)?;
        if target.len() != self.len() {
            let allowed = format!("of {} elements, as {:?}", self.len(), self.shape());
            return Err(Error::argument("shape", format!("{shape:?}"), allowed));
        }
        if self.is_contiguous() {
            return Ok(target);
        }
        self.split(target).ok_or_else(|| {
            let allowed = format!(
                "a split or merge of dimensions of {:?} with strides {:?}",
                self.shape(),
                self.strides()
            );
            Error::argument("shape", format!("{shape:?}"), allowed)
        })
    }

    /// Gives the dimensions of `target` strides by cutting up the evenly spaced runs of this layout.
    fn split(&self, mut target: Self) -> Option<Self> {
        let mut dims = self.dims().rev().filter(|&(n, _)| n > 1).peekable();
        let (mut left, mut stride) = (1, 1);
        for dim in (0..target.rank).rev() {
            let size = target.shape[dim];
            if left == 1 && size > 1 {
                (left, stride) = dims.next()?;
                while let Some((n, _)) = dims.next_if(|&(_, s)| s == left * stride) {
                    left *= n;
                }
            }
            if left % size != 0 {
                return None;
            }
            target.strides[dim] = stride;
            left /= size;
            stride *= size;
        }
        Some(target)
    }

    /// Calls `f` with each element's offset, in row-major order.
    pub(crate) fn for_each_offset(&self, mut f: impl FnMut(usize)) {
        let mut index = [0; MAX_RANK];
        let mut offset = 0;
        for _ in 0..self.len() {
            f(offset);
            for dim in (0..self.rank).rev() {
                // Only to elements that there are: the stride of a dimension of size 1 may be anything.
                if index[dim] + 1 < self.shape[dim] {
                    index[dim] += 1;
                    offset += self.strides[dim];
                    break;
                }
                offset -= index[dim] * self.strides[dim];
                index[dim] = 0;
            }
        }
    }
}
