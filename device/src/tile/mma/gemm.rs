//! The gemm of tiles, and the rule by which it fixes the layouts of its operands.

use core::marker::PhantomData;

use crate::arch::mma::{E4M3E5M2x2, E4M3x2, E5M2E4M3x2, E5M2x2, HalfTf32, I8x2};
use crate::arch::special::thread_x;
use crate::arch::wgmma as arch_wgmma;
use crate::layout::{Element, FragmentLayout, Major, Registers, SharedLayout, Sum, Swizzle};
use crate::tile::cta::collective::expect_computing;
use crate::tile::fragment::held::{Held, Packed};
use crate::tile::fragment::{Fragment, Operand};
use crate::tile::memory::shared::{Shared, Src, Transposed};
use crate::tile::mma::accumulates::Accumulates;
use crate::tile::mma::in_flight::Issued;
use half::{bf16, f16};

/// What `gemm(policy, A[M, K], B[K, N], D[M, N])` of elements `T`, summed up in `S`, needs: the inference rule.
///
/// Sums are of `f32`, but for [`I8x2`] of `i32`. Of it and of pairs of 8-bit floats K is counted in pairs, of `HalfTf32` in halves, and both operands are contiguous along
/// K. Sums of 8-bit floats keep fewer bits than an f32 has: add up those of 128 along K in registers
/// ([`Loads::run_promoted`](crate::tile::Loads::run_promoted)). Implemented by the warp policies for the shapes that the hardware has:
///
/// | policy | M | N | elements |
/// | --- | --- | --- | --- |
/// | `Warpgroups<WM, WN>` (`wgmma`): `FullRow`, `FullCol` | 64 or 128 for each of `WM` = 1 to 4 warpgroups, 192 of 1 or 2, 256 of one | a multiple of 8 to 256 for each of `WN` = 1, 2 or 4 | f16, bf16, pairs of 8-bit floats, `HalfTf32`; `I8x2` where that is 8, 24 or a multiple of 16 |
/// | `PerWarpgroup<W>`, whose `W` warpgroups compute tiles in turn | 64, 128, 192 or 256 | a multiple of 8 to 256 | as `Warpgroups` |
/// | `Warpgroup<G>`, one among several, A without a swizzle | 64 | a multiple of 8 to 256 | f16, bf16 |
/// | `Warps<WM, WN>` (`mma.sync`): `warp::FullRow`, `warp::FullCol`, `warp::Square` | 16 or 32 for each of `WM` = 1, 2, 4, 8 or 16 warps, 48 or 64 of 1, 2 or 4, 128 of 1 or 2 | a multiple of 8 to 256 for each of `WN` = 1, 2 or 4 | f16, bf16, `I8x2` |
/// | `Tf32<Warps<WM, WN>>` | as `Warps` | as `Warps` | f32, rounded to tf32 |
/// | `Threads<TY, TX, RUN>`, B row-major | 1, 2, 4, 8 or 16 for each of `TY` threads | as many for each of `TX` | f32, exactly |
/// | `KMajor<Threads<TY, TX>>`, A row-major, B column-major | as `Threads` | as `Threads` | f32, exactly |
///
/// K of 16-bit elements is 16, 32, 320, 512, 576 or a multiple of 16 from 64 to 256; of f32 16, 32, 64 or 128. A policy that takes A from a
/// fragment too is [`GemmRegisters`].
///
/// # Generic policies
/// `A` and `B` are how the operands lie in shared memory. Of a policy that is a parameter nobody knows them: where a tile is read by two
/// products, or allocated with a layout, rustc finds that types mismatch. The bound says the layout, for each of the products:
///
/// ```text
/// fn kernel<P>(…)
/// where
///     P: Gemm<f16, 128, 128, 64, A = Swizzle<128>, B = Swizzle<128>> + Gemm<f16, 128, 64, 128, A = Swizzle<128>, B = Swizzle<128>>,
/// ```
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot compute a {M} x {N} x {K} tile of `{T}`",
    label = "no instruction shape covers this tile",
    note = "each warpgroup takes blocks of 64 rows and 8 to 256 columns, each warp blocks of 16 rows; K is 16, 32 or a multiple of 64",
    note = "f32 are multiplied by `Tf32<P>`, P a policy of `warp`, or exactly by `Threads<TY, TX, RUN>` and `KMajor<Threads<TY, TX>>`"
)]
pub trait Gemm<T: Element, const M: usize, const N: usize, const K: usize, S: Sum = f32>:
    Copy + Default
{
    /// The shared layout of A.
    type A: SharedLayout;
    /// The shared layout of B.
    type B: SharedLayout;
    /// The register layout of D.
    type D: Accumulates<M, N>;

    /// D += A B, or D = A B if not `add`, both in shared memory.
    ///
    /// # Safety
    /// `a` and `b` are full tiles of types `Shared<T, M, K, Self::A, OA>` and `Shared<T, K, N, Self::B, OB>`;
    /// all threads that hold D execute it, and do not touch `d` before a wait.
    #[doc(hidden)]
    unsafe fn issue<OA: Major, OB: Major>(
        a: u32,
        b: u32,
        add: bool,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<S>,
    );
}

