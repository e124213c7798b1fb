//! Attention: O = softmax(scale Q Kᵀ + mask) V.

mod bias;
mod cache;
mod choose;
mod gradient;
mod lists;
mod merge;
mod order;
mod packed;
mod parts;
mod plan;
mod problem;
mod queue;
mod scaled;
mod selected;
mod splits;
mod table;
mod terms;
#[cfg(test)]
mod tests;

pub use bias::{AttentionBias, AttentionBiasMut};
pub use gradient::{
    AttentionGradient, AttentionGradientCandidate, AttentionGradientPlan, AttentionGradientViews,
};
pub use merge::{
    AttentionMerge, AttentionMergeCandidate, AttentionMergePlan, AttentionState, merge_attention,
};
pub use plan::{AttentionPlan, AttentionViews};
use plan::{Others, named, problem};
use problem::Options;
pub use scaled::{ScaledAttention, ScaledAttentionCandidate, ScaledAttentionPlan, ScaledAttentionViews};
use table::Compiled;

use super::frame::{Candidate, Choice, Workspace};
use super::{CacheElement, HalfElement, Indices};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// A kernel that could compute an attention, or why it could not.
pub type AttentionCandidate = Candidate<Compiled>;

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
/// - D and DV are 1 to 512, each, and to 256 with lists of blocks ([`block_lists`](Self::block_lists), [`selected_blocks`](Self::selected_blocks)) and keys of 8 bits; the kernels are made for 64, 128, 256 and 512, and for D of 192 with
///   DV of 128 or 192. Others take the time of the next larger ones. A DV beyond 256, before Hopper beyond 128, takes several launches, each for some of the columns, which
///   compute the scores anew; in flash-decoding on Hopper two CTAs of one launch divide them.
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
/// - Caches of 8 bits take half of the memory, and of the time in which it is read: K and V are both [`F8E4M3`](crate::F8E4M3) or both `i8`, Q and O of
///   `T`. Their values, exact in `T`, are multiplied as those of `T` are; [scales](Self::cache_scales), one for a KV head, multiply the scores and the
///   result. Flash-decoding alone reads them, of contiguous head dimensions in lines that are aligned to 16 bytes: D and DV are multiples of 16, and before Hopper D
///   is at most 128. A NaN's code counts as ±480. They have no gradients, and sequences are not packed.
/// - A NaN or an infinity in Q or K stays in the rows of the queries that see it. In V it may also reach its column in rows that a
///   mask hides it from: their weight of 0 is multiplied by all values of a block of keys that a tile of queries reads, as in
///   flash attention at large. What lies behind a sequence's length or in no sequence is not read, or counts as zeros.
/// - A query that sees no key has an O of 0 and a log-sum-exp of -inf, or of its head's [sink](Self::sinks). Without queries or batch nothing is done.
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
    lengths: Option<Indices<'a>>,
    table: Option<Indices<'a>>,
    query_offsets: Option<Indices<'a>>,
    key_offsets: Option<Indices<'a>>,
    scales: Option<[&'a TensorView<'a, f32>; 2]>,
    sinks: Option<TensorView<'a, f32>>,
    slopes: Option<TensorView<'a, f32>>,
    bias: Option<AttentionBias<'a>>,
    lists: Option<[Indices<'a>; 2]>,
    selected: Option<Indices<'a>>,
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
            query_offsets: None,
            key_offsets: None,
            scales: None,
            sinks: None,
            slopes: None,
            bias: None,
            lists: None,
            selected: None,
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
    /// A logit of each head, \[heads\], contiguous: one more score in each row's softmax, which has no value ("attention sinks", as in gpt-oss). Its
    /// exponential is in the sum that O is divided by, and in the log-sum-exp; neither the scale nor a cap is applied to it. Read when the kernel runs.
    ///
    /// A query that sees no key has an O of 0 and its head's sink as log-sum-exp.
    pub fn sinks(self, sinks: &TensorView<'a, f32>) -> Self {
        Attention { sinks: Some(sinks.clone()), ..self }
    }
    /// Slopes of ALiBi (Press et al. 2022), \[heads\] or \[batch, heads\], heads contiguous: the score of query i and key j, scaled and capped,
    /// has slope |i + keys - queries - j| taken off, as FlashAttention's `alibi_slopes` do. Read when the kernel runs. `scale` is at least 1e-20 beside them.
    ///
    /// The kernels are those of capped scores.
    pub fn alibi_slopes(self, slopes: &TensorView<'a, f32>) -> Self {
        Attention { slopes: Some(slopes.clone()), ..self }
    }
    /// What is added to each score, of the type of `q`: \[batch, heads, queries, keys\], or a shape that broadcasts to it, of any strides. Scores are scaled
    /// and capped before, and masked after it; -inf hides a key from a query; one whose row is -inf throughout sees no key. Read when the kernel runs. `scale` is at least 1e-20 beside it.
    ///
    /// The kernels are those of capped scores that take tiles of queries: there is no bias with [`lengths`](Self::lengths), a
    /// [`block_table`](Self::block_table), keys of 8 bits, [`packed`](Self::packed) sequences and [`splits`](Self::splits), and few queries over many
    /// keys take longer.
    pub fn bias(self, bias: impl Into<AttentionBias<'a>>) -> Self {
        Attention { bias: Some(bias.into()), ..self }
    }
    /// Where to write the natural logarithm of each row's sum of exponentials of masked scores, \[batch, heads, queries\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        Attention { lse: Some(lse.reborrow()), ..self }
    }
    /// The number of keys of each sequence, \[batch\], contiguous: `k` and `v` have room for more. Read when the kernel runs;
    /// numbers below 0 are taken as 0, and those beyond the room as all of it. What lies behind a sequence's keys is not used.
    ///
    /// With a mask, each sequence's last query is aligned with its last key.
    pub fn lengths(self, lengths: impl Into<Indices<'a>>) -> Self {
        Attention { lengths: Some(lengths.into()), ..self }
    }
    /// Keys and values lie in pages, as in a paged cache (Kwon et al. 2023): `k` is \[pages, KV heads, rows of a page, D\], `v`
    /// \[pages, KV heads, rows of a page, DV\], the rows of a page a power of two from 8 on. Row i of `table`, \[batch, pages of a
    /// sequence\], whose rows are contiguous, names the pages of sequence i in the order of its keys. Read when the kernel runs;
    /// pages that do not exist are zeros. Caches \[pages, rows, KV heads, D\] are views: `cache.view().transpose(1, 2)?`.
    ///
    /// All pages of a sequence count, unless [`lengths`](Self::lengths) says how many keys there are; entries behind them are not used.
    pub fn block_table(self, table: impl Into<Indices<'a>>) -> Self {
        Attention { table: Some(table.into()), ..self }
    }
    /// What codes of keys and of values of 8 bits are multiplied by: f32, above 0 and finite, each \[1\] or \[KV heads\]; 1 unless set. Read when the
    /// kernel runs. See [`Rope::run_append`](crate::ops::Rope::run_append) for how such caches are written.
    pub fn cache_scales(self, k: &'a TensorView<'_, f32>, v: &'a TensorView<'_, f32>) -> Self {
        Attention { scales: Some([k, v]), ..self }
    }
    /// Sequences lie one after the other in the rows of tensors with a batch of 1, as many as `query_offsets` has elements less
    /// one: the queries of sequence i are the rows from `query_offsets`\[i\] to `query_offsets`\[i + 1\], its keys those from
    /// `key_offsets`\[i\] to `key_offsets`\[i + 1\] ("varlen", cumulative lengths). Both are contiguous, of one type, ascend, and are read when the
    /// kernel runs. No sequence has more than `longest` queries.
    ///
    /// Offsets that break this reach no memory outside of the tensors: they are cut off at the tensors' rows, and a sequence whose
    /// end is not behind its begin is empty. Of a sequence with more than `longest` queries each further one is either computed
    /// or left as it was. Where the queries of two sequences overlap, because offsets do not ascend, each element of these rows
    /// of O and of the log-sum-exp is what one of the two gives, not always the same one; the emulator reports the race.
    ///
    /// Q \[1, heads, all queries, D\]; tensors \[all queries, heads, D\] are such views: `q.view().transpose(0, 1)?.insert_dim(0)?`. The
    /// log-sum-exp is \[1, heads, all queries\]. Each sequence's last query is aligned with its last key.
    ///
    /// With a [`workspace`](Self::workspace) SMs that are done take the next tile of a queue, of the sequences with the most keys first,
    /// which a small kernel lists before; without one each takes its share of tiles as if all sequences were the longest, which is slower the more
    /// their lengths differ. Results are the same bits.
    pub fn packed(
        mut self,
        query_offsets: impl Into<Indices<'a>>,
        key_offsets: impl Into<Indices<'a>>,
        longest: usize,
    ) -> Self {
        self.options.longest = longest;
        let (query_offsets, key_offsets) = (Some(query_offsets.into()), Some(key_offsets.into()));
        Attention { query_offsets, key_offsets, ..self }
    }
    /// The queries of sequences lie one after the other, as in [`packed`](Self::packed), and their keys and values in a cache: in pages that a
    /// [`block_table`](Self::block_table) names, or each sequence's in a matrix of its own, of as many keys as [`lengths`](Self::lengths) says. So
    /// chunks of prompts of different lengths attend to all keys that are in the cache already, their own among them ("chunked prefill").
    ///
    /// Q is \[1, heads, all queries, D\]; the batch of the table, of the lengths and of K without pages is that of the sequences. Each
    /// sequence's last query is aligned with its last key. The queue is that of [`packed`](Self::packed), with a [`workspace`](Self::workspace).
    pub fn packed_queries(mut self, query_offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        self.options.longest = longest;
        Attention { query_offsets: Some(query_offsets.into()), key_offsets: None, ..self }
    }
    /// Divides the keys of each sequence into so many parts, 1 to 1024, whose results are merged: flash-decoding. Unless set, it is
    /// chosen so that all SMs have work; for more than 16 queries only with a [`workspace`](Self::workspace).
    pub fn splits(mut self, splits: usize) -> Self {
        self.options.splits = Some(splits);
        self
    }
    /// Memory for the results of parts, or for the queue of [`packed`](Self::packed) sequences or [lists of blocks](Self::block_lists), contiguous, aligned to 16 bytes, of
    /// [`workspace_len`](Self::workspace_len) elements or more, of any values; calls on other streams must not use it meanwhile.
    ///
    /// Without it packed sequences and lists have no queue, and the first run that divides keys allocates it and keeps it for later runs, which wait for each other; it is freed when
    /// the `Attention` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
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

    /// The gradients of this attention by Q, K and V, and by its [bias](AttentionGradient::d_bias) and [sinks](AttentionGradient::d_sinks). Neither a cache nor divided
    /// keys nor lists of blocks have any, and slopes have none of their own.
    pub fn gradient(self) -> AttentionGradient<'a> {
        AttentionGradient::new(self)
    }

    /// The tensors of the call beside Q, K, V and O.
    fn others(&self) -> Others<'_> {
        Others {
            lse: self.lse.as_ref(),
            lengths: self.lengths.as_ref(),
            table: self.table.as_ref(),
            query_offsets: self.query_offsets.as_ref(),
            key_offsets: self.key_offsets.as_ref(),
            scales: self.scales,
            sinks: self.sinks.as_ref(),
            slopes: self.slopes.as_ref(),
            bias: self.bias.as_ref(),
            lists: self.lists.as_ref(),
            selected: self.selected.as_ref(),
        }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) with one needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<T: HalfElement, C: CacheElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(q, k, v, o)?.workspace_len())
    }

    /// Every compiled kernel for this type and these options, the best by estimate first, with the reason for those that
    /// cannot compute this attention.
    pub fn candidates<T: HalfElement, C: CacheElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<AttentionCandidate>> {
        Ok(problem(self, q, k, v, o, true)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// It divides keys wherever that gains something, since it says how long the workspace is that takes. Loads the kernels, which takes
    /// the driver a while the first time.
    pub fn plan<T: HalfElement, C: CacheElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<AttentionPlan> {
        AttentionPlan::new(self, q, k, v, o, true)
    }

    /// Queues the attention on `stream`: [`plan`](Self::plan), and [`AttentionPlan::run`]. Without a [`workspace`](Self::workspace) the keys
    /// of more than 16 queries are not divided, unless [`splits`](Self::splits) says so.
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement, C: CacheElement<T>>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let given = matches!(self.workspace, Workspace::Given(_));
        let plan = AttentionPlan::new(self, q, k, v, o, given)?;
        let places = plan.places(stream, named(q, [k, v], o, &self.others()), self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }
}
