//! What Q, K and V of 8-bit floats are multiplied by.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::global;

/// A scale of each head of each sequence: `f32`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeadScales {
    /// Address of the first; 0 where all are 1.
    pub address: u64,
    /// Elements from a sequence's to the next one's, and from a head's.
    pub strides: [u64; 2],
}

impl HeadScales {
    /// All 1.
    pub const ONES: Self = HeadScales { address: 0, strides: [0; 2] };

    #[inline(always)]
    fn get(&self, sequence: u32, head: u32) -> f32 {
        if self.address == 0 {
            return 1.0;
        }
        let [of_sequence, of_head] = self.strides;
        let at = self.address + (sequence as u64 * of_sequence + head as u64 * of_head) * 4;
        // SAFETY: the host passes a scale for each head of each sequence, or strides of 0; nobody writes them while the kernel runs.
        f32::from_bits(unsafe { global::ld_global_u32(at as *const u32) })
    }
}

/// Those of Q, of K and of V.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Of Q's heads.
    pub q: HeadScales,
    /// Of K's heads.
    pub k: HeadScales,
    /// Of V's heads.
    pub v: HeadScales,
}

impl Scales {
    /// Those that scores are multiplied by: of Q and of K.
    #[inline(always)]
    pub(super) fn of_scores(&self, sequence: u32, head: u32, kv_head: u32) -> [f32; 2] {
        [self.q.get(sequence, head), self.k.get(sequence, kv_head)]
    }

    /// That of V.
    #[inline(always)]
    pub(super) fn of_values(&self, sequence: u32, kv_head: u32) -> f32 {
        self.v.get(sequence, kv_head)
    }
}

impl PassedAsIs for Scales {}
