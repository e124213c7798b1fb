//! The kernels that are compiled.

use tilewright_device::kernel::Described;
use tilewright_device::tile::{Collective, Element, Overlapped, Overlaps, Simt};
use tilewright_device::{bf16, f16, kernels};

use crate::copies::{self, copied};
use crate::functions::{self, elementwise};
use crate::gated_units::{self, gated, gated_gradient};
use crate::indexed_rows::{self, embedding};
use crate::rotary::{HEADS, rope, rope_append};
use crate::transposition::{self, transposed};

/// What a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// A tensor's elements in another order, or in the same.
    Copy,
    /// Functions of elements, and conversions.
    Elementwise,
    /// Rows of a table by index.
    Embedding,
    /// act(gate) up.
    Gated,
    /// The gradients of that.
    GatedGradient,
    /// Rotary position embedding.
    Rope,
    /// The same, where keys and values go to a cache.
    RopeAppend,
}

/// What the host chooses a pointwise kernel by.
#[derive(Clone, Copy, Debug)]
pub struct PointwiseKernel {
    /// What it computes.
    pub operator: Operator,
    /// The element type of its tensors; empty where any of its elements' size will do.
    pub element: &'static str,
    /// Inputs of the functions that it computes; 0 where it computes others.
    pub inputs: u32,
    /// Bytes of the elements that are read and of those that are written; 0 where any will do.
    pub widths: [u32; 2],
    /// Elements of a piece, of which a thread's accesses are.
    pub piece: u32,
    /// Bytes of a piece.
    pub bytes: u32,
    /// Pieces of each tensor that a thread has: of rotary embedding, the heads.
    pub each: u32,
    /// Of gated units, whether rows of neighbouring elements begin anywhere: their first pieces are shorter, so that others of what is written begin at vectors.
    pub anywhere: bool,
    /// Elements of a tile of the two dimensions that change places, y's neighbours first; 0 where none do.
    pub tile: [u32; 2],
}

impl PointwiseKernel {
    const fn new<T: Element>(operator: Operator, piece: usize, each: usize) -> Self {
        let (widths, bytes) = ([T::BYTES as u32; 2], (piece * T::BYTES) as u32);
        PointwiseKernel { element: T::NAME, ..Self::of_any(operator, widths, piece, bytes, each) }
    }

    const fn of_any(operator: Operator, widths: [u32; 2], piece: usize, bytes: u32, each: usize) -> Self {
        let (piece, each) = (piece as u32, each as u32);
        PointwiseKernel {
            operator,
            element: "",
            inputs: 0,
            widths,
            piece,
            bytes,
            each,
            anywhere: false,
            tile: [0; 2],
        }
    }
}

impl<P: Overlaps, const INPUTS: usize, const FROM: usize, const TO: usize> Described
    for elementwise<P, INPUTS, FROM, TO>
{
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = {
        let (piece, each) = (functions::piece(FROM, TO), functions::each(INPUTS, FROM, TO));
        let (bytes, widths) = (if piece == 1 { 0 } else { 16 }, [FROM as u32, TO as u32]);
        let any = PointwiseKernel::of_any(Operator::Elementwise, widths, piece, bytes, each);
        PointwiseKernel { inputs: INPUTS as u32, ..any }
    };
}

impl<P: Overlaps, const BYTES: usize> Described for copied<P, BYTES> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = {
        let bytes = BYTES as u32;
        PointwiseKernel::of_any(
            Operator::Copy,
            [if BYTES == 16 { 0 } else { bytes }; 2],
            1,
            bytes,
            copies::EACH,
        )
    };
}

impl<P: Collective + Overlaps, const BYTES: usize> Described for transposed<P, BYTES> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = {
        let ([rows, cols], each) = (transposition::tile(BYTES), transposition::EACH);
        let plain = PointwiseKernel::of_any(Operator::Copy, [BYTES as u32; 2], 16 / BYTES, 16, each);
        PointwiseKernel { tile: [rows as u32, cols as u32], ..plain }
    };
}

impl<P: Overlaps, T: Element, const V: usize> Described for embedding<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel =
        PointwiseKernel::new::<T>(Operator::Embedding, V, indexed_rows::EACH);
}

