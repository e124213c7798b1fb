//! How a tile lies in shared memory: from (row, byte of the row) to a byte offset.
//!
//! A tile is stored as `rows` lines along its contiguous dimension, each of `line` bytes. Layouts map
//! (row, byte) to an offset and back; one definition serves the kernels, the host's tests and plots.

/// How the lines of a tile lie in shared memory.
///
/// `offset` is a bijection from `rows` x `line` bytes into `size` bytes that keeps aligned 16-byte
/// pieces together.
pub trait SharedLayout: Copy + Default + 'static {
    /// The swizzle span in bytes: 128, 64 or 32; 0 where TMA and `wgmma` cannot read the layout.
    const SWIZZLE: u32;
    /// Bytes that a tile of `rows` lines of `line` bytes takes.
    fn size(rows: u32, line: u32) -> u32;
    /// The offset of byte `byte` of line `row`.
    fn offset(rows: u32, line: u32, row: u32, byte: u32) -> u32;
    /// The address of (row + `down`, byte + `along`), from the address `at` of (row, byte) in a tile that begins at a
    /// multiple of 1024: cheaper than another [`offset`](Self::offset).
    ///
    /// `down` is a multiple of 8; below the span of a swizzle, `along` has no bit in common with `byte`.
    fn moved(rows: u32, line: u32, at: u32, down: u32, along: u32) -> u32;
    /// The (row, byte) that lies at `offset`: the inverse of [`offset`](Self::offset); `None` in padding.
    fn position(rows: u32, line: u32, offset: u32) -> Option<(u32, u32)>;
}

/// The TMA unit's swizzle: columns of `SPAN` bytes one after the other, in each of which the 16-byte
/// pieces of a line are permuted by an exclusive or with bits of its row.
///
/// `SPAN` is 128, 64 or 32 (PTX ISA, "Tensor swizzling modes"). Eight consecutive rows of one piece
/// lie in all 32 banks, so `ldmatrix` and `wgmma` read without bank conflicts; lines are multiples of `SPAN`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Swizzle<const SPAN: usize>;

impl<const SPAN: usize> Swizzle<SPAN> {
    const SPAN32: u32 = {
        assert!(SPAN == 128 || SPAN == 64 || SPAN == 32, "TMA swizzles 128, 64 or 32 bytes");
        SPAN as u32
    };

    /// What the row's number is combined with the piece's number by.
    #[inline(always)]
    pub const fn mask(row: u32) -> u32 {
        match Self::SPAN32 {
            128 => row & 7,
            64 => row >> 1 & 3,
            _ => row >> 2 & 1,
        }
    }
}

impl<const SPAN: usize> SharedLayout for Swizzle<SPAN> {
    const SWIZZLE: u32 = Self::SPAN32;

    #[inline(always)]
    fn size(rows: u32, line: u32) -> u32 {
        rows * line
    }
    #[inline(always)]
    fn offset(rows: u32, _line: u32, row: u32, byte: u32) -> u32 {
        let (column, byte) = (byte / Self::SPAN32, byte % Self::SPAN32);
        let piece = (byte / 16) ^ Self::mask(row);
        column * rows * Self::SPAN32 + row * Self::SPAN32 + piece * 16 + byte % 16
    }
    #[inline(always)]
    fn moved(rows: u32, _line: u32, at: u32, down: u32, along: u32) -> u32 {
        // Eight rows have all masks, and an exclusive or adds what has no bit in common.
        (at ^ (along % Self::SPAN32)) + (along / Self::SPAN32 * rows + down) * Self::SPAN32
    }
    fn position(rows: u32, _line: u32, offset: u32) -> Option<(u32, u32)> {
        let (column, rest) = (offset / (rows * Self::SPAN32), offset % (rows * Self::SPAN32));
        let (row, byte) = (rest / Self::SPAN32, rest % Self::SPAN32);
        let piece = (byte / 16) ^ Self::mask(row);
        Some((row, column * Self::SPAN32 + piece * 16 + byte % 16))
    }
}

/// Line after line, each followed by 16 bytes of padding: free of `ldmatrix` conflicts where a line is
/// a multiple of 128 bytes, at any other width where no swizzle fits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Padded;

/// Bytes of padding behind each line of [`Padded`].
const PADDING: u32 = 16;

impl SharedLayout for Padded {
    const SWIZZLE: u32 = 0;

    #[inline(always)]
    fn size(rows: u32, line: u32) -> u32 {
        rows * (line + PADDING)
    }
    #[inline(always)]
    fn offset(_rows: u32, line: u32, row: u32, byte: u32) -> u32 {
        row * (line + PADDING) + byte
    }
    #[inline(always)]
    fn moved(_rows: u32, line: u32, at: u32, down: u32, along: u32) -> u32 {
        at + down * (line + PADDING) + along
    }
    fn position(_rows: u32, line: u32, offset: u32) -> Option<(u32, u32)> {
        let (row, byte) = (offset / (line + PADDING), offset % (line + PADDING));
        (byte < line).then_some((row, byte))
    }
}

/// Line after line without gaps: what a row vector or a staging buffer needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear;

impl SharedLayout for Linear {
    const SWIZZLE: u32 = 0;

    #[inline(always)]
    fn size(rows: u32, line: u32) -> u32 {
        rows * line
    }
    #[inline(always)]
    fn offset(_rows: u32, line: u32, row: u32, byte: u32) -> u32 {
        row * line + byte
    }
    #[inline(always)]
    fn moved(_rows: u32, line: u32, at: u32, down: u32, along: u32) -> u32 {
        at + down * line + along
    }
    fn position(_rows: u32, line: u32, offset: u32) -> Option<(u32, u32)> {
        Some((offset / line, offset % line))
    }
}

/// Which of a matrix's two dimensions is contiguous in memory.
pub trait Major: Copy + Default + 'static {
    /// The other order.
    type Transposed: Major<Transposed = Self>;
    /// True when the columns of a row are neighbours.
    const ROW_MAJOR: bool;
}

/// The columns of a row are neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowMajor;

/// The rows of a column are neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColMajor;

impl Major for RowMajor {
    type Transposed = ColMajor;
    const ROW_MAJOR: bool = true;
}

impl Major for ColMajor {
    type Transposed = RowMajor;
    const ROW_MAJOR: bool = false;
}
