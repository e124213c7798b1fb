//! A tile of shared memory through which fragments change hands.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::{sync, wgmma};
use crate::kernel::Arch;
use crate::layout::{Element, FragmentLayout, SharedLayout};
use crate::tile::copy::matrices::store_matrices;
use crate::tile::cta::collective::{Collective, meet};
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::fragment::Fragment;
use crate::tile::memory::shared::{Shared, SharedTile, Src};

/// A tile of type `S` in shared memory that fragments are copied to, to be read by other threads than hold them: as
/// an operand of a gemm, or as a fragment of another layout.
///
/// A copy to it waits for the gemms committed before, some of which may read what was there. So a gemm that reads the tile is
/// committed before the next copy: by waiting for it, or at the end of the pipeline's step that issued it.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// y = xᵀ for a tile of 64 x 64.
/// fn transposed<P: Collective>(cta: &mut Cta<P>, x: GlobalTile<f32, 2>, y: GlobalTileMut<f32, 2>) {
///     let mut tile_s = cta.scratch::<Shared<f32, 64, 64, Padded>>();
///     copy(Fragment::<f32, 64, 64, Striped<4>>::load(x), &mut tile_s);
///     copy(Fragment::<f32, 64, 64, Striped<4>>::load(tile_s.full().t()), y);
/// }
/// ```
pub struct Scratch<P, S> {
    address: u32,
    kind: PhantomData<(P, S)>,
}

impl<P: Collective, S> Scratch<P, S> {
    #[inline(always)]
    pub(in crate::tile) fn new(address: u32) -> Self {
        Scratch { address, kind: PhantomData }
    }

    #[inline(always)]
    pub(in crate::tile) fn address(&self) -> u32 {
        self.address
    }

    /// The tile as the last copy left it; before the first, anything.
    #[inline(always)]
    pub fn full(&self) -> Src<'_, S> {
        Src { address: self.address, tile: PhantomData }
    }

    /// Calls `write` between the last read and the next one, in the threads that hold fragments.
    #[inline(always)]
    pub(in crate::tile) fn replace(&mut self, write: impl FnOnce()) {
        if thread_x() < P::CONSUMERS {
            self.begin_write();
            write();
            end_write::<P>();
        }
    }

    /// Waits for the last read.
    #[inline(always)]
    pub(in crate::tile) fn begin_write(&mut self) {
        // SAFETY: all consumers execute it converged.
        unsafe {
            if matches!(P::ARCH, Arch::Sm90a) {
                wgmma::wait::<0>();
            }
            meet::<P>();
        }
    }
}

/// Lets all threads that hold fragments, and their gemms, read what they wrote.
#[inline(always)]
pub(in crate::tile) fn end_write<P: Collective>() {
    // SAFETY: all consumers execute it converged; gemms read shared memory through the asynchronous units, which the
    // fence makes the writes visible to.
    unsafe {
        if matches!(P::ARCH, Arch::Sm90a) {
            sync::fence_proxy_async_shared();
        }
        meet::<P>();
    }
}

/// Two tiles of type `S` that fragments are copied to in turn, to be read by gemms of all threads: a copy waits for no gemm. On Hopper.
///
/// ```
/// # use tilewright_device::tile::*;
/// /// C += A B, A from registers that lie otherwise than a gemm takes them.
/// # fn step<P: Schedule, L: FragmentLayout<128, 64>>(
/// #     tiles: &mut ScratchPair<P, Shared<f16, 128, 64, Swizzle<128>>>,
/// #     a: Fragment<f16, 128, 64, L>, b: Src<'_, Shared<f16, 128, 64, Swizzle<128>>>, c: Fragment<f32, 64, 64, FullCol<2>>,
/// # ) -> Fragment<f32, 64, 64, FullCol<2>>
/// # where FullCol<2>: Gemm<f16, 64, 64, 128, A = Swizzle<128>, B = Swizzle<128>, D = FullCol<2>> {
/// // SAFETY: the gemm that reads the tile is waited for right behind it.
/// let a = unsafe { tiles.put(a) };
/// gemm(FullCol::<2>::default(), a.t(), b, c).wait()
/// # }
/// ```
pub struct ScratchPair<P, S> {
    address: u32,
    second: bool,
    kind: PhantomData<(P, S)>,
}

impl<P: Collective, T: Element, const M: usize, const N: usize, S: SharedLayout>
    ScratchPair<P, Shared<T, M, N, S>>
{
    /// Copies a fragment that lies as an accumulator to the other tile than the last time, where all threads that compute meet: behind that it is
    /// full.
    ///
    /// # Safety
    /// All threads that compute call it alike. Each has waited for the gemms that read the tile of the call before.
    #[inline(always)]
    pub unsafe fn put<L: FragmentLayout<M, N>>(
        &mut self,
        x: Fragment<T, M, N, L>,
    ) -> Src<'_, Shared<T, M, N, S>> {
        const {
            assert!(L::THREADS <= P::CONSUMERS, "the fragment lies over more threads than the schedule has");
            assert!(matches!(P::ARCH, Arch::Sm90a), "a pair of tiles is written by instructions of Hopper");
        }
        let address = self.address + if self.second { Shared::<T, M, N, S>::bytes() } else { 0 };
        self.second = !self.second;
        if thread_x() < P::CONSUMERS {
            // SAFETY: gemms that read this tile were waited for by all threads before they met at the call before this one.
            unsafe { store_matrices::<T, S, L, M, N>(&x, address) };
            end_write::<P>();
        }
        Src { address, tile: PhantomData }
    }
}

impl<P: Collective> Cta<P> {
    /// Two tiles of type `S` that fragments are copied to in turn.
    #[inline(always)]
    pub fn scratch_pair<S: SharedTile>(&mut self) -> ScratchPair<P, S> {
        let address = self.reserve(2 * S::bytes(), TILE_ALIGN);
        ScratchPair { address, second: false, kind: PhantomData }
    }

    /// One tile of type `S` that fragments are copied to, for other threads to read.
    #[inline(always)]
    pub fn scratch<S: SharedTile>(&mut self) -> Scratch<P, S> {
        Scratch::new(self.reserve(S::bytes(), TILE_ALIGN))
    }
}