impl<P: Overlaps, T: Element, const V: usize, const ANYWHERE: bool> Described for gated<P, T, V, ANYWHERE> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = PointwiseKernel {
        anywhere: ANYWHERE,
        ..PointwiseKernel::new::<T>(Operator::Gated, V, gated_units::EACH)
    };
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

impl<P: Overlaps, T: Element, const V: usize> Described for rope_append<P, T, V> {
    type Description = PointwiseKernel;
    const DESCRIPTION: PointwiseKernel = PointwiseKernel::new::<T>(Operator::RopeAppend, V, HEADS);
}

// Vectors of 16 bytes, on Hopper with programmatic dependent launch, and single elements for what lies otherwise.
#[rustfmt::skip]
kernels! {
    /// The kernels of pointwise operators.
    pub static POINTWISE: PointwiseKernel;

    for (T, VECTOR) in [(f16, 8), (bf16, 8), (f32, 4)] {
        sm_90: [gated_sm_90_ T]: gated<Overlapped<8>, T, VECTOR, false>;
        sm_80: [gated_sm_80_ T]: gated<Simt<8>, T, VECTOR, false>;
        sm_80: [gated_sm_80_ T _skewed]: gated<Simt<8>, T, VECTOR, true>;
        sm_80: [gated_sm_80_ T _any]: gated<Simt<8>, T, 1, false>;
        sm_90: [gated_gradient_sm_90_ T]: gated_gradient<Overlapped<8>, T, VECTOR>;
        sm_80: [gated_gradient_sm_80_ T]: gated_gradient<Simt<8>, T, VECTOR>;
        sm_80: [gated_gradient_sm_80_ T _any]: gated_gradient<Simt<8>, T, 1>;
        // Four warps: five CTAs have more threads on an SM than two of eight.
        sm_90: [rope_sm_90_ T]: rope<Overlapped<4>, T, VECTOR>;
        sm_80: [rope_sm_80_ T]: rope<Simt<4>, T, VECTOR>;
        sm_80: [rope_sm_80_ T _any]: rope<Simt<4>, T, 1>;
    }
    for T in [f16, bf16] {
        sm_90: [rope_append_sm_90_ T]: rope_append<Overlapped<4>, T, 8>;
        sm_80: [rope_append_sm_80_ T]: rope_append<Simt<4>, T, 8>;
        sm_80: [rope_append_sm_80_ T _any]: rope_append<Simt<4>, T, 1>;
    }
    sm_90: [embedding_sm_90]: embedding<Overlapped<8>, f32, 4>;
    sm_80: [embedding_sm_80]: embedding<Simt<8>, f32, 4>;
    sm_80: [embedding_sm_80_4]: embedding<Simt<8>, f32, 1>;
    sm_80: [embedding_sm_80_2]: embedding<Simt<8>, f16, 1>;

    // Elements by their bytes: those that are read, then those that are written.
    for (OF, INPUTS) in [(unary, 1), (binary, 2), (ternary, 3)] {
        for (FROM, TO) in [(2, 2), (4, 4), (2, 4), (4, 2)] {
            sm_90: [OF _sm_90_ FROM _ TO]: elementwise<Overlapped<8>, INPUTS, FROM, TO>;
            sm_80: [OF _sm_80_ FROM _ TO]: elementwise<Simt<8>, INPUTS, FROM, TO>;
        }
        sm_80: [OF _sm_80_any]: elementwise<Simt<8>, INPUTS, 0, 0>;
    }
    // Bytes are converted alone.
    for (FROM, TO) in [(1, 2), (1, 4), (2, 1), (4, 1)] {
        sm_90: [cast_sm_90_ FROM _ TO]: elementwise<Overlapped<8>, 1, FROM, TO>;
        sm_80: [cast_sm_80_ FROM _ TO]: elementwise<Simt<8>, 1, FROM, TO>;
    }

    sm_90: [copy_sm_90]: copied<Overlapped<8>, 16>;
    for BYTES in [16, 4, 2, 1] {
        sm_80: [copy_sm_80_ BYTES]: copied<Simt<8>, BYTES>;
    }
    for BYTES in [4, 2, 1] {
        sm_90: [transpose_sm_90_ BYTES]: transposed<Overlapped<8>, BYTES>;
        sm_80: [transpose_sm_80_ BYTES]: transposed<Simt<8>, BYTES>;
    }
}
