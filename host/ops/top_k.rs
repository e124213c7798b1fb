//! The largest elements of rows, or the least, with their columns.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_reduce::{KERNELS, MAX_COLUMNS, MAX_FOUND, TOP_K, TopKArgs, TopKKernel, TopKWork, Walk};

use super::RowsElement;
use super::frame::{Candidate, Choice, Cycles, Named, Plan, Rated, Rejection, Table, check, of_shape};
use super::reduce::walk;
use super::runs::runs;
use crate::tensor::Untyped;
use crate::{Arch, Device, Error, KernelSet, Launch, Result, Stream, TensorView, TensorViewMut};

/// One compiled kernel.
type Compiled = Listed<TopKKernel>;
/// A kernel that could find the largest elements, or why it could not.
pub type TopKCandidate = Candidate<Compiled>;
/// The kernel that finds the largest elements, and why it was chosen.
pub type TopKPlan = Plan<Compiled>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(TOP_K.iter().map(|k| (k.element, *k))));

/// values, indices = the largest elements of x over its last dimension, and their places: see [`TopK`].
pub fn top_k<T: RowsElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    values: &mut TensorViewMut<'_, T>,
    indices: &mut TensorViewMut<'_, u32>,
) -> Result<()> {
    TopK::new().run(stream, x, values, indices)
}

