//! From images to a stage or a fragment, as the patches that a convolution multiplies.

use crate::abi::SWIZZLE_BYTES;
use crate::arch::declare::refuse;
use crate::arch::{cp_async, mbarrier, shared, tma};
use crate::layout::{Element, FragmentLayout, RowMajor, SharedLayout};
use crate::tile::copy::load::{PIECE, UNROLLED, for_each_piece};
use crate::tile::fragment::Fragment;
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::patches::PatchTile;
use crate::tile::memory::shared::{Dst, Shared, SharedTile};
use crate::tile::memory::window::read_if;

impl<T, L, P, const R: usize, const C: usize> CopyTo<Dst<'_, Shared<T, R, C, L, RowMajor>, P>>
    for PatchTile<T>
where
    T: Element,
    L: SharedLayout,
    P: Loader,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Shared<T, R, C, L, RowMajor>, P>) {
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill, with its ticket.
        unsafe { P::load_patches::<T, L, R, C>(self, to.address, to.ticket) }
    }
}

/// To a fragment, whose rows are outputs.
impl<T, L, const M: usize, const N: usize> CopyTo<&mut Fragment<T, M, N, L>> for PatchTile<T>
where
    T: Element,
    L: FragmentLayout<M, N>,
{
    #[inline(always)]
    fn copy_to(self, to: &mut Fragment<T, M, N, L>) {
        let channel = self.first_channel(N as u32);
        let place = |row| {
            let (image, [y, x]) = self.pixel(M as u32, row)?;
            // Before the first pixel they have wrapped, and are outside.
            Some([image, y as u32, x as u32, self.group, channel])
        };
        self.of.images.gather(place).copy_to(to)
    }
}

/// No pieces are copied without a loop: by elements they take many registers, which more CTAs of an SM use better.
const LOOP: u32 = 0;

/// Copies a tile by TMA in its im2col mode, in boxes of all of its outputs and 128 bytes of channels, completing on `barrier`; called by one
/// thread.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads, `barrier` is its stage's full barrier. The images' map is one in
/// im2col mode, for `R` outputs.
#[inline(always)]
pub(crate) unsafe fn patches_tma<T, L, const R: usize, const C: usize>(
    from: PatchTile<T>,
    to: u32,
    barrier: u32,
    parts: u32,
) where
    T: Element,
    L: SharedLayout,
{
    const {
        assert!(
            L::SWIZZLE == SWIZZLE_BYTES,
            "TMA boxes are swizzled over 128 bytes: make the tile's channels a multiple of 64"
        )
    };
    if parts > 1 {
        refuse!("patches are copied by TMA for all warpgroups together: take `Cta::pipeline`");
    }
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    let images = &from.of.images;
    let (volume, [z, y, x]) = from.of.order.output(from.index * lines);
    let [deep, down, right] = from.of.order.offsets(from.tap).map(|offset| offset as u16);
    let volumes = from.of.order.planes > 1;
    let channel = from.group * images.cols() + from.first_channel(C as u32);
    // SAFETY: passed on; the boxes tile the destination, and the barrier expects all their bytes.
    unsafe {
        mbarrier::expect_tx(barrier, Shared::<T, R, C, L, RowMajor>::bytes());
        let mut along = 0;
        while along < line / SWIZZLE_BYTES {
            let channel = channel + along * SWIZZLE_BYTES / T::BYTES as u32;
            let to = to + along * lines * SWIZZLE_BYTES;
            if volumes {
                let at = [channel, x as u32, y as u32, z as u32, volume];
                let offsets = [right, down, deep];
                tma::load_im2col_5d_hint(to, images.map, at, offsets, barrier, images.policy);
            } else {
                let at = [channel, x as u32, y as u32, volume];
                tma::load_im2col_4d_hint(to, images.map, at, [right, down], barrier, images.policy);
            }
            along += 1;
        }
    }
}

/// Channels of a row of patches, from one of them on.
struct Run<T> {
    pointer: *const T,
    /// Elements between channels.
    step: u64,
    /// The first channel, and how many there are.
    channels: [u32; 2],
    /// The first element, counted from the first of an image's row, and how many that has; the same as the channels where pixels are not joined.
    joined: [u32; 2],
}

