//! Attention: O = softmax(scale Q Kᵀ + mask) V.

mod choose;
mod order;
mod problem;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

pub use choose::AttentionCandidate;
use choose::{candidates, choose};
use problem::{Options, Problem};

use crate::{Element, Result, Stream, TensorView, TensorViewMut, bf16, f16};

/// Element types of attention: `f16` and `bf16`.
pub trait AttentionElement: Element + sealed::Element {}

mod sealed {
    pub trait Element {}
}

impl sealed::Element for f16 {}
impl AttentionElement for f16 {}
impl sealed::Element for bf16 {}
impl AttentionElement for bf16 {}

/// O = softmax(Q Kᵀ / sqrt(head dimension)) V, for each head of each sequence.
///
/// See [`Attention`] for shapes, and for masks, scales, the log-sum-exp and the choice of the kernel.
pub fn attention<T: AttentionElement>(
    stream: &Stream,
    q: &TensorView<'_, T>,
    k: &TensorView<'_, T>,
    v: &TensorView<'_, T>,
    o: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Attention::new().run(stream, q, k, v, o)
}

/// O = softmax(scale Q Kᵀ + mask) V, for each head of each sequence: flash attention, forward.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q | \[batch, heads, queries, D\] |
/// | K | \[batch, KV heads, keys, D\] |
/// | V | \[batch, KV heads, keys, DV\] |
/// | O | \[batch, heads, queries, DV\] |
/// | log-sum-exp, optional | \[batch, heads, queries\] |
///
/// - D and DV are 1 to 256, each; the kernels are made for 64, 128 and 256, and for D of 192 with DV of 128 or 192. Others
///   take the time of the next larger ones. Before Hopper a DV beyond 128 takes two launches, each with half of the columns.
/// - KV heads divide heads: 1 KV head is MQA, fewer than heads are GQA; head h shares KV head h / (heads / KV heads).
/// - Strides are any. Tensors \[batch, length, heads, D\] (BSHD) are views: `x.view().transpose(1, 2)?`. A contiguous head
///   dimension in lines that are aligned to 16 bytes is read by the fast kernels; anything else is correct but slower.
/// - Without a mask every query sees every key. The last query is aligned with the last key: query i's own key is
///   j = i + keys - queries, with [`causal`](Self::causal) it sees the keys up to that one, with [`window`](Self::window)
///   some before and behind it.
/// - Products are of `T` (f16 or bf16), accumulated in f32; the softmax is in f32, its weights are rounded to `T` before they
///   multiply V; then the result is rounded to `T`, to nearest even.
/// - A query that sees no key has an O of 0 and a log-sum-exp of -inf. Without queries or batch nothing is done.
///
/// The scores are never in memory: a CTA takes a tile of queries and walks over their keys in blocks, with a running maximum and sum
/// (Milakov & Gimelshein 2018; Dao et al. 2022; Dao 2023; Shah et al. 2024).
///
/// A call allocates no device memory and does not wait; it can be captured in a [`Graph`](crate::Graph). The first use of a
/// kernel on a device compiles it in the driver.
///
/// ```no_run
/// use tilewright::ops::Attention;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// // [batch, length, heads, head dimension]; eight heads share a head of keys and values.
/// let q = Tensor::<bf16>::zeros(&device, &[2, 1024, 32, 128])?;
/// let k = Tensor::<bf16>::zeros(&device, &[2, 1024, 4, 128])?;
/// let v = Tensor::<bf16>::zeros(&device, &[2, 1024, 4, 128])?;
/// let mut o = Tensor::<bf16>::zeros(&device, &[2, 1024, 32, 128])?;
/// let mut lse = Tensor::<f32>::zeros(&device, &[2, 32, 1024])?;
/// Attention::new().causal().lse(&mut lse.view_mut()).run(
///     &device.default_stream(),
///     &q.view().transpose(1, 2)?,
///     &k.view().transpose(1, 2)?,
///     &v.view().transpose(1, 2)?,
///     &mut o.view_mut().transpose(1, 2)?,
/// )?;
/// # Ok(())
/// # }
/// ```
pub struct Attention<'a> {
    options: Options,
    lse: Option<TensorViewMut<'a, f32>>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Attention<'_> {
    /// O = softmax(Q Kᵀ / sqrt(D)) V.
    pub fn new() -> Self {
        Attention { options: Options::default(), lse: None, kernel: None, overlap: true }
    }
}

impl Default for Attention<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Attention<'a> {
    /// Query i sees the keys j <= i + keys - queries: the last query sees all.
    pub fn causal(mut self) -> Self {
        self.options.causal = true;
        self
    }
    /// Query i sees the keys j with i + keys - queries - `left` <= j <= i + keys - queries + `right` alone; `usize::MAX` is no
    /// limit. With [`causal`](Self::causal) `right` is 0.
    pub fn window(mut self, left: usize, right: usize) -> Self {
        self.options.window = Some([left, right]);
        self
    }
    /// The factor of Q Kᵀ, finite and above 0; 1 / sqrt(D) unless set.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = Some(scale);
        self
    }
    /// Scores s become `cap` tanh(s / `cap`) before the mask; `cap` is finite and above 0.
    pub fn softcap(mut self, cap: f32) -> Self {
        self.options.softcap = Some(cap);
        self
    }
    /// Where to write the natural logarithm of each row's sum of exponentials of masked scores, \[batch, heads, queries\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        Attention { lse: Some(lse.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Attention { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the one in front of it on the stream still runs (programmatic dependent launch,
    /// Hopper); on unless set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Attention { overlap, ..self }
    }

    fn problem<T: AttentionElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        Problem::new(&self.options, q, k, v, o, self.lse.as_ref())
    }

    /// Every compiled kernel for this type and these options, the best by estimate first, with the reason for those that
    /// cannot compute this attention.
    pub fn candidates<T: AttentionElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<AttentionCandidate>> {
        candidates(&self.problem(q, k, v, o)?)
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: AttentionElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<AttentionPlan> {
        let kernel = choose(&self.problem(q, k, v, o)?, self.kernel)?;
        Ok(AttentionPlan { kernel, forced: self.kernel.is_some() })
    }

    /// Queues the attention on `stream`.
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: AttentionElement>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let problem = self.problem(q, k, v, o)?;
        stream.expect_on(&problem.device)?;
        if problem.is_empty() {
            return Ok(());
        }
        let AttentionCandidate { kernel, .. } = choose(&problem, self.kernel)?;
        if problem.size.columns[1] <= kernel.columns[1] as usize {
            return (kernel.run)(&problem, stream, self.overlap);
        }
        problem.passes(kernel.columns[1]).try_for_each(|pass| (kernel.run)(&pass?, stream, self.overlap))
    }
}

/// The kernel that computes an attention, and why it was chosen.
#[derive(Clone, Debug)]
pub struct AttentionPlan {
    kernel: AttentionCandidate,
    forced: bool,
}

impl AttentionPlan {
    /// The kernel.
    pub fn kernel(&self) -> &AttentionCandidate {
        &self.kernel
    }
    /// Why it was chosen.
    pub fn reason(&self) -> &'static str {
        if self.forced { "asked for by name" } else { "the fastest by estimate" }
    }
}

impl fmt::Display for AttentionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([m, n], [d, dv], stages) = (self.kernel.tile(), self.kernel.columns(), self.kernel.stages());
        write!(
            f,
            "{}; tiles of {m} queries, blocks of {n} keys, head dimensions up to {d} and {dv}, {stages} stages: {}",
            self.kernel,
            self.reason()
        )
    }
}
