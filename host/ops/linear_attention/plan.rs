//! A linear attention's kernels and launches, for tensors wherever they lie.

use super::LinearAttention;
use super::choose::Compiled;
use super::launch::{How, Loaded};
use super::problem::{Problem, Tensors};
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, explained, room};
use crate::ops::{HalfElement, Indices};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a linear attention, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`LinearAttention::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct LinearAttentionPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    /// None where there is nothing to store.
    loaded: Option<Loaded>,
    overlap: bool,
}

/// What a [`LinearAttentionPlan`] or a [`LinearAttentionStepPlan`](super::LinearAttentionStepPlan) runs on beside Q, K, V, O and a step's state: given where
/// the plan was made with it.
#[derive(Debug, Default)]
pub struct LinearAttentionViews<'a> {
    /// See [`LinearAttention::decay`].
    pub decay: Option<TensorView<'a, f32>>,
    /// See [`LinearAttention::gates`].
    pub gates: Option<TensorView<'a, f32>>,
    /// See [`LinearAttention::channel_gates`].
    pub channel_gates: Option<TensorView<'a, f32>>,
    /// See [`LinearAttention::delta`].
    pub beta: Option<TensorView<'a, f32>>,
    /// See [`LinearAttention::initial_state`].
    pub initial_state: Option<TensorView<'a, f32>>,
    /// See [`LinearAttention::final_state`].
    pub final_state: Option<TensorViewMut<'a, f32>>,
    /// See [`LinearAttention::packed`].
    pub offsets: Option<Indices<'a>>,
    /// As many elements as [`LinearAttentionPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at
    /// the same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

impl LinearAttentionViews<'_> {
    /// The tensors among them.
    pub(super) fn others(&self) -> Others<'_> {
        let Self { decay, gates, channel_gates, beta, initial_state, final_state, offsets, .. } = self;
        Others {
            read: [decay, gates, channel_gates, beta, initial_state].map(Option::as_ref),
            last: final_state.as_ref(),
            offsets: offsets.as_ref(),
        }
    }
}

/// The tensors of a linear attention beside Q, K, V, O, a step's state and the workspace.
pub(super) struct Others<'v> {
    /// The decays of heads, of rows and of channels, β and the state before the first row.
    pub(super) read: [Option<&'v TensorView<'v, f32>>; 5],
    pub(super) last: Option<&'v TensorViewMut<'v, f32>>,
    pub(super) offsets: Option<&'v Indices<'v>>,
}

/// The place of their first in a plan.
const OTHERS: usize = 4;

impl<'v> Others<'v> {
    /// As tensors of the call.
    pub(super) fn named(&self) -> [Option<Named<'v>>; 7] {
        let [decay, gates, channel_gates, beta, initial] = self.read;
        let read = |name, of: Option<&'v TensorView<'v, f32>>| of.map(|of| Named::read(name, of));
        [
            read("decay", decay),
            read("gates", gates),
            read("channel_gates", channel_gates),
            read("beta", beta),
            read("initial_state", initial),
            self.last.map(|last| Named::written("final_state", last)),
            self.offsets.map(|offsets| offsets.named("offsets")),
        ]
    }

    /// At their places in a plan.
    pub(super) fn planned(&self) -> Tensors<'v> {
        let of = |i: usize| self.read[i].map(|of| of.planned(OTHERS + i));
        Tensors {
            decay: of(0),
            gates: of(1),
            channel_gates: of(2),
            beta: of(3),
            initial: of(4),
            last: self.last.map(|last| last.planned(OTHERS + 5)),
            offsets: self.offsets.map(|offsets| offsets.planned(OTHERS + 6)),
        }
    }
}

/// The tensors of a linear attention, in the order of a plan's; the last is a step's state.
pub(super) fn named<'v, T: Element>(
    [q, k, v]: [&'v TensorView<'_, T>; 3],
    o: &'v TensorViewMut<'_, T>,
    others: &Others<'v>,
    state: Option<&'v TensorViewMut<'_, f32>>,
) -> [Option<Named<'v>>; 12] {
    let [decay, gates, channel_gates, beta, initial, last, offsets] = others.named();
    [
        Some(Named::read("q", q)),
        Some(Named::read("k", k)),
        Some(Named::read("v", v)),
        Some(Named::written("o", o)),
        decay,
        gates,
        channel_gates,
        beta,
        initial,
        last,
        offsets,
        state.map(|state| Named::written("state", state)),
    ]
}

impl LinearAttentionPlan {
    pub(super) fn new<T: HalfElement>(
        of: &LinearAttention<'_>,
        [q, k, v]: [&TensorView<'_, T>; 3],
        o: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let others = of.tensors.others();
        let operands = Operands::new(o.device(), named([q, k, v], o, &others, None));
        let inputs = [&q.planned(0), &k.planned(1), &v.planned(2)];
        let problem = Problem::checked(&of.options, &others.planned(), inputs, &o.planned(3))?;
        let choice = problem.choose(of.kernel)?;
        let loaded = if problem.is_empty() {
            None
        } else {
            Some(problem.load(choice.descriptor(), choice.estimate.segments)?)
        };
        Ok(LinearAttentionPlan { choice, operands, problem, loaded, overlap: of.overlap })
    }

    /// Elements of the [workspace](LinearAttentionViews::workspace) that a run needs: 0 unless sequences are divided, or chunks prepared.
    pub fn workspace_len(&self) -> usize {
        let segments = self.choice.estimate.segments;
        let len = || self.problem.workspace_len(self.choice.descriptor(), segments);
        self.loaded.as_ref().map_or(0, |_| len())
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or an output overlaps another tensor; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &mut TensorViewMut<'_, T>,
        views: &mut LinearAttentionViews<'_>,
    ) -> Result<()> {
        let workspace = views.workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.places(stream, named([q, k, v], o, &views.others(), None), memory)?;
        self.launch(stream, &places, room(workspace, self.workspace_len())?)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 12],
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors, room)
    }

    pub(super) fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let segments = self.choice.estimate.segments;
        let how = How { segments, workspace, overlap: self.overlap, loaded };
        // SAFETY: the tensors are of the shapes and strides that the problem was made of, borrowed by the caller, o, the state that is written and
        // the workspace exclusively; the workspace has as many elements as so many segments need.
        unsafe { self.problem.placed(places).launch(stream, self.choice.descriptor(), &how) }
    }
}

explained!(LinearAttentionPlan, Compiled);
