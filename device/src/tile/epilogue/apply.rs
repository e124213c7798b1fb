//! The epilogue of a gemm-like kernel: what it does with an accumulator before it stores it.

use crate::abi::KernelArg;
use crate::arch::declare::in_place;
use crate::layout::{Element, FragmentLayout};
use crate::tile::epilogue::activation::Activation;
use crate::tile::epilogue::output::Finish;
use crate::tile::epilogue::term::{Absent, Term};
use crate::tile::fragment::Fragment;

/// act(alpha · rows · columns · X + beta · residual + bias) of an accumulator X, rounded to the output's type.
///
/// Each of `Bias`, `Residual`, `RowScales` and `ColumnScales` is a [`Term`]: [`ByElement`](crate::tile::ByElement),
/// [`ByRow`](crate::tile::ByRow), [`ByColumn`](crate::tile::ByColumn) or [`Absent`]. The type says which tensors a kernel has code for; whether one is there, and the
/// activation, the kernel is told at its launch. A kernel takes an `Epilogue` as an argument and calls [`apply`](Self::apply) on each tile.
/// Each part is read from the parameter block where it applies, so that a main loop holds no registers for it.
///
/// ```
/// # use tilewright_device::tile::*;
/// # fn kernel<L: OutputLayout<128, 128>>(
/// #     epilogue: Epilogue<ByElement<f16, 2>>, acc: Fragment<f32, 128, 128, L>, mut c: GlobalMut<f16, 2>,
/// #     mut out: Output<f16, 128, 128, L>, at: TileIndex,
/// # ) {
/// let place = [at.m, at.n];
/// out.store(epilogue.apply(acc, place), c.tile(place));
/// # }
/// ```
///
/// The residual is not read when beta is 0: it may be the output's old values, which may hold anything then.
pub struct Epilogue<
    Bias: KernelArg,
    Residual: KernelArg = Absent,
    RowScales: KernelArg = Absent,
    ColumnScales: KernelArg = Absent,
> {
    parameters: *const EpilogueAbi<Bias::Abi, Residual::Abi, RowScales::Abi, ColumnScales::Abi>,
    /// The result's column from which tiles are counted.
    first: u32,
}

/// An [`Epilogue`] as the host passes it: tensors without rows and columns where it is to do without them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EpilogueAbi<Bias, Residual = (), RowScales = (), ColumnScales = ()> {
    /// What is added before the activation.
    pub bias: Bias,
    /// What is added `beta` times.
    pub residual: Residual,
    /// What each row is multiplied by.
    pub row_scales: RowScales,
    /// What each column is multiplied by.
    pub column_scales: ColumnScales,
    /// The factor of the accumulator.
    pub alpha: f32,
    /// The factor of the residual, which is not read if this is 0.
    pub beta: f32,
    /// What is applied to the sum.
    pub activation: Activation,
}

impl<B: KernelArg, D: KernelArg, R: KernelArg, C: KernelArg> Clone for Epilogue<B, D, R, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: KernelArg, D: KernelArg, R: KernelArg, C: KernelArg> Copy for Epilogue<B, D, R, C> {}

impl<B: KernelArg, D: KernelArg, R: KernelArg, C: KernelArg> KernelArg for Epilogue<B, D, R, C> {
    type Abi = EpilogueAbi<B::Abi, D::Abi, R::Abi, C::Abi>;

    #[inline(always)]
    unsafe fn load(at: *const Self::Abi) -> Self {
        Epilogue { parameters: at, first: 0 }
    }
}

impl<B: KernelArg, D: KernelArg, R: KernelArg, C: KernelArg> Epilogue<B, D, R, C> {
    /// A part of the argument, read anew.
    #[inline(always)]
    fn part<A: KernelArg>(
        &self,
        of: impl FnOnce(*const EpilogueAbi<B::Abi, D::Abi, R::Abi, C::Abi>) -> *const A::Abi,
    ) -> A {
        // SAFETY: the pointer is to an initialised parameter, which outlives the kernel, and `of` to a part of it.
        unsafe { A::load(of(in_place(self.parameters))) }
    }
    #[inline(always)]
    fn bias(&self) -> B {
        // SAFETY: the field of an initialised parameter.
        self.part(|at| unsafe { &raw const (*at).bias })
    }
    #[inline(always)]
    fn residual(&self) -> D {
        // SAFETY: as above.
        self.part(|at| unsafe { &raw const (*at).residual })
    }
    #[inline(always)]
    fn row_scales(&self) -> R {
        // SAFETY: as above.
        self.part(|at| unsafe { &raw const (*at).row_scales })
    }
    #[inline(always)]
    fn column_scales(&self) -> C {
        // SAFETY: as above.
        self.part(|at| unsafe { &raw const (*at).column_scales })
    }
    /// The factor of the accumulator.
    #[inline(always)]
    pub fn alpha(&self) -> f32 {
        // SAFETY: as above.
        self.part(|at| unsafe { &raw const (*at).alpha })
    }
    #[inline(always)]
    fn beta(&self) -> f32 {
        // SAFETY: as above.
        self.part(|at| unsafe { &raw const (*at).beta })
    }
    /// Whether the launch asks for this activation.
    ///
    /// The number is read anew for each question, so that no compiler makes a jump table of the answers, for which ptxas spills.
    #[inline(always)]
    fn activates_by(&self, activation: Activation) -> bool {
        // SAFETY: as above; it is read as the number that it is, so that a wrong one is none.
        self.part::<u32>(|at| unsafe { (&raw const (*at).activation).cast() }) == activation as u32
    }