/// values, indices = the k largest elements of x, or the k least, over its last dimension, and their places.
///
/// - x has 1 to 5 dimensions, any strides: rows are those of the last dimension, of up to 262144 elements. values (x's type) and indices
///   (u32) have its shape but for the last dimension, which is k: up to 2048 and no more than a row has. Those of another dimension are
///   those of transposed views.
/// - The largest come first, or the least if these are sought; of equal ones the first. -0 equals 0; values keep their bits.
/// - NaN is larger than every number, and all NaN are equal.
/// - No rows, or k of 0: nothing is done. At most 2³¹ - 2¹⁶ rows.
/// - Rows of contiguous elements are read in vectors, wherever they begin; all others are correct but slower.
///
/// Radix select (as in Alabi et al. 2012) until what is left has room in shared memory, then a bitonic sort (Batcher 1968): rows
/// of which a CTA has up to 4096 elements are read once, longer ones twice or, where many elements begin with the same digits as the last
/// one that is found, more often; the values that are found are read once more. A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same result.
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
    pub fn candidates<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, u32>,
    ) -> Result<Vec<TopKCandidate>> {
        Ok(Problem::new(x, values, indices)?.candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: RowsElement>(
        &self,
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, u32>,
    ) -> Result<TopKPlan> {
        Problem::new(x, values, indices)?.choose(self.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or values or indices overlap another tensor.
    pub fn run<T: RowsElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        values: &mut TensorViewMut<'_, T>,
        indices: &mut TensorViewMut<'_, u32>,
    ) -> Result<()> {
        let problem = Problem::new(x, values, indices)?;
        stream.expect_on(&problem.device)?;
        if problem.rows.count() == 0 || problem.found == 0 {
            return Ok(());
        }
        let kernel = problem.choose(self.kernel)?.descriptor();
        let function = problem.device.listed(&KERNELS, kernel)?;
        let ctas = problem.rows.count().checked_mul(kernel.ctas).filter(|&ctas| ctas <= i32::MAX as u32);
        let ctas = ctas.ok_or_else(|| {
            Error::argument(
                "kernel",
                kernel.name,
                "one that does not take several CTAs for each of so many rows",
            )
        })?;
        let launch = Launch::grid([ctas, 1, 1]).pdl(self.overlap && kernel.arch == Arch::Sm90a);
        let strides = |tensor: &Untyped| tensor.layout.strides().last().map_or(1, |&stride| stride as u64);
        let work = TopKWork {
            addresses: problem.tensors.map(|tensor| tensor.address),
            rows: problem.rows,
            steps: problem.tensors.each_ref().map(strides),
            columns: problem.columns,
            share: problem.share(kernel),
            found: problem.found,
            least: self.least.into(),
        };
        // SAFETY: the arguments are those of `top_k`. The views that they come from are borrowed by the caller, values and indices
        // exclusively, and have the rows and columns that are counted. Programmatic launch only moves what precedes the wait for the
        // preceding grid.
        unsafe { function.launch_block(stream, &launch, &TopKArgs { work }) }
    }
}

/// A call, checked.
struct Problem {
    device: Device,
    /// x, values and indices.
    tensors: [Untyped; 3],
    rows: Walk<3>,
    columns: u32,
    found: u32,
}

impl Problem {
    fn new<T: RowsElement>(
        x: &TensorView<'_, T>,
        values: &TensorViewMut<'_, T>,
        indices: &TensorViewMut<'_, u32>,
    ) -> Result<Self> {
        let shape = x.shape();
        let Some((&columns, outer)) = shape.split_last() else {
            return Err(Error::argument("x", of_shape(shape), "of 1 dimension or more"));
        };
        if columns > MAX_COLUMNS as usize {
            return Err(Error::argument(
                "x",
                of_shape(shape),
                format!("of rows of up to {MAX_COLUMNS} elements"),
            ));
        }
        let most = columns.min(MAX_FOUND as usize);
        let found = match values.shape().split_last() {
            Some((&found, rows)) if rows == outer && found <= most => found,
            _ => {
                let allowed =
                    format!("that of `x`, {shape:?}, but for the last dimension, which is up to {most}");
                return Err(Error::argument("values", of_shape(values.shape()), allowed));
            }
        };
        if indices.shape() != values.shape() {
            let allowed = format!("{}, the shape of `values`", of_shape(values.shape()));
            return Err(Error::argument("indices", of_shape(indices.shape()), allowed));
        }
        let named =
            [Named::read("x", x), Named::written("values", values), Named::written("indices", indices)];
        check(values.device(), named)?;
        let tensors = [x.untyped(), values.untyped(), indices.untyped()];
        let layouts = tensors.map(|tensor| tensor.layout);
        let rows = walk(runs(&layouts, 0..outer.len())).ok_or_else(|| {
            Error::argument("x", of_shape(shape), format!("of at most {} rows", Walk::<3>::MOST))
        })?;
        // Both are at most 2^18.
        let [columns, found] = [columns, found].map(|count| count as u32);
        Ok(Problem { device: values.device().clone(), tensors, rows, columns, found })
    }

    /// Columns of a CTA: whole vectors, so that all but the last end with one where the first begins with one.
    fn share(&self, kernel: &TopKKernel) -> u32 {
        self.columns.div_ceil(kernel.ctas).next_multiple_of(8)
    }
}

impl Rated for TopKKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.ctas, 1, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CTAs a row", self.ctas)
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.tensors[0].dtype.name())
    }
    fn what(&self) -> String {
        self.tensors[0].dtype.name().to_owned()
    }

    /// Instructions bound it: by an estimate for an H200 a CTA takes a cycle for four elements, in two passes, and some 3000 besides with
    /// the sorting; two CTAs share an SM. The first CTA of a cluster goes through what all have found; a launch takes 3000 cycles, or 2000
    /// where it overlaps the one before.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let (sms, ctas) = (u64::from(self.device.sm_count()).max(1), u64::from(kernel.ctas));
        let found = u64::from(self.found);
        let turns = (u64::from(self.rows.count()) * ctas).div_ceil(sms * 2);
        let sorting = 3000 + 3 * found;
        let joining = if ctas > 1 { 3000 + found * ctas / 2 } else { 0 };
        let launch = if kernel.arch == Arch::Sm90a { 2000 } else { 3000 };
        let each = u64::from(self.share(kernel)) / 2 + sorting + joining;
        Ok(Cycles(turns * each + launch))
    }
}
