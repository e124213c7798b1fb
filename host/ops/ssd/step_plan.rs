//! The kernel and launch of a scan's step, for tensors wherever they lie.

use tilewright_ssd::{KERNELS, StateStepArgs};

use super::problem::Size;
use super::sequences::{argument, column, ctas, optional};
use super::step::{Compiled, SsdStep};
use super::time::Told;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, explained};
use crate::ops::{FloatElement, HalfElement};
use crate::tensor::Untyped;
use crate::{AnyFunction, Element, Error, Launch, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a step, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`SsdStep::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct SsdStepPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to compute.
    ready: Option<Ready>,
}

/// The tensors as the kernel takes them: columns of each head, and rows of B and C that are all the same.
#[derive(Clone, Debug)]
struct Ready {
    function: AnyFunction,
    launch: Launch,
    x: Untyped,
    dt: Untyped,
    decay: Untyped,
    b: Untyped,
    c: Untyped,
    y: Untyped,
    state: Untyped,
    z: Option<Untyped>,
    time: Told,
    heads_per_group: u32,
}

/// What an [`SsdStepPlan`] runs on beside x, dt, A, B, C, y and the state, of type `T`: given where the plan was made with it.
#[derive(Clone, Debug)]
pub struct SsdStepViews<'a, T: Element> {
    /// See [`SsdStep::gate`].
    pub gate: Option<TensorView<'a, T>>,
    /// See [`SsdStep::dt_bias`].
    pub dt_bias: Option<TensorView<'a, f32>>,
    /// See [`SsdStep::skip`].
    pub skip: Option<TensorView<'a, f32>>,
}

impl<T: Element> Default for SsdStepViews<'_, T> {
    fn default() -> Self {
        SsdStepViews { gate: None, dt_bias: None, skip: None }
    }
}

/// The tensors of a step beside x, dt, A, B, C, y and the state.
pub(super) struct Others<'v, T> {
    pub(super) z: Option<&'v TensorView<'v, T>>,
    pub(super) bias: Option<&'v TensorView<'v, f32>>,
    pub(super) skip: Option<&'v TensorView<'v, f32>>,
}

/// Places of a plan.
const GATE: usize = 7;
const BIAS: usize = 8;
const SKIP: usize = 9;

/// The tensors of a step, in the order of a plan's.
pub(super) fn named<'v, T: Element, U: Element, S: Element>(
    (x, dt, a): (&'v TensorView<'_, T>, &'v TensorView<'_, U>, &'v TensorView<'_, f32>),
    [b, c]: [&'v TensorView<'_, T>; 2],
    y: &'v TensorViewMut<'_, T>,
    state: &'v TensorViewMut<'_, S>,
    others: &Others<'v, T>,
) -> [Option<Named<'v>>; 10] {
    [
        Some(Named::read("x", x)),
        Some(Named::read("dt", dt)),
        Some(Named::read("a", a)),
        Some(Named::read("b", b)),
        Some(Named::read("c", c)),
        Some(Named::written("y", y)),
        Some(Named::written("state", state)),
        others.z.map(|z| Named::read("z", z)),
        others.bias.map(|bias| Named::read("dt_bias", bias)),
        others.skip.map(|skip| Named::read("skip", skip)),
    ]
}

impl SsdStepPlan {
    pub(super) fn new<T: HalfElement, U: FloatElement, S: FloatElement>(
        step: &SsdStep<'_, T>,
        (x, dt, a): (&TensorView<'_, T>, &TensorView<'_, U>, &TensorView<'_, f32>),
        [b, c]: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
        state: &TensorViewMut<'_, S>,
    ) -> Result<Self> {
        let device = y.device();
        let operands = Operands::new(device, named((x, dt, a), [b, c], y, state, &step.others()));
        let step = SsdStep {
            time: step.time.planned(BIAS, SKIP),
            z: step.z.as_ref().map(|z| z.planned(GATE)),
            kernel: step.kernel,
        };
        let (x, dt, a) = (x.planned(0), dt.planned(1), a.planned(2));
        let (b, c, y, state) = (b.planned(3), c.planned(4), y.planned(5), state.planned(6));
        let problem = step.problem(&x, &dt, &a, [&b, &c], &y, &state)?;
        let choice = problem.choose(step.kernel)?;
        let (size, kernel) = (problem.size, choice.descriptor());
        let Size { matrices, heads, groups, p, n, .. } = size;
        if [matrices, heads, p].contains(&0) {
            return Ok(SsdStepPlan { choice, operands, ready: None });
        }
        let stood =
            |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.insert(of.layout.rank())?, ..of });
        let repeated = |of: Untyped| {
            let shape = [matrices, groups, p.max(kernel.rows as usize), n];
            Untyped { layout: of.layout.insert(2)?, ..of }.broadcast(&shape)
        };
        let grid = [
            ctas(p.div_ceil(kernel.rows as usize), "tiles of columns")?,
            ctas(heads, "heads")?,
            ctas(matrices, "sequences")?,
        ];
        let ready = Ready {
            function: device.listed(&KERNELS, kernel)?,
            launch: Launch::grid(grid),
            x: stood(x.untyped())?,
            dt: stood(dt.untyped())?,
            decay: a.untyped(),
            b: repeated(b.untyped())?,
            c: repeated(c.untyped())?,
            y: stood(y.untyped())?,
            state: state.untyped(),
            z: step.z.as_ref().map(|z| stood(z.untyped())).transpose()?,
            time: step.time.told(),
            heads_per_group: ctas(heads / groups.max(1), "heads of a group")?,
        };
        Ok(SsdStepPlan { choice, operands, ready: Some(ready) })
    }

    /// Queues the step on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    #[expect(clippy::too_many_arguments, reason = "the tensors of the step, each of its own shape")]
    pub fn run<T: HalfElement, U: FloatElement, S: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &mut TensorViewMut<'_, T>,
        state: &mut TensorViewMut<'_, S>,
        views: &SsdStepViews<'_, T>,
    ) -> Result<()> {
        let SsdStepViews { gate, dt_bias, skip } = views;
        let others = Others { z: gate.as_ref(), bias: dt_bias.as_ref(), skip: skip.as_ref() };
        self.queue(stream, named((x, dt, a), bc, y, state, &others))
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 10]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        self.ready.as_ref().map_or(Ok(()), |ready| ready.launch(stream, &places))
    }
}

impl Ready {
    fn launch(&self, stream: &Stream, places: &Places) -> Result<()> {
        let device = self.function.device();
        let time = self.time.placed(places);
        let [bias, skip] = time.columns(device)?;
        let args = StateStepArgs {
            x: argument::<4>(device, places.of(&self.x))?,
            dt: argument::<3>(device, places.of(&self.dt))?,
            b: argument::<4>(device, places.of(&self.b))?,
            c: argument::<4>(device, places.of(&self.c))?,
            z: optional::<4>(device, self.z.as_ref().map(|z| places.of(z)))?,
            decay: column(device, Some(places.of(&self.decay)))?,
            bias,
            skip,
            state: argument::<4>(device, places.of(&self.state))?,
            y: argument::<4>(device, places.of(&self.y))?,
            heads_per_group: self.heads_per_group,
            softplus_first: u32::from(time.softplus),
            least: time.limits[0],
            most: time.limits[1],
        };
        // SAFETY: the arguments are those of `state_step`. The tensors are borrowed by the caller, y and the state exclusively, and the kernel keeps to their
        // shapes.
        unsafe { self.function.launch_block(stream, &self.launch, &args) }
    }
}

explained!(SsdStepPlan, Compiled);
