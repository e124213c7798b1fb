//! GEMM: C = act(alpha A B + beta C + bias).

mod batches;
mod choose;
mod estimate;
mod lines;
mod parts;
mod plan;
mod problem;
mod singles;
mod table;
#[cfg(test)]
mod tests;

use tilewright_device::tile::Activation;

use batches::Batches;
use choose::Selection;
use plan::Sums;
pub use plan::{GemmPlan, GemmViews};
use table::{Compiled, Kind};

use super::frame::{Candidate, Choice};
use super::{FloatElement, HalfElement, Tuner};
use crate::{Element, Error, KernelEntry, Result, Stream, Tensor, TensorView, TensorViewMut};

/// Element types of a GEMM's inputs: those of [`HalfElement`], `f16` and `bf16`, and `f32`.
pub trait GemmInput: Element {}
impl<T: HalfElement> GemmInput for T {}
impl GemmInput for f32 {}

/// A kernel that could compute a GEMM, or why it could not.
pub type GemmCandidate = Candidate<Compiled>;

/// C = A B, for matrices or batches of them: A \[batch, M, K\], B \[batch, K, N\], C \[batch, M, N\].
///
/// See [`Gemm`] for scales, bias, activation and the choice of the kernel.
pub fn gemm<T: GemmInput, U: FloatElement>(
    stream: &Stream,
    a: &TensorView<'_, T>,
    b: &TensorView<'_, T>,
    c: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    Gemm::new().run(stream, a, b, c)
}

/// C = act(alpha A B + beta C + bias), for matrices or batches of them.
///
/// - A is \[M, K\], B is \[K, N\], C is \[M, N\], each with any strides: transposed operands, leading dimensions and strided
///   batches are views. With one to three batch dimensions in front of C, A and B have them too, or are used for every matrix: dimensions of 1 and
///   missing ones repeat.
/// - Dimensions of the batch that strides step over evenly are one, and belong to M where one B serves them all: x \[batch, rows, K\] times
///   a weight \[K, N\] is one product of batch x rows rows. What cannot be one takes a launch for each index.
/// - Products are of `T` (f16, bf16 or f32), accumulated in f32; alpha, beta, the bias and the [activation](Self::activation) apply in f32; then
///   the result is rounded to `U` (f16, bf16 or f32), to nearest even. Those of f32 are to `U` = f32 alone, by ordinary instructions in full precision, a twentieth of the tensor cores'
///   rate where lines are aligned to 16 bytes and not both operands are transposed, and half of that elsewhere; [`ScaledGemm`](super::ScaledGemm) multiplies f32 as tf32,
///   or by three products of tf32 twice as fast and nearly as exactly.
/// - The bias is \[N\], one value a column, or anything else that broadcasts to C's shape.
/// - C is not read when beta is 0: it may hold anything. No rows, columns or batches: nothing is done. K of 0: a product of 0.
/// - Lines that are aligned to 16 bytes are read by the fast kernels. Others, as those of an odd depth, are copied into such first, where that takes less time than a kernel
///   that reads any elements: in memory that the device keeps, or in a plan's [workspace](GemmPlan::run_in). Slower are also products of one
///   16-bit type with outputs of the other, and activations with f32 outputs before Hopper or on it with a transposed A. An activation with
///   a transposed A has no large tile.
///
/// A call does not wait, and can be captured in a [`Graph`](crate::Graph). Of some hundred rows, whose tiles fill no wave, all CTAs divide the depth (stream-K, Osama et al. 2023): the sums
/// of parts are in memory that the device keeps, up to 64 MiB for each of four streams, and so are copies of operands, which are as large as these; the first such call allocates it. Where there is none left, and
/// in a call that is captured, another kernel runs that is slower, unless
/// it is of a [plan](Self::plan) that is [run in](GemmPlan::run_in) a workspace. The first use of a kernel on
/// a device compiles it in the driver. What is called again and again is planned once.
///
/// ```no_run
/// use tilewright::ops::{Activation, Gemm};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<f16>::zeros(&device, &[512, 1024])?;
/// let w = Tensor::<f16>::zeros(&device, &[4096, 1024])?;
/// let bias = Tensor::<f16>::zeros(&device, &[4096])?;
/// let mut y = Tensor::<f16>::zeros(&device, &[512, 4096])?;
/// // y = relu(x wᵀ + bias)
/// let bias = bias.view();
/// Gemm::new().bias(&bias).activation(Activation::Relu).run(
///     &device.default_stream(),
///     &x.view(),
///     &w.view().transpose(0, 1)?,
///     &mut y.view_mut(),
/// )?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
pub struct Gemm<'a, U> {
    alpha: f32,
    beta: f32,
    bias: Option<&'a TensorView<'a, U>>,
    kernel: Option<&'a str>,
    overlap: bool,
    activation: Activation,
    gated: bool,
    constant: bool,
    sms: Option<u32>,
}

