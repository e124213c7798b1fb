//! Scores by which queries choose keys: DeepSeek's lightning indexer.

mod choose;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::PageTable;
use tilewright_mla::{IndexKeys, IndexQueries, IndexScoresArgs, KERNELS, Numbers};

use super::cache::on_device;
use super::problem::wrong;
use crate::ops::Indices;
use crate::ops::frame::{Candidate, Choice, Named, check, expect_mapped, of_shape, units};
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{Arch, Device, Element, F8E4M3, Launch, Result, Stream, TensorView, TensorViewMut, bf16};
use choose::Compiled;

/// A kernel that could compute an indexer's scores, or why it could not.
pub type IndexScoresCandidate = Candidate<Compiled>;

/// The most keys of a sequence: the end of the last tile is counted in 31 bits.
const MAX_KEYS: usize = (1 << 31) - 1025;
/// The most columns of queries and keys: those of the widest kernels.
const MAX_COLUMNS: usize = 128;
/// The most queries of a CTA, which has a tile of keys for all of them.
const MOST_QUERIES: usize = 64;
/// CTAs for each SM that are wanted before CTAs take several queries.
const WAVES: usize = 8;
/// The most CTAs of a grid in its second and third dimension.
const MAX_GRID: usize = 65535;

/// Element types of the queries and keys of an indexer: [`F8E4M3`] and `bf16`.
pub trait IndexerElement: Element + sealed::Index {}

mod sealed {
    pub trait Index {
        const NAME: &'static str;
    }
}

macro_rules! elements {
    ($($t:ident $name:literal;)*) => { $(
        impl sealed::Index for $t {
            const NAME: &'static str = $name;
        }
        impl IndexerElement for $t {}
    )* };
}
elements! { F8E4M3 "e4m3"; bf16 "bf16"; }

/// The scores of a lightning indexer (DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1): of query t and key s the sum over heads j of
/// w\[t, j\] relu(q\[t, j\] · k\[s\]), times the key's scale. [`TopK`](crate::ops::TopK) finds each query's keys by them, to which [`Mla`](super::Mla) attends by
/// a block table of pages of one token.
///
/// | tensor | shape |
/// | --- | --- |
/// | Q | \[batch, queries, heads, D\] |
/// | K | \[batch, keys, D\], or \[pages, rows of a page, D\] with a [block table](Self::block_table) |
/// | weights, f32 | \[batch, queries, heads\]: with the scale of Q's codes, if they have one |
/// | scores, f32 | \[batch, queries, keys\] |
///
/// - Q and K are [`F8E4M3`] on Hopper, `bf16` on all. D is to 128, a multiple of 16 bytes; columns are contiguous in lines that are aligned to 16 bytes. The strides of scores are any, and of weights, whose heads are contiguous. All heads share the keys.
/// - Products are summed up in f32, by the accumulators of tensor cores (Hopper's keep fewer bits of 8-bit floats' sums); so are the heads.
/// - A key that a query does not see has a score of -inf: it is outside of [`begins`](Self::begins) and [`ends`](Self::ends). Of NaN in a product or a
///   weight the score is NaN.
/// - Without batch, queries or keys nothing is done; without heads scores are 0.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph), and begins before the preceding grid has ended (programmatic
/// dependent launch), whose results it waits for.
///
/// ```
/// use tilewright::ops::IndexScores;
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// let q = Tensor::<bf16>::filled(&device, bf16::ONE, &[1, 4, 2, 128])?;
/// let k = Tensor::<bf16>::filled(&device, bf16::ONE, &[1, 300, 128])?;
/// let weights = Tensor::<f32>::filled(&device, 0.5, &[1, 4, 2])?;
/// // Each query sees the keys up to its own.
/// let ends = Tensor::<i32>::from_slice(&device, &[297, 298, 299, 300], &[1, 4])?;
/// let mut scores = Tensor::<f32>::zeros(&device, &[1, 4, 300])?;
/// let indexer = IndexScores::new().ends(ends.view());
/// indexer.run(&stream, &q.view(), &k.view(), &weights.view(), &mut scores.view_mut())?;
/// assert_eq!(scores.to_vec()?[296..299], [128.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct IndexScores<'a> {
    key_scales: Option<TensorView<'a, f32>>,
    begins: Option<Indices<'a>>,
    ends: Option<Indices<'a>>,
    table: Option<Indices<'a>>,
    kernel: Option<&'a str>,
}

/// A call, checked.
struct Problem {
    device: Device,
    /// The name of the element type.
    element: &'static str,
    batch: usize,
    queries: usize,
    heads: usize,
    keys: usize,
    /// Q and K, in units of 16 bits.
    q: Untyped,
    k: Untyped,
    weights: Untyped,
    scores: Untyped,
    begins: Numbers<2>,
    ends: Numbers<2>,
    scales: Numbers<2>,
    pages: PageTable,
}

