//! An attention's kernel and launches, for tensors wherever they lie.

use tilewright_attention::SequenceList;

use super::Attention;
use super::bias::AttentionBias;
use super::cache::Cached;
use super::lists::Lists;
use super::packed::Offsets;
use super::problem::Problem;
use super::queue::Queue;
use super::splits::workspace_len;
use super::table::{Compiled, Prepared};
use super::terms::Terms;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, check, explained, of_shape, room};
use crate::ops::{CacheElement, HalfElement, Indices};
use crate::{Element, Error, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes an attention, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Attention::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Attention, AttentionViews};
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // A step of decoding: a query for each of two sequences, whose caches have room for 300 keys.
/// let q = Tensor::<f16>::zeros(&device, &[2, 4, 1, 64])?;
/// let cache = Tensor::<f16>::zeros(&device, &[2, 2, 300, 64])?;
/// let mut o = Tensor::<f16>::zeros(&device, &[2, 4, 1, 64])?;
/// let mut lengths = Tensor::<u32>::from_slice(&device, &[17, 200], &[2])?;
/// let (k, stream) = (cache.view(), device.default_stream());
/// let plan = Attention::new().lengths(lengths.view()).plan(&q.view(), &k, &k, &o.view_mut())?;
///
/// let mut workspace = Tensor::<f32>::zeros(&device, &[plan.workspace_len()])?;
/// for token in 1..3 {
///     let mut views = AttentionViews {
///         lengths: Some(lengths.view().into()),
///         workspace: Some(workspace.view_mut()),
///         ..AttentionViews::default()
///     };
///     plan.run(&stream, &q.view(), &k, &k, &mut o.view_mut(), &mut views)?;
///     lengths.write(&[17 + token, 200 + token])?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AttentionPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// Launches, each for a part of V's columns; none where there is nothing to store.
    passes: Vec<(Problem, Prepared)>,
    /// Of tiles that take unequal times, for all launches.
    queue: Option<Queue>,
    workspace_len: usize,
    overlap: bool,
}

