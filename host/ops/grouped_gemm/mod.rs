//! Products of groups of rows, each with a matrix of its own, as mixtures of experts need them.

mod choose;
mod combine;
mod k_grouped;
mod order;
mod plan;
mod problem;
mod table;
#[cfg(test)]
mod tests;

use choose::Selection;
pub use combine::group_combine;
pub use k_grouped::{KGroupedGemm, KGroupedGemmCandidate, KGroupedGemmPlan, k_grouped_gemm};
pub use order::group_order;
pub use plan::{GroupedGemmPlan, GroupedGemmViews};
use problem::Problem;
use table::Compiled;

use super::frame::{Candidate, Choice};
use super::groups::GroupRows;
use super::{Activation, HalfElement};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute products of groups, or why it could not.
pub type GroupedGemmCandidate = Candidate<Compiled>;

/// C's rows of group g = A's rows of group g, times B\[g\]: see [`GroupedGemm`].
pub fn grouped_gemm<T: HalfElement>(
    stream: &Stream,
    a: &TensorView<'_, T>,
    b: &TensorView<'_, T>,
    rows: &GroupRows<'_>,
    c: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    GroupedGemm::new().run(stream, a, b, rows, c)
}

/// C's rows of group g = A's rows of group g, times B\[g\]: a product for each expert, whose tokens only the device knows.
///
/// - B is \[groups, K, N\]. Which rows are a group's, [`GroupRows`] says:
///   - with [`offsets`](GroupRows::offsets) A is \[total, K\], C \[total, N\], and group g has the rows from `offsets[g]` to `offsets[g + 1]`;
///   - with [`counts`](GroupRows::counts) A is \[groups, rows, K\], C \[groups, rows, N\], and group g has the first `counts[g]` rows of its matrix.
/// - Rows of C that no group has are not touched. Groups may have any number of rows, none as well; numbers of rows beyond A's end count as far as that.
///   Offsets that decrease give a group no rows; rows that two groups have get either's product.
/// - A, B and C are of `f16` or `bf16`, accumulated in f32, rounded to nearest even. K of 0: products of 0.
/// - Any strides: B's columns are contiguous where weights lie as \[groups, N, K\] and are transposed views, its rows where they lie as B. Lines
///   of either, and A's rows, that are aligned to 16 bytes are read by the fast kernels; anything else is correct but slower.
/// - Offsets and counts are read when the kernel runs: a [`Graph`](crate::Graph) replays with those of the moment. The launch is the same whatever they are.
///
/// One launch of persistent CTAs computes all groups. Each finds its tiles from the numbers of rows by a cursor that goes over the groups once; the tiles
/// of a group follow each other, so that rows of tiles share its matrix in L2 (the order of tiles is that of Triton's grouped GEMM tutorial, the
/// layouts are those of DeepGEMM: DeepSeek-AI 2025).
///
/// A call allocates nothing and does not wait. The first use of a kernel on a device compiles it in the driver. What is called again and
/// again is [planned](Self::plan) once. Gradients by the groups' matrices are a [`KGroupedGemm`].
///
/// ```
/// use tilewright::ops::{GroupRows, grouped_gemm};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // Rows 0 and 1 go to the first expert, row 2 to the third.
/// let x = Tensor::filled(&device, f16::ONE, &[3, 32])?;
/// let weights: Vec<_> = (0..3 * 64 * 32).map(|i| f16::from_f32((i / (64 * 32)) as f32)).collect();
/// let weights = Tensor::from_slice(&device, &weights, &[3, 64, 32])?;
/// let offsets = Tensor::<i32>::from_slice(&device, &[0, 2, 2, 3], &[4])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[3, 64])?;
/// let b = weights.view().transpose(1, 2)?;
/// let rows = GroupRows::offsets(offsets.view());
/// grouped_gemm(&device.default_stream(), &x.view(), &b, &rows, &mut y.view_mut())?;
/// let y = y.to_vec()?;
/// assert_eq!([y[0], y[64], y[128]].map(f16::to_f32), [0.0, 0.0, 64.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupedGemm<'a> {
    kernel: Option<&'a str>,
    overlap: bool,
    expected: Option<usize>,
    scales: Option<&'a TensorView<'a, f32>>,
    gated: Option<Activation>,
}

impl Default for GroupedGemm<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> GroupedGemm<'a> {
    /// C = A B, group by group.
    pub fn new() -> Self {
        GroupedGemm { kernel: None, overlap: true, expected: None, scales: None, gated: None }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        GroupedGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless set.
    /// It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        GroupedGemm { overlap, ..self }
    }
    /// A factor of each row of C in f32, such as a router's weights, before it is rounded: of C's shape but for the last dimension, with any strides. Those of rows
    /// that no group has are not read.
    pub fn scales(self, scales: &'a TensorView<'a, f32>) -> Self {
        GroupedGemm { scales: Some(scales), ..self }
    }
    /// Gated units in place of the products: B is \[groups, K, 2 N\], N columns of gates, then their N columns of ups; C has N columns and is
    /// act(A gates) · (A ups), times [`scales`](Self::scales) if there are any. All of it is computed in f32 and rounded once.
    ///
    /// K must not be 0, and B's columns must be contiguous and, like A's rows, aligned to 16 bytes: weights lie as \[groups, 2 N, K\]. Before Hopper K must also
    /// be a multiple of 8. For anything else there is no kernel, which is an error: [`Gated::run_packed`](super::Gated::run_packed) makes units of products that are
    /// stored, and rounded, first.
    pub fn gated(self, activation: Activation) -> Self {
        GroupedGemm { gated: Some(activation), ..self }
    }
    /// About how many rows a group has that has any: the kernel is chosen by it, and computes the same whatever they have. Unless set, A's rows
    /// divided among the groups; of [counts](GroupRows::counts), all rows of a matrix.
    pub fn expected_rows(self, rows: usize) -> Self {
        GroupedGemm { expected: Some(rows), ..self }
    }

    /// Every compiled kernel for this type, the best by estimate first, with the reason for those that cannot compute these products.
    pub fn candidates<T: HalfElement>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Vec<GroupedGemmCandidate>> {
        let problem = Problem::new(a, b, rows, c, self.scales, self.gated)?;
        Ok(Selection::new(&problem, T::DTYPE.name(), self.expected)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. All tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: HalfElement>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<GroupedGemmPlan> {
        GroupedGemmPlan::new(self, a, b, rows, c)
    }

    /// Queues the products on `stream`: [`plan`](Self::plan), and [`GroupedGemmPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or C overlaps an input; the error names the argument.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(a, b, rows, c)?.queue(stream, plan::named(a, b, rows, c, self.scales))
    }
}
