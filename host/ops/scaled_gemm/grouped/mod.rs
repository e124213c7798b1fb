//! Products of groups of rows of 8-bit floats, with scales of blocks.

mod choose;
mod launch;
mod plan;
mod problem;
#[cfg(test)]
mod tests;

use choose::{Compiled, Selection};
pub use plan::GroupedScaledGemmPlan;
use problem::Problem;

use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice};
use crate::ops::groups::GroupRows;
use crate::{F8E4M3, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute products of groups of 8-bit floats, or why it could not.
pub type GroupedScaledGemmCandidate = Candidate<Compiled>;

/// 8-bit floats with a scale in f32 for each of their blocks.
#[derive(Clone, Debug)]
pub struct BlockScaled<'a> {
    /// The numbers, contiguous along the last dimension, along which they are multiplied.
    pub codes: TensorView<'a, F8E4M3>,
    /// The blocks' factors, any strides.
    pub scales: TensorView<'a, f32>,
}

/// C's rows of group g = A's rows of group g, times B\[g\] transposed, of 8-bit floats with scales of blocks: see [`GroupedScaledGemm`].
pub fn grouped_scaled_gemm<U: HalfElement>(
    stream: &Stream,
    a: &BlockScaled<'_>,
    b: &BlockScaled<'_>,
    rows: &GroupRows<'_>,
    c: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    GroupedScaledGemm::new().run(stream, a, b, rows, c)
}

/// C's rows of group g = A's rows of group g, times B\[g\] transposed, of `F8E4M3` with scales of blocks: a product for each expert.
///
/// - B is \[groups, N, K\], with scales \[groups, N / 128, K / 128\] of its blocks of 128 x 128, both rounded up. Which rows are a group's, [`GroupRows`] says:
///   - with [`offsets`](GroupRows::offsets) A is \[total, K\], C \[total, N\], and group g has the rows from `offsets[g]` to `offsets[g + 1]`;
///   - with [`counts`](GroupRows::counts) A is \[groups, rows, K\], C \[groups, rows, N\], and group g has the first `counts[g]` rows of its matrix.
/// - A's scales are of A's shape with K / 128 in place of K, rounded up: of blocks of 1 x 128 (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2).
/// - Rows of C that no group has are not touched. Groups may have any number of rows, none as well; numbers of rows beyond A's end count as far as that. Offsets that
///   decrease give a group no rows; rows that two groups have get either's product.
/// - K is a multiple of 16, and lines of A and B are aligned to 16 bytes. C is of `f16` or `bf16`, rounded to nearest even, with any strides.
/// - Tensor cores sum up each 128 along K with about 14 bits; those sums are multiplied by the scales of both blocks and added up in f32. Scales may be
///   anything: zeros, infinities and NaN give what IEEE arithmetic makes of their products.
/// - Offsets and counts are read when the kernel runs: a [`Graph`](crate::Graph) replays with those of the moment. The launch is the same whatever they are.
///
/// It needs Hopper's instructions (sm_90a). One launch of persistent CTAs computes all groups; the layouts are those of DeepGEMM's grouped products (DeepSeek-AI 2025), of groups of
/// any size.
///
/// A call allocates nothing and does not wait. The first use of a kernel on a device compiles it in the driver. What is called again and again is
/// [planned](Self::plan) once.
///
/// ```no_run
/// use tilewright::ops::{BlockScaled, GroupRows, grouped_scaled_gemm};
/// use tilewright::{Device, F8E4M3, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// // 512 rows, of 8 experts of 4096 x 1024.
/// let (x, w) = (Tensor::<F8E4M3>::zeros(&device, &[512, 1024])?, Tensor::<F8E4M3>::zeros(&device, &[8, 4096, 1024])?);
/// let (of_x, of_w) = (Tensor::filled(&device, 0.02, &[512, 8])?, Tensor::filled(&device, 0.5, &[8, 32, 8])?);
/// let offsets = Tensor::<i32>::from_slice(&device, &[0, 100, 100, 200, 300, 400, 500, 510, 512], &[9])?;
/// let mut y = Tensor::<bf16>::zeros(&device, &[512, 4096])?;
/// let a = BlockScaled { codes: x.view(), scales: of_x.view() };
/// let b = BlockScaled { codes: w.view(), scales: of_w.view() };
/// grouped_scaled_gemm(&device.default_stream(), &a, &b, &GroupRows::offsets(offsets.view()), &mut y.view_mut())?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GroupedScaledGemm<'a> {
    kernel: Option<&'a str>,
    overlap: bool,
    expected: Option<usize>,
}

impl Default for GroupedScaledGemm<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> GroupedScaledGemm<'a> {
    /// C = A Bᵀ, group by group.
    pub fn new() -> Self {
        GroupedScaledGemm { kernel: None, overlap: true, expected: None }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        GroupedScaledGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch); on unless set.
    /// It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        GroupedScaledGemm { overlap, ..self }
    }
    /// About how many rows a group has that has any: the kernel is chosen by it, and computes the same whatever they have. Unless set, A's rows
    /// divided among the groups; of [counts](GroupRows::counts), all rows of a matrix.
    pub fn expected_rows(self, rows: usize) -> Self {
        GroupedScaledGemm { expected: Some(rows), ..self }
    }

    /// Every compiled kernel for this type of C, the best by estimate first, with the reason for those that cannot compute these products.
    pub fn candidates<U: HalfElement>(
        &self,
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Vec<GroupedScaledGemmCandidate>> {
        let problem = Problem::new(a, b, rows, c)?;
        Ok(Selection::new(&problem, self.expected).candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. All tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<U: HalfElement>(
        &self,
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<GroupedScaledGemmPlan> {
        GroupedScaledGemmPlan::new(self, a, b, rows, c)
    }

    /// Queues the products on `stream`: [`plan`](Self::plan), and [`GroupedScaledGemmPlan::run`].
    ///
    /// Fails when the views do not fit together, lines of A or B are not aligned, views lie on another device, C overlaps an input, or no kernel runs on the device; the
    /// error names the argument.
    pub fn run<U: HalfElement>(
        &self,
        stream: &Stream,
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        self.plan(a, b, rows, c)?.run(stream, a, b, rows, c)
    }
}
