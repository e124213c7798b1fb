//! Which bytes a view touches, to tell whether two views overlap.

use std::ops::Range;

use super::layout::Layout;

/// The bytes of a view's elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region<'a> {
    pub(crate) address: u64,
    /// Bytes of an element.
    pub(crate) width: usize,
    /// Borrowed: the tensors of a call are copied from place to place, and layouts are large.
    pub(crate) layout: &'a Layout,
}

impl Region<'_> {
    /// From the first byte to behind the last.
    pub(crate) fn span(&self) -> Range<u64> {
        self.address..self.address + (self.layout.extent() * self.width) as u64
    }

    /// Whether some byte may belong to both.
    ///
    /// Exact for views whose spans are apart, and for windows of one matrix or of matrices with one pitch,
    /// such as the column blocks of a fused projection. Other interleaved views count as overlapping when
    /// their spans do.
    pub(crate) fn overlaps(&self, other: &Region<'_>) -> bool {
        let (a, b) = (self.span(), other.span());
        if a.is_empty() || b.is_empty() || a.end <= b.start || b.end <= a.start {
            return false;
        }
        let mut pitches = self.pitches().chain(other.pitches());
        !pitches.any(|pitch| self.avoids(other, pitch))
    }

    /// Byte distances between rows, planes, and so on.
    fn pitches(&self) -> impl Iterator<Item = u64> {
        let width = self.width;
        self.layout.dims().filter(|&(n, s)| n > 1 && s > 0).map(move |(_, s)| (s * width) as u64)
    }

    /// Whether the two lie in different columns of memory cut into lines of `pitch` bytes.
    fn avoids(&self, other: &Region<'_>, pitch: u64) -> bool {
        let (Some(mine), Some(theirs)) = (self.run(pitch), other.run(pitch)) else { return false };
        let gap = if other.address >= self.address {
            (other.address - self.address) % pitch
        } else {
            (pitch - (self.address - other.address) % pitch) % pitch
        };
        gap >= mine && gap + theirs <= pitch
    }

    /// Bytes that the view takes of every line, if its outer strides are whole lines.
    fn run(&self, pitch: u64) -> Option<u64> {
        let mut run = self.width as u64;
        for (n, s) in self.layout.dims().filter(|&(n, _)| n > 1) {
            let stride = (s * self.width) as u64;
            if stride < pitch {
                run += (n as u64 - 1) * stride;
            } else if !stride.is_multiple_of(pitch) {
                return None;
            }
        }
        (run <= pitch).then_some(run)
    }
}
