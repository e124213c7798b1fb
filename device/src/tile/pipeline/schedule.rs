//! The loop over stages as a kernel's warps run it: who loads, who waits for whom.

use core::ops::Range;

use crate::tile::cta::Cta;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::shared::{Fill, Full, Stages};
use crate::tile::mma::in_flight::Accumulator;
use crate::tile::pipeline::ring::Pipeline;

/// A [`Loader`] that runs a [`Pipeline`].
///
/// [`WarpSpecialized`](super::warp_specialized::WarpSpecialized) for Hopper, [`Multistage`](super::multistage::Multistage) for
/// everything since Ampere; kernels are generic over it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a schedule of warps",
    note = "schedules are WarpSpecialized<C>, such as WarpSpecialized<TwoConsumers>, and Multistage<W>"
)]
pub trait Schedule: Loader {
    /// Bytes of shared memory that each stage of a pipeline takes beside its tiles.
    const STAGE_BYTES: u32;

    /// Makes a ring's barriers at shared address `base`.
    ///
    /// # Safety
    /// Called by every role of the CTA with the same `base`, which nothing else uses.
    #[doc(hidden)]
    unsafe fn open<const N: usize, const PARTED: bool>(base: u32);

    /// See [`Pipeline::follow`].
    ///
    /// # Safety
    /// Called by every role of the CTA.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn follow<const N: usize, const PARTED: bool>(_: &Pipeline<Self, N, PARTED>) {}

    /// The threads that load into pipeline `index` load all of `steps`, or as many as are loaded ahead.
    ///
    /// # Safety
    /// Called by every role of the CTA, before [`acquire`](Self::acquire) for these steps.
    #[doc(hidden)]
    unsafe fn begin<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// Waits for the next stage to be full.
    ///
    /// # Safety
    /// The threads that hold fragments call it, as often as there are steps.
    #[doc(hidden)]
    unsafe fn acquire<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// Gives the stage back, to be filled again.
    ///
    /// # Safety
    /// The threads that hold fragments call it for each stage that they acquired, in order, after their last read of it.
    #[doc(hidden)]
    unsafe fn release<const N: usize, const PARTED: bool>(
        pipeline: &mut Pipeline<Self, N, PARTED>,
        stage: u32,
        steps: &mut impl Iterator<Item = u32>,
        load: &mut impl for<'s> FnMut(Fill<'s, Self, N>, u32),
    );

    /// The body of [`Pipeline::run`]; `issued` is called when all gemms are.
    #[doc(hidden)]
    fn run_pipeline<D: Accumulator, const N: usize>(
        pipeline: &mut Pipeline<Self, N>,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, Self, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
        issued: impl FnOnce(),
    ) -> D;
}

/// A schedule, as far as it decides which tensors a kernel can read.
pub trait Reads: Schedule {
    /// True when it reads any strides, element by element.
    const ANY_STRIDES: bool;
}

impl<P: Schedule> Cta<P> {
    /// The ring of these stages, which all roles of the CTA now wait for.
    ///
    /// Also waits for the kernels that this one was launched to overlap (programmatic dependent
    /// launch): make it before the first access to global memory.
    #[inline(always)]
    pub fn pipeline<const N: usize>(&mut self, stages: Stages<N>) -> Pipeline<P, N> {
        self.open_pipeline(stages)
    }

    /// The ring of these stages of which each warpgroup fills and leaves its own rows by itself.
    #[inline(always)]
    pub fn pipeline_by_warpgroup<const N: usize>(&mut self, stages: Stages<N>) -> Pipeline<P, N, true> {
        self.open_pipeline(stages)
    }

    #[inline(always)]
    fn open_pipeline<const N: usize, const PARTED: bool>(
        &mut self,
        Stages { pipeline }: Stages<N>,
    ) -> Pipeline<P, N, PARTED> {
        let base = self.reserve(P::STAGE_BYTES * N as u32 * Pipeline::<P, N, PARTED>::PARTS, 8);
        // SAFETY: the memory was just taken, by every role in the same way.
        unsafe { P::open::<N, PARTED>(base) };
        Pipeline::new(base, pipeline)
    }
}
