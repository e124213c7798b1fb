//! The gemm of tiles, and the rule by which it fixes the layouts of its operands.

mod mma;
mod wgmma;

use super::{Fragment, Issued, Shared, Src, Transposed};
use crate::arch::special::thread_x;
use crate::layout::{Element, FragmentLayout, Major, SharedLayout, Swizzle};
use half::{bf16, f16};

/// What `gemm(policy, A[M, K], B[K, N], D[M, N])` of elements `T` needs: the inference rule.
///
/// Implemented by the warp policies for the shapes that the hardware has.
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot compute a {M} x {N} x {K} tile of `{T}`",
    label = "no instruction shape covers this tile",
    note = "each warpgroup takes blocks of 64 rows and 8 to 256 columns, each warp blocks of 16 rows; K is 16, 32 or a multiple of 64"
)]
pub trait Gemm<T: Element, const M: usize, const N: usize, const K: usize>: Copy + Default {
    /// The shared layout of A.
    type A: SharedLayout;
    /// The shared layout of B.
    type B: SharedLayout;
    /// The register layout of D.
    type D: Accumulates<M, N>;

    /// D += A B, both in shared memory.
    ///
    /// # Safety
    /// `a` and `b` are full tiles of types `Shared<T, M, K, Self::A, OA>` and `Shared<T, K, N, Self::B, OB>`;
    /// all threads that hold D execute it, and do not touch `d` before a wait.
    #[doc(hidden)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<f32>,
    );
}

/// A [`Gemm`] whose A may also be a fragment in registers.
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot take A of a {M} x {N} x {K} tile of `{T}` from registers",
    note = "each warp needs whole rows of A: use a FullRow policy"
)]
pub trait GemmRegisters<T: Element, const M: usize, const N: usize, const K: usize>:
    Gemm<T, M, N, K>
{
    /// The register layout of A: where M, N and K allow it, that of an accumulator.
    type R: FragmentLayout<M, K>;

    /// D += A B, A in registers, B in shared memory.
    ///
    /// # Safety
    /// As for [`Gemm::issue`]; nor is `a` overwritten before a wait.
    #[doc(hidden)]
    unsafe fn issue_registers<OB: Major>(
        a: &<Self::R as FragmentLayout<M, K>>::Regs<T>,
        b: u32,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<f32>,
    );
}

/// An accumulator's layout, with what waiting for its gemms takes.
pub trait Accumulates<const M: usize, const N: usize>: FragmentLayout<M, N> {
    /// True when gemms into it run asynchronously.
    const ASYNCHRONOUS: bool;
    /// Waits for all gemms of the warpgroup; see [`Pending`](super::Pending).
    ///
    /// # Safety
    /// All of the warpgroup executes it.
    #[doc(hidden)]
    unsafe fn settle(regs: &mut Self::Regs<f32>);
    /// Orders the compiler's reads of the registers behind what precedes.
    ///
    /// # Safety
    /// A wait has been executed.
    #[doc(hidden)]
    unsafe fn touch(regs: &mut Self::Regs<f32>);
}

/// The shared layout of an operand tile with lines of `K` elements.
#[diagnostic::on_unimplemented(
    message = "an operand tile of depth {K} of `{Self}` has no swizzled layout",
    note = "16-bit elements: 16, 32, 64, 128, 192 or 256"
)]
pub trait OperandLayout<const K: usize>: Element {
    /// The layout: the widest swizzle that K fills.
    type Layout: SharedLayout;
}

macro_rules! operand_layouts {
    ($($t:ty)*) => { $(
        impl OperandLayout<16> for $t { type Layout = Swizzle<32>; }
        impl OperandLayout<32> for $t { type Layout = Swizzle<64>; }
        impl OperandLayout<64> for $t { type Layout = Swizzle<128>; }
        impl OperandLayout<128> for $t { type Layout = Swizzle<128>; }
        impl OperandLayout<192> for $t { type Layout = Swizzle<128>; }
        impl OperandLayout<256> for $t { type Layout = Swizzle<128>; }
    )* };
}
operand_layouts!(f16 bf16);

/// The left operand of a gemm: an `M` x `K` tile in shared memory, as it is or transposed, or a fragment.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the left operand of a {M} x {N} x {K} gemm of `{T}`",
    note = "A is an M x K tile of a full stage, or a K x M tile with `.t()`, or a fragment of M x K"
)]
pub trait MatA<P: Gemm<T, M, N, K>, T: Element, const M: usize, const N: usize, const K: usize> {
    /// Issues the gemm.
    ///
    /// # Safety
    /// As for [`Gemm::issue`].
    #[doc(hidden)]
    unsafe fn issue<OB: Major>(self, b: u32, d: &mut <P::D as FragmentLayout<M, N>>::Regs<f32>);
}

