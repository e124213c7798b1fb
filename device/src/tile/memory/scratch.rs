//! A tile of shared memory through which fragments change hands.

use core::marker::PhantomData;

use crate::arch::special::thread_x;
use crate::arch::{sync, wgmma};
use crate::kernel::Arch;
use crate::tile::cta::collective::{Collective, meet};
use crate::tile::cta::{Cta, TILE_ALIGN};
use crate::tile::memory::shared::{SharedTile, Src};

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

impl<P: Collective> Cta<P> {
    /// One tile of type `S` that fragments are copied to, for other threads to read.
    #[inline(always)]
    pub fn scratch<S: SharedTile>(&mut self) -> Scratch<P, S> {
        Scratch::new(self.reserve(S::bytes(), TILE_ALIGN))
    }
}
