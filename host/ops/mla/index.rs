//! Scores by which queries choose keys: DeepSeek's lightning indexer.

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;
use tilewright_device::tile::PageTable;
use tilewright_mla::{INDEX, IndexKernel, IndexKeys, IndexQueries, IndexScoresArgs, KERNELS, Numbers};

use super::cache::on_device;
use super::problem::wrong;
use crate::ops::Indices;
use crate::ops::frame::{Named, check, expect_mapped, of_shape, units};
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{Arch, Device, Element, Error, F8E4M3, Launch, Result, Stream, TensorView, TensorViewMut, bf16};

/// The most keys of a sequence: the end of the last tile is counted in 31 bits.
const MAX_KEYS: usize = (1 << 31) - 257;
/// The most columns of queries and keys.
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
/// let mut indexer = IndexScores::new().ends(ends.view());
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
}

/// Sizes of a call.
struct Sizes {
    batch: usize,
    queries: usize,
    heads: usize,
    keys: usize,
    /// Pages and their rows; of sequences without a table these and their keys.
    pages: [usize; 2],
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

    /// Queues the scores on `stream`.
    ///
    /// Fails when shapes do not fit, lines are not aligned, a view lies on another device, or `scores` overlaps what is read; the error names it.
    pub fn run<T: IndexerElement>(
        &mut self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        weights: &TensorView<'_, f32>,
        scores: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        let device = scores.device();
        let read = [Named::read("q", q), Named::read("k", k), Named::read("weights", weights)];
        let numbers = [("begins", &self.begins), ("ends", &self.ends), ("block_table", &self.table)];
        let numbers = numbers.into_iter().filter_map(|(name, of)| of.as_ref().map(|of| of.named(name)));
        let key_scales = self.key_scales.as_ref().map(|scales| Named::read("key_scales", scales));
        check(
            device,
            read.into_iter().chain(numbers).chain(key_scales).chain([Named::written("scores", scores)]),
        )?;
        stream.expect_on(device)?;
        let shapes = [q.shape(), k.shape(), weights.shape(), scores.shape()];
        let sizes = self.sizes(shapes, weights.strides())?;
        let (q, k) = (units("q", q)?, units("k", k)?);
        let Sizes { batch, queries, keys, .. } = sizes;
        if batch == 0 || queries == 0 || keys == 0 {
            return Ok(());
        }
        self.launch(stream, &sizes, [q, k, weights.untyped(), scores.untyped()], T::NAME)
    }

    /// Checks shapes: of Q, K, weights and scores, and how weights lie.
    fn sizes(&self, [q, k, weights, scores]: [&[usize]; 4], weights_strides: &[usize]) -> Result<Sizes> {
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
        Ok(Sizes { batch, queries, heads, keys, pages: [pages, rows] })
    }

    fn launch(
        &self,
        stream: &Stream,
        sizes: &Sizes,
        [q, k, weights, scores]: [Untyped; 4],
        element: &'static str,
    ) -> Result<()> {
        let &Sizes { batch, queries, heads, keys, pages: [pages, rows] } = sizes;
        let device = stream.device();
        let kernel = kernel(device, element, heads)?;
        let function = device.listed(&KERNELS, kernel)?;
        let tma = kernel.arch == Arch::Sm90a;
        let table = match &self.table {
            None => PageTable::NONE,
            Some(table) => {
                let of = table.untyped();
                PageTable {
                    address: of.address,
                    stride: of.layout.strides()[0] as u64,
                    entries: of.layout.shape()[1] as u32,
                    log2_rows: rows.ilog2(),
                    log2_bytes: log2_bytes(&of),
                    padding: 0,
                }
            }
        };
        let lines = |count| if tma { count } else { 0 };
        let k = Untyped { layout: k.layout.insert(1)?, ..k };
        let backend = device.backend();
        let q: GlobalAbi<(), 4> = q.streamed(backend, lines(kernel.tile[1]))?;
        let k: GlobalAbi<(), 4> = k.streamed(backend, lines(table.box_rows(kernel.tile[0])))?;
        expect_mapped(kernel.name, kernel.arch, [if heads > 0 { q.tma } else { 1 }, k.tma])?;
        let tiles = keys.div_ceil(kernel.tile[0] as usize);
        let wanted = device.sm_count() as usize * WAVES;
        let chunk = (queries.saturating_mul(tiles).saturating_mul(batch) / wanted).clamp(1, MOST_QUERIES);
        let chunk = chunk.max(queries.div_ceil(MAX_GRID));
        let limits =
            |of: &Option<Indices<'_>>| of.as_ref().map_or(Numbers::NONE, |of| numbers(&of.untyped()));
        let of = IndexQueries {
            weights: numbers(&weights),
            begins: limits(&self.begins),
            ends: limits(&self.ends),
            queries: queries as u32,
            chunk: chunk as u32,
            heads: heads as u32,
            padding: 0,
        };
        let scales = self.key_scales.as_ref().map_or(Numbers::NONE, |scales| numbers(&scales.untyped()));
        let keys =
            IndexKeys { pages: table, scales, count: keys as u32, all: pages.min(u32::MAX as usize) as u32 };
        let scores: Numbers<3> = numbers(&scores);
        let args = IndexScoresArgs { q, k, scores, of, keys };
        let launch = Launch::grid([tiles as u32, queries.div_ceil(chunk) as u32, batch as u32]).pdl(tma);
        // SAFETY: the arguments are those of the kernel: views that the caller borrows, the scores exclusively, of the shapes that were checked. Programmatic launch
        // only moves what precedes the wait for the preceding grid.
        unsafe { function.launch_block(stream, &launch, &args) }
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

/// The kernel for so many heads: of Hopper if the device has it, with a tile for all of them if there is one.
fn kernel(device: &Device, element: &'static str, heads: usize) -> Result<&'static Listed<IndexKernel>> {
    let of = |arch| {
        let kernels = INDEX.iter().filter(move |kernel| kernel.element == element && kernel.arch == arch);
        let steps = |kernel: &&Listed<IndexKernel>| (heads.div_ceil(kernel.tile[1] as usize), kernel.tile[1]);
        kernels.filter(|_| device.runs(arch)).min_by_key(steps)
    };
    of(Arch::Sm90a).or_else(|| of(Arch::Sm80)).ok_or_else(|| Error::KernelMissing {
        kernel: "index_scores",
        arch: if element == "bf16" { Arch::Sm80 } else { Arch::Sm90a },
        reason: format!("no kernel of {element} runs on this device"),
    })
}
