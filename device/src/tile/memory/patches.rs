//! Patches of images: the matrix that a convolution multiplies by its weights, which no memory holds (implicit GEMM; Chetlur et al. 2014).

use crate::abi::{GlobalAbi, KernelArg, PassedAsIs, Plain};
use crate::layout::{Element, RowMajor};
use crate::tile::memory::division::Division;
use crate::tile::memory::global::Global;

/// Where the taps of a filter lie in one direction.
///
/// Tap t of output o reads pixel `first` + o `stride` + `offset` + t `step`: those from `first` - 1 down or behind the image's last
/// are zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taps {
    /// How many.
    pub count: u32,
    /// The pixel of the first output under an offset of 0.
    pub first: i32,
    /// Pixels from one output to the next.
    pub stride: u32,
    /// The first tap's offset.
    pub offset: u32,
    /// From one tap's offset to the next one's. Offsets are not negative.
    pub step: i32,
}

impl Taps {
    /// The offset of tap `t`.
    #[inline(always)]
    pub const fn at(&self, t: u32) -> u32 {
        self.offset.wrapping_add(t.wrapping_mul(self.step as u32))
    }
}

/// How a filter goes over images: its taps, and the order of outputs and of steps along the depth.
///
/// Made by the host, which also prepares the divisions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PatchOrder {
    depth: Taps,
    height: Taps,
    width: Taps,
    /// Outputs of all images.
    pub(in crate::tile) outputs: u32,
    /// Images that are planes of a volume.
    pub(in crate::tile) planes: u32,
    /// Lines of filters from one of their slices to the next, and from row to row.
    lines: [u32; 2],
    /// Blocks of channels of a tap.
    blocks: u32,
    /// Channels of a pixel if a line of depth goes on over the pixels of an image's row; else 0.
    pub(in crate::tile) joined: u32,
    by_volume: Division,
    by_image: Division,
    by_row: Division,
    by_blocks: Division,
    by_columns: Division,
    by_rows: Division,
}

/// The third dimension of a convolution: its images are planes of volumes, and its filters have slices of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volumes {
    /// Where the slices of a filter lie.
    pub depth: Taps,
    /// Images of a volume.
    pub planes: u32,
    /// Planes of outputs of a volume.
    pub outputs: u32,
    /// Lines of filters from one of their slices to the next, and from row to row.
    pub lines: [u32; 2],
}

impl Volumes {
    /// Images by themselves.
    pub const IMAGES: Volumes = Volumes {
        depth: Taps { count: 1, first: 0, stride: 1, offset: 0, step: 0 },
        planes: 1,
        outputs: 1,
        lines: [0, 1],
    };
}

impl PatchOrder {
    /// The most outputs and steps that an order can describe.
    pub const MOST: u32 = 1 << 31;

    /// A filter of these taps over images, each with so many rows and columns of outputs: of volumes, `images` are their planes of outputs.
    /// `blocks` is into how many parts a tap's channels are divided.
    ///
    /// `None` when there are more outputs or more steps than [`MOST`](Self::MOST).
    pub fn new(
        images: u32,
        [rows, columns]: [u32; 2],
        [height, width]: [Taps; 2],
        blocks: u32,
        Volumes { depth, planes, outputs: volume, lines }: Volumes,
    ) -> Option<Self> {
        let image = rows.checked_mul(columns)?;
        let outputs = images.checked_mul(image).filter(|&count| count <= Self::MOST)?;
        let taps = depth.count.checked_mul(height.count)?.checked_mul(width.count)?;
        taps.checked_mul(blocks).filter(|&steps| steps <= Self::MOST)?;
        Some(PatchOrder {
            depth,
            height,
            width,
            outputs,
            planes,
            lines,
            blocks,
            joined: 0,
            by_volume: Division::by(volume),
            by_image: Division::by(image),
            by_row: Division::by(columns),
            by_blocks: Division::by(blocks),
            by_columns: Division::by(width.count),
            by_rows: Division::by(height.count),
        })
    }

    /// The same over images whose pixels, of so many channels, follow each other: a tap's channels go on from pixel to pixel, so that one tap
    /// of the width is a filter's whole row. Not by TMA.
    pub const fn joined(self, channels: u32) -> Self {
        PatchOrder { joined: channels, ..self }
    }

    /// Outputs of all images.
    pub const fn outputs(&self) -> u32 {
        self.outputs
    }

    /// Volume, and plane, row and column under an offset of 0, of output `m`.
    #[inline(always)]
    pub(in crate::tile) fn output(&self, m: u32) -> (u32, [i32; 3]) {
        let (image, rest) = self.by_image.of(m);
        let (volume, plane) = self.by_volume.of(image);
        let (row, column) = self.by_row.of(rest);
        let first = |taps: &Taps, at: u32| taps.first.wrapping_add(at.wrapping_mul(taps.stride) as i32);
        (volume, [first(&self.depth, plane), first(&self.height, row), first(&self.width, column)])
    }

