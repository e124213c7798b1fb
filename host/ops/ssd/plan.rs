//! A scan's kernels and launches, for tensors wherever they lie.

use super::launch::{Ready, Run};
use super::problem::Problem;
use super::table::Compiled;
use super::{Packed, Ssd};
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, Workspace, explained, room};
use crate::ops::{FloatElement, HalfElement, Indices};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a scan, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Ssd::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct SsdPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    problem: Problem,
    /// None where there is nothing to compute.
    ready: Option<Ready>,
}

/// What an [`SsdPlan`] runs on beside x, dt, A, B, C and y, of type `T`: given where the plan was made with it.
#[derive(Debug)]
pub struct SsdViews<'a, T: Element> {
    /// See [`Ssd::gate`].
    pub gate: Option<TensorView<'a, T>>,
    /// See [`Ssd::dt_bias`].
    pub dt_bias: Option<TensorView<'a, f32>>,
    /// See [`Ssd::skip`].
    pub skip: Option<TensorView<'a, f32>>,
    /// See [`Ssd::initial_state`].
    pub initial_state: Option<TensorView<'a, f32>>,
    /// See [`Ssd::final_state`].
    pub final_state: Option<TensorViewMut<'a, f32>>,
    /// See [`Ssd::packed`].
    pub offsets: Option<Indices<'a>>,
    /// As many elements as [`SsdPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at
    /// the same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

impl<T: Element> Default for SsdViews<'_, T> {
    fn default() -> Self {
        SsdViews {
            gate: None,
            dt_bias: None,
            skip: None,
            initial_state: None,
            final_state: None,
            offsets: None,
            workspace: None,
        }
    }
}

/// The tensors of a scan beside x, dt, A, B, C, y and the workspace.
pub(super) struct Others<'v, T> {
    pub(super) z: Option<&'v TensorView<'v, T>>,
    pub(super) bias: Option<&'v TensorView<'v, f32>>,
    pub(super) skip: Option<&'v TensorView<'v, f32>>,
    pub(super) initial: Option<&'v TensorView<'v, f32>>,
    pub(super) last: Option<&'v TensorViewMut<'v, f32>>,
    pub(super) offsets: Option<&'v Indices<'v>>,
}

/// Places of a plan.
const GATE: usize = 6;
const BIAS: usize = 7;
const SKIP: usize = 8;
const INITIAL: usize = 9;
const LAST: usize = 10;
const OFFSETS: usize = 11;

/// The tensors of a scan, in the order of a plan's.
pub(super) fn named<'v, T: Element, U: Element>(
    x: &'v TensorView<'_, T>,
    dt: &'v TensorView<'_, U>,
    a: &'v TensorView<'_, f32>,
    [b, c]: [&'v TensorView<'_, T>; 2],
    y: &'v TensorViewMut<'_, T>,
    others: &Others<'v, T>,
) -> [Option<Named<'v>>; 12] {
    let read = |name, of: Option<&'v TensorView<'v, f32>>| of.map(|of| Named::read(name, of));
    [
        Some(Named::read("x", x)),
        Some(Named::read("dt", dt)),
        Some(Named::read("a", a)),
        Some(Named::read("b", b)),
        Some(Named::read("c", c)),
        Some(Named::written("y", y)),
        others.z.map(|z| Named::read("z", z)),
        read("dt_bias", others.bias),
        read("skip", others.skip),
        read("initial_state", others.initial),
        others.last.map(|last| Named::written("final_state", last)),
        others.offsets.map(|offsets| offsets.named("offsets")),
    ]
}

impl SsdPlan {
    pub(super) fn new<T: HalfElement, U: FloatElement>(
        ssd: &Ssd<'_, T>,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        [b, c]: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(y.device(), named(x, dt, a, [b, c], y, &ssd.others()));
        let here = Ssd {
            time: ssd.time.planned(BIAS, SKIP),
            z: ssd.z.as_ref().map(|z| z.planned(GATE)),
            initial: ssd.initial.as_ref().map(|initial| initial.planned(INITIAL)),
            last: ssd.last.as_ref().map(|last| last.planned(LAST)),
            packed: ssd.packed.as_ref().map(|packed: &Packed<'_>| packed.planned(OFFSETS)),
            workspace: Workspace::Owned(None),
            ..*ssd
        };
        let bc = [&b.planned(3), &c.planned(4)];
        let problem = here.problem(&x.planned(0), &dt.planned(1), &a.planned(2), bc, &y.planned(5))?;
        let choice = problem.choose(ssd.kernel)?;
        let ready = if problem.is_empty() {
            None
        } else {
            Some(Ready::new(&problem, choice.descriptor(), ssd.overlap)?)
        };
        Ok(SsdPlan { choice, operands, problem, ready })
    }

    /// Elements of the [workspace](SsdViews::workspace) that a run needs.
    pub fn workspace_len(&self) -> usize {
        self.ready.as_ref().map_or(0, |ready| ready.room.all)
    }

    /// Queues the scan on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    #[expect(clippy::too_many_arguments, reason = "the tensors of the scan, each of its own shape")]
    pub fn run<T: HalfElement, U: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &mut TensorViewMut<'_, T>,
        views: &mut SsdViews<'_, T>,
    ) -> Result<()> {
        let SsdViews { gate, dt_bias, skip, initial_state, final_state, offsets, workspace } = views;
        let others = Others {
            z: gate.as_ref(),
            bias: dt_bias.as_ref(),
            skip: skip.as_ref(),
            initial: initial_state.as_ref(),
            last: final_state.as_ref(),
            offsets: offsets.as_ref(),
        };
        let workspace = workspace.as_ref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.places(stream, named(x, dt, a, bc, y, &others), memory)?;
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
        let Some(ready) = &self.ready else { return Ok(()) };
        Run { problem: &self.problem.placed(places), ready, workspace, stream }.all()
    }
}

explained!(SsdPlan, Compiled);
