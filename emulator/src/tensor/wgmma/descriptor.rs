//! Where the matrices of `wgmma` lie in shared memory.
//!
//! PTX ISA, "Matrix Descriptor Format", "Strides" and "Canonical Layouts". The unit is the core matrix: eight pieces of
//! 16 bytes, which are rows of M or N where the operand is K-major, else rows of K. The swizzle permutes bits of the
//! address, so that a matrix may begin anywhere in a swizzled tile.

/// Bytes that stay together in every layout.
pub(crate) const PIECE: usize = 16;

/// A matrix descriptor, lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// The address of the first element, below 2¹⁸.
    pub(crate) start: u32,
    /// The leading dimension's byte offset.
    pub(crate) leading: u32,
    /// The stride dimension's byte offset.
    pub(crate) stride: u32,
    /// Bits 7 to 9 of the address at which the swizzle's pattern begins.
    pub(crate) base_offset: u32,
    /// The span of the swizzle: 128, 64 or 32, or 16 for none.
    pub(crate) span: u32,
}

/// A piece of a matrix: 16 bytes along K of a K-major one, else along M or N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Where it lies.
    pub(crate) address: u32,
    /// The first element's place along M or N.
    pub(crate) outer: usize,
    /// The first element's k, in pieces of 16 bytes where the matrix is K-major.
    pub(crate) k: usize,
}

impl Descriptor {
    /// Takes the fields out of the operand.
    pub(crate) fn decode(bits: u64) -> Self {
        let field = |from: u32, width: u32| (bits >> from & ((1 << width) - 1)) as u32;
        Descriptor {
            start: field(0, 14) << 4,
            leading: field(16, 14) << 4,
            stride: field(32, 14) << 4,
            base_offset: field(49, 3),
            span: [16, 128, 64, 32][field(62, 2) as usize],
        }
    }

    /// The pieces of a matrix of `extent` along M or N and 32 bytes, or 16 rows where it is transposed, along K;
    /// each eight are a core matrix.
    pub(crate) fn pieces(self, transposed: bool, extent: usize) -> impl Iterator<Item = Piece> {
        (0..extent / 8 * 16).map(move |i| {
            let (row, second, group) = (i % 8, i / 8 % 2, i / 16);
            if transposed {
                let k = second * 8 + row;
                Piece { address: self.mn_major(group as u32, k as u32), outer: group * 8, k }
            } else {
                let outer = group * 8 + row;
                Piece { address: self.k_major(outer as u32, second as u32), outer, k: second }
            }
        })
    }

    /// The address of piece `piece` (0 or 1) of row `outer` of a K-major matrix.
    fn k_major(self, outer: u32, piece: u32) -> u32 {
        // Swizzled, the two pieces of a row are neighbours, and the leading offset is not used.
        let across = if self.span == 16 { self.leading } else { 16 };
        self.swizzle(outer / 8 * self.stride + outer % 8 * self.span + piece * across)
    }

    /// The address of piece `piece` along M or N of row `k` of a matrix that is contiguous along M or N.
    fn mn_major(self, piece: u32, k: u32) -> u32 {
        let (across, down) =
            if self.span == 16 { (self.stride, self.leading) } else { (self.leading, self.stride) };
        let pieces = self.span / 16;
        self.swizzle(piece / pieces * across + piece % pieces * 16 + k / 8 * down + k % 8 * self.span)
    }

    /// The address of what is `offset` bytes after the start in the unswizzled matrix.
    fn swizzle(self, offset: u32) -> u32 {
        let address = self.start + offset;
        let row = (address >> 7).wrapping_sub(self.base_offset) & (self.span / 16 - 1);
        (address ^ row << 4) & 0x3_ffff
    }
}
