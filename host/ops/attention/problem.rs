//! What an attention is asked to compute, checked.

use std::f32::consts::LOG2_E;

use tilewright_attention::{
    AnySequences, Cache, CachedKeys, Capped, HeadTerms, Keys, Plain, Score, Selected,
};
use tilewright_device::abi::GlobalAbi;

use super::cache::{Cached, int};
use super::lists::Lists;
use super::packed::Offsets;
use super::selected;
use super::table::Kind;
use super::terms::Terms;
use crate::ops::frame::{Operand, absent, of_shape};
use crate::ops::scores::{scale, softcap};
use crate::tensor::{Places, Untyped};
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// The most columns that a head may have with keys of codes, lists of blocks, 8-bit floats or gradients: those of the widest kernels.
pub(super) const MAX_COLUMNS: usize = 256;
/// The same without these.
const MAX_PLAIN_COLUMNS: usize = 512;

/// The most parts into which keys are divided.
const MAX_SPLITS: u32 = 1024;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// 1 / sqrt(head dimension) if it is not given.
    pub(super) scale: Option<f32>,
    pub(super) softcap: Option<f32>,
    pub(super) causal: bool,
    /// Keys before and behind a query's own.
    pub(super) window: Option<[usize; 2]>,
    /// Parts of the keys.
    pub(super) splits: Option<usize>,
    /// The most queries of a packed sequence.
    pub(super) longest: usize,
    /// Queries and keys of the blocks that lists are of.
    pub(super) blocks: [usize; 2],
    /// Keys of the blocks that each query's list selects.
    pub(super) selected_keys: usize,
}

/// The tensors of an attention, each of four dimensions.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// Q, K and V.
    pub(super) inputs: [Untyped; 3],
    /// Q, K and V as kernels read them.
    pub(super) operands: [Operand; 3],
    pub(super) o: Untyped,
    /// With one column; without rows if it is not wanted.
    pub(super) lse: Untyped,
    pub(super) size: Size,
    pub(super) keys: Keys,
    /// Lengths and pages of the sequences' keys, and which of them queries see.
    pub(super) cached: Cached,
    pub(super) cache: Cache,
    /// The cache and the blocks of it that each query's list selects.
    pub(super) selected: Option<Selected>,
    /// How sequences lie, for kernels without a cache.
    pub(super) sequences: AnySequences,
    /// Memory for parts of the keys is there.
    pub(super) has_workspace: bool,
    /// Parts of the keys, if they are asked for.
    pub(super) splits: Option<u32>,
    /// What each score is multiplied by before its cap, 0 where there is none, and then before the exponential to base 2.
    pub(super) scales: [f32; 2],
    /// Sinks and slopes.
    pub(super) terms: HeadTerms,
    /// What is added to scores, stretched to all of them.
    pub(super) bias: Option<Untyped>,
    pub(super) kind: Kind,
}

/// The sizes of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) batch: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) queries: usize,
    /// The most of a sequence.
    pub(super) keys: usize,
    /// Rows of K in one piece: all of a sequence's, or a page's.
    pub(super) block_rows: usize,
    /// Columns of Q and K, and of V and O.
    pub(super) columns: [usize; 2],
}

/// Lists of blocks of keys: of blocks of queries, and of each query.
pub(super) type OfBlocks = (Option<Lists>, Option<Untyped>);

impl Problem {
    /// The sizes of what flash-decoding divides: with lists of blocks each query is a sequence, whose keys are those of its list.
    pub(super) fn divided(&self) -> Size {
        let Some(Selected { most, key_block, .. }) = self.selected else { return self.size };
        let Size { batch, queries, .. } = self.size;
        let keys = most as usize * key_block.divisor as usize;
        Size { batch: batch.saturating_mul(queries), queries: 1, keys, ..self.size }
    }

    /// The cache that packed queries' keys lie in, if they do.
    pub(super) fn packed_cache(&self) -> Option<CachedKeys> {
        match self.sequences {
            AnySequences::Packed(packed) if packed.offset_keys == 0 => {
                Some(CachedKeys { pages: self.cache.pages, given: 1, padding: 0 })
            }
            _ => None,
        }
    }

    /// What is added to scores, as kernels take it.
    pub(super) fn bias_argument(&self) -> Result<GlobalAbi<(), 4>> {
        self.bias.map_or_else(|| Ok(absent()), |bias| bias.arg(self.device.backend(), true, 0))
    }