impl<U: FloatElement> Gemm<'_, U> {
    /// C = A B.
    pub fn new() -> Self {
        let activation = Activation::Identity;
        Gemm {
            alpha: 1.0,
            beta: 0.0,
            bias: None,
            kernel: None,
            overlap: true,
            activation,
            gated: false,
            constant: false,
            sms: None,
        }
    }
}

impl<U: FloatElement> Default for Gemm<'_, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, U: FloatElement> Gemm<'a, U> {
    /// The factor of A B; 1 unless set.
    pub fn alpha(self, alpha: f32) -> Self {
        Gemm { alpha, ..self }
    }
    /// The factor of C's old value; 0 unless set, and C is not read then.
    pub fn beta(self, beta: f32) -> Self {
        Gemm { beta, ..self }
    }
    /// What is added before the activation.
    pub fn bias(self, bias: &'a TensorView<'a, U>) -> Self {
        Gemm { bias: Some(bias), ..self }
    }
    /// What is applied to every element before it is rounded; nothing unless set.
    pub fn activation(self, activation: Activation) -> Self {
        Gemm { activation, ..self }
    }
    /// The gated unit of a layer's input, for few rows of A: B's columns are gates and ups in turn, 8 of each, C is \[M, N / 2\], act(gate) · up in f32. Of matrices,
    /// without bias and beta.
    ///
    /// Hopper's kernels for few rows have it, for GELU and SiLU, rows of A and columns of B that are contiguous, and C of their type; elsewhere there is no kernel, and
    /// [`Gated`](super::Gated) takes the product: of x \[M, N\] the gates are the view \[M, N / 16, 8\] of x as \[M, N / 16, 2, 8\].
    pub fn gated(self) -> Self {
        Gemm { gated: true, ..self }
    }
    /// Lets kernels for few rows read B, a layer's weight, before the preceding grid of the stream has ended. Without [overlap](Self::overlap) it changes nothing.
    ///
    /// # Safety
    /// Whenever the product runs, no kernel that was queued on the stream before it and may still run then writes B. With overlap that may be any of those
    /// queued since the stream was waited for, or since a kernel that does not let others begin early.
    pub unsafe fn constant_b(self) -> Self {
        Gemm { constant: true, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Gemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch,
    /// Hopper); on unless set. It waits for that one's results before it reads or writes memory. Where memory is slower than an H200's, large products
    /// that are taken in turn start apart even so: they are faster.
    pub fn overlap(self, overlap: bool) -> Self {
        Gemm { overlap, ..self }
    }

    /// The most SMs that it takes, 1 or more: others are left to kernels that run at the same time. All unless set.
    pub fn sms(self, sms: u32) -> Self {
        Gemm { sms: Some(sms), ..self }
    }

    /// Without a bias.
    pub(crate) fn without_bias(self) -> Self {
        Gemm { bias: None, ..self }
    }
    /// Checks that it may be a part of a sum of products.
    pub(crate) fn expect_plain_sum(&self) -> Result<()> {
        let Gemm { beta, gated, activation, .. } = self;
        let allowed = "left out where products are added up";
        if *beta != 0.0 {
            return Err(Error::argument("beta", beta.to_string(), allowed));
        }
        if *gated || *activation != Activation::Identity {
            let was = if *gated { "of gates" } else { activation.name() };
            return Err(Error::argument("activation", was, allowed));
        }
        Ok(())
    }

    fn kind<T: Element>(&self) -> Kind {
        (T::DTYPE.name(), U::DTYPE.name(), self.activation.name(), self.gated)
    }

    /// Every compiled kernel for these types and this activation, the best by estimate first, with the reason for those that
    /// cannot compute this product.
    pub fn candidates<T: GemmInput>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Vec<GemmCandidate>> {
        let batches = Batches::new(a, b, c, self.bias, self.gated)?;
        Ok(Selection::new(batches.first(), self.kind::<T>(), self, Sums::Anywhere)?.candidates())
    }

    /// A plan for matrices of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The matrices and
    /// the bias may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<T: GemmInput>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<GemmPlan> {
        self.plan_of(a, b, c)
    }

    /// [`plan`](Self::plan) with the kernel that `tuner` [chooses](Tuner::choose) among the candidates that are estimated to take no more than twice
    /// the least time. Batches whose launches take different kernels, as their matrices begin differently, and products whose operands are copied first are planned by estimate. If kernels are measured, what C
    /// holds afterwards is of no use.
    ///
    /// # Errors
    /// Those of [`run`](Self::run) and of [`Tuner::choose`].
    pub fn tuned_plan<T: GemmInput>(
        &self,
        tuner: &Tuner,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<GemmPlan> {
        let best = self.plan(a, b, c)?;
        if self.kernel.is_some() || c.is_empty() || !best.is_of_one_kernel() || best.copies() {
            return Ok(best);
        }
        let most = best.kernel().cycles().map_or(u64::MAX, |cycles| cycles.saturating_mul(2));
        let candidates = self.candidates(a, b, c)?.into_iter();
        let hopeful = candidates.filter(|candidate| candidate.cycles().is_some_and(|cycles| cycles <= most));
        let kernels: Vec<_> = hopeful.filter_map(|candidate| candidate.entry()).collect();
        let Gemm { activation, gated, constant, overlap, sms, .. } = self;
        let (reads_c, operands) = (self.beta != 0.0, best.operands());
        let options = format!("{} gated {gated} {reads_c} {constant} {overlap} {sms:?}", activation.name());
        let by = |kernel: &'static KernelEntry| Gemm { kernel: Some(kernel.name), ..*self };
        let tensors = plan::named(a, b, c, self.bias);
        let mut memory: Option<Tensor<f32>> = None;
        let run = |stream: &Stream, kernel| {
            let plan = by(kernel).plan(a, b, c)?;
            let len = plan.workspace_len();
            if len > memory.as_ref().map_or(0, Tensor::len) {
                memory = Some(Tensor::uninit(c.device(), &[len])?);
            }
            plan.queue_in(stream, tensors, memory.as_mut().map(Tensor::view_mut).as_ref())
        };
        let kernel = tuner.choose(stream, &format!("gemm {options}:{operands}"), &kernels, run)?;
        by(kernel).plan(a, b, c)?.with_bare(self, a, b, c)
    }

    /// [`plan`](Self::plan), of operators whose inputs are of more types.
    pub(super) fn plan_of<T: Element>(
        &self,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<GemmPlan> {
        GemmPlan::new(self, Sums::Anywhere, a, b, c)
    }

    /// Queues the product on `stream`: [`plan`](Self::plan), and [`GemmPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or C overlaps an input.
    pub fn run<T: GemmInput>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        // What is captured finds no workspace.
        let sums = if stream.is_captured()? { Sums::InClusters } else { Sums::Uncaptured };
        let queue = |sums| GemmPlan::new(self, sums, a, b, c)?.queue(stream, plan::named(a, b, c, self.bias));
        match queue(sums) {
            // What takes none is slower.
            Err(Error::OutOfMemory { .. }) if self.kernel.is_none() => queue(Sums::InClusters),
            done => done,
        }
    }
}
