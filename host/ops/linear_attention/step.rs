//! One row of each sequence: its kernel and launch, for tensors wherever they lie.

use std::fmt;

use tilewright_device::abi::GlobalAbi;
use tilewright_linear_attention::{KERNELS, STEP, StepArgs};

use super::LinearAttention;
use super::plan::{LinearAttentionViews, named};
use super::problem::{Problem, Size};
use crate::ops::HalfElement;
use crate::ops::frame::{Named, Operands, Places, of_shape};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, DType, Error, Launch, Result, Stream, TensorView, TensorViewMut};

/// The kernel of a step, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`LinearAttention::step_plan`], and runs many times, on any stream, from any thread.
#[derive(Clone, Debug)]
pub struct LinearAttentionStepPlan {
    operands: Operands,
    problem: Problem,
    /// The states before and behind, in one tensor \[sequences, heads, DK, DV\].
    state: Untyped,
    function: AnyFunction,
    /// None where there is nothing to store.
    launch: Option<Launch>,
}

/// The place of the state in a plan.
const STATE: usize = 11;

impl LinearAttentionStepPlan {
    pub(super) fn new<T: HalfElement>(
        of: &LinearAttention<'_>,
        [q, k, v]: [&TensorView<'_, T>; 3],
        o: &TensorViewMut<'_, T>,
        state: &TensorViewMut<'_, f32>,
    ) -> Result<Self> {
        let given = [
            ("initial_state", of.tensors.initial.is_some()),
            ("final_state", of.tensors.last.is_some()),
            ("offsets", of.tensors.offsets.is_some()),
            ("segments", of.options.segments.is_some()),
            ("kernel", of.kernel.is_some()),
        ];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Error::argument(name, "given for a step", "left out: a step has its state in place"));
        }
        let others = of.tensors.others();
        let operands = Operands::new(o.device(), named([q, k, v], o, &others, Some(state)));
        let inputs = [&q.planned(0), &k.planned(1), &v.planned(2)];
        let problem = Problem::checked(&of.options, &others.planned(), inputs, &o.planned(3))?;
        o.device().expect_same(state.device(), "state")?;
        problem.expect_state("state", state.shape())?;
        let Size { sequences, heads, columns: [d, dv], rows } = problem.size;
        if rows != 1 {
            let was = of_shape(q.shape());
            return Err(Error::argument("q", was, "of a length of 1: a step takes one row of each sequence"));
        }
        let kernel = STEP.iter().filter(|k| k.element == T::DTYPE.name() && k.columns[1] as usize >= d);
        let kernel = kernel.min_by_key(|kernel| kernel.columns[1]).ok_or_else(|| Error::KernelMissing {
            kernel: "step",
            arch: crate::Arch::Sm80,
            reason: format!("the set has none for {} and {d} columns", T::DTYPE.name()),
        })?;
        let function = o.device().listed(&KERNELS, kernel)?;
        let count = |n: usize| u32::try_from(n).map_err(|_| problem.too_large());
        // A CTA reads a state's next columns while it computes, so a state has no more CTAs than fill the device.
        let tiles = dv.div_ceil(kernel.columns[0] as usize);
        let states = heads.saturating_mul(sequences).max(1);
        let ctas = tiles.min((function.resident_ctas().max(1) as usize).div_ceil(states));
        let grid = [count(ctas)?, count(heads)?, count(sequences)?];
        let launch = (!problem.is_empty()).then_some(Launch::grid(grid));
        let state = state.planned(STATE).untyped();
        Ok(LinearAttentionStepPlan { operands, problem, state, function, launch })
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        self.function.name()
    }

    /// Queues the step on `stream`, with a state that is replaced.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or an output overlaps another tensor; the error names it.
    #[expect(clippy::too_many_arguments, reason = "the tensors of the step, each of its own shape")]
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        state: &mut TensorViewMut<'_, f32>,
        q: &TensorView<'_, T>,
        k: &TensorView<'_, T>,
        v: &TensorView<'_, T>,
        o: &mut TensorViewMut<'_, T>,
        views: &LinearAttentionViews<'_>,
    ) -> Result<()> {
        self.queue(stream, named([q, k, v], o, &views.others(), Some(state)))
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 12]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        match &self.launch {
            Some(launch) => self.launch(stream, launch, &places),
            None => Ok(()),
        }
    }

    fn launch(&self, stream: &Stream, launch: &Launch, places: &Places) -> Result<()> {
        let of = self.problem.placed(places);
        let backend = of.device.backend();
        let none = Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..of.o };
        let beta = of.beta.map(|beta| Ok::<_, Error>(Untyped { layout: beta.layout.insert(3)?, ..beta }));
        let gates = of.channel_gates.map(Untyped::t);
        let plain = |of: &Untyped| of.arg::<(), 4>(backend, true, 0);
        let [q, k, v] = of.inputs;
        let state: GlobalAbi<(), 4> = plain(&places.of(&self.state))?;
        let args = StepArgs {
            q: plain(&q.t()?)?,
            k: plain(&k.t()?)?,
            v: plain(&v)?,
            gates: plain(gates.transpose()?.as_ref().unwrap_or(&none))?,
            beta: plain(beta.transpose()?.as_ref().unwrap_or(&none))?,
            state,
            o: plain(&of.o)?,
            decays: of.decays(),
            scale: of.scale,
        };
        // SAFETY: the arguments are those of `step`, but for the names of elements. The tensors are borrowed by the caller, o and the state
        // exclusively, and reach no further than their shapes, to which the kernel keeps.
        unsafe { self.function.launch_block(stream, launch, &args) }
    }
}

impl fmt::Display for LinearAttentionStepPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: the only one for the columns of K", self.name())
    }
}
