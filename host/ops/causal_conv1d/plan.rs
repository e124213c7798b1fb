//! A causal convolution's kernel and launch, for tensors wherever they lie.

use tilewright_ssd::{CausalConv1dArgs, KERNELS};

use super::CausalConv1d;
use super::choose::Compiled;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, explained};
use crate::ops::ssd::sequences::{Extent, argument, ctas, optional};
use crate::ops::{FloatElement, Indices};
use crate::tensor::Untyped;
use crate::{AnyFunction, Element, Launch, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a causal convolution, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`CausalConv1d::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct CausalConv1dPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to compute.
    ready: Option<Ready>,
}

#[derive(Clone, Debug)]
struct Ready {
    function: AnyFunction,
    launch: Launch,
    x: Untyped,
    weight: Untyped,
    bias: Option<Untyped>,
    y: Untyped,
    /// The inputs before each sequence, and where the last ones go: the latest is a row.
    states: [Option<Untyped>; 2],
    extent: Extent,
    silu: bool,
}

/// What a [`CausalConv1dPlan`] runs on beside x, w and y: given where the plan was made with it.
#[derive(Debug)]
pub struct CausalConv1dViews<'a, T: Element> {
    /// See [`CausalConv1d::bias`].
    pub bias: Option<TensorView<'a, T>>,
    /// See [`CausalConv1d::initial_state`].
    pub initial_state: Option<TensorView<'a, T>>,
    /// See [`CausalConv1d::final_state`].
    pub final_state: Option<TensorViewMut<'a, T>>,
    /// See [`CausalConv1d::state`].
    pub state: Option<TensorViewMut<'a, T>>,
    /// See [`CausalConv1d::packed`].
    pub offsets: Option<Indices<'a>>,
}

impl<T: Element> Default for CausalConv1dViews<'_, T> {
    fn default() -> Self {
        CausalConv1dViews { bias: None, initial_state: None, final_state: None, state: None, offsets: None }
    }
}

/// The tensors of a causal convolution beside x, w and y.
pub(super) struct Others<'v, T> {
    pub(super) bias: Option<&'v TensorView<'v, T>>,
    pub(super) initial: Option<&'v TensorView<'v, T>>,
    pub(super) last: Option<&'v TensorViewMut<'v, T>>,
    pub(super) state: Option<&'v TensorViewMut<'v, T>>,
    pub(super) offsets: Option<&'v Indices<'v>>,
}

/// Places of a plan.
const BIAS: usize = 3;
const INITIAL: usize = 4;
const LAST: usize = 5;
const STATE: usize = 6;
const OFFSETS: usize = 7;

/// The tensors of a causal convolution, in the order of a plan's.
pub(super) fn named<'v, T: Element>(
    [x, w]: [&'v TensorView<'_, T>; 2],
    y: &'v TensorViewMut<'_, T>,
    others: &Others<'v, T>,
) -> [Option<Named<'v>>; 8] {
    [
        Some(Named::read("x", x)),
        Some(Named::read("w", w)),
        Some(Named::written("y", y)),
        others.bias.map(|bias| Named::read("bias", bias)),
        others.initial.map(|initial| Named::read("initial_state", initial)),
        others.last.map(|last| Named::written("final_state", last)),
        others.state.map(|state| Named::written("state", state)),
        others.offsets.map(|offsets| offsets.named("offsets")),
    ]
}

impl CausalConv1dPlan {
    pub(super) fn new<T: FloatElement>(
        conv: &CausalConv1d<'_, T>,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(y.device(), named([x, w], y, &conv.others()));
        let (x, w, y) = (x.planned(0), w.planned(1), y.planned(2));
        let conv = CausalConv1d {
            bias: conv.bias.as_ref().map(|bias| bias.planned(BIAS)),
            initial: conv.initial.as_ref().map(|initial| initial.planned(INITIAL)),
            last: conv.last.as_ref().map(|last| last.planned(LAST)),
            state: conv.state.as_ref().map(|state| state.planned(STATE)),
            packed: conv.packed.as_ref().map(|packed| packed.planned(OFFSETS)),
            ..*conv
        };
        let problem = conv.problem(&x, &w, &y)?;
        let choice = problem.choose(conv.kernel)?;
        let (extent, kernel) = (problem.extent, choice.descriptor());
        if extent.count == 0 || problem.channels == 0 {
            return Ok(CausalConv1dPlan { choice, operands, ready: None });
        }
        let state = conv.state.as_ref().map(TensorViewMut::untyped);
        let initial = conv.initial.as_ref().map(TensorView::untyped).or(state);
        let last = conv.last.as_ref().map(TensorViewMut::untyped).or(state);
        // Of one weight no input before a token counts.
        let states = |state: Option<Untyped>| state.filter(|_| problem.width > 1).map(Untyped::t).transpose();
        let row = |bias: &TensorView<'_, T>| {
            let bias = bias.untyped();
            Ok(Untyped { layout: bias.layout.insert(0)?, ..bias })
        };
        let [tokens, lanes] = kernel.tile;
        let grid = [
            problem.channels.div_ceil(lanes as usize) as u32,
            ctas(extent.longest.div_ceil(tokens as usize).max(1), "tiles of tokens")?,
            ctas(extent.count, "sequences")?,
        ];
        let ready = Ready {
            function: y.device().listed(&KERNELS, kernel)?,
            launch: Launch::grid(grid),
            x: x.untyped(),
            weight: w.untyped().t()?,
            bias: conv.bias.as_ref().map(row).transpose()?,
            y: y.untyped(),
            states: [states(initial)?, states(last)?],
            extent,
            silu: conv.silu,
        };
        Ok(CausalConv1dPlan { choice, operands, ready: Some(ready) })
    }

    /// Queues it on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        views: &mut CausalConv1dViews<'_, T>,
    ) -> Result<()> {
        let CausalConv1dViews { bias, initial_state, final_state, state, offsets } = views;
        let others = Others {
            bias: bias.as_ref(),
            initial: initial_state.as_ref(),
            last: final_state.as_ref(),
            state: state.as_ref(),
            offsets: offsets.as_ref(),
        };
        self.queue(stream, named([x, w], y, &others))
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 8]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        self.ready.as_ref().map_or(Ok(()), |ready| ready.launch(stream, &places))
    }
}

impl Ready {
    fn launch(&self, stream: &Stream, places: &Places) -> Result<()> {
        let device = self.function.device();
        let at = |of: &Option<Untyped>| of.as_ref().map(|of| places.of(of));
        let [before, after] = &self.states;
        let args = CausalConv1dArgs {
            x: argument::<3>(device, places.of(&self.x))?,
            weight: argument::<2>(device, places.of(&self.weight))?,
            bias: optional::<2>(device, at(&self.bias))?,
            before: optional::<3>(device, at(before))?,
            y: argument::<3>(device, places.of(&self.y))?,
            after: optional::<3>(device, at(after))?,
            sequences: self.extent.placed(places).told,
            silu: u32::from(self.silu),
        };
        // SAFETY: the arguments are those of `causal_conv1d`. The tensors are borrowed by the caller, those that are written exclusively, and
        // the kernel keeps to their shapes; there is an offset more than there are sequences.
        unsafe { self.function.launch_block(stream, &self.launch, &args) }
    }
}

explained!(CausalConv1dPlan, Compiled);