    /// Step `k` along the depth.
    #[inline(always)]
    fn tap(&self, k: u32) -> Tap {
        let (tap, block) = self.by_blocks.of(k);
        let (row, column) = self.by_columns.of(tap);
        let (slice, row) = self.by_rows.of(row);
        Tap { slice, row, column, block }
    }

    /// The step behind one.
    #[inline(always)]
    fn next(&self, Tap { mut slice, mut row, mut column, mut block }: Tap) -> Tap {
        block += 1;
        if block == self.blocks {
            (block, column) = (0, column + 1);
            if column == self.width.count {
                (column, row) = (0, row + 1);
                if row == self.height.count {
                    (row, slice) = (0, slice + 1);
                }
            }
        }
        Tap { slice, row, column, block }
    }

    /// The offsets of a tap: along the depth, down, then to the right.
    #[inline(always)]
    pub(in crate::tile) fn offsets(&self, tap: Tap) -> [u32; 3] {
        [self.depth.at(tap.slice), self.height.at(tap.row), self.width.at(tap.column)]
    }
}

impl PassedAsIs for PatchOrder {}

// SAFETY: numbers to calculate with: what they lead to outside of the images reads as zeros.
unsafe impl Plain for PatchOrder {}

/// A step along the depth of patches: a tap of the filter, and a block of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// The filter's slice; 0 of images.
    pub slice: u32,
    /// The filter's row.
    pub row: u32,
    /// The filter's column.
    pub column: u32,
    /// Which block of channels.
    pub block: u32,
}

/// Images \[images, height, width, groups, channels\] as a convolution reads them: a matrix of a row for each output and a column for each
/// tap and channel, for each group. Images may be the planes of [`Volumes`].
///
/// By TMA the tiles are read in its im2col mode (PTX ISA, "im2col mode"): the host makes the map for tiles of as many outputs as the
/// kernel's.
pub struct Patches<T> {
    pub(in crate::tile) images: Global<T, 5, RowMajor>,
    pub(in crate::tile) order: PatchOrder,
}

/// [`Patches`] as the host passes them.
#[repr(C)]
#[derive(Debug)]
pub struct PatchesAbi<T> {
    /// The images. Their map is one in im2col mode, of the dimensions channels of all groups, width, height, images; where volumes have
    /// several planes of the dimensions channels of all groups, width, height, planes, volumes.
    pub images: GlobalAbi<T, 5>,
    /// How the filter goes over them.
    pub order: PatchOrder,
}

impl<T> Clone for PatchesAbi<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for PatchesAbi<T> {}

impl<T> Clone for Patches<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Patches<T> {}

impl<T: Element> KernelArg for Patches<T> {
    type Abi = PatchesAbi<T>;

    #[inline(always)]
    unsafe fn load(at: *const PatchesAbi<T>) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        unsafe { Patches { images: KernelArg::load(&raw const (*at).images), order: (*at).order } }
    }
}

/// A tile of patches: rows of outputs, columns of a tap's block of channels.
pub struct PatchTile<T> {
    pub(in crate::tile) of: Patches<T>,
    pub(in crate::tile) group: u32,
    /// Which tile of outputs.
    pub(in crate::tile) index: u32,
    pub(in crate::tile) tap: Tap,
}

impl<T: Element> Patches<T> {
    /// Steps along the depth.
    #[inline(always)]
    pub fn steps(&self) -> u32 {
        let PatchOrder { depth, height, width, blocks, .. } = &self.order;
        depth.count * height.count * width.count * blocks
    }
    /// Step `k` of them: all blocks of a tap's channels follow each other, then the taps of a row, then the rows of a slice.
    #[inline(always)]
    pub fn tap(&self, k: u32) -> Tap {
        self.order.tap(k)
    }
    /// The step behind `tap`, without divisions: a producer of small tiles has no time for them.
    #[inline(always)]
    pub fn next(&self, tap: Tap) -> Tap {
        self.order.next(tap)
    }
    /// The line of a tensor of filters, in which the rows of all slices are one dimension, that a tap is in: of images its row.
    #[inline(always)]
    pub fn line(&self, tap: Tap) -> u32 {
        let [slice, row] = self.order.lines;
        tap.slice * slice + tap.row * row
    }
    /// Outputs of all images: rows of the matrix.
    #[inline(always)]
    pub fn outputs(&self) -> u32 {
        self.order.outputs
    }
    /// Image, row and column of output `m`; none behind the last.
    #[inline(always)]
    pub fn output(&self, m: u32) -> Option<[u32; 3]> {
        let (image, rest) = self.order.by_image.of(m);
        let (row, column) = self.order.by_row.of(rest);
        (m < self.order.outputs).then_some([image, row, column])
    }
    /// The `index`-th tile of outputs, at a tap, of a group's channels. Outputs behind the last, and channels behind the group's last, are
    /// zeros; by TMA channels are zeros behind the last group's last.
    #[inline(always)]
    pub fn tile(self, group: u32, index: u32, tap: Tap) -> PatchTile<T> {
        PatchTile { of: self, group, index, tap }
    }
}