    /// Checks that the views fit together; `has_workspace` says whether there may be memory for parts of the keys.
    pub(super) fn new<T: Element, C: Element>(
        (options, has_workspace): (&Options, bool),
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
        lse: Option<&TensorViewMut<'_, f32>>,
        (cached, packed, (lists, selected), terms): (Cached, Option<Offsets>, OfBlocks, Terms),
    ) -> Result<Self> {
        let device = o.device();
        let in_cache = packed.as_ref().and_then(Offsets::in_cache);
        let most = if cached.codes.is_some() || lists.is_some() || selected.is_some() {
            MAX_COLUMNS
        } else {
            MAX_PLAIN_COLUMNS
        };
        let size = Size::new([q.shape(), k.shape(), v.shape(), o.shape()], &cached, in_cache, most)?;
        let Size { batch, heads, queries, keys, columns: [d, _], .. } = size;
        let lse = log_sum_exp(lse, &o.untyped(), [batch, heads, queries])?;
        let splits = options.splits.map(|splits| match u32::try_from(splits) {
            Ok(splits @ 1..=MAX_SPLITS) => Ok(splits),
            _ => Err(Error::argument("splits", format!("{splits}"), format!("from 1 to {MAX_SPLITS}"))),
        });
        let splits = splits.transpose()?;
        let scale = scale(options.scale, d)?;
        let (scales, score) = match options.softcap {
            // Kernels that change scores are told of no cap.
            None if terms.adds() || cached.codes.is_some() => ([0.0, scale * LOG2_E], Capped::NAME),
            None => ([0.0, scale * LOG2_E], Plain::NAME),
            Some(cap) => {
                let cap = softcap(cap)?;
                ([scale / cap, cap * LOG2_E], Capped::NAME)
            }
        };
        cached.check_scales(size.kv_heads)?;
        let (size, keys, sequences) = match &packed {
            None => {
                let seen = seen(queries, keys, options)?;
                let sequences = match &lists {
                    None => AnySequences::Equal(seen),
                    Some(lists) => AnySequences::Listed(lists.argument(&size, seen)?),
                };
                (size, seen, sequences)
            }
            // For the estimate they have as many keys as queries, or as a cache has room for; the kernel reads how many there are.
            Some(packed) => {
                let told = packed.argument(&size, options, &cached)?;
                let size = packed.size(size)?;
                let keys = in_cache.map_or(size.queries, |_| keys);
                (size, seen(size.queries, keys, options)?, AnySequences::Packed(told))
            }
        };
        let inputs = [q.untyped(), k.untyped(), v.untyped()];
        let [reads_q, reads_k, reads_v] =
            inputs.each_ref().map(|input| input.reading(device.backend(), true));
        let operand = |name, reading, line| Operand { name, reading, row_major: true, line };
        let [d, dv] = size.columns;
        let cache = cached.argument(options, size.queries, size.keys, size.block_rows)?;
        let selected = selected
            .map(|lists| selected::argument(&lists, options.selected_keys, &size, cache))
            .transpose()?;
        Ok(Problem {
            device: device.clone(),
            inputs,
            operands: [operand("Q", reads_q?, d), operand("K", reads_k?, d), operand("V", reads_v?, dv)],
            o: o.untyped(),
            lse,
            size,
            keys,
            bias: terms.bias(&size, T::DTYPE)?,
            terms: terms.argument(&size, scales[1])?,
            cache,
            selected,
            kind: Kind { element: T::DTYPE.name(), codes: cached.codes.is_some(), score },
            cached,
            sequences,
            has_workspace,
            splits,
            scales,
        })
    }

    /// The same for at most `most` columns of V and O at a time, for kernels that have room for no more; the log-sum-exp is
    /// written with the first.
    pub(super) fn passes(&self, most: u32) -> impl Iterator<Item = Result<Self>> + '_ {
        let (most, columns) = (most as usize, self.size.columns[1]);
        (0..columns).step_by(most).map(move |first| {
            let count = most.min(columns - first);
            let part = |of: Untyped| {
                let (layout, offset) = of.layout.narrow(3, first, count)?;
                Ok::<_, Error>(Untyped {
                    address: of.address + (offset * of.dtype.bytes()) as u64,
                    layout,
                    ..of
                })
            };
            let mut pass = self.clone();
            [pass.inputs[2], pass.o] = [part(self.inputs[2])?, part(self.o)?];
            pass.size.columns[1] = count;
            if first > 0 {
                pass.lse.layout = pass.lse.layout.narrow(2, 0, 0)?.0;
            }
            Ok(pass)
        })
    }

    /// Those of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let mut placed = self.clone();
        for tensor in placed.inputs.iter_mut().chain([&mut placed.o, &mut placed.lse]) {
            *tensor = places.of(tensor);
        }
        let cache = &mut placed.cache;
        cache.lengths = places.at(cache.lengths);
        cache.pages.address = places.at(cache.pages.address);
        cache.codes.scales = cache.codes.scales.map(|scale| places.at(scale));
        if let Some(selected) = &mut placed.selected {
            *selected = Selected { cache: *cache, lists: places.at(selected.lists), ..*selected };
        }
        let terms = &mut placed.terms;
        [terms.sinks, terms.slopes] = [terms.sinks, terms.slopes].map(|at| places.at(at));
        placed.bias = placed.bias.map(|bias| places.of(&bias));
        match &mut placed.sequences {
            AnySequences::Equal(_) => {}
            AnySequences::Packed(packed) => {
                packed.query_offsets = places.at(packed.query_offsets);
                packed.keys = places.at(packed.keys);
            }
            AnySequences::Listed(listed) => {
                listed.lists = places.at(listed.lists);
                listed.counts = places.at(listed.counts);
            }
        }
        placed
    }

    /// Nothing to store.
    pub(super) fn is_empty(&self) -> bool {
        let Size { batch, heads, queries, .. } = self.size;
        batch == 0 || heads == 0 || queries == 0 || self.o.layout.len() == 0
    }
}