/// What an [`AttentionPlan`] runs on beside Q, K, V and O: given where the plan was made with it.
#[derive(Debug, Default)]
pub struct AttentionViews<'a> {
    /// See [`Attention::lse`].
    pub lse: Option<TensorViewMut<'a, f32>>,
    /// See [`Attention::lengths`].
    pub lengths: Option<Indices<'a>>,
    /// See [`Attention::block_table`].
    pub block_table: Option<Indices<'a>>,
    /// Of queries and of keys: see [`Attention::packed`].
    pub offsets: Option<[Indices<'a>; 2]>,
    /// Of keys and of values: see [`Attention::cache_scales`].
    pub cache_scales: Option<[TensorView<'a, f32>; 2]>,
    /// See [`Attention::packed_queries`].
    pub query_offsets: Option<Indices<'a>>,
    /// See [`Attention::sinks`].
    pub sinks: Option<TensorView<'a, f32>>,
    /// See [`Attention::alibi_slopes`].
    pub alibi_slopes: Option<TensorView<'a, f32>>,
    /// See [`Attention::bias`].
    pub bias: Option<AttentionBias<'a>>,
    /// Lists and how much of each counts: see [`Attention::block_lists`].
    pub block_lists: Option<[Indices<'a>; 2]>,
    /// See [`Attention::selected_blocks`].
    pub selected_blocks: Option<Indices<'a>>,
    /// As many elements as [`AttentionPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at
    /// the same time, on whatever streams, have memory of their own. Packed sequences and lists of blocks run without it too, and slower: see [`Attention::packed`].
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

/// The tensors of an attention beside Q, K, V, O and the workspace.
pub(super) struct Others<'v> {
    pub(super) lse: Option<&'v TensorViewMut<'v, f32>>,
    pub(super) lengths: Option<&'v Indices<'v>>,
    pub(super) table: Option<&'v Indices<'v>>,
    pub(super) query_offsets: Option<&'v Indices<'v>>,
    pub(super) key_offsets: Option<&'v Indices<'v>>,
    pub(super) scales: Option<[&'v TensorView<'v, f32>; 2]>,
    pub(super) sinks: Option<&'v TensorView<'v, f32>>,
    pub(super) slopes: Option<&'v TensorView<'v, f32>>,
    pub(super) bias: Option<&'v AttentionBias<'v>>,
    pub(super) lists: Option<&'v [Indices<'v>; 2]>,
    pub(super) selected: Option<&'v Indices<'v>>,
}

/// Places of a plan.
const LSE: usize = 4;
const LENGTHS: usize = 5;
const TABLE: usize = 6;
const QUERY_OFFSETS: usize = 7;
const KEY_OFFSETS: usize = 8;
const K_SCALE: usize = 9;
const V_SCALE: usize = 10;
const SINKS: usize = 11;
const SLOPES: usize = 12;
const BIAS: usize = 13;
const BLOCK_LISTS: usize = 14;
const BLOCK_COUNTS: usize = 15;
const SELECTED_BLOCKS: usize = 16;
/// How many.
const PLACES: usize = 17;

/// The tensors of an attention, in the order of a plan's.
pub(super) fn named<'v, T: Element, C: Element>(
    q: &'v TensorView<'_, T>,
    [k, v]: [&'v TensorView<'_, C>; 2],
    o: &'v TensorViewMut<'_, T>,
    others: &Others<'v>,
) -> [Option<Named<'v>>; PLACES] {
    let indices = |name, of: Option<&'v Indices<'v>>| of.map(|of| of.named(name));
    [
        Some(Named::read("q", q)),
        Some(Named::read("k", k)),
        Some(Named::read("v", v)),
        Some(Named::written("o", o)),
        others.lse.map(|lse| Named::written("lse", lse)),
        indices("lengths", others.lengths),
        indices("block_table", others.table),
        indices("query_offsets", others.query_offsets),
        indices("key_offsets", others.key_offsets),
        others.scales.map(|[k, _]| Named::read("k_scale", k)),
        others.scales.map(|[_, v]| Named::read("v_scale", v)),
        others.sinks.map(|sinks| Named::read("sinks", sinks)),
        others.slopes.map(|slopes| Named::read("alibi_slopes", slopes)),
        others.bias.map(AttentionBias::named),
        indices("block_lists", others.lists.map(|[lists, _]| lists)),
        indices("block_counts", others.lists.map(|[_, counts]| counts)),
        indices("selected_blocks", others.selected),
    ]
}

