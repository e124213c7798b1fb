//! What the host knows of a row-wise kernel.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Element, FragmentLayout};

use crate::loss_held::{cross_entropy_held, cross_entropy_ragged};
use crate::loss_rows::{cross_entropy, cross_entropy_long};
use crate::masked_rows::{masked_softmax, masked_softmax_held, masked_softmax_long, masked_softmax_ragged};
use crate::norm_rows::{norm, norm_long};
use crate::norms_held::{norm_alike, norm_held, norm_ragged};
use crate::program::{Prefetch, Residual, RowProgram};
use crate::softmax_rows::{softmax, softmax_held, softmax_long, softmax_ragged};

/// What the host chooses a row-wise kernel by.
#[derive(Clone, Copy, Debug)]
pub struct RowsKernel {
    /// The element type of its tensors.
    pub element: &'static str,
    /// Rows and columns of a CTA's tile.
    pub tile: [u32; 2],
    /// CTAs that share rows.
    pub ctas: u32,
    /// True when it takes rows of any length, which it reads more than once.
    pub any_length: bool,
    /// Parts of rows, as wide as a tile, that a CTA holds in shared memory; 1 where registers hold tiles.
    pub places: u32,
    /// Whether a CTA takes tiles until none is left, or one.
    pub persistent: bool,
    /// Whether it adds a residual: `None` where it does if there is one.
    pub residual: Option<bool>,
    /// True when it reads and writes 16 bytes at a time: aligned rows of whole vectors.
    pub vectors: bool,
    /// Whether it does so with rows of any length too, of contiguous tensors that begin at a multiple of 16 bytes.
    pub ragged: bool,
    /// Whether all rows of a cluster begin alike behind a multiple of 16 bytes.
    pub alike: bool,
    /// Whether a thread has a sum over all rows for each of its columns: gradients of weights.
    pub sums: bool,
}

impl RowsKernel {
    pub(crate) const fn new<T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize>(
        ctas: usize,
        any_length: bool,
    ) -> Self {
        RowsKernel {
            element: T::NAME,
            tile: [M as u32, N as u32],
            ctas: ctas as u32,
            any_length,
            places: 1,
            persistent: true,
            residual: None,
            vectors: L::RUN * T::BYTES >= 16,
            ragged: false,
            alike: false,
            sums: false,
        }
    }
}

#[rustfmt::skip]
impl<
    P: RowProgram, F: Prefetch, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize,
> Described for softmax<P, F, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { persistent: F::PERSISTENT, ..RowsKernel::new::<T, L, M, N>(CTAS, false) };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool,
> Described for softmax_held<P, T, L, N, CTAS, PLACES, RAGGED>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { places: PLACES as u32, ragged: RAGGED, ..RowsKernel::new::<T, L, 1, N>(CTAS, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for softmax_long<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(1, true);
}

#[rustfmt::skip]
impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize> Described
    for masked_softmax<P, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(CTAS, false);
}

impl<P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const RESIDENT: u32> Described
    for masked_softmax_ragged<P, T, L, N, RESIDENT>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { persistent: false, ragged: true, ..RowsKernel::new::<T, L, 1, N>(1, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const PLACES: usize> Described
    for masked_softmax_held<P, T, L, N, PLACES>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { places: PLACES as u32, ragged: true, ..RowsKernel::new::<T, L, 1, N>(1, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for masked_softmax_long<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(1, true);
}

#[rustfmt::skip]
impl<
    P: RowProgram, F: Prefetch, R: Residual, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize,
    const CTAS: usize,
> Described for norm<P, F, R, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel {
        residual: Some(R::ADDED),
        persistent: F::PERSISTENT,
        ..RowsKernel::new::<T, L, M, N>(CTAS, false)
    };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool,
    const TERMS: usize,
> Described for norm_held<P, T, L, N, CTAS, PLACES, RAGGED, TERMS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel {
        places: PLACES as u32,
        residual: Some(TERMS > 1),
        ragged: RAGGED,
        ..RowsKernel::new::<T, L, 1, N>(CTAS, false)
    };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for norm_long<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(1, true);
}

#[rustfmt::skip]
impl<
    P: RowProgram, F: Prefetch, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize,
> Described for cross_entropy<P, F, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { persistent: F::PERSISTENT, ..RowsKernel::new::<T, L, M, N>(CTAS, false) };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const RAGGED: bool,
> Described for cross_entropy_held<P, T, L, N, CTAS, PLACES, RAGGED>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { places: PLACES as u32, ragged: RAGGED, ..RowsKernel::new::<T, L, 1, N>(CTAS, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for cross_entropy_long<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(1, true);
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize>
    Described for softmax_ragged<P, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { ragged: true, persistent: false, ..RowsKernel::new::<T, L, M, N>(CTAS, false) };
}

#[rustfmt::skip]
impl<P: RowProgram, R: Residual, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize> Described
    for norm_ragged<P, R, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel {
        ragged: true,
        persistent: false,
        residual: Some(R::ADDED),
        ..RowsKernel::new::<T, L, M, N>(CTAS, false)
    };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize>
    Described for cross_entropy_ragged<P, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { ragged: true, persistent: false, ..RowsKernel::new::<T, L, M, N>(CTAS, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for norm_alike<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel {
        ragged: true,
        alike: true,
        residual: Some(false),
        ..RowsKernel::new::<T, L, M, N>(1, false)
    };
}
