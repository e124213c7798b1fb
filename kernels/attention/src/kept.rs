//! The element type that keys and values are kept in: that of the queries, or codes of 8 bits.

use tilewright_device::arch::global;
use tilewright_device::layout::SharedLayout;
use tilewright_device::tile::{
    Codes, Collective, Cta, Decode, E4M3, Element, Half, I8, Scratch, Shared, Src, Swizzle,
};
use tilewright_device::{bf16, f16};

use crate::cache::Cache;

/// An element type of caches, whose tiles become operands of gemms of `T`.
pub trait Kept<T: Element>: Element {
    /// Whether it is a code, with a scale.
    const CODES: bool;
    /// How a tile lies in a stage, where the gemm's operand lies by `L`.
    type Staged<L: SharedLayout>: SharedLayout;
    /// Where the operand is made of a stage's tile, if it is not that itself.
    type Room<P: Collective, const R: usize, const C: usize, L: SharedLayout>;

    /// Room for one operand.
    fn room<P: Collective, const R: usize, const C: usize, L: SharedLayout>(
        cta: &mut Cta<P>,
    ) -> Self::Room<P, R, C, L>;

    /// The operand of a full stage's tile. Gemms that read the last one are committed before.
    fn operand<'t, P: Collective, const R: usize, const C: usize, L: SharedLayout>(
        room: &'t mut Self::Room<P, R, C, L>,
        tile: Src<'t, Shared<Self, R, C, Self::Staged<L>>>,
        codes: Codes,
    ) -> Src<'t, Shared<T, R, C, L>>;
}

macro_rules! kept {
    ($($t:ident)*) => { $(
        impl Kept<$t> for $t {
            const CODES: bool = false;
            type Staged<L: SharedLayout> = L;
            type Room<P: Collective, const R: usize, const C: usize, L: SharedLayout> = ();

            #[inline(always)]
            fn room<P: Collective, const R: usize, const C: usize, L: SharedLayout>(_: &mut Cta<P>) {}

            #[inline(always)]
            fn operand<'t, P: Collective, const R: usize, const C: usize, L: SharedLayout>(
                (): &'t mut (),
                tile: Src<'t, Shared<$t, R, C, L>>,
                _: Codes,
            ) -> Src<'t, Shared<$t, R, C, L>> {
                tile
            }
        }
    )* };
}
kept!(f16 bf16);

impl<T: Half> Kept<T> for u8
where
    E4M3: Decode<T>,
    I8: Decode<T>,
{
    const CODES: bool = true;
    type Staged<L: SharedLayout> = Swizzle<128>;
    type Room<P: Collective, const R: usize, const C: usize, L: SharedLayout> =
        Scratch<P, Shared<T, R, C, L>>;

    #[inline(always)]
    fn room<P: Collective, const R: usize, const C: usize, L: SharedLayout>(
        cta: &mut Cta<P>,
    ) -> Scratch<P, Shared<T, R, C, L>> {
        cta.scratch()
    }

    #[inline(always)]
    fn operand<'t, P: Collective, const R: usize, const C: usize, L: SharedLayout>(
        room: &'t mut Scratch<P, Shared<T, R, C, L>>,
        tile: Src<'t, Shared<u8, R, C, Swizzle<128>>>,
        codes: Codes,
    ) -> Src<'t, Shared<T, R, C, L>> {
        room.widen(&tile, codes);
        room.full()
    }
}

/// What codes stand for, and what their values are multiplied by: f32, one for all heads or for each.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CodesOf {
    /// Addresses of the scales of keys and of values; 0 where they are 1.
    pub scales: [u64; 2],
    /// Bytes from a head's scales to the next one's.
    pub steps: [u32; 2],
    /// 1 for int8, 0 for e4m3.
    pub int8: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

impl CodesOf {
    /// For keys and values that are none.
    pub const NONE: Self = CodesOf { scales: [0; 2], steps: [0; 2], int8: 0, padding: 0 };

    /// The codes.
    #[inline(always)]
    pub fn codes(&self) -> Codes {
        if self.int8 != 0 { Codes::Int8 } else { Codes::E4M3 }
    }
}

impl Cache {
    /// What a head's keys and values are to be multiplied by.
    #[inline(always)]
    pub fn scales<T: Element, C: Kept<T>>(&self, kv_head: u32) -> [f32; 2] {
        let mut scales = [1.0; 2];
        let mut i = 0;
        while C::CODES && i < 2 {
            if self.codes.scales[i] != 0 {
                let at = self.codes.scales[i] + kv_head as u64 * self.codes.steps[i] as u64;
                // SAFETY: the host passes a scale for all heads, or one for each.
                scales[i] = f32::from_bits(unsafe { global::ld_global_u32(at as *const u32) });
            }
            i += 1;
        }
        scales
    }
}