/// What an attention is asked to compute, at a plan's places.
pub(super) fn problem<T: HalfElement, C: CacheElement<T>>(
    attention: &Attention<'_>,
    q: &TensorView<'_, T>,
    k: &TensorView<'_, C>,
    v: &TensorView<'_, C>,
    o: &TensorViewMut<'_, T>,
    has_workspace: bool,
) -> Result<Problem> {
    let (others, options) = (attention.others(), &attention.options);
    let (q, k, v, o) = (q.planned(0), k.planned(1), v.planned(2), o.planned(3));
    let lse = others.lse.map(|lse| lse.planned(LSE));
    let lengths = others.lengths.map(|lengths| lengths.planned(LENGTHS));
    let table = others.table.map(|table| table.planned(TABLE));
    let query_offsets = others.query_offsets.map(|of| of.planned(QUERY_OFFSETS));
    let key_offsets = others.key_offsets.map(|of| of.planned(KEY_OFFSETS));
    let scales = others.scales.map(|[k, v]| [k.planned(K_SCALE), v.planned(V_SCALE)]);
    let sinks = others.sinks.map(|sinks| sinks.planned(SINKS));
    let slopes = others.slopes.map(|slopes| slopes.planned(SLOPES));
    let lists =
        others.lists.map(|[lists, counts]| [lists.planned(BLOCK_LISTS), counts.planned(BLOCK_COUNTS)]);
    let selected = others.selected.map(|lists| lists.planned(SELECTED_BLOCKS));
    let here = Others {
        sinks: sinks.as_ref(),
        slopes: slopes.as_ref(),
        lse: lse.as_ref(),
        lengths: lengths.as_ref(),
        table: table.as_ref(),
        query_offsets: query_offsets.as_ref(),
        key_offsets: key_offsets.as_ref(),
        scales: scales.as_ref().map(|[k, v]| [k, v]),
        bias: others.bias,
        lists: lists.as_ref(),
        selected: selected.as_ref(),
    };
    check(o.device(), named(&q, [&k, &v], &o, &here).into_iter().flatten())?;
    let cached = Cached {
        lengths: lengths.map(|of| of.untyped()),
        table: table.map(|of| of.untyped()),
        codes: (C::DTYPE != T::DTYPE).then_some(C::DTYPE),
        scales: scales.map(|scales| scales.map(|of| of.untyped())),
    };
    let terms = Terms {
        sinks: sinks.map(|sinks| sinks.untyped()),
        slopes: slopes.map(|slopes| slopes.untyped()),
        bias: others.bias.map(|bias| bias.planned(BIAS).untyped()),
    };
    let of_keys = key_offsets.map(|of| of.untyped());
    let in_cache = of_keys.is_none();
    let packed =
        query_offsets.map(|queries| Offsets::new(queries.untyped(), of_keys, options.longest)).transpose()?;
    let others = [
        ("lengths", cached.lengths.is_some() && !in_cache),
        ("block_table", cached.table.is_some() && !in_cache),
        ("splits", options.splits.is_some()),
    ];
    if let Some((name, _)) = others.into_iter().find(|(_, given)| *given && packed.is_some()) {
        let allowed = "left out: the offsets say which keys a sequence has, and they are not divided";
        return Err(Error::argument(name, "given for packed sequences", allowed));
    }
    let beside = [
        ("packed sequences", packed.is_some()),
        ("lengths", cached.lengths.is_some()),
        ("a block_table", cached.table.is_some()),
        ("keys of 8 bits", cached.codes.is_some()),
        ("splits", options.splits.is_some()),
    ];
    if let (Some(bias), Some((what, _))) = (terms.bias, beside.into_iter().find(|(_, given)| *given)) {
        let was = format!("{} beside {what}", of_shape(bias.layout.shape()));
        return Err(Error::argument("bias", was, "left out: kernels of tiles of queries alone add one"));
    }
    let lists = lists.map(|[lists, counts]| Lists {
        lists: lists.untyped(),
        counts: counts.untyped(),
        blocks: options.blocks,
    });
    let beside = beside.into_iter().chain([
        ("a softcap", options.softcap.is_some()),
        ("alibi_slopes", terms.slopes.is_some()),
        ("a bias", terms.bias.is_some()),
    ]);
    if let (Some(lists), Some((what, _))) = (&lists, beside.into_iter().find(|(_, given)| *given)) {
        let was = format!("{} beside {what}", of_shape(lists.lists.layout.shape()));
        return Err(Error::argument("block_lists", was, "left out: no kernel has both"));
    }
    let selected = selected.map(|lists| lists.untyped());
    let beside = [
        ("packed sequences", packed.is_some()),
        ("keys of 8 bits", cached.codes.is_some()),
        ("a softcap", options.softcap.is_some()),
        ("alibi_slopes", terms.slopes.is_some()),
        ("a bias", terms.bias.is_some()),
        ("block_lists", lists.is_some()),
    ];
    if let (Some(selected), Some((what, _))) = (&selected, beside.into_iter().find(|(_, given)| *given)) {
        let was = format!("{} beside {what}", of_shape(selected.layout.shape()));
        return Err(Error::argument("selected_blocks", was, "left out: no kernel has both"));
    }
    if let (Some(codes), Some(_)) = (cached.codes, &packed) {
        let allowed = format!("of {}, the type of `q`: few queries alone read keys of 8 bits", T::DTYPE);
        return Err(Error::argument("k", format!("of {codes} for packed sequences"), allowed));
    }
    Problem::new(
        (options, has_workspace),
        &q,
        &k,
        &v,
        &o,
        lse.as_ref(),
        (cached, packed, (lists, selected), terms),
    )
}