/// A [`Gemm`] whose A may also be a fragment in registers.
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot take A of a {M} x {N} x {K} tile of `{T}` from registers",
    note = "each warp needs whole rows of A: use a FullRow policy"
)]
pub trait GemmRegisters<T: Element, const M: usize, const N: usize, const K: usize, S: Sum = f32>:
    Gemm<T, M, N, K, S>
{
    /// The register layout of A: where M, N and K allow it, that of an accumulator.
    type R: FragmentLayout<M, K>;

    /// D += A B, or D = A B if not `add`, A in registers, B in shared memory.
    ///
    /// # Safety
    /// As for [`Gemm::issue`]; `a` stays in its registers until a wait.
    #[doc(hidden)]
    unsafe fn issue_registers<OB: Major>(
        a: &Packed<<Self::R as FragmentLayout<M, K>>::Regs<[u32; 4]>>,
        b: u32,
        add: bool,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<S>,
    );
}

/// The shared layout of an operand tile with lines of `K` elements.
#[diagnostic::on_unimplemented(
    message = "an operand tile of depth {K} of `{Self}` has no swizzled layout",
    note = "16-bit elements: 16, 32, 320, 512, 576, or a multiple of 16 from 64 to 256; of 64 where K is contiguous; f32: 16, 32, 64, 128"
)]
pub trait OperandLayout<const K: usize>: Element {
    /// The layout: the widest swizzle that a multiple of K up to 64 fills.
    type Layout: SharedLayout;
}

macro_rules! operand_layouts {
    ($($t:ident)*) => { $(
        operand_layouts!($t: 32 => 16; 64 => 32; 128 => 64 80 96 112 128 144 160 176 192 208 224 240 256 320 512 576;);
    )* };
    ($t:ident: $($swizzle:literal => $($k:literal)*;)*) => { $($(
        #[diagnostic::do_not_recommend]
        impl OperandLayout<$k> for $t { type Layout = Swizzle<$swizzle>; }
    )*)* };
}
operand_layouts!(f16 bf16 I8x2 E4M3x2 E5M2x2 E4M3E5M2x2 E5M2E4M3x2 HalfTf32);
operand_layouts!(f32: 64 => 16; 128 => 32 64 128;);

/// The left operand of a gemm: an `M` x `K` tile in shared memory, as it is or transposed, or a fragment.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the left operand of a {M} x {N} x {K} gemm of `{T}`",
    note = "A is an M x K tile of a full stage, or a K x M tile with `.t()`, or a fragment of M x K"
)]
pub trait MatA<P, T, const M: usize, const N: usize, const K: usize, S = f32>
where
    P: Gemm<T, M, N, K, S>,
    T: Element,
    S: Sum,
{
    /// What of it the gemm reads in registers.
    type Held: Held;
    /// Issues the gemm.
    ///
    /// # Safety
    /// As for [`Gemm::issue`].
    #[doc(hidden)]
    unsafe fn issue<OB: Major>(
        self,
        b: u32,
        add: bool,
        d: &mut <P::D as FragmentLayout<M, N>>::Regs<S>,
    ) -> Self::Held;
}

