//! Decoding of multi-head latent attention: O = softmax(scale Q Kᵀ) V over a latent cache.

mod append;
mod cache;
mod choose;
mod index;
mod plan;
mod planned;
mod positions;
mod problem;
mod schedule;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use append::append_latent;
use cache::Table;
pub use index::{IndexScores, IndexScoresCandidate, IndexerElement};
use planned::{Last, named, problem};
pub use planned::{MlaPlan, MlaViews};
use problem::Options;
use table::Compiled;

use super::frame::{Candidate, Choice, Workspace};
use super::{HalfElement, Indices, LatentElement};
use crate::{Error, Result, Stream, TensorView, TensorViewMut};

/// O = softmax(Q Kᵀ / sqrt(576)) V over a cache without pages, of which every sequence has all keys.
///
/// See [`Mla`] for shapes, and for pages, lengths, masks, scales and the log-sum-exp.
pub fn mla<T: HalfElement, C: LatentElement<T>>(
    stream: &Stream,
    q: &TensorView<'_, T>,
    cache: &TensorView<'_, C>,
    o: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Mla::new().run(stream, q, cache, o)
}

/// O = softmax(scale Q Kᵀ) V, for each head of each sequence, over a latent cache that all heads share: a decoding step of
/// multi-head latent attention (DeepSeek-AI 2024, section 2.1), with the projections absorbed into queries and output.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q | \[batch, positions, heads, 576\] |
/// | cache | \[batch, keys, 1, 576\], or with a [block table](Self::block_table) \[pages, rows of a page, 1, 576\] |
/// | O | \[batch, positions, heads, 512\] |
/// | log-sum-exp, optional | \[batch, positions, heads\] |
///
/// - K is all columns of the cache, V the first 512; 320 and 256 are the other pair that kernels are made for.
/// - With Q of bf16 and 576 columns the cache may be of `u8`, on Hopper: \[..., 656\], FlashMLA's 8-bit tokens. A token has 512 codes of e4m3
///   (Micikevicius et al. 2022), four scales in f32, each of 128 codes, and 64 columns of bf16, the rotary part. A code times its scale is rounded
///   to bf16, to nearest even, for both products. Tokens are read one by one, wherever they lie: pages have a power of two of rows from 1 on.
///   With pages of one row the block table is a list of tokens for each query, as sparse attention chooses them (DeepSeek-AI 2025,
///   "DeepSeek-V3.2"): queries are then sequences of one position, and [`lengths`](Self::lengths) say how many tokens each has. A token that the cache does not have,
///   such as -1, is not left out: it is zeros with a score of 0. Lists have them behind their length alone.
/// - Positions are the last ones of each sequence: one in decoding, some in multi-token prediction, all or many in a prompt (prefill); with
///   [`causal`](Self::causal) each of them sees the keys up to its own alone. Tiles are of 64 rows: heads times positions. More than 64
///   positions are taken in turns of as many as fill whole tiles; each turn reads the keys that its last position sees.
/// - The heads of one position after the other are evenly spaced; of Q and the cache, columns are contiguous and lines aligned to
///   16 bytes.
/// - Products are of `T` (f16 or bf16), accumulated in f32; the softmax is in f32, its weights are rounded to `T` before they
///   multiply V; then the result is rounded to `T`, to nearest even.
/// - A NaN or an infinity in a key stays in the rows of the positions that see it, but for the columns that are values: there it
///   may also reach its column of positions that [`causal`](Self::causal) hides it from, whose weight of 0 it is multiplied
///   by, as in flash attention at large. Rows of pages behind a sequence's length count as zeros.
/// - A query that sees no key has an O of 0 and a log-sum-exp of -inf. Without queries or batch nothing is done.
///
/// Blocks of 64 keys are shared out among all SMs by a plan that the host makes from the [`lengths`](Self::lengths): sequences
/// stay whole or are cut into parts, whose results a second kernel merges (Dao et al. 2023, "Flash-Decoding"). The first run,
/// and a run with other lengths, another table of the host's or on another device, waits for the device and takes memory for the plan, all others
/// only queue work; they can be captured in a [`Graph`](crate::Graph), with a [`workspace`](Self::workspace) also where sequences
/// are cut, and replayed as long as the `Mla` lives and makes no other plan. One `Mla` for all layers of a model makes one plan a
/// step; so does [`plan`](Self::plan), which gives it as a value.
///
/// ```no_run
/// use tilewright::ops::Mla;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let q = Tensor::<bf16>::zeros(&device, &[2, 1, 128, 576])?;
/// // A hundred pages of 64 keys; the sequences have 100 and 70, in pages 7, 3 and 12, 0.
/// let cache = Tensor::<bf16>::zeros(&device, &[100, 64, 1, 576])?;
/// let mut o = Tensor::<bf16>::zeros(&device, &[2, 1, 128, 512])?;
/// Mla::new().host_block_table(&[7, 3, 12, 0]).lengths(&[100, 70]).run(
///     &device.default_stream(),
///     &q.view(),
///     &cache.view(),
///     &mut o.view_mut(),
/// )?;
/// # Ok(())
/// # }
/// ```
pub struct Mla<'a> {
    options: Options,
    lse: Option<TensorViewMut<'a, f32>>,
    table: Table<Indices<'a>>,
    lengths: Option<Arc<[u32]>>,
    /// Those of the last run.
    planned: Option<MlaPlan>,
    last: Last,
    workspace: Workspace<'a>,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl Mla<'_> {
    /// O = softmax(Q Kᵀ / sqrt(576)) V.
    pub fn new() -> Self {
        Mla {
            options: Options::default(),
            lse: None,
            table: Table::None,
            lengths: None,
            planned: None,
            last: Last::default(),
            workspace: Workspace::Owned(None),
            kernel: None,
            overlap: true,
        }
    }
}

