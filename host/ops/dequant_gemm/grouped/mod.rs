//! Products of groups of rows, each with narrow weights of its own.

mod choose;
mod plan;
mod problem;
mod table;
#[cfg(test)]
mod tests;

use choose::Selection;
pub use plan::GroupedDequantPlan;
use problem::Problem;
use table::Compiled;

use super::DeviceWeights;
use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice};
use crate::ops::groups::GroupRows;
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute products of groups with narrow weights, or why it could not.
pub type GroupedDequantCandidate = Candidate<Compiled>;

/// C's rows of group g = A's rows of group g, times W\[g\]ᵀ, of narrow weights: see [`GroupedDequantGemm`].
pub fn grouped_dequant_gemm<T: HalfElement>(
    stream: &Stream,
    a: &TensorView<'_, T>,
    w: &DeviceWeights,
    rows: &GroupRows<'_>,
    c: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    GroupedDequantGemm::new().run(stream, a, w, rows, c)
}

/// C's rows of group g = A's rows of group g, times W\[g\]ᵀ, of narrow weights: a product for each expert of a quantised model.
///
/// - W is [`DeviceWeights`] of shape \[groups · N, K\]: the matrices \[N, K\] of all groups below each other, quantised as one, or
///   [stacked](crate::quant::QuantizedWeights::stack). N is a multiple of 64 where there is more than one group. Weights are `u4` without or with zeros, `i8`, `fp4` or
///   `e4m3`, packed for activations of f16 and bf16 ([`Order::B16`](crate::quant::Order)), with scales of A's type.
/// - Which rows are a group's, [`GroupRows`] says:
///   - with [`offsets`](GroupRows::offsets) A is \[total, K\], C \[total, N\], and group g has the rows from `offsets[g]` to `offsets[g + 1]`;
///   - with [`counts`](GroupRows::counts) A is \[groups, rows, K\], C \[groups, rows, N\], and group g has the first `counts[g]` rows of its matrix.
/// - Rows of C that no group has are not touched. Groups may have any number of rows, none as well; numbers of rows beyond A's end count as far as that.
///   Offsets that decrease give a group no rows; rows that two groups have get either's product.
/// - A and C are of `f16` or `bf16`, with any strides. A weight is its code's value, scaled and shifted as its group of weights says, rounded to that type; kernels for few rows
///   scale sums of 128 products in f32 instead, and round less. Sums are in f32, rounded once to nearest even. Lines of A that are aligned to 16 bytes are read by the fast
///   kernels; anything else is correct but slower.
/// - Offsets and counts are read when the kernel runs: a [`Graph`](crate::Graph) replays with those of the moment. The launch is the same whatever they are.
///
/// One launch of persistent CTAs computes all groups, in the order of [`GroupedGemm`](crate::ops::GroupedGemm), each tile transposed as
/// [`DequantGemm`](super::DequantGemm) has it: weights are decoded in registers, as the left operand, beside the tensor cores' work. The weights of a group without rows are not
/// read.
///
/// A call allocates nothing and does not wait. The first use of a kernel on a device compiles it in the driver. What is called again and again is
/// [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::{DeviceWeights, GroupRows, grouped_dequant_gemm};
/// use tilewright::quant::{Format, Group, HalfType, Order, QuantizedWeights, Scheme, Zeros};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // Three experts of 64 x 32, whose weights are 0, 1 and 2.
/// let scheme = Scheme { format: Format::U4, group: Group::Row, zeros: Zeros::None, scales: HalfType::F16 };
/// let wide: Vec<f32> = (0..3 * 64 * 32).map(|i| (i / (64 * 32)) as f32).collect();
/// let experts = QuantizedWeights::quantize("experts", &wide, [3 * 64, 32], scheme)?;
/// let w = DeviceWeights::upload(&device, &experts.pack(Order::B16)?)?;
/// // Rows 0 and 1 go to the first expert, row 2 to the third.
/// let x = Tensor::filled(&device, f16::ONE, &[3, 32])?;
/// let offsets = Tensor::<i32>::from_slice(&device, &[0, 2, 2, 3], &[4])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[3, 64])?;
/// let rows = GroupRows::offsets(offsets.view());
/// grouped_dequant_gemm(&device.default_stream(), &x.view(), &w, &rows, &mut y.view_mut())?;
/// let y = y.to_vec()?;
/// assert_eq!([y[0], y[64], y[128]].map(f16::to_f32), [0.0, 0.0, 64.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupedDequantGemm<'a> {
    kernel: Option<&'a str>,
    overlap: bool,
    expected: Option<usize>,
}

impl Default for GroupedDequantGemm<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> GroupedDequantGemm<'a> {
    /// C = A Wᵀ, group by group.
    pub fn new() -> Self {
        GroupedDequantGemm { kernel: None, overlap: true, expected: None }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        GroupedDequantGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless set.
    /// It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        GroupedDequantGemm { overlap, ..self }
    }
    /// About how many rows a group has that has any: the kernel is chosen by it, and computes the same whatever they have. Unless set, A's rows
    /// divided among the groups; of [counts](GroupRows::counts), all rows of a matrix.
    pub fn expected_rows(self, rows: usize) -> Self {
        GroupedDequantGemm { expected: Some(rows), ..self }
    }

    /// Every compiled kernel for these types and weights, the best by estimate first, with the reason for those that cannot compute these products.
    pub fn candidates<T: HalfElement>(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Vec<GroupedDequantCandidate>> {
        let problem = Problem::new(a, w, rows, c)?;
        Ok(Selection::new(&problem, table::kind::<T>(w)?, self.expected)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, and weights of this shape and scheme, which runs many times: the kernel, and how it is launched. A,
    /// C and the numbers may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<GroupedDequantPlan> {
        GroupedDequantPlan::new(self, a, w, rows, c)
    }

    /// Queues the products on `stream`: [`plan`](Self::plan), and [`GroupedDequantPlan::run`].
    ///
    /// Fails when the views and the weights do not fit together, lie on another device, C overlaps an input, or there is no kernel for the weights' format, zeros and
    /// scales: the error names the argument, or the weights.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(a, w, rows, c)?.queue(stream, problem::named(a, rows, c), w)
    }
}
