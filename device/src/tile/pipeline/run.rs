//! The pipelined loop: loads run ahead of computation by the stages of a ring.

use core::ops::Range;

use crate::tile::cta::collective::{expect_policy, expect_together};
use crate::tile::memory::shared::{Fill, Full};
use crate::tile::mma::in_flight::{Accumulator, Pending};
use crate::tile::pipeline::loads::Loads;
use crate::tile::pipeline::ring::Pipeline;
use crate::tile::pipeline::schedule::Schedule;

impl<P: Schedule, const N: usize, const PARTED: bool> Pipeline<P, N, PARTED> {
    /// What is loaded from here on is asked for behind all accesses of the threads that compute until here: where a producer
    /// loads, both meet. For the beginning of a kernel.
    #[inline(always)]
    pub fn follow(&mut self) {
        // SAFETY: all roles execute it.
        unsafe { P::follow(self) }
    }

    /// Loads a stage for each of `steps`, in order; who computes takes them one after the other.
    #[inline(always)]
    pub fn loads<I, F>(&mut self, steps: I, load: F) -> Loads<'_, P, N, PARTED, I, F>
    where
        I: Iterator<Item = u32>,
        F: for<'s> FnMut(Fill<'s, P, N>, u32),
    {
        const { expect_together::<P>(false) };
        let mut loads = Loads { pipeline: self, steps, load };
        // SAFETY: all roles make it; stages are acquired through it.
        unsafe { P::begin(loads.pipeline, &mut loads.steps, &mut loads.load) };
        loads
    }
}

impl<P: Schedule, const N: usize> Pipeline<P, N> {
    /// For each k of `steps`: `load(stage, k)` fills a stage, `compute(d, stage, k)` reads it when it is full.
    ///
    /// Loads run up to `N - 1` steps ahead; one step's gemms run while the next step is issued. Returns
    /// the accumulator when all its gemms are done.
    #[inline(always)]
    pub fn run<D: Accumulator>(
        &mut self,
        steps: Range<u32>,
        d: D,
        load: impl for<'s> FnMut(Fill<'s, P, N>, u32),
        compute: impl for<'s> FnMut(D::Issued, Full<'s, N>, u32) -> D::Issued,
    ) -> D {
        const { expect_policy::<P>(D::Issued::THREADS, D::Issued::ASYNCHRONOUS) };
        const { expect_together::<P>(D::Issued::APART) };
        P::run_pipeline(self, steps, d, load, compute, || ())
    }
}
