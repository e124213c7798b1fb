//! A CTA's columns of a state, in registers.

use tilewright_device::tile::{
    Accumulates, Collective, Cta, Element, Fragment, Fresh, Global, GlobalMut, Operand, Parking, Pending,
    RowMajor, Shared, Src, Swizzle, copy, gemm,
};

use crate::policy::{CHUNK, States};

/// Sᵀ of `DV` columns of V: `PARTS` parts of `D` channels of K, each the accumulator of a gemm.
pub struct State<Y: Accumulates<DV, D>, const DV: usize, const D: usize, const PARTS: usize> {
    /// But for what is parked of each.
    parts: [Fragment<f32, DV, D, Y>; PARTS],
    parking: Parking<DV, D, Y>,
}

/// Registers of each part that are parked: of a state of several parts those that the delta rule needs.
const fn parked(parts: usize, delta: bool) -> usize {
    if delta && parts > 1 { 16 } else { 0 }
}

impl<Y: Accumulates<DV, D>, const DV: usize, const D: usize, const PARTS: usize> State<Y, DV, D, PARTS> {
    /// Room for a state, by the delta rule or without it.
    #[inline(always)]
    pub fn parking<P: Collective>(cta: &mut Cta<P>, delta: bool) -> Parking<DV, D, Y> {
        Parking::new(cta, PARTS as u32, parked(PARTS, delta))
    }

    /// Of these parts.
    #[inline(always)]
    fn new(parking: Parking<DV, D, Y>, part: impl Fn(u32) -> Fragment<f32, DV, D, Y>) -> Self {
        let mut state = State { parts: [Fragment::zero(); PARTS], parking };
        let mut i = 0;
        while i < PARTS {
            state.set(i, part(i as u32));
            i += 1;
        }
        state
    }

    /// A part.
    #[inline(always)]
    fn part(&self, i: usize) -> Fragment<f32, DV, D, Y> {
        // SAFETY: `new` put all parts.
        unsafe { self.parking.take(i as u32, self.parts[i]) }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, part: Fragment<f32, DV, D, Y>) {
        self.parts[i] = self.parking.put(i as u32, part);
    }

    /// That of a block of V's columns, of states \[state, head, column, channel\].
    #[inline(always)]
    pub fn load(
        parking: Parking<DV, D, Y>,
        from: Global<f32, 4, RowMajor, 0>,
        [state, head, block]: [u32; 3],
    ) -> Self {
        Self::new(parking, |i| Fragment::load(from.tile([state, head, block, i])))
    }

    /// Writes them there.
    #[inline(always)]
    pub fn store(self, mut to: GlobalMut<f32, 4, RowMajor, 0>, [state, head, block]: [u32; 3]) {
        let mut i = 0;
        while i < PARTS {
            copy(self.part(i), to.tile([state, head, block, i as u32]));
            i += 1;
        }
    }

    /// The `block`-th `DV` rows of the identity.
    #[inline(always)]
    pub fn identity(parking: Parking<DV, D, Y>, block: u32) -> Self {
        let on_diagonal = |i: u32, row: u32, col: u32| block * DV as u32 + row == i * D as u32 + col;
        let one = |is: bool| if is { 1.0 } else { 0.0 };
        Self::new(parking, |i| Fragment::zero().map_indexed(|row, col, _: f32| one(on_diagonal(i, row, col))))
    }

    /// Each part by `f`, which takes where its channels begin.
    #[inline(always)]
    pub fn map(mut self, f: impl Fn(u32, Fragment<f32, DV, D, Y>) -> Fragment<f32, DV, D, Y>) -> Self {
        let mut i = 0;
        while i < PARTS {
            self.set(i, f((i * D) as u32, self.part(i)));
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
            seen = gemm(Y::default(), self.part(i).cast::<T>(), x.part::<D>(i as u32).t(), seen).wait();
            i += 1;
        }
        seen
    }

    /// Sᵀ Xᵀ, and `onto` + Sᵀ Yᵀ: a part is rounded once for both.
    #[inline(always)]
    pub fn seen_by_both<T: Element, const DK: usize>(
        &self,
        x: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
        y: Src<'_, Shared<T, CHUNK, DK, Swizzle<128>>>,
        onto: Fragment<f32, DV, CHUNK, Y>,
    ) -> (Fragment<f32, DV, CHUNK, Y>, Fragment<f32, DV, CHUNK, Y>)
    where
        Y: States<T, DV, D>,
    {
        let (mut of_x, mut of_y, mut i) = (Fragment::zero(), onto, 0);
        while i < PARTS {
            let part = self.part(i).cast::<T>();
            let seen = gemm(Y::default(), part, x.part::<D>(i as u32).t(), of_x);
            (of_x, of_y) = (seen, gemm(Y::default(), part, y.part::<D>(i as u32).t(), of_y)).wait();
            i += 1;
        }
        (of_x, of_y)
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
        gemm(Y::default(), self.part(0).cast::<T>(), x.part::<D>(0).t(), onto)
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
        let seen = gemm(Y::default(), self.part(0).cast::<T>(), x.part::<D>(0).t(), Fresh::new());
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
            self.set(i, gemm(Y::default(), v, k.part::<D>(i as u32), self.part(i)).wait());
            i += 1;
        }
        self
    }
}
