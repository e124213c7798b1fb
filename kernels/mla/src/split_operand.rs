//! The gemm of one warpgroup whose left operand is divided along K: the first part in registers, the rest in shared memory.
//!
//! `wgmma` with both operands in shared memory reads twice what it reads with one in registers: for narrow products the
//! bandwidth of shared memory is the limit. What of an operand has room in registers goes there.

use core::marker::PhantomData;
use core::ops::Range;

use tilewright_device::arch::special::thread_x_volatile;
use tilewright_device::arch::wgmma::{self, Descriptor, Settle, Wgmma};
use tilewright_device::arch::{ldmatrix, shared, sync};
use tilewright_device::layout::registers::{ColumnBlocks, ColumnsOf, Nested};
use tilewright_device::tile::barriers::WARPGROUP;
use tilewright_device::tile::{
    Accumulator, CoreMatrices, Element, Fragment, FragmentLayout, Gemm, Issued, Major, MatB, MatD,
    OneWarpgroup, OperandLayout, Ring, Shared, SharedLayout, SharedOperand, Src, Warpgroup,
};

/// Elements of depth of one instruction.
const DEPTH: u32 = SharedOperand::STEP;

/// A left operand of `M` x `K` of which the first `STEPS` blocks of 16 columns are in registers, as an accumulator of
/// policy `P` would hold them, and the other `TAIL` columns in shared memory.
pub struct SplitOperand<P, T, const M: usize, const STEPS: usize, const TAIL: usize> {
    regs: [[u32; 4]; STEPS],
    tail: u32,
    kind: PhantomData<(P, T)>,
}

impl<P: OneWarpgroup, T: Element, const STEPS: usize, const TAIL: usize> SplitOperand<P, T, 64, STEPS, TAIL> {
    /// Takes the operand from a stage, its last columns by way of `tail`.
    ///
    /// The stage may be given back, and the tail serves the gemms until the next load.
    #[inline(always)]
    pub fn load<L, const K: usize>(
        from: Src<'_, Shared<T, 64, K, L>>,
        tail: &Ring<Shared<T, 64, TAIL, CoreMatrices>, 1>,
    ) -> Self
    where
        L: SharedLayout,
    {
        const { assert!(T::BYTES == 2 && STEPS * 16 + TAIL == K, "registers and tail are all of the depth") };
        // The thread's number is read anew, so that no address is held in registers over the tiles.
        let (line, thread) = (2 * K as u32, thread_x_volatile() % 128);
        let mut regs = [[0; 4]; STEPS];
        // SAFETY: a `Src` is a full tile. The warpgroup's warps each read 16 rows of it, by matrices that are the
        // instruction's registers of A (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
        unsafe {
            let (row, half) = (thread / 32 * 16 + thread % 16, thread % 32 / 16);
            let first = from.address() + L::offset(64, line, row, half * 16);
            let mut step = 0;
            while step < STEPS {
                regs[step] =
                    wgmma::define(ldmatrix::x4(L::moved(64, line, first, 0, step as u32 * 2 * DEPTH)));
                step += 1;
            }
            // The gemms that read the last tail are done in every warp.
            sync::bar_sync(WARPGROUP.of(P::GROUP), 128);
            let (row, half, begin) = (thread / 2, thread % 2, STEPS as u32 * 2 * DEPTH);
            let mut byte = half * 16;
            while byte < 2 * TAIL as u32 {
                let piece = shared::load_u32x4(from.address() + L::offset(64, line, row, begin + byte));
                shared::store_u32x4(
                    tail.address() + CoreMatrices::offset(64, 2 * TAIL as u32, row, byte),
                    piece,
                );
                byte += 2 * DEPTH;
            }
            sync::fence_proxy_async_shared();
            sync::bar_sync(WARPGROUP.of(P::GROUP), 128);
        }
        SplitOperand { regs, tail: tail.address(), kind: PhantomData }
    }
}

/// A [`Gemm`] whose A may be a [`SplitOperand`].
#[diagnostic::on_unimplemented(
    message = "policy `{Self}` cannot divide A of a {M} x {N} x {K} tile of `{T}` between registers and shared memory",
    note = "one warpgroup takes 64 rows: the policy is Warpgroup<G>, M is 64"
)]
pub trait SplitGemm<T: Element, const M: usize, const N: usize, const K: usize>: Gemm<T, M, N, K> {
    /// Issues the products of these blocks of 16 along K; D += or, if the first is block 0, D =.
    ///
    /// # Safety
    /// As for [`Gemm::issue`], behind a `wgmma` fence; `b` is a tile `Shared<T, K, N, Self::B, OB>`.
    #[doc(hidden)]
    unsafe fn issue_steps<OB: Major, const STEPS: usize, const TAIL: usize>(
        a: &SplitOperand<Self, T, M, STEPS, TAIL>,
        b: u32,
        steps: Range<u32>,
        add: bool,
        d: &mut <Self::D as FragmentLayout<M, N>>::Regs<f32>,
    );
}

