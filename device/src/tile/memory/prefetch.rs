//! Tensor maps that are brought near before the first copy wants them.

use crate::arch::special::thread_x;
use crate::arch::tma;
use crate::kernel::Arch;
use crate::tile::cta::Cta;
use crate::tile::cta::collective::Collective;
use crate::tile::memory::global::{Global, GlobalMut};

/// Tensors that TMA may be able to address: one, or a tuple of them.
pub trait Mapped {
    /// Calls `f` with the map of each that TMA can address.
    fn maps(&self, f: &mut impl FnMut(*const u8));
}

impl<T, O, const RANK: usize, const BOX: usize> Mapped for Global<T, RANK, O, BOX> {
    #[inline(always)]
    fn maps(&self, f: &mut impl FnMut(*const u8)) {
        if self.tma {
            f(self.map)
        }
    }
}

impl<T, O, const RANK: usize, const BOX: usize> Mapped for GlobalMut<T, RANK, O, BOX> {
    #[inline(always)]
    fn maps(&self, f: &mut impl FnMut(*const u8)) {
        self.0.maps(f)
    }
}

impl<A: Mapped, B: Mapped> Mapped for (A, B) {
    #[inline(always)]
    fn maps(&self, f: &mut impl FnMut(*const u8)) {
        self.0.maps(f);
        self.1.maps(f)
    }
}

impl<P: Collective> Cta<P> {
    /// Brings tensors' maps to the TMA unit, so that the first copies do not wait for them. Before the pipelines are made it does so
    /// while the preceding grid still runs.
    #[inline(always)]
    pub fn prefetch_maps(&self, of: impl Mapped) {
        if matches!(P::ARCH, Arch::Sm90a) && thread_x() == 0 {
            of.maps(&mut |map| {
                // SAFETY: a tensor that TMA can address has a map.
                unsafe { tma::prefetch_map(map) }
            })
        }
    }
}
