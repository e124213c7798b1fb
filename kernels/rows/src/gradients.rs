//! The gradients' kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Element, FragmentLayout, Overlapped, Simt, Spread};
use tilewright_device::{bf16, f16, kernels};

use crate::columns::column_sums;
use crate::described::RowsKernel;
use crate::norm_backward::{norm_gradient, norm_gradient_long};
use crate::norm_backward_held::{norm_gradient_alike, norm_gradient_held};
use crate::program::{NextTile, Nothing, Prefetch, RowProgram};
use crate::softmax_backward::{softmax_gradient, softmax_gradient_held, softmax_gradient_long};

#[rustfmt::skip]
impl<
    P: RowProgram, F: Prefetch, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize,
> Described for softmax_gradient<P, F, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(CTAS, false);
}

impl<P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const PLACES: usize> Described
    for softmax_gradient_held<P, T, L, N, PLACES>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { places: PLACES as u32, ragged: true, ..RowsKernel::new::<T, L, 1, N>(1, false) };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize> Described
    for softmax_gradient_long<P, T, L, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel::new::<T, L, M, N>(1, true);
}

#[rustfmt::skip]
impl<
    P: RowProgram, F: Prefetch, T: Element, L: FragmentLayout<M, N>, const M: usize, const N: usize, const CTAS: usize,
> Described for norm_gradient<P, F, T, L, M, N, CTAS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel { sums: true, ..RowsKernel::new::<T, L, M, N>(CTAS, false) };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PLACES: usize, const PARTS: usize,
> Described for norm_gradient_held<P, T, L, N, CTAS, PLACES, PARTS>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel =
        RowsKernel { places: PARTS as u32, sums: true, ..RowsKernel::new::<T, L, 1, N>(CTAS, false) };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize, const CTAS: usize, const PARTS: usize, const AHEAD: u32,
> Described for norm_gradient_alike<P, T, L, N, CTAS, PARTS, AHEAD>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel {
        places: PARTS as u32,
        ragged: true,
        alike: true,
        sums: true,
        ..RowsKernel::new::<T, L, 1, N>(CTAS, false)
    };
}

impl<P: RowProgram, T: Element, L: FragmentLayout<1, N>, const N: usize> Described
    for norm_gradient_long<P, T, L, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel { sums: true, ..RowsKernel::new::<T, L, 1, N>(1, true) };
}

#[rustfmt::skip]
impl<
    P: RowProgram, T: Element, L: FragmentLayout<M, N>, B: FragmentLayout<N, M>, const M: usize, const N: usize,
> Described for column_sums<P, T, L, B, M, N>
{
    type Description = RowsKernel;
    const DESCRIPTION: RowsKernel = RowsKernel { element: T::NAME, ..RowsKernel::new::<f32, L, M, N>(1, true) };
}