impl<'a> IndexScores<'a> {
    /// Of queries that see all keys.
    pub fn new() -> Self {
        Self::default()
    }
    /// What each key's scores are multiplied by, of the shape of K without D, of any strides; 1 unless set. Read when the kernel runs.
    pub fn key_scales(self, scales: &TensorView<'a, f32>) -> Self {
        IndexScores { key_scales: Some(scales.clone()), ..self }
    }
    /// The first key that each query sees, \[batch, queries\], of any strides; 0 unless set. Read when the kernel runs; what is below 0 counts as 0.
    pub fn begins(self, begins: impl Into<Indices<'a>>) -> Self {
        IndexScores { begins: Some(begins.into()), ..self }
    }
    /// The first key behind those that each query sees, \[batch, queries\], of any strides; all unless set. Read when the kernel runs; what is beyond the keys counts as all
    /// of them.
    pub fn ends(self, ends: impl Into<Indices<'a>>) -> Self {
        IndexScores { ends: Some(ends.into()), ..self }
    }
    /// Keys lie in pages, whose rows are a power of two from 8 on: row i of `table`, \[batch, pages of a sequence\], whose rows are contiguous, names those of sequence i in the order of its
    /// keys. Read when the kernel runs; pages that do not exist are zeros with a scale of 1. A sequence has as many keys as `scores` has columns.
    pub fn block_table(self, table: impl Into<Indices<'a>>) -> Self {
        IndexScores { table: Some(table.into()), ..self }
    }

    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        IndexScores { kernel: Some(name), ..self }
    }

    /// Every compiled kernel for this element type, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: IndexerElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        weights: &TensorView<'_, f32>,
        scores: &TensorViewMut<'_, f32>,
    ) -> Result<Vec<IndexScoresCandidate>> {
        Ok(self.problem(q, k, weights, scores)?.candidates())
    }

    /// Queues the scores on `stream`.
    ///
    /// Fails when shapes do not fit, lines are not aligned, a view lies on another device, or `scores` overlaps what is read; the error names it.
    pub fn run<T: IndexerElement>(
        &self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        weights: &TensorView<'_, f32>,
        scores: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        let problem = self.problem(q, k, weights, scores)?;
        stream.expect_on(scores.device())?;
        problem.run(stream, self.kernel)
    }

    /// Checks the arguments.
    fn problem<T: IndexerElement>(
        &self,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        weights: &TensorView<'_, f32>,
        scores: &TensorViewMut<'_, f32>,
    ) -> Result<Problem> {
        let device = scores.device();
        let read = [Named::read("q", q), Named::read("k", k), Named::read("weights", weights)];
        let of = [("begins", &self.begins), ("ends", &self.ends), ("block_table", &self.table)];
        let of = of.into_iter().filter_map(|(name, of)| of.as_ref().map(|of| of.named(name)));
        let key_scales = self.key_scales.as_ref().map(|scales| Named::read("key_scales", scales));
        check(
            device,
            read.into_iter().chain(of).chain(key_scales).chain([Named::written("scores", scores)]),
        )?;
        let shapes = [q.shape(), k.shape(), weights.shape(), scores.shape()];
        let [batch, queries, heads, keys] = self.sizes(shapes, weights.strides())?;
        let limits =
            |of: &Option<Indices<'_>>| of.as_ref().map_or(Numbers::NONE, |of| numbers(&of.untyped()));
        Ok(Problem {
            device: device.clone(),
            element: T::NAME,
            batch,
            queries,
            heads,
            keys,
            q: units("q", q)?,
            k: units("k", k)?,
            weights: weights.untyped(),
            scores: scores.untyped(),
            begins: limits(&self.begins),
            ends: limits(&self.ends),
            scales: self.key_scales.as_ref().map_or(Numbers::NONE, |scales| numbers(&scales.untyped())),
            pages: self.table.as_ref().map_or(PageTable::NONE, |table| pages(&table.untyped(), k.shape()[1])),
        })
    }

    /// Checks shapes: of Q, K, weights and scores, and how weights lie. Batch, queries, heads and keys.
    fn sizes(&self, [q, k, weights, scores]: [&[usize]; 4], weights_strides: &[usize]) -> Result<[usize; 4]> {
        let &[batch, queries, heads, d] = q else {
            return wrong("q", of_shape(q), "of 4 dimensions: batch, queries, heads, columns");
        };
        if !(1..=MAX_COLUMNS).contains(&d) {
            return wrong("q", of_shape(q), format!("of 1 to {MAX_COLUMNS} columns"));
        }
        if batch > MAX_GRID
            || queries > MAX_GRID * MOST_QUERIES
            || heads > u32::MAX as usize / (2 * queries.max(1))
        {
            let allowed = format!(
                "of at most {MAX_GRID} sequences, {} queries of each, and 2^31 heads of all of a sequence's queries",
                MAX_GRID * MOST_QUERIES
            );
            return wrong("q", of_shape(q), allowed);
        }
        let &[pages, rows, of] = k else {
            return wrong(
                "k",
                of_shape(k),
                "of 3 dimensions: batch or pages, keys or rows of a page, columns",
            );
        };
        if of != d {
            return wrong("k", of_shape(k), format!("of {d} columns, as `q`"));
        }
        let keys = match &self.table {
            None if pages == batch => rows,
            None => {
                let allowed = format!("of shape [{batch}, keys, {d}]: the batch of `q`, without a table");
                return wrong("k", of_shape(k), allowed);
            }
            Some(table) => {
                if pages == 0 || rows < 8 || !rows.is_power_of_two() {
                    let allowed = "of a page or more, with a power of two of rows, from 8 on";
                    return wrong("k", of_shape(k), allowed);
                }
                let room = on_device(&table.untyped(), batch)?.saturating_mul(rows);
                let keys = scores.last().copied().unwrap_or(0);
                if keys > room {
                    let allowed =
                        format!("of at most {room} columns: the keys that `block_table` has room for");
                    return wrong("scores", of_shape(scores), allowed);
                }
                keys
            }
        };
        if keys > MAX_KEYS {
            return wrong("k", of_shape(k), format!("of at most {MAX_KEYS} keys of a sequence"));
        }
        if scores != [batch, queries, keys] {
            return wrong(
                "scores",
                of_shape(scores),
                format!("of shape [{batch}, {queries}, {keys}]: batch, queries and keys"),
            );
        }
        if weights != [batch, queries, heads] {
            return wrong(
                "weights",
                of_shape(weights),
                format!("of shape [{batch}, {queries}, {heads}]: that of `q` without columns"),
            );
        }
        if heads > 1 && weights_strides[2] != 1 {
            return wrong("weights", format!("of strides {weights_strides:?}"), "of contiguous heads");
        }
        if let Some(scales) = &self.key_scales
            && scales.shape() != [pages, rows]
        {
            return wrong(
                "key_scales",
                of_shape(scales.shape()),
                format!("of shape [{pages}, {rows}]: that of `k` without columns"),
            );
        }
        for (name, of) in [("begins", &self.begins), ("ends", &self.ends)] {
            if let Some(of) = of
                && of.untyped().layout.shape() != [batch, queries]
            {
                let allowed = format!("of shape [{batch}, {queries}]: batch and queries");
                return wrong(name, of_shape(of.untyped().layout.shape()), allowed);
            }
        }
        Ok([batch, queries, heads, keys])
    }
}