impl<T: Element> PatchTile<T> {
    /// The first channel, counted from the group's first, if tiles have `channels` columns.
    #[inline(always)]
    pub(in crate::tile) fn first_channel(&self, channels: u32) -> u32 {
        self.tap.block * channels
    }

    /// The image and the pixel of row `row`, if tiles have `rows` rows; none behind the last output, and where there is no such image. The
    /// pixel may be outside.
    #[inline(always)]
    pub(in crate::tile) fn pixel(&self, rows: u32, row: u32) -> Option<(u32, [i32; 2])> {
        let order = &self.of.order;
        let m = self.index * rows + row;
        let (volume, [z, y, x]) = order.output(m);
        let [along, down, right] = order.offsets(self.tap);
        let plane = (z as u32).wrapping_add(along);
        let inside = m < order.outputs && plane < order.planes;
        inside.then_some((volume * order.planes + plane, [y + down as i32, x + right as i32]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taps(count: u32, first: i32, stride: u32, offset: u32, step: i32) -> Taps {
        Taps { count, first, stride, offset, step }
    }

    #[test]
    fn outputs_and_steps_are_counted_as_the_loops_count_them() {
        let (height, width) = (taps(3, -1, 2, 0, 2), taps(2, -2, 1, 3, -3));
        let order = PatchOrder::new(2, [3, 4], [height, width], 5, Volumes::IMAGES).unwrap();
        let mut m = 0;
        for image in 0..2 {
            for row in 0..3 {
                for column in 0..4 {
                    assert_eq!(order.output(m), (image, [0, -1 + 2 * row, -2 + column]));
                    m += 1;
                }
            }
        }
        assert_eq!(m, order.outputs());
        let at = |row, column| order.offsets(Tap { slice: 0, row, column, block: 0 });
        assert_eq!([at(0, 0), at(1, 1), at(2, 0)], [[0, 0, 3], [0, 2, 0], [0, 4, 3]]);
    }

    #[test]
    fn planes_of_volumes_are_counted_as_the_loops_count_them() {
        let (depth, height, width) = (taps(3, -1, 3, 0, 4), taps(2, 0, 1, 0, 1), taps(1, 0, 1, 0, 1));
        let volumes = Volumes { depth, planes: 7, outputs: 2, lines: [5, 2] };
        let order = PatchOrder::new(4, [2, 3], [height, width], 5, volumes).unwrap();
        let mut m = 0;
        for volume in 0..2 {
            for plane in 0..2 {
                for (row, column) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
                    assert_eq!(order.output(m), (volume, [-1 + 3 * plane, row, column]));
                    m += 1;
                }
            }
        }
        assert_eq!(m, order.outputs());
        assert_eq!(order.offsets(Tap { slice: 2, row: 1, column: 0, block: 0 }), [8, 1, 0]);
    }

    #[test]
    fn steps_follow_each_other_as_they_are_numbered() {
        let volumes = Volumes { depth: taps(2, 0, 1, 0, 1), ..Volumes::IMAGES };
        for ([rows, columns], blocks) in [([3, 2], 4), ([1, 1], 1), ([2, 1], 3), ([1, 4], 1)] {
            let sides = [rows, columns].map(|count| taps(count, 0, 1, 0, 1));
            let order = PatchOrder::new(1, [8, 8], sides, blocks, volumes).unwrap();
            let mut tap = order.tap(0);
            for k in 1..2 * rows * columns * blocks {
                tap = order.next(tap);
                assert_eq!(tap, order.tap(k), "step {k} of {rows} x {columns} taps of {blocks} blocks");
            }
        }
    }

    #[test]
    fn orders_have_limits() {
        let (one, images) = (taps(1, 0, 1, 0, 1), Volumes::IMAGES);
        assert!(PatchOrder::new(1 << 20, [1 << 6, 1 << 5], [one, one], 1, images).is_some());
        assert!(PatchOrder::new(1 << 20, [1 << 6, 1 << 6], [one, one], 1, images).is_none());
        let many = taps(1 << 16, 0, 1, 0, 1);
        assert!(PatchOrder::new(1, [1, 1], [many, many], 1, images).is_none());
        let volumes = Volumes { depth: many, ..images };
        assert!(PatchOrder::new(1, [1, 1], [many, one], 1, volumes).is_none());
    }
}
