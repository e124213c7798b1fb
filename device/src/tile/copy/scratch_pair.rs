//! A pair of tiles in shared memory that fragments go to in turn, while gemms read the other.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::kernel::Arch;
use crate::layout::{Element, FragmentLayout, SharedLayout};
use crate::tile::copy::matrices::store_matrices;
use crate::tile::cta::collective::Collective;
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::fragment::Fragment;
use crate::tile::memory::scratch::end_write;
use crate::tile::memory::shared::{Shared, SharedTile, Src};

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
}
