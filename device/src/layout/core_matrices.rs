//! The shared layout of `wgmma` operands without a swizzle.

use super::shared::SharedLayout;

/// Blocks of 16 elements of depth one after the other, in each of which 8 lines of 16 bytes lie together (PTX ISA,
/// "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Strides", without swizzling).
///
/// For operands whose depth fills no swizzle: lines are multiples of 32 bytes, of 8 lines each.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoreMatrices;

/// Bytes of depth that one instruction takes of a line.
const BLOCK: u32 = 32;
/// Bytes of a core matrix's line.
const LINE: u32 = 16;
/// Bytes of a core matrix: 8 lines.
const MATRIX: u32 = 8 * LINE;

impl CoreMatrices {
    /// Bytes from a core matrix to the next one along the depth.
    pub const LEADING: u32 = MATRIX;
    /// Bytes from a core matrix to that of the next eight lines.
    pub const STRIDE: u32 = 2 * MATRIX;
}

impl SharedLayout for CoreMatrices {
    const SWIZZLE: u32 = 0;

    #[inline(always)]
    fn size(rows: u32, line: u32) -> u32 {
        rows * line
    }
    #[inline(always)]
    fn offset(rows: u32, _line: u32, row: u32, byte: u32) -> u32 {
        let (block, byte) = (byte / BLOCK, byte % BLOCK);
        block * rows * BLOCK
            + row / 8 * Self::STRIDE
            + byte / LINE * Self::LEADING
            + row % 8 * LINE
            + byte % LINE
    }
    #[inline(always)]
    fn moved(rows: u32, _line: u32, at: u32, down: u32, along: u32) -> u32 {
        at + along / BLOCK * rows * BLOCK
            + along % BLOCK / LINE * Self::LEADING
            + down / 8 * Self::STRIDE
            + along % LINE
    }
    fn position(rows: u32, _line: u32, offset: u32) -> Option<(u32, u32)> {
        let (block, rest) = (offset / (rows * BLOCK), offset % (rows * BLOCK));
        let (eight, rest) = (rest / Self::STRIDE, rest % Self::STRIDE);
        let (half, rest) = (rest / Self::LEADING, rest % Self::LEADING);
        Some((eight * 8 + rest / LINE, block * BLOCK + half * LINE + rest % LINE))
    }
}
