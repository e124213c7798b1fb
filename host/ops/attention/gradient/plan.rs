//! The kernels and launches of an attention's gradients, for tensors wherever they lie.

use super::AttentionGradient;
use super::beside::{Beside, COUNT, FIRST};
use super::choose::Compiled;
use super::launch::Prepared;
use super::problem::Problem;
use crate::ops::attention::bias::{AttentionBias, AttentionBiasMut};
use crate::ops::attention::packed::Offsets;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, check, explained, room};
use crate::ops::{HalfElement, Indices};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// The kernels that compute the gradients of an attention, why they were chosen, and all that their launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`AttentionGradient::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel of keys.
#[derive(Clone, Debug)]
pub struct AttentionGradientPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    /// None where there is nothing to store.
    prepared: Option<Prepared>,
    overlap: bool,
}

/// What an [`AttentionGradientPlan`] runs on beside its tensors: given where the plan was made with it.
#[derive(Debug, Default)]
pub struct AttentionGradientViews<'a> {
    /// Of queries and of keys: see [`Attention::packed`](crate::ops::Attention::packed).
    pub offsets: Option<[Indices<'a>; 2]>,
    /// See [`Attention::sinks`](crate::ops::Attention::sinks).
    pub sinks: Option<TensorView<'a, f32>>,
    /// See [`Attention::alibi_slopes`](crate::ops::Attention::alibi_slopes).
    pub alibi_slopes: Option<TensorView<'a, f32>>,
    /// See [`Attention::bias`](crate::ops::Attention::bias).
    pub bias: Option<AttentionBias<'a>>,
    /// See [`AttentionGradient::d_bias`].
    pub d_bias: Option<AttentionBiasMut<'a>>,
    /// See [`AttentionGradient::d_sinks`].
    pub d_sinks: Option<TensorViewMut<'a, f32>>,
    /// As many elements as [`AttentionGradientPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work
    /// at the same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

/// The tensors of a call.
pub(super) struct Tensors<'v, 'm, T> {
    /// Q, K, V, O and dO.
    read: [&'v TensorView<'m, T>; 5],
    lse: &'v TensorView<'m, f32>,
    /// dQ, dK and dV.
    written: [&'v TensorViewMut<'m, T>; 3],
    beside: Beside<'v>,
}

/// Their names, in the order of a plan's.
const READ: [&str; 5] = ["q", "k", "v", "o", "d_o"];
const WRITTEN: [&str; 3] = ["d_q", "d_k", "d_v"];

impl<'v, 'm, T: HalfElement> Tensors<'v, 'm, T> {
    pub(super) fn new(
        [q, k, v]: [&'v TensorView<'m, T>; 3],
        (o, lse): (&'v TensorView<'m, T>, &'v TensorView<'m, f32>),
        d_o: &'v TensorView<'m, T>,
        written: [&'v TensorViewMut<'m, T>; 3],
        beside: Beside<'v>,
    ) -> Self {
        Tensors { read: [q, k, v, o, d_o], lse, written, beside }
    }

    fn named(&self) -> [Option<Named<'v>>; FIRST + COUNT] {
        let mut all = [None; FIRST + COUNT];
        for (i, tensor) in self.read.into_iter().enumerate() {
            all[i] = Some(Named::read(READ[i], tensor));
        }
        all[5] = Some(Named::read("lse", self.lse));
        for (i, tensor) in self.written.into_iter().enumerate() {
            all[6 + i] = Some(Named::written(WRITTEN[i], tensor));
        }
        all[FIRST..].copy_from_slice(&self.beside.named());
        all
    }
}

/// What is asked for, at a plan's places.
pub(super) fn problem<T: HalfElement>(
    of: &AttentionGradient<'_>,
    tensors: &Tensors<'_, '_, T>,
) -> Result<Problem> {
    of.expect_gradient()?;
    let number = |i: usize| tensors.read[i].planned(i);
    let read = [number(0), number(1), number(2), number(3), number(4)];
    let lse = tensors.lse.planned(5);
    let number = |i: usize| tensors.written[i].planned(6 + i);
    let written = [number(0), number(1), number(2)];
    let beside = tensors.beside.planned();
    let here =
        Tensors { read: read.each_ref(), lse: &lse, written: written.each_ref(), beside: beside.views() };
    check(written[0].device(), here.named().into_iter().flatten())?;
    let offsets = beside.offsets.as_ref().map(|offsets| offsets.each_ref().map(|of| of.untyped()));
    let packed =
        offsets.map(|[queries, keys]| Offsets::new(queries, Some(keys), of.options.longest)).transpose()?;
    Problem::new(
        (&of.options, of.longest_keys, of.deterministic, of.splits),
        read.each_ref(),
        &lse,
        written.each_ref(),
        (packed, beside.added()),
    )
}

impl AttentionGradientPlan {
    pub(super) fn new<T: HalfElement>(
        of: &AttentionGradient<'_>,
        tensors: &Tensors<'_, '_, T>,
    ) -> Result<Self> {
        let problem = problem(of, tensors)?;
        let operands = Operands::new(tensors.written[0].device(), tensors.named());
        let choice = problem.choose(of.kernel)?;
        let prepared =
            if problem.stores_nothing() { None } else { Some(Prepared::new(&problem, choice.descriptor())?) };
        Ok(AttentionGradientPlan { choice, operands, problem, prepared, overlap: of.overlap })
    }

    /// Elements of the [workspace](AttentionGradientViews::workspace) that a run needs.
    pub fn workspace_len(&self) -> usize {
        self.prepared.as_ref().map_or(0, Prepared::workspace_len)
    }

    /// Queues the gradients on `stream`: tensors as those of [`AttentionGradient::run`].
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or an output overlaps another tensor; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        inputs: [&TensorView<'_, T>; 3],
        given: (&TensorView<'_, T>, &TensorView<'_, f32>),
        d_o: &TensorView<'_, T>,
        outputs: [&mut TensorViewMut<'_, T>; 3],
        views: &mut AttentionGradientViews<'_>,
    ) -> Result<()> {
        let AttentionGradientViews { offsets, sinks, alibi_slopes, bias, d_bias, d_sinks, workspace } = views;
        let beside = Beside {
            offsets: offsets.as_ref().map(|[queries, keys]| [queries, keys]),
            sinks: sinks.as_ref(),
            slopes: alibi_slopes.as_ref(),
            bias: bias.as_ref(),
            d_bias: d_bias.as_ref(),
            d_sinks: d_sinks.as_ref(),
        };
        let workspace = workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let outputs = outputs.each_ref().map(|output| &**output);
        let tensors = Tensors::new(inputs, given, d_o, outputs, beside);
        let places = self.places(stream, &tensors, memory)?;
        self.launch(stream, &places, room(workspace, self.workspace_len())?)
    }

    /// Where the tensors of a run lie.
    pub(super) fn places<T: HalfElement>(
        &self,
        stream: &Stream,
        tensors: &Tensors<'_, '_, T>,
        room: Option<Named<'_>>,
    ) -> Result<Places> {
        self.operands.places(stream, tensors.named(), room)
    }

    pub(super) fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        match &self.prepared {
            Some(prepared) => prepared.run(&self.problem.placed(places), stream, self.overlap, workspace),
            None => Ok(()),
        }
    }
}

explained!(AttentionGradientPlan, Compiled);