impl Problem {
    fn run(&self, stream: &Stream, forced: Option<&str>) -> Result<()> {
        let kernel = self.choose(forced)?.descriptor();
        let &Problem { batch, queries, heads, keys, pages, begins, ends, scales, .. } = self;
        if batch == 0 || queries == 0 || keys == 0 {
            return Ok(());
        }
        let (backend, tma) = (self.device.backend(), kernel.arch == Arch::Sm90a);
        let lines = |count| if tma { count } else { 0 };
        let k = Untyped { layout: self.k.layout.insert(1)?, ..self.k };
        let q: GlobalAbi<(), 4> = self.q.streamed(backend, lines(kernel.tile[1]))?;
        let k_argument: GlobalAbi<(), 4> = k.streamed(backend, lines(pages.box_rows(kernel.tile[0])))?;
        expect_mapped(kernel.name, kernel.arch, [if heads > 0 { q.tma } else { 1 }, k_argument.tma])?;
        let tiles = keys.div_ceil(kernel.tile[0] as usize);
        let wanted = self.device.sm_count() as usize * WAVES;
        let chunk = (queries.saturating_mul(tiles).saturating_mul(batch) / wanted).clamp(1, MOST_QUERIES);
        let chunk = chunk.max(queries.div_ceil(MAX_GRID));
        let [queries_u32, chunk_u32, heads] = [queries, chunk, heads].map(|n| n as u32);
        let of = IndexQueries {
            weights: numbers(&self.weights),
            begins,
            ends,
            queries: queries_u32,
            chunk: chunk_u32,
            heads,
            padding: 0,
        };
        let all = k.layout.shape()[0].min(u32::MAX as usize) as u32;
        let keys = IndexKeys { pages, scales, count: keys as u32, all };
        let scores: Numbers<3> = numbers(&self.scores);
        let args = IndexScoresArgs { q, k: k_argument, scores, of, keys };
        let launch = Launch::grid([tiles as u32, queries.div_ceil(chunk) as u32, batch as u32]).pdl(tma);
        let function = self.device.listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of the kernel: views that the caller borrows, the scores exclusively, of the shapes that were checked. Programmatic launch
        // only moves what precedes the wait for the preceding grid.
        unsafe { function.launch_block(stream, &launch, &args) }
    }
}

/// A table of pages of so many rows, as kernels take it.
fn pages(table: &Untyped, rows: usize) -> PageTable {
    PageTable {
        address: table.address,
        stride: table.layout.strides()[0] as u64,
        entries: table.layout.shape()[1] as u32,
        log2_rows: rows.ilog2(),
        log2_bytes: log2_bytes(table),
        padding: 0,
    }
}

/// Numbers, as kernels take them.
fn numbers<const RANK: usize>(of: &Untyped) -> Numbers<RANK> {
    let strides = of.layout.strides();
    Numbers {
        address: of.address,
        strides: std::array::from_fn(|dim| (strides[dim] * of.dtype.bytes()) as u64),
    }
}
