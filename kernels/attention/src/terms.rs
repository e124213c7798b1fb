//! What heads have beside Q and K: sinks, and slopes of ALiBi.

use core::f32::consts::LOG2_E;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;

/// Numbers of each head that its softmax takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeadTerms {
    /// Address of each head's sink, `f32` \[heads\], contiguous: a logit without a value; 0 where there are none.
    pub sinks: u64,
    /// Address of each head's slope, `f32` \[heads\] or \[batch, heads\], heads contiguous; 0 where there are none.
    pub slopes: u64,
    /// Elements from one sequence's slopes to the next one's; 0 where all have the same.
    pub slopes_stride: u64,
    /// What slopes and biases are multiplied by to be in units of what the softmax takes.
    pub unit: f32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl HeadTerms {
    /// The sink of a head, as a logarithm to base 2; -inf, which adds nothing, where there are none.
    #[inline(always)]
    pub fn sink(&self, head: u32) -> f32 {
        if self.sinks == 0 {
            return f32::NEG_INFINITY;
        }
        // SAFETY: the host passes as many sinks as there are heads.
        f32::from_bits(unsafe { global::ld_global_u32((self.sinks + head as u64 * 4) as *const u32) })
            * LOG2_E
    }

    /// Whether heads have slopes.
    #[inline(always)]
    pub fn sloped(&self) -> bool {
        self.slopes != 0
    }

    /// The slope of a sequence's head; 0 where there are none.
    #[inline(always)]
    pub fn slope(&self, sequence: u32, head: u32) -> f32 {
        if self.slopes == 0 {
            return 0.0;
        }
        let at = self.slopes + (sequence as u64 * self.slopes_stride + head as u64) * 4;
        // SAFETY: the host passes as many slopes as there are heads, of each sequence if a stride tells them apart.
        f32::from_bits(unsafe { global::ld_global_u32(at as *const u32) }) * self.unit
    }
}

impl PassedAsIs for HeadTerms {}