/// The right operand of a gemm: a `K` x `N` tile in shared memory, as it is or transposed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the right operand of a {M} x {N} x {K} gemm of `{T}`",
    note = "B is a K x N tile of a full stage, or an N x K tile with `.t()`"
)]
pub trait MatB<P, T, const M: usize, const N: usize, const K: usize, S = f32>
where
    P: Gemm<T, M, N, K, S>,
    T: Element,
    S: Sum,
{
    /// Which dimension of the `K` x `N` matrix is contiguous.
    type Order: Major;
    /// The tile's address in shared memory.
    fn address(&self) -> u32;
}

impl<P, T, S, L, O, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K, S>
    for Src<'_, Shared<T, M, K, L, O>>
where
    P: Gemm<T, M, N, K, S, A = L>,
    T: Element,
    S: Sum,
    O: Major,
{
    type Held = ();
    #[inline(always)]
    unsafe fn issue<OB: Major>(self, b: u32, add: bool, d: &mut <P::D as FragmentLayout<M, N>>::Regs<S>) {
        // SAFETY: passed on; the tile's type is what `issue` expects.
        unsafe { P::issue::<O, OB>(self.address, b, add, d) }
    }
}

impl<P, T, S, L, O, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K, S>
    for Transposed<'_, Shared<T, K, M, L, O>>
where
    P: Gemm<T, M, N, K, S, A = L>,
    T: Element,
    S: Sum,
    O: Major,
{
    type Held = ();
    #[inline(always)]
    unsafe fn issue<OB: Major>(self, b: u32, add: bool, d: &mut <P::D as FragmentLayout<M, N>>::Regs<S>) {
        // SAFETY: passed on; a transposed tile is a tile of the other order.
        unsafe { P::issue::<O::Transposed, OB>(self.0.address, b, add, d) }
    }
}

impl<P, T, S, L, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K, S>
    for Fragment<T, M, K, L>
where
    P: GemmRegisters<T, M, N, K, S, R = L>,
    T: Element,
    S: Sum,
    L: FragmentLayout<M, K>,
{
    type Held = Packed<L::Regs<[u32; 4]>>;
    #[inline(always)]
    unsafe fn issue<OB: Major>(
        self,
        b: u32,
        add: bool,
        d: &mut <P::D as FragmentLayout<M, N>>::Regs<S>,
    ) -> Self::Held {
        // SAFETY: passed on.
        unsafe { MatA::<P, T, M, N, K, S>::issue::<OB>(self.operand(), b, add, d) }
    }
}

impl<P, T, S, L, const M: usize, const N: usize, const K: usize> MatA<P, T, M, N, K, S>
    for Operand<T, M, K, L>
where
    P: GemmRegisters<T, M, N, K, S, R = L>,
    T: Element,
    S: Sum,
    L: FragmentLayout<M, K>,
{
    type Held = Packed<L::Regs<[u32; 4]>>;
    #[inline(always)]
    unsafe fn issue<OB: Major>(
        self,
        b: u32,
        add: bool,
        d: &mut <P::D as FragmentLayout<M, N>>::Regs<S>,
    ) -> Self::Held {
        // SAFETY: passed on.
        unsafe { P::issue_registers::<OB>(&self.regs, b, add, d) };
        self.regs
    }
}

impl<P, T, S, L, O, const M: usize, const N: usize, const K: usize> MatB<P, T, M, N, K, S>
    for Src<'_, Shared<T, K, N, L, O>>
where
    P: Gemm<T, M, N, K, S, B = L>,
    T: Element,
    S: Sum,
    O: Major,
{
    type Order = O;
    #[inline(always)]
    fn address(&self) -> u32 {
        self.address
    }
}

impl<P, T, S, L, O, const M: usize, const N: usize, const K: usize> MatB<P, T, M, N, K, S>
    for Transposed<'_, Shared<T, N, K, L, O>>
