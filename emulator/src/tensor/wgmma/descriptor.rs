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

    /// Where a core matrix begins in the unswizzled matrix: number `group` along M or N, and `core` along K.
    pub(crate) fn core(self, transposed: bool, group: u32, core: u32) -> u32 {
        let pieces = self.span / 16;
        match (transposed, self.span) {
            (false, 16) => group * self.stride + core * self.leading,
            // Swizzled, the pieces of a row are neighbours, and the leading offset is not used.
            (false, _) => group * self.stride + core * 16,
            (true, 16) => group * self.stride + core * self.leading,
            (true, _) => group / pieces * self.leading + group % pieces * 16 + core * self.stride,
        }
    }

    /// The address of a piece of a core matrix that begins there: a row of M or N, or where it is transposed of K.
    pub(crate) fn piece(self, core: u32, row: u32) -> u32 {
        self.swizzle(core + row * self.span)
    }

    /// The addresses of the pieces of a matrix of `extent` along M or N and so many core matrices along K, each eight those of one.
    pub(crate) fn pieces(self, transposed: bool, extent: u32, cores: u32) -> impl Iterator<Item = u32> {
        (0..extent / 8).flat_map(move |group| {
            (0..cores).flat_map(move |core| {
                let core = self.core(transposed, group, core);
                (0..8).map(move |row| self.piece(core, row))
            })
        })
    }

    /// The address of what is `offset` bytes after the start in the unswizzled matrix.
    fn swizzle(self, offset: u32) -> u32 {
        let address = self.start + offset;
        let row = (address >> 7).wrapping_sub(self.base_offset) & (self.span / 16 - 1);
        (address ^ row << 4) & 0x3_ffff
    }
}
