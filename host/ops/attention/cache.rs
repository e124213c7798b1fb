//! A cache of keys and values: sequences of lengths of their own, in pages.

use tilewright_attention::{Cache, CodesOf};
use tilewright_device::tile::PageTable;

use super::problem::Options;
use crate::ops::frame::of_shape;
use crate::ops::indices::log2_bytes;
use crate::tensor::Untyped;
use crate::{DType, Error, Result};

/// The rows that a page may have.
const PAGE_ROWS: std::ops::RangeInclusive<usize> = 8..=1 << 24;

/// Where the keys and values of sequences lie, as far as that is not said by their shape.
#[derive(Clone, Debug, Default)]
pub(super) struct Cached {
    /// Numbers of keys, \[batch\]; [`capacity`](Self::capacity) checks them and the table.
    pub(super) lengths: Option<Untyped>,
    /// Numbers of pages, \[batch, pages of a sequence\].
    pub(super) table: Option<Untyped>,
    /// What keys and values are, if not of the queries' type; their scales are checked by [`check_scales`](Self::check_scales).
    pub(super) codes: Option<DType>,
    /// Scales of the codes of K and of V.
    pub(super) scales: Option<[Untyped; 2]>,
}

impl Cached {
    /// Whether keys and values are anything else than tensors of one length.
    pub(super) fn any(&self) -> bool {
        self.lengths.is_some() || self.table.is_some()
    }

    /// Scales are there for codes alone, one for all of the heads or one for each.
    pub(super) fn check_scales(&self, kv_heads: usize) -> Result<()> {
        for (name, scale) in ["k_scale", "v_scale"].into_iter().zip(self.scales.iter().flatten()) {
            if self.codes.is_none() {
                let allowed = "left out: keys and values of the type of `q` have no scales";
                return Err(Error::argument(name, "given", allowed));
            }
            let shape = scale.layout.shape();
            if shape != [1] && shape != [kv_heads] {
                let allowed = format!("of shape [1] or [{kv_heads}]: for all KV heads, or for each of them");
                return Err(Error::argument(name, of_shape(shape), allowed));
            }
        }
        Ok(())
    }

    /// What kernels are told of codes and their scales.
    fn codes(&self) -> Result<CodesOf> {
        let mut codes = CodesOf { int8: u32::from(self.codes == Some(DType::I8)), ..CodesOf::NONE };
        for (i, scale) in self.scales.iter().flatten().enumerate() {
            let step = if scale.layout.shape() == [1] { 0 } else { scale.layout.strides()[0] };
            let bytes = step.checked_mul(scale.dtype.bytes()).and_then(|bytes| u32::try_from(bytes).ok());
            codes.steps[i] = bytes.ok_or_else(|| {
                Error::argument(
                    ["k_scale", "v_scale"][i],
                    format!("of stride {step}"),
                    "of a stride below 2^30",
                )
            })?;
            codes.scales[i] = scale.address;
        }
        Ok(codes)
    }

    /// The most keys of a sequence, given K's shape \[batch or pages, heads, keys or rows of a page, columns\].
    pub(super) fn capacity(&self, batch: usize, k: [usize; 4]) -> Result<usize> {
        if let Some(lengths) = &self.lengths {
            expect(lengths, "lengths", &[batch], "a number of keys for each sequence, contiguous")?;
        }
        let Some(table) = &self.table else { return Ok(k[2]) };
        let &[_, entries] = table.layout.shape() else {
            let allowed = "of 2 dimensions: batch, pages of a sequence";
            return Err(Error::argument("block_table", of_shape(table.layout.shape()), allowed));
        };
        let rows = k[2];
        if !PAGE_ROWS.contains(&rows) || !rows.is_power_of_two() {
            let allowed =
                "of pages with a power of two of rows, from 8 on: [pages, KV heads, rows, head dimension]";
            return Err(Error::argument("k", of_shape(&k), allowed));
        }
        if k[0] == 0 && batch > 0 && entries > 0 {
            return Err(Error::argument("k", of_shape(&k), "of one page or more"));
        }
        let because = "page numbers of each sequence, a line of which is contiguous";
        expect(table, "block_table", &[batch, entries], because)?;
        Ok(entries.saturating_mul(rows))
    }

    /// What kernels are told of the cache; `keys` is its capacity.
    pub(super) fn argument(
        &self,
        options: &Options,
        queries: usize,
        keys: usize,
        page_rows: usize,
    ) -> Result<Cache> {
        let [left, right] = limits(options);
        let pages = match &self.table {
            None => PageTable::NONE,
            Some(table) => PageTable {
                address: table.address,
                stride: table.layout.strides()[0] as u64,
                entries: int("block_table", table.layout.shape()[1])? as u32,
                log2_rows: page_rows.ilog2(),
                log2_bytes: log2_bytes(table),
                padding: 0,
            },
        };
        let (lengths, log2_bytes) =
            self.lengths.as_ref().map_or((0, 0), |lengths| (lengths.address, log2_bytes(lengths)));
        let (capacity, queries) = (int("k", keys)?, int("q", queries)?);
        let codes = self.codes()?;
        Ok(Cache { pages, lengths, capacity, queries, left, right, log2_bytes, padding: 0, codes })
    }
}

pub(super) fn expect(tensor: &Untyped, name: &'static str, shape: &[usize], because: &str) -> Result<()> {
    let layout = &tensor.layout;
    let last = layout.dims().next_back();
    let contiguous = last.is_none_or(|(count, stride)| count <= 1 || stride == 1);
    if layout.shape() == shape && contiguous {
        return Ok(());
    }
    let was =
        if contiguous { of_shape(layout.shape()) } else { format!("of strides {:?}", layout.strides()) };
    Err(Error::argument(name, was, format!("of shape {shape:?}: {because}")))
}

/// A length, as kernels take it.
pub(super) fn int(name: &'static str, length: usize) -> Result<i32> {
    let wrong = |_| Error::argument(name, format!("of length {length}"), "of a length below 2^31");
    i32::try_from(length).map_err(wrong)
}

/// Keys that a query sees before and behind its own; `i32::MAX` is no limit.
pub(super) fn limits(options: &Options) -> [i32; 2] {
    let far = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let [left, right] = options.window.map_or([i32::MAX; 2], |window| window.map(far));
    [left, if options.causal { 0 } else { right }]
}