/// The right operand of a gemm: a `K` x `N` tile in shared memory, as it is or transposed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the right operand of a {M} x {N} x {K} gemm of `{T}`",
    note = "B is a K x N tile of a full stage, or an N x K tile with `.t()`"
)]
pub trait MatB<P: Gemm<T, M, N, K>, T: Element, const M: usize, const N: usize, const K: usize> {
    /// Which dimension of the `K` x `N` matrix is contiguous.
    type Order: Major;
    /// The tile's address in shared memory.
    #[doc(hidden)]
    fn address(&self) -> u32;
}

impl<P, T, L, O, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K>
    for Src<'_, Shared<T, M, K, L, O>>
where
    P: Gemm<T, M, N, K, A = L>,
    T: Element,
    O: Major,
{
    #[inline(always)]
    unsafe fn issue<OB: Major>(self, b: u32, d: &mut <P::D as FragmentLayout<M, N>>::Regs<f32>) {
        // SAFETY: passed on; the tile's type is what `issue` expects.
        unsafe { P::issue::<O, OB>(self.address, b, d) }
    }
}

impl<P, T, L, O, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K>
    for Transposed<'_, Shared<T, K, M, L, O>>
where
    P: Gemm<T, M, N, K, A = L>,
    T: Element,
    O: Major,
{
    #[inline(always)]
    unsafe fn issue<OB: Major>(self, b: u32, d: &mut <P::D as FragmentLayout<M, N>>::Regs<f32>) {
        // SAFETY: passed on; a transposed tile is a tile of the other order.
        unsafe { P::issue::<O::Transposed, OB>(self.0.address, b, d) }
    }
}

impl<P, T, L, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K> for Fragment<T, M, K, L>
where
    P: GemmRegisters<T, M, N, K, R = L>,
    T: Element,
    L: FragmentLayout<M, K>,
{
    #[inline(always)]
    unsafe fn issue<OB: Major>(self, b: u32, d: &mut <P::D as FragmentLayout<M, N>>::Regs<f32>) {
        // SAFETY: passed on.
        unsafe { P::issue_registers::<OB>(&self.regs, b, d) }
    }
}

impl<P, T, L, O, const M: usize, const N: usize, const K: usize> MatB<P, T, M, N, K>
    for Src<'_, Shared<T, K, N, L, O>>
where
    P: Gemm<T, M, N, K, B = L>,
    T: Element,
    O: Major,
{
    type Order = O;
    #[inline(always)]
    fn address(&self) -> u32 {
        self.address
    }
}

impl<P, T, L, O, const M: usize, const N: usize, const K: usize> MatB<P, T, M, N, K>
    for Transposed<'_, Shared<T, N, K, L, O>>
where
    P: Gemm<T, M, N, K, B = L>,
    T: Element,
    O: Major,
{
    type Order = O::Transposed;
    #[inline(always)]
    fn address(&self) -> u32 {
        self.0.address
    }
}

/// The accumulator of a gemm: a fragment, or one that gemms were issued into.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the accumulator of a {M} x {N} gemm",
    note = "gemms accumulate into a fragment of f32; one in flight must be waited for before other work takes it"
)]
pub trait MatD<const M: usize, const N: usize> {
    /// How it lies in registers.
    type Layout: Accumulates<M, N>;
    /// Hands the fragment to the gemm.
    #[doc(hidden)]
    fn issued(self) -> Issued<Fragment<f32, M, N, Self::Layout>>;
}

impl<L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N> for Fragment<f32, M, N, L> {
    type Layout = L;
    #[inline(always)]
    fn issued(self) -> Issued<Self> {
        Issued(self)
    }
}

impl<L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N> for Issued<Fragment<f32, M, N, L>> {
    type Layout = L;
    #[inline(always)]
    fn issued(self) -> Self {
        self
    }
}

/// D += A B for tiles A \[M, K\], B \[K, N\] and an accumulator D \[M, N\], divided among warps by `policy`.
///
/// Fixes the layouts of all three. On Hopper the gemm is only issued: see [`Issued`].
#[inline(always)]
pub fn gemm<P, A, B, D, T, const M: usize, const N: usize, const K: usize>(
    _policy: P,
    a: A,
    b: B,
    d: D,
) -> Issued<Fragment<f32, M, N, P::D>>
where
    D: MatD<M, N, Layout = P::D>,
    P: Gemm<T, M, N, K>,
    A: MatA<P, T, M, N, K>,
    B: MatB<P, T, M, N, K>,
    T: Element,
{
    let mut d = d.issued();
    if thread_x() < P::D::THREADS {
        // SAFETY: operands that can be read are full, their types say how they lie; `Issued` owns the
        // accumulator until a wait; the threads that hold it execute tile operations converged.
        unsafe { a.issue::<B::Order>(b.address(), &mut d.0.regs) }
    }
    d
}