impl AttentionPlan {
    /// `has_workspace`: there may be memory for parts of the keys.
    pub(super) fn new<T: HalfElement, C: CacheElement<T>>(
        attention: &Attention<'_>,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
        has_workspace: bool,
    ) -> Result<Self> {
        let problem = problem(attention, q, k, v, o, has_workspace)?;
        let operands = Operands::new(o.device(), named(q, [k, v], o, &attention.others()));
        let choice = problem.choose(attention.kernel)?;
        let (splits, overlap) = (choice.estimate.splits, attention.overlap);
        let kernel = choice.descriptor();
        let prepared = |problem: Problem| {
            let prepared = kernel.prepare(&problem, splits)?;
            Ok((problem, prepared))
        };
        let passes = if problem.is_empty() {
            Vec::new()
        } else {
            problem.passes(kernel.columns[1]).map(|pass| prepared(pass?)).collect::<Result<_>>()?
        };
        let queue = match passes.first() {
            Some((_, Prepared::Queries(queries))) if has_workspace => {
                Queue::new(queries, &problem, passes.len())?
            }
            _ => None,
        };
        let workspace_len =
            queue.as_ref().map_or_else(|| workspace_len(&problem.size, splits), Queue::workspace_len);
        Ok(AttentionPlan { choice, operands, passes, queue, workspace_len, overlap })
    }

    /// Elements of the [workspace](AttentionViews::workspace) that a run needs where keys are divided, and that one of packed sequences
    /// or lists of blocks has a queue with; 0 elsewhere.
    pub fn workspace_len(&self) -> usize {
        self.workspace_len
    }

    /// Queues the attention on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or an output overlaps another tensor; the error names it.
    pub fn run<T: HalfElement, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, C>,
        v: &TensorView<'_, C>,
        o: &mut TensorViewMut<'_, T>,
        views: &mut AttentionViews<'_>,
    ) -> Result<()> {
        let AttentionViews {
            lse,
            lengths,
            block_table,
            offsets,
            query_offsets,
            cache_scales,
            sinks,
            alibi_slopes,
            bias,
            block_lists,
            selected_blocks,
            workspace,
        } = views;
        let scales = cache_scales.as_ref().map(|[k, v]| [k, v]);
        let (query_offsets, key_offsets) = match (&*query_offsets, &*offsets) {
            (Some(_), Some(_)) => {
                let allowed = "left out: `offsets` are those of queries and of keys";
                return Err(Error::argument("query_offsets", "given beside `offsets`", allowed));
            }
            (Some(queries), None) => (Some(queries), None),
            (None, Some([queries, keys])) => (Some(queries), Some(keys)),
            (None, None) => (None, None),
        };
        let (lse, lengths, table) = (lse.as_ref(), lengths.as_ref(), block_table.as_ref());
        let workspace = workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let (sinks, slopes) = (sinks.as_ref(), alibi_slopes.as_ref());
        let (bias, lists, selected) = (bias.as_ref(), block_lists.as_ref(), selected_blocks.as_ref());
        let others = Others {
            lse,
            lengths,
            table,
            query_offsets,
            key_offsets,
            scales,
            sinks,
            slopes,
            bias,
            lists,
            selected,
        };
        let places = self.places(stream, named(q, [k, v], o, &others), memory)?;
        let without = self.queue.is_some() && workspace.is_none();
        let room = if without { 0 } else { room(workspace, self.workspace_len)? };
        self.launch(stream, &places, room)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; PLACES],
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors, room)
    }

    /// `workspace` is the address of memory that is large enough; 0 where none is needed, or a queue has none.
    pub(super) fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        let queue = self.queue.as_ref().filter(|_| workspace != 0);
        for (pass, (problem, prepared)) in self.passes.iter().enumerate() {
            let problem = problem.placed(places);
            if let (0, Some(queue)) = (pass, queue) {
                queue.prepare(problem.sequences, stream, self.overlap, workspace)?;
            }
            let list = queue.map_or(SequenceList::NONE, |queue| queue.list(workspace, pass));
            prepared.run(&problem, stream, self.overlap, (workspace, list))?;
        }
        Ok(())
    }
}

explained!(AttentionPlan, Compiled);
