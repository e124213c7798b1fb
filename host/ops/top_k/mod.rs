//! The largest elements of rows, or the least, with their columns.

mod choose;
mod problem;
#[cfg(test)]
mod tests;

use choose::Compiled;
use problem::Problem;

use super::frame::{Candidate, Choice, Plan};
use super::{FloatElement, IndexElement};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could find the largest elements, or why it could not.
pub type TopKCandidate = Candidate<Compiled>;
/// The kernel that finds the largest elements, and why it was chosen.
pub type TopKPlan = Plan<Compiled>;

/// values, indices = the largest elements of x over its last dimension, and their places: see [`TopK`].
pub fn top_k<T: FloatElement, I: IndexElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    values: &mut TensorViewMut<'_, T>,
    indices: &mut TensorViewMut<'_, I>,
) -> Result<()> {
    TopK::new().run(stream, x, values, indices)
}

/// values, indices = the k largest elements of x, or the k least, over its last dimension, and their places.
///
/// - x has 1 to 5 dimensions, any strides: rows are those of the last dimension, of up to 262144 elements. values (x's type) and indices
///   (u32, i32 or i64) have its shape but for the last dimension, which is k: up to 2048 and no more than a row has. Those of another dimension are
///   those of transposed views.
/// - The largest come first, or the least if these are sought; of equal ones the first. -0 equals 0; values keep their bits.
/// - NaN is larger than every number, and all NaN are equal.
/// - No rows, or k of 0: nothing is done. At most 2³¹ - 2¹⁶ rows.
/// - Rows of contiguous elements are read in vectors, wherever they begin; all others are correct but slower.
///
/// Up to 16 elements of rows of up to 4096 are found by the lanes of a warp, of which some share a row and merge sorted lists (Batcher
/// 1968). All others in two passes: as many of the largest of groups of elements as are wanted, of all of a long row or of up to an eighth of
/// it, bound what can be among the largest, and what is not less than the last of them is listed in shared memory, where radix select (as in Alabi et
/// al. 2012) and a bitonic sort do the rest. Where too many are not less, as in rows of a few different values, radix select goes over the row
/// as often as its digits need. The values that are found are read once more. A call allocates nothing and does not wait; it can be
/// captured in a [`Graph`](crate::Graph). The same call gives the same result.
///
/// ```
/// use tilewright::ops::top_k;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 3.0, 2.0, 3.0, -1.0], &[1, 5])?;
/// let mut values = Tensor::<f32>::zeros(&device, &[1, 3])?;
/// let mut indices = Tensor::<u32>::zeros(&device, &[1, 3])?;
/// top_k(&device.default_stream(), &x.view(), &mut values.view_mut(), &mut indices.view_mut())?;
/// assert_eq!(values.to_vec()?, [3.0, 3.0, 2.0]);
/// assert_eq!(indices.to_vec()?, [1, 3, 2]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TopK<'a> {
    least: bool,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Default for TopK<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> TopK<'a> {
    /// The largest.
    pub fn new() -> Self {
        TopK { least: false, kernel: None, overlap: true }
    }
    /// The least instead.
    pub fn least(self) -> Self {
        TopK { least: true, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        TopK { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        TopK { overlap, ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement, I: IndexElement>(
        &self,
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, I>,
    ) -> Result<Vec<TopKCandidate>> {
        Ok(Problem::new(x, values, indices)?.candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: FloatElement, I: IndexElement>(
        &self,
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, I>,
    ) -> Result<TopKPlan> {
        Problem::new(x, values, indices)?.choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or values or indices overlap another tensor.
    pub fn run<T: FloatElement, I: IndexElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        values: &mut TensorViewMut<'_, T>,
        indices: &mut TensorViewMut<'_, I>,
    ) -> Result<()> {
        let problem = Problem::new(x, values, indices)?;
        stream.expect_on(&problem.device)?;
        if problem.rows.count() == 0 || problem.found == 0 {
            return Ok(());
        }
        let kernel = problem.choose(self.kernel)?.descriptor();
        // SAFETY: the views that the problem comes from are borrowed by the caller, values and indices exclusively.
        unsafe { problem.launch(stream, kernel, self.least, self.overlap) }
    }
}
