//! An MLA's kernel, shares and launches, for tensors wherever they lie.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::Mla;
use super::cache::{Known, Table};
use super::problem::{Arguments, Problem};
use super::schedule::{Scheduled, workspace_len};
use super::table::{self, Compiled, Merge};
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, room};
use crate::ops::{HalfElement, Indices, LatentElement};
use crate::{AnyFunction, Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes an MLA, how it shares out the work, and all that its launches need but the tensors' memory.
///
/// It is made once from shapes, strides, alignments and the sequences' lengths, by [`Mla::plan`], and runs many times, on any stream, from any
/// thread: once for each layer of a model. It derefs to the [`Plan`] that explains the choice of its kernel. The shares are in memory of the
/// plan's own: a graph that has captured a run is launched as long as the plan or a clone of it lives.
#[derive(Clone, Debug)]
pub struct MlaPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    /// None where there is nothing to store.
    ready: Option<Ready>,
    /// What the caller said of the cache.
    lengths: Option<Arc<[u32]>>,
    table: Option<Arc<[i32]>>,
    overlap: bool,
}

#[derive(Clone, Debug)]
struct Ready {
    function: AnyFunction,
    scheduled: Arc<Scheduled>,
    merge: Option<Merge>,
}

/// What an operator keeps from one plan to the next.
#[derive(Debug, Default)]
pub(super) struct Last {
    known: Option<Known>,
    scheduled: Option<Arc<Scheduled>>,
}

/// What an [`MlaPlan`] runs on beside Q, the cache and O: given where the plan was made with it.
#[derive(Debug, Default)]
pub struct MlaViews<'a> {
    /// See [`Mla::lse`].
    pub lse: Option<TensorViewMut<'a, f32>>,
    /// See [`Mla::block_table`]; a table of the host's is the plan's.
    pub block_table: Option<Indices<'a>>,
    /// As many elements as [`MlaPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at the
    /// same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

/// Places of a plan.
const LSE: usize = 3;
const TABLE: usize = 4;

/// The tensors of an MLA, in the order of a plan's.
pub(super) fn named<'v, T: Element, C: Element>(
    q: &'v TensorView<'_, T>,
    cache: &'v TensorView<'_, C>,
    o: &'v TensorViewMut<'_, T>,
    lse: Option<&'v TensorViewMut<'_, f32>>,
    table: Option<&'v Indices<'_>>,
) -> [Option<Named<'v>>; 5] {
    [
        Some(Named::read("q", q)),
        Some(Named::read("cache", cache)),
        Some(Named::written("o", o)),
        lse.map(|lse| Named::written("lse", lse)),
        table.map(|table| table.named("block_table")),
    ]
}

/// What is asked to be computed, at a plan's places. Pages that are `known` to exist are not looked at again.
pub(super) fn problem<T: HalfElement, C: LatentElement<T>>(
    mla: &Mla<'_>,
    q: &TensorView<'_, T>,
    cache: &TensorView<'_, C>,
    o: &TensorViewMut<'_, T>,
    known: Option<&Known>,
) -> Result<Problem> {
    let (q, cache, o) = (q.planned(0), cache.planned(1), o.planned(2));
    let lse = mla.lse.as_ref().map(|lse| lse.planned(LSE));
    let table = mla.table.map(|table| table.planned(TABLE));
    let (lse, lengths) = (lse.as_ref(), mla.lengths.as_ref());
    let arguments = Arguments { q: &q, cache: &cache, o: &o, lse, table: &table, lengths, known };
    Problem::new(&mla.options, &arguments)
}

impl MlaPlan {
    /// `last` are the shares of the last plan, and the pages that are known to exist; `may_wait` is an error where waiting is forbidden.
    pub(super) fn new<T: HalfElement, C: LatentElement<T>>(
        mla: &Mla<'_>,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &TensorViewMut<'_, T>,
        last: &mut Last,
        may_wait: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let problem = problem(mla, q, cache, o, last.known.as_ref())?;
        last.known.clone_from(&problem.cache.known);
        let tensors = named(q, cache, o, mla.lse.as_ref(), mla.table.device());
        let operands = Operands::new(o.device(), tensors);
        let choice = problem.choose(mla.kernel)?;
        let ready = if problem.is_empty() {
            None
        } else {
            let kernel = choice.descriptor();
            let function = table::function(&problem.device, kernel)?;
            let (resident, last) = (function.resident_ctas(), &mut last.scheduled);
            let scheduled = Scheduled::of(&problem, kernel, resident, last, may_wait)?;
            *last = Some(scheduled.clone());
            let cut = scheduled.cut > 0;
            let merge = cut.then(|| Merge::of(kernel, &problem.device)).transpose()?;
            Some(Ready { function, scheduled, merge })
        };
        let (lengths, table) = (mla.lengths.clone(), host(&mla.table).cloned());
        Ok(MlaPlan { choice, operands, problem, ready, lengths, table, overlap: mla.overlap })
    }

    /// Whether it is still the plan of an operator that it was made of, for these tensors.
    pub(super) fn holds(&self, mla: &Mla<'_>, tensors: &[Option<Named<'_>>; 5]) -> bool {
        self.lengths == mla.lengths
            && self.table.as_ref() == host(&mla.table)
            && self.operands.are_like(tensors)
    }

    /// Sequences that are cut into parts.
    pub fn cut(&self) -> usize {
        self.ready.as_ref().map_or(0, |ready| ready.scheduled.cut as usize)
    }
    /// The most parts of a sequence.
    pub fn parts(&self) -> u32 {
        self.ready.as_ref().map_or(1, |ready| ready.scheduled.parts)
    }
    /// Elements of the [workspace](MlaViews::workspace) that a run needs: 0 unless sequences are cut.
    pub fn workspace_len(&self) -> usize {
        self.ready.as_ref().map_or(0, |ready| workspace_len(ready.scheduled.tiles, self.problem.columns[1]))
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or an output overlaps another tensor; the error names it.
    pub fn run<T: HalfElement, C: LatentElement<T>>(
        &self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        cache: &TensorView<'_, C>,
        o: &mut TensorViewMut<'_, T>,
        views: &mut MlaViews<'_>,
    ) -> Result<()> {
        let MlaViews { lse, block_table, workspace } = views;
        let memory = workspace.as_ref().map(|workspace| Named::room("workspace", workspace));
        let tensors = named(q, cache, o, lse.as_ref(), block_table.as_ref());
        let places = self.places(stream, tensors, memory)?;
        self.launch(stream, &places, room(workspace.as_ref(), self.workspace_len())?)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 5],
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors, room)
    }

    pub(super) fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        let Some(Ready { function, scheduled, merge }) = &self.ready else { return Ok(()) };
        let problem = self.problem.placed(places);
        let how = scheduled.run(&problem, workspace, self.overlap);
        table::run(self.choice.descriptor(), function, &problem, stream, &how)?;
        match merge {
            Some(merge) => merge.run(&problem, stream, &how),
            None => Ok(()),
        }
    }
}

/// The table, if the host has it.
fn host<V>(table: &Table<V>) -> Option<&Arc<[i32]>> {
    match table {
        Table::Host(table) => Some(table),
        _ => None,
    }
}

impl Deref for MlaPlan {
    type Target = Plan<Compiled>;
    fn deref(&self) -> &Plan<Compiled> {
        &self.choice
    }
}

impl fmt::Display for MlaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cut() {
            0 => write!(f, "{}; sequences are whole", self.choice),
            cut => {
                let parts = self.parts();
                write!(f, "{}; {cut} of the sequences are cut, into up to {parts} parts", self.choice)
            }
        }
    }
}
