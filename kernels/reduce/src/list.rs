//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Collective, Element, Overlapped, Overlaps, Simt};
use tilewright_device::{bf16, f16, kernels};

use crate::columns::reduce_columns;
use crate::largest::{MAX_COLUMNS, MAX_SHORT, most_found, top_k, top_k_short};
use crate::rows::reduce_rows;

/// What the host chooses a kernel of reductions by.
#[derive(Clone, Copy, Debug)]
pub struct ReduceKernel {
    /// The element type of what is reduced.
    pub element: &'static str,
    /// Whether a result's elements are contiguous; otherwise those of neighbouring results may be.
    pub rows: bool,
    /// Elements that a thread reads at a time.
    pub piece: u32,
    /// Bytes of these.
    pub bytes: u32,
    /// CTAs that share a result.
    pub ctas: u32,
}

impl ReduceKernel {
    const fn new<T: Element>(rows: bool, piece: usize, ctas: usize) -> Self {
        let (bytes, piece) = ((piece * T::BYTES) as u32, piece as u32);
        ReduceKernel { element: T::NAME, rows, piece, bytes, ctas: ctas as u32 }
    }
}

impl<P: Collective + Overlaps, T: Element, const V: usize, const CTAS: usize> Described
    for reduce_rows<P, T, V, CTAS>
{
    type Description = ReduceKernel;
    const DESCRIPTION: ReduceKernel = ReduceKernel::new::<T>(true, V, CTAS);
}

impl<P: Collective + Overlaps, T: Element, const V: usize> Described for reduce_columns<P, T, V> {
    type Description = ReduceKernel;
    const DESCRIPTION: ReduceKernel = ReduceKernel::new::<T>(false, V, 1);
}

/// What takes a row of which the largest elements are sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOf {
    /// A CTA, or so many of a cluster.
    Ctas(u32),
    /// Some lanes of a warp, each of which has a list of so many elements.
    Lanes(u32),
}

/// What the host chooses a kernel of the largest elements by.
#[derive(Clone, Copy, Debug)]
pub struct TopKKernel {
    /// The element type of its rows.
    pub element: &'static str,
    /// What takes a row.
    pub row: RowOf,
    /// Columns of a row at most.
    pub columns: u32,
    /// Elements that are found at most.
    pub found: u32,
}

impl<P: Collective + Overlaps, T: Element, const V: usize, const CTAS: usize> Described
    for top_k<P, T, V, CTAS>
{
    type Description = TopKKernel;
    const DESCRIPTION: TopKKernel = TopKKernel {
        element: T::NAME,
        row: RowOf::Ctas(CTAS as u32),
        columns: MAX_COLUMNS,
        found: most_found(P::THREADS),
    };
}

impl<P: Overlaps, T: Element, const V: usize, const K: usize> Described for top_k_short<P, T, V, K> {
    type Description = TopKKernel;
    const DESCRIPTION: TopKKernel =
        TopKKernel { element: T::NAME, row: RowOf::Lanes(K as u32), columns: MAX_SHORT, found: K as u32 };
}

// What is made of the elements is told at the launch: memory bounds all of it.
#[rustfmt::skip]
kernels! {
    /// The kernels of reductions.
    pub static REDUCE: ReduceKernel;

    for (T, VECTOR) in [(f16, 8), (bf16, 8), (f32, 4)] {
        sm_90: [reduce_rows_sm_90_ T]: reduce_rows<Overlapped<8>, T, VECTOR, 1>;
        sm_90: [reduce_rows_sm_90_ T _c8]: reduce_rows<Overlapped<8>, T, VECTOR, 8>;
        sm_80: [reduce_rows_sm_80_ T]: reduce_rows<Simt<8>, T, VECTOR, 1>;
        sm_90: [reduce_columns_sm_90_ T]: reduce_columns<Overlapped<8>, T, VECTOR>;
        sm_80: [reduce_columns_sm_80_ T]: reduce_columns<Simt<8>, T, VECTOR>;
        sm_80: [reduce_columns_sm_80_ T _any]: reduce_columns<Simt<8>, T, 1>;
    }
}

#[rustfmt::skip]
kernels! {
    /// The kernels of the largest elements.
    pub static TOP_K: TopKKernel;

    for (T, VECTOR) in [(f16, 8), (bf16, 8), (f32, 4)] {
        sm_90: [top_k_sm_90_ T]: top_k<Overlapped<16>, T, VECTOR, 1>;
        sm_90: [top_k_sm_90_ T _w4]: top_k<Overlapped<4>, T, VECTOR, 1>;
        sm_90: [top_k_sm_90_ T _c8]: top_k<Overlapped<16>, T, VECTOR, 8>;
        sm_80: [top_k_sm_80_ T]: top_k<Simt<16>, T, VECTOR, 1>;
        for K in [8, 16] {
            sm_90: [top_k_sm_90_ T _short K]: top_k_short<Overlapped<8>, T, VECTOR, K>;
            sm_80: [top_k_sm_80_ T _short K]: top_k_short<Simt<8>, T, VECTOR, K>;
        }
    }
}
