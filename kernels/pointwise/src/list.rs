//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Element, Overlapped, Overlaps, Simt};
use tilewright_device::{bf16, f16, kernels};

use crate::gated_units::{self, gated, gated_gradient};
use crate::indexed_rows::{self, embedding};
use crate::rotary::{HEADS, rope};

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// Rows of a table by index.
    Embedding,
    /// act(gate) up.
    Gated,
    /// The gradients of that.
    GatedGradient,
    /// Rotary position embedding.
    Rope,
}

/// What the host chooses a pointwise kernel by.
#[derive(Clone, Copy, Debug)]
pub struct PointwiseKernel {
    /// What it computes.
    pub operator: Operator,
    /// The element type of its tensors.
    pub element: &'static str,
    /// Elements of a piece, of which a thread's accesses are.
    pub piece: u32,
    /// Bytes of a piece.
    pub bytes: u32,
    /// Pieces of each tensor that a thread has: of rotary embedding, the heads.
    pub each: u32,
}

impl PointwiseKernel {
    const fn new<T: Element>(operator: Operator, piece: usize, each: usize) -> Self {
        let (bytes, piece) = ((piece * T::BYTES) as u32, piece as u32);
        PointwiseKernel { operator, element: T::NAME, piece, bytes, each: each as u32 }
    }
}

impl<P: Overlaps, T: Element, const V: usize> Described for embedding<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel =
        PointwiseKernel::new::<T>(Operator::Embedding, V, indexed_rows::EACH);
}

impl<P: Overlaps, T: Element, const V: usize> Described for gated<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = PointwiseKernel::new::<T>(Operator::Gated, V, gated_units::EACH);
}

impl<P: Overlaps, T: Element, const V: usize> Described for gated_gradient<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel =
        PointwiseKernel::new::<T>(Operator::GatedGradient, V, gated_units::EACH);
}

impl<P: Overlaps, T: Element, const V: usize> Described for rope<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = PointwiseKernel::new::<T>(Operator::Rope, V, HEADS);
}

// Vectors of 16 bytes, on Hopper with programmatic dependent launch, and single elements for what lies otherwise.
#[rustfmt::skip]
kernels! {
    /// The kernels of pointwise operators.
    pub static POINTWISE: PointwiseKernel;

    for (T, VECTOR) in [(f16, 8), (bf16, 8), (f32, 4)] {
        for (NAME, K) in [(gated, gated), (gated_gradient, gated_gradient), (rope, rope)] {
            sm_90: [NAME _sm_90_ T]: K<Overlapped<8>, T, VECTOR>;
            sm_80: [NAME _sm_80_ T]: K<Simt<8>, T, VECTOR>;
            sm_80: [NAME _sm_80_ T _any]: K<Simt<8>, T, 1>;
        }
    }
    sm_90: [embedding_sm_90]: embedding<Overlapped<8>, f32, 4>;
    sm_80: [embedding_sm_80]: embedding<Simt<8>, f32, 4>;
    sm_80: [embedding_sm_80_4]: embedding<Simt<8>, f32, 1>;
    sm_80: [embedding_sm_80_2]: embedding<Simt<8>, f16, 1>;
}