impl Size {
    /// Of the shapes of Q, K, V and O, of at most `most` columns, and sequences in a cache of keys that are not Q's batch.
    pub(super) fn new(
        shapes: [&[usize]; 4],
        cached: &Cached,
        in_cache: Option<usize>,
        most: usize,
    ) -> Result<Self> {
        let named = ["q", "k", "v", "o"].into_iter().zip(shapes);
        let [mut q, mut k, mut v, mut o] = [[0; 4]; 4];
        for ((name, shape), to) in named.zip([&mut q, &mut k, &mut v, &mut o]) {
            *to = shape.try_into().map_err(|_| {
                let allowed = "of 4 dimensions: batch, heads, length, head dimension";
                Error::argument(name, of_shape(shape), allowed)
            })?;
        }
        let ([batch, heads, queries, d], [pages, kv_heads, block_rows, _], [.., dv]) = (q, k, v);
        let sequences = in_cache.unwrap_or(batch);
        let keys = cached.capacity(sequences, k)?;
        let expect = |name: &'static str, shape: [usize; 4], want: [usize; 4], because: &str| {
            let allowed = || format!("of shape {want:?}: {because}");
            let wrong = || Error::argument(name, of_shape(&shape), allowed());
            if shape == want { Ok(()) } else { Err(wrong()) }
        };
        if cached.table.is_some() {
            expect("k", k, [pages, kv_heads, block_rows, d], "pages, and the head dimension of `q`")?;
            expect("v", v, [pages, kv_heads, block_rows, dv], "the pages and the heads of `k`")?;
        } else if in_cache.is_some() {
            let because = "the sequences of `query_offsets`, and the head dimension of `q`";
            expect("k", k, [sequences, kv_heads, keys, d], because)?;
            expect("v", v, [sequences, kv_heads, keys, dv], "the batch, the heads and the length of `k`")?;
        } else {
            expect("k", k, [batch, kv_heads, keys, d], "the batch and the head dimension of `q`")?;
            expect("v", v, [batch, kv_heads, keys, dv], "the batch, the heads and the length of `k`")?;
        }
        expect("o", o, [batch, heads, queries, dv], "that of `q` with the head dimension of `v`")?;
        for (name, shape, columns) in [("q", q, d), ("v", v, dv)] {
            if !(1..=most).contains(&columns) {
                let allowed = format!("of a head dimension from 1 to {most}");
                return Err(Error::argument(name, of_shape(&shape), allowed));
            }
        }
        let shared = if kv_heads == 0 { heads == 0 } else { heads.is_multiple_of(kv_heads) };
        if !shared {
            let allowed = format!("of a number of heads that divides the {heads} of `q`");
            return Err(Error::argument("k", of_shape(&k), allowed));
        }
        Ok(Size { batch, heads, kv_heads, queries, keys, block_rows, columns: [d, dv] })
    }
}

/// The log-sum-exp as kernels take it, with one column; without rows, at O's place, if it is not wanted.
pub(super) fn log_sum_exp(
    lse: Option<&TensorViewMut<'_, f32>>,
    o: &Untyped,
    shape: [usize; 3],
) -> Result<Untyped> {
    let Some(lse) = lse else {
        let layout = o.layout.narrow(2, 0, 0)?.0.narrow(3, 0, 1)?.0;
        return Ok(Untyped { address: o.address, dtype: DType::F32, layout });
    };
    if lse.shape() != shape {
        let allowed = format!("of shape {shape:?}: batch, heads and queries");
        return Err(Error::argument("lse", of_shape(lse.shape()), allowed));
    }
    Ok(Untyped { layout: lse.untyped().layout.insert(3)?, ..lse.untyped() })
}

/// Which keys the queries see: the last query is aligned with the last key.
pub(super) fn seen(queries: usize, keys: usize, options: &Options) -> Result<Keys> {
    let (count, queries) = (int("k", keys)?, int("q", queries)?);
    let own = i64::from(count) - i64::from(queries);
    let far = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    let [left, right] = options.window.map_or([i64::MAX; 2], |window| window.map(far));
    let right = if options.causal { 0 } else { right };
    let near = |key: i64| key.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    let (low, high) = (near(own.saturating_sub(left)), near(own.saturating_add(right)));
    Ok(Keys { count, low, high, own: near(own) })
}
