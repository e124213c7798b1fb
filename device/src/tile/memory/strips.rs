//! Outputs that lie side by side in a row of an image, with the pixels that a filter of their channels sees.

use core::marker::PhantomData;

use crate::layout::Element;
use crate::tile::copy::access::Access;
use crate::tile::memory::patches::{Patches, Tap};

/// Neighbouring channels of outputs that lie side by side in a row of an image, as the thread sees them that computes them.
///
/// A pixel that two of the outputs see, under different taps, the thread reads once.
#[derive(Clone, Copy)]
pub struct Strip<T> {
    pub(in crate::tile) of: Patches<T>,
    /// The first output's first channel, under an offset of 0.
    pub(in crate::tile) pointer: *const T,
    /// Plane, row and column of the first output, under an offset of 0; before the first they have wrapped.
    pub(in crate::tile) pixel: [u32; 3],
    /// Channels from the first on.
    pub(in crate::tile) channels: u32,
}

/// A pixel under a tap, to be copied from: to a fragment of which each thread holds a row, the channels of its own strip.
pub struct StripPixel<'s, A, T> {
    pub(in crate::tile) strip: &'s Strip<T>,
    pub(in crate::tile) tap: Tap,
    /// Pixels to the right of the first output's.
    pub(in crate::tile) right: u32,
    access: PhantomData<A>,
}

impl<T: Element> Patches<T> {
    /// The strip that begins with output `m`, of the channels from `channel` on; of no channels where there is no such output.
    #[inline(always)]
    pub fn strip(&self, m: u32, channel: u32) -> Strip<T> {
        let (volume, [z, y, x]) = self.order.output(m);
        let ([n, h, w, _, c], channels) = (self.images.strides, self.images.shape[4]);
        let plane = (volume * self.order.planes) as i64 + z as i64;
        let offset = plane * n as i64 + y as i64 * h as i64 + x as i64 * w as i64 + channel as i64 * c as i64;
        Strip {
            of: *self,
            pointer: self.images.pointer.wrapping_offset(offset as isize),
            pixel: [z as u32, y as u32, x as u32],
            channels: if m < self.order.outputs { channels.saturating_sub(channel) } else { 0 },
        }
    }
}

impl<T: Element> Strip<T> {
    /// The pixel that lies so many to the right of the one that the first output sees under a tap: by `Vectors` in accesses of 16 bytes, which the host has
    /// to know that the images can be read by, by `Elements` anything.
    #[inline(always)]
    pub fn pixel<A: Access>(&self, tap: Tap, right: u32) -> StripPixel<'_, A, T> {
        StripPixel { strip: self, tap, right, access: PhantomData }
    }
}
