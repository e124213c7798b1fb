//! Products whose depth is the rows of a group, as gradients by the groups' matrices need them.

mod choose;
mod launch;
mod plan;
mod problem;
#[cfg(test)]
mod tests;

use choose::{Compiled, Selection};
pub use plan::KGroupedGemmPlan;
use problem::Problem;

use crate::ops::frame::{Candidate, Choice};
use crate::ops::groups::GroupRows;
use crate::ops::{FloatElement, HalfElement};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute products over groups' rows, or why it could not.
pub type KGroupedGemmCandidate = Candidate<Compiled>;

/// C\[g\] = A's rows of group g, transposed, times B's: see [`KGroupedGemm`].
pub fn k_grouped_gemm<T: HalfElement, U: FloatElement>(
    stream: &Stream,
    a: &TensorView<'_, T>,
    b: &TensorView<'_, T>,
    rows: &GroupRows<'_>,
    c: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    KGroupedGemm::new().run(stream, a, b, rows, c)
}

/// C\[g\] = A's rows of group g, transposed, times B's: of the rows and gradients of a [`GroupedGemm`](super::GroupedGemm) the gradient by each group's matrix.
///
/// - C is \[groups, M, N\]. Which rows are a group's, [`GroupRows`] says:
///   - with [`offsets`](GroupRows::offsets) A is \[total, M\], B \[total, N\], and group g has the rows from `offsets[g]` to `offsets[g + 1]`;
///   - with [`counts`](GroupRows::counts) A is \[groups, rows, M\], B \[groups, rows, N\], and group g has the first `counts[g]` rows of its matrices.
/// - Groups may have any number of rows; without any their matrix of C becomes zeros. What rows hold that no group has does not matter, not even a NaN. Numbers of rows
///   beyond A's end count as far as that, and offsets that decrease give a group no rows.
/// - A and B are of `f16` or `bf16`, accumulated in f32; C is of the same type, rounded to nearest even, or of `f32`. A C of `f32` may be [added to](Self::accumulate).
/// - Any strides. Where columns of A and of B are contiguous and lines aligned to 16 bytes, the fast kernels read them; anything else is correct but slower.
/// - Offsets and counts are read when the kernel runs: a [`Graph`](crate::Graph) replays with those of the moment. The launch is the same whatever they are, and so
///   are the bits of a product.
///
/// One launch of persistent CTAs computes all groups: the tiles of a group's C follow each other. Their depth ends with the group: of a step that goes
/// beyond, the rows of the next one are zeros before they are multiplied (as DeepGEMM's k-grouped GEMM, DeepSeek-AI 2025, of groups of any size).
///
/// A call allocates nothing and does not wait. The first use of a kernel on a device compiles it in the driver. What is called again and again is
/// [planned](Self::plan) once.
///
/// ```
/// use tilewright::ops::{GroupRows, k_grouped_gemm};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // Rows 0 and 1 went to the first expert, row 2 to the third.
/// let x = Tensor::filled(&device, f16::ONE, &[3, 32])?;
/// let dy = Tensor::filled(&device, f16::ONE, &[3, 64])?;
/// let offsets = Tensor::<i32>::from_slice(&device, &[0, 2, 2, 3], &[4])?;
/// let mut dw = Tensor::<f32>::uninit(&device, &[3, 32, 64])?;
/// let rows = GroupRows::offsets(offsets.view());
/// k_grouped_gemm(&device.default_stream(), &x.view(), &dy.view(), &rows, &mut dw.view_mut())?;
/// let dw = dw.to_vec()?;
/// assert_eq!([dw[0], dw[32 * 64], dw[2 * 32 * 64]], [2.0, 0.0, 1.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KGroupedGemm<'a> {
    kernel: Option<&'a str>,
    overlap: bool,
    accumulate: bool,
}

impl Default for KGroupedGemm<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> KGroupedGemm<'a> {
    /// C\[g\] = Aᵀ B over the rows of group g.
    pub fn new() -> Self {
        KGroupedGemm { kernel: None, overlap: true, accumulate: false }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        KGroupedGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless set.
    /// It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        KGroupedGemm { overlap, ..self }
    }
    /// Whether the products are added to C, which is then of `f32`, as gradients are that several batches sum up; off unless set. Groups without rows leave theirs as
    /// it is.
    pub fn accumulate(self, accumulate: bool) -> Self {
        KGroupedGemm { accumulate, ..self }
    }

    /// Every compiled kernel for these types, the best by estimate first, with the reason for those that cannot compute these products.
    pub fn candidates<T: HalfElement, U: FloatElement>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Vec<KGroupedGemmCandidate>> {
        let problem = Problem::new(a, b, rows, c, self.accumulate)?;
        Ok(Selection::new(&problem)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. All tensors may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: HalfElement, U: FloatElement>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<KGroupedGemmPlan> {
        KGroupedGemmPlan::new(self, a, b, rows, c)
    }

    /// Queues the products on `stream`: [`plan`](Self::plan), and [`KGroupedGemmPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or C overlaps an input; the error names the argument.
    pub fn run<T: HalfElement, U: FloatElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        self.plan(a, b, rows, c)?.run(stream, a, b, rows, c)
    }
}