impl<T: Element> PatchTile<T> {
    /// Those of row `row` from `channel` on, if tiles have `rows` rows.
    #[inline(always)]
    fn run(&self, rows: u32, row: u32, channel: u32) -> Run<T> {
        let (images, order) = (&self.of.images, &self.of.order);
        let ([n, h, w, g, c], [_, height, width, _, channels]) = (images.strides, images.shape);
        let m = self.index * rows + row;
        let (volume, [z, y, x]) = order.output(m);
        let [deep, down, right] = order.offsets(self.tap);
        let (plane, y, x) =
            ((z as u32).wrapping_add(deep), (y as u32).wrapping_add(down), (x as u32).wrapping_add(right));
        let image = (volume * order.planes).wrapping_add(plane);
        // Where pixels are joined those before the row's first are inside in part. What is the same in all rows stands together.
        let pixel = (image as u64 * n + y as u64 * h) as i64 + x as i32 as i64 * w as i64;
        let moved = self.group as u64 * g + channel as u64 * c;
        let inside =
            m < order.outputs && plane < order.planes && y < height && (order.joined > 0 || x < width);
        let channels = [channel, if inside { channels } else { 0 }];
        Run {
            pointer: images.pointer.wrapping_offset(pixel.wrapping_add(moved as i64) as isize).cast_const(),
            step: c,
            channels,
            joined: match order.joined {
                0 => channels,
                // Before the row's first element it has wrapped.
                pixel => [x.wrapping_mul(pixel).wrapping_add(channel), width * pixel],
            },
        }
    }
}

impl<T: Element> Run<T> {
    /// The bits of 16 bytes of them, `step` elements apart; zeros where they are not `inside`, which says so of no others than it
    /// [has](Self::has).
    #[inline(always)]
    fn elements(&self, step: u64, inside: impl Fn(u32) -> bool) -> [u32; 4] {
        let mut words = [0; 4];
        let mut i = 0;
        while i < PIECE / T::BYTES as u32 {
            let (per_word, bits) = (4 / T::BYTES as u32, 8 * T::BYTES as u32);
            let at = self.pointer.wrapping_add((i as u64 * step) as usize);
            // SAFETY: only elements inside the images are read.
            let x = unsafe { read_if(at, inside(i)) };
            words[(i / per_word) as usize] |= x << (i % per_word * bits);
            i += 1;
        }
        words
    }
    /// Whether channel `i` from the first on is inside the images.
    #[inline(always)]
    fn has(&self, i: u32) -> bool {
        let [[channel, channels], [element, elements]] = [self.channels, self.joined];
        channel + i < channels && element.wrapping_add(i) < elements
    }
}

/// Copies a tile by `cp.async` in pieces of 16 bytes; called by all of `threads` threads. Where not `live`, it fills with zeros.
///
/// # Safety
/// As for `vector_load`; pixels begin at multiples of 16 bytes.
#[inline(always)]
pub(crate) unsafe fn patches_vectors<T, L, const R: usize, const C: usize>(
    from: PatchTile<T>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    L: SharedLayout,
{
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    let first = from.first_channel(C as u32);
    for_each_piece(lines, line, threads, UNROLLED[0], |row, byte| {
        let run = from.run(lines, row, first + byte / T::BYTES as u32);
        // SAFETY: passed on; only pieces inside the images are read. Neither channels nor pixels end inside one.
        unsafe {
            cp_async::copy16_if(
                to + L::offset(lines, line, row, byte),
                run.pointer.cast(),
                live && run.has(0),
            )
        }
    });
}

/// Copies a tile element by element, for any strides and alignment; called by all of `threads` threads. Where not `live`, it fills with
/// zeros.
///
/// # Safety
/// `to` is a tile of type `Shared<T, R, C, L>` that nobody reads.
#[inline(always)]
pub(crate) unsafe fn patches_elements<T, L, const R: usize, const C: usize>(
    from: PatchTile<T>,
    to: u32,
    threads: u32,
    live: bool,
) where
    T: Element,
    L: SharedLayout,
{
    let (lines, line) = (R as u32, (C * T::BYTES) as u32);
    let first = from.first_channel(C as u32);
    for_each_piece(lines, line, threads, LOOP, |row, byte| {
        let run = from.run(lines, row, first + byte / T::BYTES as u32);
        let words = if live && run.step == 1 && run.has(0) && run.has(PIECE / T::BYTES as u32 - 1) {
            // Most pieces: nothing is asked of each element.
            run.elements(1, |_| true)
        } else {
            run.elements(run.step, |i| live && run.has(i))
        };
        // SAFETY: passed on.
        unsafe { shared::store_u32x4(to + L::offset(lines, line, row, byte), words) };
    });
}