impl Default for Mla<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Mla<'a> {
    /// Position i sees the keys j <= i + keys - positions: the last position sees all.
    pub fn causal(mut self) -> Self {
        self.options.causal = true;
        self
    }
    /// The factor of Q Kᵀ, above 0 and at most 1e17; 1 / sqrt(576) unless set.
    pub fn scale(mut self, scale: f32) -> Self {
        self.options.scale = Some(scale);
        self
    }
    /// Where to write the natural logarithm of each row's sum of exponentials, \[batch, positions, heads\].
    pub fn lse(self, lse: &'a mut TensorViewMut<'_, f32>) -> Self {
        Mla { lse: Some(lse.reborrow()), ..self }
    }
    /// The number of keys of each sequence, at most those for which there is room; all of them unless set.
    pub fn lengths(mut self, lengths: &[u32]) -> Self {
        self.set_lengths(lengths);
        self
    }
    /// As [`lengths`](Self::lengths), for the next runs.
    pub fn set_lengths(&mut self, lengths: &[u32]) {
        self.lengths = Some(lengths.into());
    }
    /// Keys lie in pages (Kwon et al. 2023): row i of `table`, \[batch, pages of a sequence\], whose rows are contiguous, names
    /// the pages of sequence i in the order of its keys. Pages have a power of two of rows, from 16 on; 64 and more are read
    /// fastest.
    ///
    /// The table is read when the kernel runs, as far as the sequences' lengths reach; pages that do not exist are zeros.
    pub fn block_table(self, table: impl Into<Indices<'a>>) -> Self {
        Mla { table: Table::Device(table.into()), ..self }
    }
    /// As [`block_table`](Self::block_table), row-major in the host's memory: pages that do not exist are an error, as far as the
    /// sequences' lengths reach. The table goes to the device with the plan.
    pub fn host_block_table(mut self, table: &[i32]) -> Self {
        self.set_host_block_table(table);
        self
    }
    /// As [`host_block_table`](Self::host_block_table), for the next runs.
    pub fn set_host_block_table(&mut self, table: &[i32]) {
        self.table = Table::Host(table.into());
    }
    /// Divides the keys of each sequence into so many parts, 1 to 1024, or as many as it has blocks of 64 keys; unless set,
    /// sequences are cut where that gives all SMs about as much to do. More than 65535 sequences, or tiles of many positions, are not divided by hand.
    pub fn splits(mut self, splits: usize) -> Self {
        self.options.splits = Some(splits);
        self
    }
    /// Memory for the results of parts, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or
    /// more; calls on other streams must not use it meanwhile.
    ///
    /// Without it the first run that needs some allocates it and keeps it for later runs, which wait for each other; it is freed
    /// when the `Mla` is dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        Mla { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Mla { kernel: Some(name), ..self }
    }
    /// Whether kernels, that which merges parts among them, may start while the preceding grid of the stream still runs
    /// (programmatic dependent launch, Hopper); on unless set. They wait for that one's results before they read or write memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Mla { overlap, ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs: those of the [`plan`](Self::plan).
    pub fn workspace_len<T: HalfElement, C: LatentElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<usize> {
        Ok(self.plan(q, cache, o)?.workspace_len())
    }

    /// Every compiled kernel for this type, the best first, with the reason for those that cannot compute this.
    pub fn candidates<T: HalfElement, C: LatentElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Vec<MlaCandidate>> {
        Ok(problem(self, q, cache, o, None)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments and for the present lengths, and table of the host's, which runs many times: the
    /// kernel, how it is launched, and how it shares out the work. The tensors, those among the options too, may be
    /// [views without memory](TensorView::without_memory).
    ///
    /// Waits for the device, which gets the shares. Loads the kernels, which takes the driver a while the first time.
    pub fn plan<T: HalfElement, C: LatentElement<T>>(
        &self,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<MlaPlan> {
        MlaPlan::new(self, q, cache, o, &mut Last::default(), || Ok(()))
    }

    /// Queues it on `stream`: [`plan`](Self::plan), unless the last run's still holds, and [`MlaPlan::run`].
    ///
    /// Fails when the views do not fit together, lie on another device, or an output overlaps another tensor.
    pub fn run<T: HalfElement, C: LatentElement<T>>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let captured = || {
            if !stream.is_captured()? {
                return Ok(());
            }
            let was = "an `Mla` whose last run had other lengths, pages or options";
            let allowed = "one that ran with the same before the call is captured: then its plan is made";
            Err(Error::argument("self", was, allowed))
        };
        // What was planned before keeps its shares where this fails: graphs may have them.
        let mut last = std::mem::take(&mut self.last);
        let tensors = named(q, cache, o, self.lse.as_ref(), self.table.device());
        let planned = match self.planned.take().filter(|plan| plan.holds(self, &tensors)) {
            Some(plan) => Ok(plan),
            None => MlaPlan::new(self, q, cache, o, &mut last, captured),
        };
        self.last = last;
        let plan = &*self.planned.insert(planned?);
        let tensors = named(q, cache, o, self.lse.as_ref(), self.table.device());
        let places = plan.places(stream, tensors, self.workspace.named())?;
        self.workspace.lend(plan.workspace_len(), stream, |address| plan.launch(stream, &places, address))
    }
}

/// A kernel that could compute an MLA, or why it could not.
pub type MlaCandidate = Candidate<Compiled>;
