//! Keys of so many columns that they lie in two chunks, of which each has a pipeline of its own.

use tilewright_device::tile::{
    Accumulates, Codes, Cta, Element, Fill, Fragment, Fresh, Gemm, Issued, Loads, Ring, Schedule, Shared,
    SharedTile, Src, Stages, Turn, gemm,
};

use crate::kept::Kept;

/// A tile of each chunk in each of its stages; of a second chunk that there is not, a ring without memory.
#[inline(always)]
pub fn tiles<S: SharedTile, const N: usize>(
    (first, second): (&Stages<N>, Option<&Stages<N>>),
    cta: &mut Cta<impl Schedule>,
) -> [Ring<S, N>; 2] {
    [first.alloc(cta), second.unwrap_or(first).alloc_if(second.is_some(), cta)]
}

/// Tiles of `BN` keys of `C`, which lie so that they become operands with the layout `L` of gemms of `T`.
pub type KeyTiles<T, C, L, const BN: usize, const D: usize, const N: usize> =
    [Ring<Shared<C, BN, D, <C as Kept<T>>::Staged<L>>, N>; 2];

/// The loads of keys, and of their second chunk if they have one.
pub struct KeyLoads<'p, P: Schedule, I, F, G, const N: usize, const CHUNKS: usize> {
    pub first: Loads<'p, P, N, false, I, F>,
    pub second: Option<Loads<'p, P, N, false, I, G>>,
}

/// The turns of a block's chunks.
#[must_use = "give the stages back when they have been read"]
pub struct KeyTurns<const N: usize>(Turn<N>, Option<Turn<N>>);

impl<P, I, F, G, const N: usize, const CHUNKS: usize> KeyLoads<'_, P, I, F, G, N, CHUNKS>
where
    P: Schedule,
    I: Iterator<Item = u32>,
    F: for<'s> FnMut(Fill<'s, P, N>, u32),
    G: for<'s> FnMut(Fill<'s, P, N>, u32),
{
    /// Takes the next block's stages, and issues Q Kᵀ; `before` comes before the first gemm. `q` and `k_s` have the tiles of both chunks; those of codes
    /// become operands in `room`, and have no second one.
    ///
    /// Two chunks lie in stages that stay where they are: their addresses are in no registers over a loop.
    #[inline(always)]
    pub fn scores<'q, Y, T, C, const BM: usize, const BN: usize, const D: usize>(
        &mut self,
        q: impl Fn(usize) -> Src<'q, Shared<T, BM, D, Y::A>>,
        k_s: &KeyTiles<T, C, Y::B, BN, D, N>,
        (room, codes): (&mut C::Room<P, BN, D, Y::B>, Codes),
        before: impl FnOnce(),
    ) -> (Issued<Fragment<f32, BM, BN, Y>>, KeyTurns<N>)
    where
        Y: Gemm<T, BM, BN, D, D = Y> + Accumulates<BM, BN>,
        T: Element,
        C: Kept<T>,
    {
        let first = self.first.acquire();
        before();
        // By the constant, so that the compiler need not follow what is not there.
        if CHUNKS > 1
            && let Some(loads) = &mut self.second
        {
            let keys = C::operand(room, k_s[0].at(first.full()).anew(), codes);
            let s = gemm(Y::default(), q(0).anew(), keys.t(), Fresh::new());
            let second = loads.acquire();
            let keys = C::operand(room, k_s[1].at(second.full()).anew(), codes);
            let s = gemm(Y::default(), q(1).anew(), keys.t(), s);
            return (s, KeyTurns(first, Some(second)));
        }
        let keys = C::operand(room, k_s[0].at(first.full()), codes);
        (gemm(Y::default(), q(0), keys.t(), Fresh::new()), KeyTurns(first, None))
    }

    /// Gives a block's stages back.
    #[inline(always)]
    pub fn release(&mut self, KeyTurns(first, second): KeyTurns<N>) {
        self.first.release(first);
        if CHUNKS > 1
            && let (Some(loads), Some(second)) = (&mut self.second, second)
        {
            loads.release(second);
        }
    }
}