/// The registers of the only block of rows.
type Columns<const N: usize> = <ColumnsOf as ColumnBlocks<N, 1>>::Of<f32>;

impl<T, const G: usize, const N: usize, const K: usize> SplitGemm<T, 64, N, K> for Warpgroup<G>
where
    T: OperandLayout<K> + Wgmma<N, Acc = Columns<N>>,
    ColumnsOf: ColumnBlocks<N, 1>,
    Columns<N>: Settle,
{
    #[inline(always)]
    unsafe fn issue_steps<OB: Major, const STEPS: usize, const TAIL: usize>(
        a: &SplitOperand<Self, T, 64, STEPS, TAIL>,
        b: u32,
        steps: Range<u32>,
        add: bool,
        d: &mut <Self as FragmentLayout<64, N>>::Regs<f32>,
    ) {
        let swizzle = <T::Layout as SharedLayout>::SWIZZLE;
        let b =
            SharedOperand { address: b, k_major: !OB::ROW_MAJOR, swizzle, extent: N as u32, depth: K as u32 };
        // The descriptors differ by constants. As sums of 64 bits they take a pair of uniform registers each, and ptxas makes each
        // right before its instruction; were the high half a constant, it would make all of them behind the first instruction,
        // while the tensor cores wait.
        let first = b.descriptor(0, 0).joined();
        let tail = CoreMatrices::descriptor(a.tail, 64, 0);
        let d: &mut Nested<[Columns<N>; 1], Columns<N>> = d;
        let d = &mut d.blocks[0];
        let mut step = steps.start;
        while step < steps.end {
            let (b, add) = (Descriptor::from(first + b.along(step * DEPTH)), (add || step > 0) as u32);
            // SAFETY: passed on; the descriptors stay inside the operands' tiles.
            unsafe {
                if (step as usize) < STEPS {
                    let a = a.regs[step as usize];
                    if OB::ROW_MAJOR { T::rs::<1>(d, a, b, add) } else { T::rs::<0>(d, a, b, add) }
                } else {
                    let along = (step - STEPS as u32) * (64 * 2 * DEPTH / 16);
                    let a = Descriptor { lo: tail.lo + along, ..tail };
                    if OB::ROW_MAJOR { T::ss::<0, 1>(d, a, b, add) } else { T::ss::<0, 0>(d, a, b, add) }
                }
            }
            step += 1;
        }
    }
}

/// D += A B as [`gemm`](tilewright_device::tile::gemm) for an A that is divided along K. Calls `between` when all but the last `late` of the
/// gemm's instructions are issued, without waiting for any: what is done there runs beside them.
#[inline(always)]
pub fn gemm_around<
    P,
    B,
    D,
    T,
    const M: usize,
    const N: usize,
    const K: usize,
    const STEPS: usize,
    const TAIL: usize,
>(
    _policy: P,
    a: &SplitOperand<P, T, M, STEPS, TAIL>,
    b: B,
    d: D,
    late: u32,
    between: impl FnOnce(),
) -> Issued<Fragment<f32, M, N, P::D>>
where
    D: MatD<M, N, Sum = f32, Layout = P::D>,
    P: SplitGemm<T, M, N, K, A = CoreMatrices>,
    B: MatB<P, T, M, N, K>,
    T: Element,
{
    const { assert!(STEPS * 16 + TAIL == K, "the operand is as deep as the gemm") };
    let mut d = d.issued();
    let (b, steps) = (b.address(), K as u32 / DEPTH);
    // SAFETY: operands that can be read are full, their types say how they lie; `Issued` owns the accumulator until a wait;
    // the threads that hold it execute tile operations converged.
    unsafe {
        wgmma::fence();
        P::issue_steps::<B::Order, STEPS, TAIL>(a, b, 0..steps - late, D::ADD, &mut d.regs);
        between();
        P::issue_steps::<B::Order, STEPS, TAIL>(a, b, steps - late..steps, D::ADD, &mut d.regs);
    }
    d.start()
}
