//! An attention's kernel and launches, for tensors of 8-bit floats wherever they lie.

use super::ScaledAttention;
use super::problem::{Inputs, Others, Problem, named};
use super::table::{Compiled, Loaded};
use crate::ops::HalfElement;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, explained, room};
use crate::{F8E4M3, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes an attention of 8-bit floats, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`ScaledAttention::plan`], and runs many times, on any stream, from any thread. It derefs to the [`Plan`]
/// that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct ScaledAttentionPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    /// None where there is nothing to store.
    loaded: Option<Loaded>,
    overlap: bool,
}

/// What a [`ScaledAttentionPlan`] runs on beside Q, K, V and O: given where the plan was made with it.
#[derive(Debug, Default)]
pub struct ScaledAttentionViews<'a> {
    /// See [`ScaledAttention::lse`].
    pub lse: Option<TensorViewMut<'a, f32>>,
    /// Of Q, of K and of V: see [`ScaledAttention::scale_q`].
    pub scales: [Option<TensorView<'a, f32>>; 3],
    /// As many elements as [`ScaledAttentionPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at the
    /// same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

/// What is asked to be computed, at a plan's places.
pub(super) fn problem<T: HalfElement>(
    attention: &ScaledAttention<'_>,
    [q, k, v]: Inputs<'_, '_>,
    o: &TensorViewMut<'_, T>,
) -> Result<Problem> {
    let others = attention.others();
    let (q, k, v, o) = (q.planned(0), k.planned(1), v.planned(2), o.planned(3));
    let lse = others.lse.map(|lse| lse.planned(4));
    let [of_q, of_k, of_v] = others.scales;
    let scales = [(of_q, 5), (of_k, 6), (of_v, 7)].map(|(of, place)| of.map(|of| of.planned(place)));
    let others = Others { lse: lse.as_ref(), scales: scales.each_ref().map(Option::as_ref) };
    Problem::new(&attention.options, [&q, &k, &v], &o, others)
}

impl ScaledAttentionPlan {
    pub(super) fn new<T: HalfElement>(
        attention: &ScaledAttention<'_>,
        inputs: Inputs<'_, '_>,
        o: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let problem = problem(attention, inputs, o)?;
        let operands = Operands::new(o.device(), named(inputs, o, attention.others()));
        let choice = problem.choose(attention.kernel)?;
        let loaded = (!problem.is_empty()).then(|| Loaded::new(&problem, choice.descriptor())).transpose()?;
        Ok(ScaledAttentionPlan { choice, operands, problem, loaded, overlap: attention.overlap })
    }

    /// Elements of the [workspace](ScaledAttentionViews::workspace): V's bytes, with each sequence's keys rounded up to a multiple of 64, in units of 4.
    pub fn workspace_len(&self) -> usize {
        self.problem.workspace_len()
    }

    /// Queues the attention on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too many, or an output
    /// overlaps another tensor; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        q: &TensorView<'_, F8E4M3>,
        k: &TensorView<'_, F8E4M3>,
        v: &TensorView<'_, F8E4M3>,
        o: &mut TensorViewMut<'_, T>,
        views: &mut ScaledAttentionViews<'_>,
    ) -> Result<()> {
        let others = Others { lse: views.lse.as_ref(), scales: views.scales.each_ref().map(Option::as_ref) };
        let workspace = views.workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.places(stream, named([q, k, v], o, others), memory)?;
        self.launch(stream, &places, room(workspace, self.workspace_len())?)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 8],
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors, room)
    }

    /// `workspace` is the address of memory that is large enough.
    pub(super) fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        loaded.run(&self.problem.placed(places), stream, self.overlap, workspace)
    }
}

explained!(ScaledAttentionPlan, Compiled);