where
    P: Gemm<T, M, N, K, S, B = L>,
    T: Element,
    S: Sum,
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
    note = "gemms accumulate into a fragment of f32, of int8 into one of i32; one in flight must be waited for before other work takes it"
)]
pub trait MatD<const M: usize, const N: usize> {
    /// What it sums up in.
    type Sum: Sum;
    /// How it lies in registers.
    type Layout: Accumulates<M, N>;
    /// False when the gemm overwrites it.
    const ADD: bool;
    /// Hands the fragment to the gemm: as it is, or to be overwritten.
    fn issued(self) -> Fragment<Self::Sum, M, N, Self::Layout>;
}

/// An accumulator that begins with the gemm: D = A B.
pub struct Fresh<L, S = f32>(PhantomData<(L, S)>);

impl<L, S> Fresh<L, S> {
    /// No accumulator yet.
    #[inline(always)]
    #[expect(clippy::new_without_default, reason = "nothing is there")]
    pub fn new() -> Self {
        Fresh(PhantomData)
    }
}

impl<S: Sum, L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N> for Fresh<L, S> {
    type Sum = S;
    type Layout = L;
    const ADD: bool = false;
    #[inline(always)]
    fn issued(self) -> Fragment<S, M, N, L> {
        let mut d = Fragment::<S, M, N, L>::splat(S::ZERO);
        let mut i = 0;
        while i < <L::Regs<S> as Registers<S>>::LEN {
            if L::ASYNCHRONOUS {
                d.regs.set(i, S::from_bits(arch_wgmma::overwritten().to_bits()));
            }
            i += 1;
        }
        d
    }
}

/// An accumulator that begins with the gemm, D = A B, in the registers of a fragment that nobody needs any more.
///
/// In a loop that holds few others: of [`Fresh`] registers, which are written by nothing before the gemm, ptxas may take some for each gemm.
pub struct Over<D>(pub D);

impl<S: Sum, L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N> for Over<Fragment<S, M, N, L>> {
    type Sum = S;
    type Layout = L;
    const ADD: bool = false;
    #[inline(always)]
    fn issued(self) -> Fragment<S, M, N, L> {
        self.0
    }
}

impl<S: Sum, L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N> for Fragment<S, M, N, L> {
    type Sum = S;
    type Layout = L;
    const ADD: bool = true;
    #[inline(always)]
    fn issued(self) -> Self {
        self
    }
}

impl<S: Sum, L: Accumulates<M, N>, const M: usize, const N: usize> MatD<M, N>
    for Issued<Fragment<S, M, N, L>>
{
    type Sum = S;
    type Layout = L;
    const ADD: bool = true;
    #[inline(always)]
    fn issued(self) -> Fragment<S, M, N, L> {
        self.0
    }
}

/// D += A B for tiles A \[M, K\], B \[K, N\] and an accumulator D \[M, N\], divided among warps by `policy`.
///
/// Fixes the layouts of all three. On Hopper the gemm is only issued: see [`Issued`].
#[inline(always)]
pub fn gemm<P, A, B, D, T, S, const M: usize, const N: usize, const K: usize>(
    _policy: P,
    a: A,
    b: B,
    d: D,
) -> Issued<Fragment<S, M, N, P::D>, A::Held>
where
    D: MatD<M, N, Sum = S, Layout = P::D>,
    P: Gemm<T, M, N, K, S>,
    A: MatA<P, T, M, N, K, S>,
    B: MatB<P, T, M, N, K, S>,
    T: Element,
    S: Sum,
{
    expect_computing(P::D::THREADS);
    let mut d = d.issued();
    let held = if thread_x() < P::D::THREADS {
        // SAFETY: operands that can be read are full, their types say how they lie; `Issued` owns the accumulator
        // and A's registers until a wait; the threads that hold it execute tile operations converged.
        unsafe { a.issue::<B::Order>(b.address(), D::ADD, &mut d.regs) }
    } else {
        A::Held::none()
    };
    Issued(d, held)
}
