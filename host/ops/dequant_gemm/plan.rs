//! A dequantised GEMM's kernel and launch, for tensors wherever they lie.

use super::problem::{Others, Problem};
use super::table::{Call, Compiled};
use super::weights::Like;
use super::widen::WideProduct;
use super::{DeviceWeights, tile_parts};
use crate::ops::Activation;
use crate::ops::frame::{Named, Operands, Plan, TileParts, Workspace, explained, room};
use crate::{AnyFunction, Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a dequantised GEMM, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`DequantGemm::plan`](super::DequantGemm::plan) or
/// [`DequantGemmInt8::plan`](super::DequantGemmInt8::plan), and runs many times, on any stream, from any thread, with any weights of one
/// shape and scheme. It derefs to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct DequantPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    weights: Like,
    problem: Problem,
    /// None where there is nothing to store.
    ready: Option<Ready>,
    /// The activation, alpha, and whether the kernel may overlap with the one in front.
    epilogue: (Activation, f32, bool),
}

/// What is launched.
#[derive(Clone, Debug)]
enum Ready {
    /// A kernel for narrow weights.
    Narrow(AnyFunction, Box<TileParts>),
    /// One that makes them wide, and a product of these.
    Wide(Box<WideProduct>),
}

/// What a [`DequantPlan`] runs on beside A, W and C, of type `C`: given where the plan was made with it.
#[derive(Debug)]
pub struct DequantViews<'a, C: Element> {
    /// What is added to every row before the activation.
    pub bias: Option<TensorView<'a, C>>,
    /// The scales of A's rows, of int8: see [`DequantGemmInt8::tokens`](super::DequantGemmInt8::tokens).
    pub tokens: Option<TensorView<'a, f32>>,
    /// As many elements as [`DequantPlan::workspace_len`] says, contiguous and aligned to 16 bytes, of any values. Runs that may be at work at
    /// the same time, on whatever streams, have memory of their own.
    pub workspace: Option<TensorViewMut<'a, f32>>,
}

impl<C: Element> Default for DequantViews<'_, C> {
    fn default() -> Self {
        DequantViews { bias: None, tokens: None, workspace: None }
    }
}

/// Places of a plan.
pub(super) const A: usize = 0;
pub(super) const C: usize = 1;
pub(super) const BIAS: usize = 2;
pub(super) const TOKENS: usize = 3;

/// The tensors of a product, in the order of a plan's.
pub(super) fn named<'v, T: Element, U: Element>(
    a: &'v TensorView<'_, T>,
    c: &'v TensorViewMut<'_, U>,
    others: &Others<'v, U>,
) -> [Option<Named<'v>>; 4] {
    [
        Some(Named::read("a", a)),
        Some(Named::written("c", c)),
        others.bias.map(|bias| Named::read("bias", bias)),
        others.tokens.map(|tokens| Named::read("tokens", tokens)),
    ]
}

impl DequantPlan {
    pub(super) fn new(
        choice: Plan<Compiled>,
        operands: Operands,
        problem: Problem,
        w: &DeviceWeights,
        epilogue: (Activation, f32, bool),
    ) -> Result<Self> {
        let kernel = choice.descriptor();
        let ready = if problem.size[0] == 0 {
            None
        } else {
            let function = kernel.function(&problem.device)?;
            let parts = tile_parts(&problem, kernel, kernel.resident(&function).max(1))?;
            Some(Ready::Narrow(function, Box::new(parts)))
        };
        Ok(DequantPlan { choice, operands, weights: w.like(), problem, ready, epilogue })
    }

    /// The same by wide weights.
    pub(super) fn wide(
        choice: Plan<Compiled>,
        operands: Operands,
        problem: Problem,
        w: &DeviceWeights,
        product: WideProduct,
    ) -> Self {
        let ready = (problem.size[0] > 0).then(|| Ready::Wide(Box::new(product)));
        let epilogue = (Activation::Identity, 1.0, false);
        DequantPlan { choice, operands, weights: w.like(), problem, ready, epilogue }
    }

    /// Elements of the [workspace](DequantViews::workspace) that a run needs: 0 if no tile is divided, and no weights are made wide.
    pub fn workspace_len(&self) -> usize {
        match &self.ready {
            Some(Ready::Narrow(_, parts)) => parts.workspace,
            Some(Ready::Wide(product)) => product.workspace_len(self.problem.size),
            None => 0,
        }
    }

    /// Queues the product on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, or the weights are not of its shape and
    /// scheme, when one lies on another device, is missing or too many, or C overlaps an input; the error names it.
    pub fn run<T: Element, U: Element>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        c: &mut TensorViewMut<'_, U>,
        views: &mut DequantViews<'_, U>,
    ) -> Result<()> {
        let DequantViews { bias, tokens, workspace } = views;
        let others = Others { bias: bias.as_ref(), tokens: tokens.as_ref() };
        let memory = workspace.as_ref().map(|workspace| Named::room("workspace", workspace));
        let problem = self.placed(stream, named(a, c, &others), w, memory)?;
        self.launch(stream, &problem, w, room(workspace.as_ref(), self.workspace_len())?)
    }

    /// The same with an operator's workspace.
    pub(super) fn run_in(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 4],
        w: &DeviceWeights,
        workspace: &mut Workspace<'_>,
    ) -> Result<()> {
        let problem = self.placed(stream, tensors, w, workspace.named())?;
        workspace.lend(self.workspace_len(), stream, |address| self.launch(stream, &problem, w, address))
    }

    fn placed(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 4],
        w: &DeviceWeights,
        room: Option<Named<'_>>,
    ) -> Result<Problem> {
        let places = self.operands.places(stream, tensors, room)?;
        self.problem.device.expect_same(w.device(), "w")?;
        w.expect(&self.weights)?;
        self.problem.placed(&places, w)
    }

    fn launch(&self, stream: &Stream, problem: &Problem, w: &DeviceWeights, workspace: u64) -> Result<()> {
        let (function, parts) = match &self.ready {
            Some(Ready::Narrow(function, parts)) => (function, parts),
            Some(Ready::Wide(product)) => return product.run(stream, problem, w, workspace),
            None => return Ok(()),
        };
        let (activation, alpha, overlap) = self.epilogue;
        let (order, ctas) = (parts.order(workspace), parts.ctas);
        let call = Call { stream, weights: w.abi(), order, ctas, activation, alpha, overlap };
        self.choice.descriptor().run(function, problem, &call)
    }
}

explained!(DequantPlan, Compiled);
