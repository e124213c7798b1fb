//! Which kernel convolves: an estimate of each one's time.

use std::fmt;

use tilewright_device::kernel::Listed;
use tilewright_ssd::ConvKernel;

use crate::ops::frame::{Choice, Cycles, Rated, Rejection, of_shape};
use crate::ops::ssd::sequences::Extent;
use crate::{Device, Error, KernelSet, Result};

/// One compiled kernel.
pub type Compiled = Listed<ConvKernel>;

impl Rated for ConvKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_ssd::KERNELS;

    fn size(&self) -> [u32; 3] {
        let [tokens, channels] = self.tile;
        [tokens, channels, self.taps]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [tokens, channels] = self.tile;
        write!(f, "{tokens} tokens x {channels} channels a warp, up to {} taps", self.taps)
    }
}

/// A checked call.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) extent: Extent,
    pub(super) channels: usize,
    pub(super) width: usize,
    pub(super) element: &'static str,
    pub(super) kernels: &'static [Compiled],
}

impl Problem {
    /// The widest filter.
    pub(super) const MAX_WIDTH: usize = 8;

    /// The width of filters `w` of so many channels.
    pub(super) fn width(w: &[usize], channels: usize) -> Result<usize> {
        match w {
            &[of, width @ 1..=Problem::MAX_WIDTH] if of == channels => Ok(width),
            shape => {
                let allowed = format!(
                    "of shape [{channels}, width], of the channels of `x`, a width of 1 to {}",
                    Problem::MAX_WIDTH
                );
                Err(Error::argument("w", of_shape(shape), allowed))
            }
        }
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        self.kernels
    }
    fn what(&self) -> String {
        self.element.to_owned()
    }

    /// The constants are guesses for an H200, not measured: an SM runs 12 warps at a time, of which one takes 400 cycles to load its taps and 60 for a token,
    /// 10 more for each tap beyond the fourth.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if self.width > kernel.taps as usize {
            return Err(Rejection::AtMost { what: "filters of a width", most: kernel.taps });
        }
        // Behind the first tile no token reads the state before the sequence, which the first tile's warps may overwrite.
        if kernel.tile[0] < kernel.taps && self.extent.longest > kernel.tile[0] as usize {
            return Err(Rejection::AtMost { what: "sequences of rows", most: kernel.tile[0] });
        }
        let [tokens, channels] = kernel.tile.map(u64::from);
        let tiles = (self.extent.longest as u64).div_ceil(tokens).max(1);
        if tiles > 65535 {
            return Err(Rejection::AtMost { what: "sequences of rows", most: 65535 * kernel.tile[0] });
        }
        let warps =
            tiles.saturating_mul(self.extent.count as u64 * (self.channels as u64).div_ceil(channels));
        let turns = warps.div_ceil(u64::from(self.device.sm_count()).max(1) * 12);
        let token = 20 + 10 * u64::from(kernel.taps);
        let taken = tokens.min(self.extent.longest as u64);
        // A tile of several tokens is loaded whole, however many it has.
        let rows = taken.next_multiple_of(if tokens > 1 { 4 } else { 1 });
        Ok(Cycles(turns.saturating_mul(400 + token * rows).saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