    /// The same for tiles of the result's columns from `first` on: tiles may have fewer columns than they have room for.
    #[inline(always)]
    pub fn beyond_column(self, first: u32) -> Self {
        Epilogue { first, ..self }
    }

    /// The factor of all elements of the tile at `place`, if nothing else becomes of them.
    ///
    /// Terms that are not there are code to jump over, and every jump waits for instructions: some 140 cycles on Hopper.
    #[inline(always)]
    fn only_factor<const RANK: usize>(self, place: [u32; RANK]) -> Option<f32>
    where
        B: Term<RANK>,
        D: Term<RANK>,
        R: Term<RANK>,
        C: Term<RANK>,
    {
        if self.beta() != 0.0
            || !self.activates_by(Activation::Identity)
            || self.bias().only(place, 0.0).is_none()
        {
            return None;
        }
        let scales = self.row_scales().only(place, 1.0)? * self.column_scales().only(place, 1.0)?;
        let factor = scales * self.alpha();
        // Else one after the other: elements may bear what a product of factors does not.
        (scales.is_normal() && factor.is_normal()).then_some(factor)
    }

    /// What becomes of the accumulator of the tile at `place`.
    #[inline(always)]
    pub fn apply<U: Element, const RANK: usize, const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        acc: Fragment<f32, M, N, L>,
        place: [u32; RANK],
    ) -> Fragment<U, M, N, L>
    where
        B: Term<RANK>,
        D: Term<RANK>,
        R: Term<RANK>,
        C: Term<RANK>,
    {
        if let Some(factor) = self.only_factor(place) {
            return acc.map(|x| factor * x).cast();
        }
        let first = self.first;
        let acc = self.row_scales().beyond_column(first).zip(acc, place, 1.0, |x, scale| x * scale);
        let acc = self.column_scales().beyond_column(first).zip(acc, place, 1.0, |x, scale| x * scale);
        let alpha = self.alpha();
        let mut acc = acc.map(|x| alpha * x);
        let beta = self.beta();
        if beta != 0.0 {
            acc = self.residual().beyond_column(first).zip(acc, place, 0.0, |x, old| x + beta * old);
        }
        self.activate(self.bias().beyond_column(first).zip(acc, place, 0.0, |x, bias| x + bias))
    }

    /// What becomes of an accumulator whose row r lies at `place(r)` of the result, or nowhere.
    #[inline(always)]
    pub fn apply_at<U: Element, const RANK: usize, const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        acc: Fragment<f32, M, N, L>,
        place: impl Fn(u32) -> Option<[u32; RANK]> + Copy,
    ) -> Fragment<U, M, N, L>
    where
        B: Term<RANK>,
        D: Term<RANK>,
        R: Term<RANK>,
        C: Term<RANK>,
    {
        let acc = self.row_scales().zip_at(acc, place, 1.0, |x, scale| x * scale);
        let acc = self.column_scales().zip_at(acc, place, 1.0, |x, scale| x * scale);
        let alpha = self.alpha();
        let mut acc = acc.map(|x| alpha * x);
        let beta = self.beta();
        if beta != 0.0 {
            acc = self.residual().zip_at(acc, place, 0.0, |x, old| x + beta * old);
        }
        self.activate(self.bias().zip_at(acc, place, 0.0, |x, bias| x + bias))
    }

    /// The activation of every element, rounded.
    #[inline(always)]
    fn activate<U: Element, const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        mut acc: Fragment<f32, M, N, L>,
    ) -> Fragment<U, M, N, L> {
        // One branch for all elements.
        let mut i = 1;
        while i < Activation::ALL.len() {
            let activation = Activation::ALL[i];
            if self.activates_by(activation) {
                acc = acc.map(|x| activation.apply(x));
            }
            i += 1;
        }
        acc.cast()
    }

    /// What becomes of the element `x` at (row, column) of the tile at `place`, if tiles are of `H` x `W`.
    #[inline(always)]
    pub fn apply_one<U: Element, const RANK: usize, const H: usize, const W: usize>(
        self,
        x: f32,
        place: [u32; RANK],
        at: (u32, u32),
    ) -> U
    where
        B: Term<RANK>,
        D: Term<RANK>,
        R: Term<RANK>,
        C: Term<RANK>,
    {
        let x = self.row_scales().zip_one::<H, W>(x, place, at, 1.0, |x, scale| x * scale);
        let x = self.column_scales().zip_one::<H, W>(x, place, at, 1.0, |x, scale| x * scale);
        let mut x = self.alpha() * x;
        let beta = self.beta();
        if beta != 0.0 {
            x = self.residual().zip_one::<H, W>(x, place, at, 0.0, |x, old| x + beta * old);
        }
        x = self.bias().zip_one::<H, W>(x, place, at, 0.0, |x, bias| x + bias);
        for activation in Activation::ALL {
            if self.activates_by(activation) {
                x = activation.apply(x);
            }
        }
        U::from_f32x2(x, x)[0]
    }
}

impl<U, B, D, R, C, const RANK: usize> Finish<U, RANK> for Epilogue<B, D, R, C>
where
    U: Element,
    B: Term<RANK>,
    D: Term<RANK>,
    R: Term<RANK>,
    C: Term<RANK>,
{
    #[inline(always)]
    fn finish<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
        self,
        acc: Fragment<f32, M, N, L>,
        place: [u32; RANK],
    ) -> Fragment<U, M, N, L> {
        self.apply(acc, place)
    }
}