// Of f32 a CTA of 512 threads has no registers for a tile ahead.
#[rustfmt::skip]
kernels! {
    /// The kernels of the gradient of softmax and log-softmax.
    pub static SOFTMAX_GRADIENT: RowsKernel;

    let ONE_CTA = [(4, 8, 32, 16, 256), (4, 32, 32, 4, 1024), (4, 128, 32, 1, 4096), (8, 256, 32, 1, 8192)];
    for (T, VECTOR, WIDE) in [(f16, 8, NextTile), (bf16, 8, NextTile), (f32, 4, Nothing)] {
        for (W, G, E, M, N) in ONE_CTA {
            sm_90: [softmax_gradient_sm_90_ T _ M x N]:
                softmax_gradient<Overlapped<W>, NextTile, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            sm_80: [softmax_gradient_sm_80_ T _ M x N]:
                softmax_gradient<Simt<W>, NextTile, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        for CTAS in [1, 2, 4, 8] {
            sm_90: [softmax_gradient_sm_90_ T _1x16384c CTAS]:
                softmax_gradient<Overlapped<16>, WIDE, T, Spread<16, 512, 32, VECTOR>, 1, 16384, CTAS>;
        }
        // Shared memory has room for 13 pairs of parts of one vector a thread, or a warp takes rows by itself.
        sm_90: [softmax_gradient_sm_90_ T _ragged]:
            softmax_gradient_held<Overlapped<16>, T, Spread<16, 512, VECTOR, VECTOR>, { 512 * VECTOR }, 13>;
        sm_90: [softmax_gradient_sm_90_ T _ragged_short]:
            softmax_gradient_held<Overlapped<1>, T, Spread<1, 32, { 2 * VECTOR }, VECTOR>, { 64 * VECTOR }, 5>;
        sm_80: [softmax_gradient_sm_80_ T _long]: softmax_gradient_long<Simt<8>, T, Spread<8, 256, 16, VECTOR>, 1, 4096>;
        sm_80: [softmax_gradient_sm_80_ T _any]: softmax_gradient_long<Simt<8>, T, Spread<8, 256, 16, 1>, 1, 4096>;
    }
}

// A thread has sums of as many columns as it has elements of a row, so that these are fewer than where there are no sums.
#[rustfmt::skip]
kernels! {
    /// The kernels of the gradients of RMSNorm and LayerNorm.
    pub static NORM_GRADIENT: RowsKernel;

    let ONE_CTA = [(4, 16, 8, 8, 128), (4, 128, 8, 1, 1024), (8, 256, 16, 1, 4096), (16, 512, 16, 1, 8192)];
    let NARROW_HALVES = [(1, 32, 768), (4, 128, 3072), (8, 256, 6144)];
    let NARROW_F32 = [(1, 32, 640), (4, 128, 2560)];
    // Of contiguous rows that begin anywhere shared memory has one of the longest and `ROWS` more.
    for (T, VECTOR, AHEAD, PARTS, RAGGED_PARTS, ROWS, NARROW) in
        [(f16, 8, NextTile, 4, 3, 3, NARROW_HALVES), (bf16, 8, NextTile, 4, 3, 3, NARROW_HALVES), (f32, 4, Nothing, 8, 5, 1, NARROW_F32)]
    {
        for (W, G, E, M, N) in ONE_CTA {
            sm_90: [norm_gradient_sm_90_ T _ M x N]:
                norm_gradient<Overlapped<W>, AHEAD, T, Spread<W, G, E, VECTOR>, M, N, 1>;
            sm_80: [norm_gradient_sm_80_ T _ M x N]:
                norm_gradient<Simt<W>, AHEAD, T, Spread<W, G, E, VECTOR>, M, N, 1>;
        }
        // Element by element, of rows that begin anywhere with something between them.
        for (W, N) in [(4, 1024), (16, 8192)] {
            sm_80: [norm_gradient_sm_80_ T _1x N any]:
                norm_gradient<Simt<W>, Nothing, T, Spread<W, { 32 * W }, { N / (32 * W) }, 1>, 1, N, 1>;
        }
        for CTAS in [1, 2, 8] {
            sm_90: [norm_gradient_sm_90_ T _held CTAS]:
                norm_gradient_held<Overlapped<16>, T, Spread<16, 512, VECTOR, VECTOR>, { 512 * VECTOR }, CTAS, 12, PARTS>;
            sm_90: [norm_gradient_sm_90_ T _ragged CTAS]:
                norm_gradient_alike<Overlapped<16>, T, Spread<16, 512, VECTOR, VECTOR>, { 512 * VECTOR }, CTAS, RAGGED_PARTS, ROWS>;
        }
        for (W, G, N) in NARROW {
            sm_90: [norm_gradient_sm_90_ T _ragged_1x N]:
                norm_gradient_alike<Overlapped<W>, T, Spread<W, G, VECTOR, VECTOR>, { G * VECTOR }, 1, RAGGED_PARTS, ROWS>;
        }
        sm_80: [norm_gradient_sm_80_ T _long]: norm_gradient_long<Simt<8>, T, Spread<8, 256, 16, VECTOR>, 4096>;
        sm_80: [norm_gradient_sm_80_ T _any]: norm_gradient_long<Simt<8>, T, Spread<8, 256, 16, 1>, 4096>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels that add up what the norms' gradients leave: lines of f32, whatever they round the sums to.
    pub static COLUMN_SUMS: RowsKernel;

    for T in [f16, bf16, f32] {
        sm_90: [column_sums_sm_90_ T _64x32]: column_sums<Overlapped<16>, T, Spread<16, 8, 4, 4>, Spread<16, 16, 4, 1>, 64, 32>;
        sm_80: [column_sums_sm_80_ T _64x32]: column_sums<Simt<16>, T, Spread<16, 8, 4, 4>, Spread<16, 16, 4, 1>, 64, 32>;
    }
}
