//! Attention: O = softmax(scale Q Kᵀ + mask) V.

mod cache;
mod choose;
mod order;
mod packed;
mod parts;
mod problem;
mod splits;
mod table;
#[cfg(test)]
mod tests;

use cache::Cached;
use packed::{OffsetViews, Offsets};
use problem::{Options, Problem};
use splits::workspace_len;
use table::{Compiled, Run};

use super::HalfElement;
use super::frame::{Candidate, Choice, Named, Plan, Workspace, check};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute an attention, or why it could not.
pub type AttentionCandidate = Candidate<Compiled>;
/// The kernel that computes an attention, and why it was chosen.
pub type AttentionPlan = Plan<Compiled>;

/// O = softmax(Q Kᵀ / sqrt(head dimension)) V, for each head of each sequence.
///
/// See [`Attention`] for shapes, and for masks, scales, the log-sum-exp and the choice of the kernel.
pub fn attention<T: HalfElement>(
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
/// - Few queries over many keys are computed by flash-decoding (Dao et al. 2023): heads that share keys share a tile, and [`splits`](Self::splits)
///   divide the keys. [`lengths`](Self::lengths) and [`block_table`](Self::block_table) are for caches.
/// - A NaN or an infinity in Q or K stays in the rows of the queries that see it. In V it may also reach its column in rows that a
///   mask hides it from: their weight of 0 is multiplied by all values of a block of keys that a tile of queries reads, as in
///   flash attention at large. What lies behind a sequence's length or in no sequence is not read, or counts as zeros.
/// - A query that sees no key has an O of 0 and a log-sum-exp of -inf. Without queries or batch nothing is done.
///
/// The scores are never in memory: a CTA takes a tile of queries and walks over their keys in blocks, with a running maximum and sum
/// (Milakov & Gimelshein 2018; Dao et al. 2022; Dao 2023; Shah et al. 2024).
///
/// A call allocates no device memory and does not wait, but for the [`workspace`](Self::workspace) of divided keys if none was given; it can
/// be captured in a [`Graph`](crate::Graph). The first use of a
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
    lengths: Option<TensorView<'a, i32>>,
    table: Option<TensorView<'a, i32>>,
    packed: Option<OffsetViews<'a>>,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Attention<'_> {
    /// O = softmax(Q Kᵀ / sqrt(D)) V.
    pub fn new() -> Self {
        Attention {
            options: Options::default(),
            lse: None,
            lengths: None,
            table: None,
            packed: None,
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
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
    /// The factor of Q Kᵀ, above 0 and at most 1e17; 1 / sqrt(D) unless set.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = Some(scale);
        self
    }
    /// Scores s become `cap` tanh(s / `cap`) before the mask. `cap` is from 1e-20 to 1024; scores are off by up to 4e-7 of it.
    pub fn softcap(mut self, cap: f32) -> Self {
        self.options.softcap = Some(cap);
        self
    }
    /// Where to write the natural logarithm of each row's sum of exponentials of masked scores, \[batch, heads, queries\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        Attention { lse: Some(lse.reborrow()), ..self }
    }
    /// The number of keys of each sequence, \[batch\], contiguous: `k` and `v` have room for more. Read when the kernel runs;
    /// numbers below 0 are taken as 0, and those beyond the room as all of it. What lies behind a sequence's keys is not used.
    ///
    /// With a mask, each sequence's last query is aligned with its last key.
    pub fn lengths(self, lengths: &TensorView<'a, i32>) -> Self {
        Attention { lengths: Some(lengths.clone()), ..self }
    }
    /// Keys and values lie in pages, as in a paged cache (Kwon et al. 2023): `k` is \[pages, KV heads, rows of a page, D\], `v`
    /// \[pages, KV heads, rows of a page, DV\], the rows of a page a power of two from 8 on. Row i of `table`, \[batch, pages of a
    /// sequence\], whose rows are contiguous, names the pages of sequence i in the order of its keys. Read when the kernel runs;
    /// pages that do not exist are zeros. Caches \[pages, rows, KV heads, D\] are views: `cache.view().transpose(1, 2)?`.
    ///
    /// All pages of a sequence count, unless [`lengths`](Self::lengths) says how many keys there are; entries behind them are not used.
    pub fn block_table(self, table: &TensorView<'a, i32>) -> Self {
        Attention { table: Some(table.clone()), ..self }
    }
    /// Sequences lie one after the other in the rows of tensors with a batch of 1, as many as `query_offsets` has elements less
    /// one: the queries of sequence i are the rows from `query_offsets`\[i\] to `query_offsets`\[i + 1\], its keys those from
    /// `key_offsets`\[i\] to `key_offsets`\[i + 1\] ("varlen", cumulative lengths). Both are contiguous, ascend, and are read when the
    /// kernel runs. No sequence has more than `longest` queries.
    ///
    /// Offsets that break this reach no memory outside of the tensors: they are cut off at the tensors' rows, and a sequence whose
    /// end is not behind its begin is empty. Of a sequence with more than `longest` queries each further one is either computed
    /// or left as it was. Where the queries of two sequences overlap, because offsets do not ascend, each element of these rows
    /// of O and of the log-sum-exp is what one of the two gives, not always the same one; the emulator reports the race.
    ///
    /// Q \[1, heads, all queries, D\]; tensors \[all queries, heads, D\] are such views: `q.view().transpose(0, 1)?.insert_dim(0)?`. The
    /// log-sum-exp is \[1, heads, all queries\]. Each sequence's last query is aligned with its last key.
    pub fn packed(
        self,
        query_offsets: &TensorView<'a, i32>,
        key_offsets: &TensorView<'a, i32>,
        longest: usize,
    ) -> Self {
        let (queries, keys) = (query_offsets.clone(), key_offsets.clone());
        Attention { packed: Some(OffsetViews { queries, keys, longest }), ..self }
    }
    /// Divides the keys of each sequence into so many parts, 1 to 1024, whose results are merged: flash-decoding. Unless set, it is
    /// chosen so that all SMs have work; for more than 16 queries only with a [`workspace`](Self::workspace).
    pub fn splits(mut self, splits: usize) -> Self {
        self.options.splits = Some(splits);
        self
    }
    /// Memory for the results of parts, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run that needs some allocates it and keeps it for later runs, which wait for each other; it is freed when
    /// the `Attention` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(mut self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        self.options.has_workspace = true;
        Attention { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Attention { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch,
    /// Hopper); on unless set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Attention { overlap, ..self }
    }

    fn problem<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Problem> {
        let (lengths, table) = (self.lengths.as_ref(), self.table.as_ref());
        let lse = self.lse.as_ref();
        let inputs = [Named::read("q", q), Named::read("k", k), Named::read("v", v)].into_iter();
        let inputs = inputs.chain(lengths.map(|lengths| Named::read("lengths", lengths)));
        let inputs = inputs.chain(table.map(|table| Named::read("block_table", table)));
        let inputs = inputs.chain(self.packed.iter().flat_map(OffsetViews::named));
        let outputs = [Named::written("o", o)].into_iter().chain(lse.map(|lse| Named::written("lse", lse)));
        check(o.device(), inputs.chain(outputs).chain(self.workspace.named()))?;
        let cached = Cached::new(lengths, table);
        let packed = self.packed.as_ref().map(Offsets::new).transpose()?;
        let others = [
            ("lengths", lengths.is_some()),
            ("block_table", table.is_some()),
            ("splits", self.options.splits.is_some()),
        ];
        if let Some((name, _)) = others.into_iter().find(|(_, given)| *given && packed.is_some()) {
            let allowed = "left out: the offsets say which keys a sequence has, and they are not divided";
            return Err(Error::argument(name, "given for packed sequences", allowed));
        }
        Problem::new(&self.options, q, k, v, o, lse, (cached, packed))
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: 0 unless keys are divided.
    pub fn workspace_len<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        let problem = self.problem(q, k, v, o)?;
        let plan = problem.choose(self.kernel)?;
        Ok(workspace_len(&problem.size, plan.estimate.splits))
    }

    /// Every compiled kernel for this type and these options, the best by estimate first, with the reason for those that
    /// cannot compute this attention.
    pub fn candidates<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<AttentionCandidate>> {
        Ok(self.problem(q, k, v, o)?.candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: HalfElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<AttentionPlan> {
        self.problem(q, k, v, o)?.choose(self.kernel)
    }

    /// Queues the attention on `stream`.
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement>(
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
        let plan = problem.choose(self.kernel)?;
        let (kernel, splits) = (plan.descriptor(), plan.estimate.splits);
        let len = workspace_len(&problem.size, splits);
        let workspace = self.workspace.of(len, stream)?;
        let how = Run { overlap: self.overlap, splits, workspace };
        let launched = if problem.size.columns[1] <= kernel.columns[1] as usize {
            kernel.run(&problem, stream, &how)
        } else {
            problem.passes(kernel.columns[1]).try_for_each(|pass| kernel.run(&pass?, stream, &how))
        };
        // Some launches may have come before one that failed.
        launched.and(self.workspace.used(len, stream))
    }
}
