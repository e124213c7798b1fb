//! A CTA's columns of a state, in registers.

use tilewright_device::tile::{
    Accumulates, Element, Fragment, Fresh, Global, GlobalMut, Operand, Pending, RowMajor, Shared, Src,
    Swizzle, copy, gemm,
};

use crate::policy::{CHUNK, States};

/// Sᵀ of `DV` columns of V: `PARTS` parts of `D` channels of K, each the accumulator of a gemm.
#[derive(Clone, Copy)]
pub struct State<Y: Accumulates<DV, D>, const DV: usize, const D: usize, const PARTS: usize> {
    parts: [Fragment<f32, DV, D, Y>; PARTS],
}

impl<Y: Accumulates<DV, D>, const DV: usize, const D: usize, const PARTS: usize> State<Y, DV, D, PARTS> {
    /// Those of a block of V's columns, of states \[state, head, column, channel\].
    #[inline(always)]
    pub fn load(from: Global<f32, 4, RowMajor, 0>, [state, head, block]: [u32; 3]) -> Self {
        let mut parts = [Fragment::zero(); PARTS];
        let mut i = 0;
        while i < PARTS {
            parts[i] = Fragment::load(from.tile([state, head, block, i as u32]));
            i += 1;
        }
        State { parts }
    }

    /// Writes them there.
    #[inline(always)]
    pub fn store(self, mut to: GlobalMut<f32, 4, RowMajor, 0>, [state, head, block]: [u32; 3]) {
        let mut i = 0;
        while i < PARTS {
            copy(self.parts[i], to.tile([state, head, block, i as u32]));
            i += 1;
        }
    }

    /// The `block`-th `DV` rows of the identity.
    #[inline(always)]
    pub fn identity(block: u32) -> Self {
        let mut parts = [Fragment::zero(); PARTS];
        let mut i = 0;
        while i < PARTS {
            let first = (i * D) as u32;
            let on_diagonal = |row: u32, col: u32| block * DV as u32 + row == first + col;
            parts[i] = parts[i].map_indexed(|row, col, _| if on_diagonal(row, col) { 1.0 } else { 0.0 });
            i += 1;
        }
        State { parts }
    }

    /// Each part by `f`, which takes where its channels begin.
    #[inline(always)]
    pub fn map(mut self, f: impl Fn(u32, Fragment<f32, DV, D, Y>) -> Fragment<f32, DV, D, Y>) -> Self {
        let mut i = 0;
        while i < PARTS {
            self.parts[i] = f((i * D) as u32, self.parts[i]);
            i += 1;
        }
        self
    }

    /// `onto` + Sᵀ Xᵀ: with what a chunk's rows of Q or of keys find in it, rounded to `T`.
    #[inline(always)]
    pub fn seen_by<T: Element, const DK: usize>(
        &self,
        x: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
        onto: Fragment<f32, DV, CHUNK, Y>,
    ) -> Fragment<f32, DV, CHUNK, Y>
    where
        Y: States<T, DV, D>,
    {
        let (mut seen, mut i) = (onto, 0);
        while i < PARTS {
            seen = gemm(Y::default(), self.parts[i].cast::<T>(), x.part::<D>(i as u32).t(), seen).wait();
            i += 1;
        }
        seen
    }

    /// The same of a state of one part, issued.
    #[inline(always)]
    pub fn sees<T: Element, const DK: usize>(
        &self,
        x: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
        onto: Fragment<f32, DV, CHUNK, Y>,
    ) -> impl Pending<Done = Fragment<f32, DV, CHUNK, Y>>
    where
        Y: States<T, DV, D>,
    {
        gemm(Y::default(), self.parts[0].cast::<T>(), x.part::<D>(0).t(), onto)
    }

    /// Sᵀ Xᵀ of a state of one part, and other gemms at a time, whose operands are ready.
    #[inline(always)]
    pub fn seen_beside<T: Element, G: Pending, const DK: usize>(
        &self,
        x: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
        other: impl FnOnce() -> G,
    ) -> (Fragment<f32, DV, CHUNK, Y>, G::Done)
    where
        Y: States<T, DV, D>,
    {
        let seen = gemm(Y::default(), self.parts[0].cast::<T>(), x.part::<D>(0).t(), Fresh::new());
        (seen, other()).wait()
    }

    /// Sᵀ + Vᵀ K of a chunk.
    #[inline(always)]
    pub fn plus<T: Element, const DK: usize>(
        mut self,
        v: Operand<T, DV, CHUNK, Y>,
        k: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
    ) -> Self
    where
        Y: States<T, DV, D>,
    {
        let mut i = 0;
        while i < PARTS {
            self.parts[i] = gemm(Y::default(), v, k.part::<D>(i as u32), self.parts[i]).wait();
            i += 1;
        }
        self
    }
}
