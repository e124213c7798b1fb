//! A convolution's kernel and launch, for tensors wherever they lie.

use std::fmt;

use tilewright_device::kernel::Copies;

use super::table::{Call, Compiled, Finish};
use super::{Conv, Problem};
use crate::ops::FloatElement;
use crate::ops::frame::{Choice, Estimate, Named, Operands, Plan};
use crate::ops::gemm::GemmPlan;
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a convolution, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`Conv::plan`], and runs many times, on any stream, from any thread. As text it says
/// why its kernel was chosen.
#[derive(Clone, Debug)]
pub struct ConvPlan {
    operands: Operands,
    of: Of,
}

#[derive(Clone, Debug)]
enum Of {
    /// A kernel of convolutions; no call where there is nothing to store.
    Patches(Plan<Compiled>, Option<Box<(Call, Finish)>>),
    /// A kernel of matrices: the filter is one pixel. Its A, B, C and bias are at the places of x, w, y and the bias.
    Product(GemmPlan),
}

/// What a [`ConvPlan`] runs on beside x, w and y: given where the plan was made with it.
#[derive(Clone, Debug)]
pub struct ConvViews<'a, T: Element> {
    /// See [`Conv::bias`].
    pub bias: Option<TensorView<'a, T>>,
    /// See [`Conv::residual`].
    pub residual: Option<TensorView<'a, T>>,
}

impl<T: Element> Default for ConvViews<'_, T> {
    fn default() -> Self {
        ConvViews { bias: None, residual: None }
    }
}

/// Places of a plan.
const BIAS: usize = 3;
const RESIDUAL: usize = 4;

/// The tensors of a convolution, in the order of a plan's.
pub(super) fn named<'v, T: Element>(
    [x, w]: [&'v TensorView<'_, T>; 2],
    y: &'v TensorViewMut<'_, T>,
    [bias, residual]: [Option<&'v TensorView<'_, T>>; 2],
) -> [Option<Named<'v>>; 5] {
    let other = |name, of: Option<&'v TensorView<'_, T>>| of.map(|of| Named::read(name, of));
    [
        Some(Named::read("x", x)),
        Some(Named::read("w", w)),
        Some(Named::written("y", y)),
        other("bias", bias),
        other("residual", residual),
    ]
}

impl ConvPlan {
    pub(super) fn new<T: FloatElement>(
        conv: &Conv<'_, T>,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(y.device(), named([x, w], y, [conv.bias, conv.residual]));
        let (x, w, y) = (x.planned(0), w.planned(1), y.planned(2));
        let bias = conv.bias.map(|bias| bias.planned(BIAS));
        let residual = conv.residual.map(|residual| residual.planned(RESIDUAL));
        let conv = Conv { bias: bias.as_ref(), residual: residual.as_ref(), ..*conv };
        let (problem, finish) = conv.problem(&x, &w, &y)?;
        let product = problem.forward();
        let patches = Conv::selection(&y, &product, &finish)?.choose(conv.kernel);
        if let Some(gemm) = matrices(&conv, &problem, &x, &w, &y)? {
            let patches = patches.as_ref().ok().filter(|patches| is_sooner(patches, &gemm));
            if patches.is_none() {
                return Ok(ConvPlan { operands, of: Of::Product(gemm) });
            }
        }
        let choice = patches?;
        let call = || Call::new(y.device(), choice.descriptor(), &product, choice.estimate.joined);
        let call = if y.is_empty() { None } else { Some(Box::new((call()?, finish))) };
        Ok(ConvPlan { operands, of: Of::Patches(choice, call) })
    }

    /// Queues the convolution on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or y overlaps an input; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        views: &ConvViews<'_, T>,
    ) -> Result<()> {
        self.queue(stream, named([x, w], y, [views.bias.as_ref(), views.residual.as_ref()]))
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 5]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        match &self.of {
            Of::Patches(_, Some(launch)) => {
                let (call, finish) = &**launch;
                call.placed(&places).run(stream, &finish.placed(&places))
            }
            Of::Patches(_, None) => Ok(()),
            Of::Product(plan) => plan.launch(stream, &places),
        }
    }

    /// The kernel's name.
    pub fn name(&self) -> &'static str {
        match &self.of {
            Of::Patches(plan, ..) => plan.kernel().name(),
            Of::Product(plan) => plan.kernel().name(),
        }
    }

    /// Whether it is a product of matrices, by a kernel of [`Gemm`](crate::ops::Gemm): the filter is one pixel.
    pub fn is_product(&self) -> bool {
        matches!(self.of, Of::Product(_))
    }
}

/// The product of matrices that it is, if it is one that no kernel was asked for: x \[pixels, channels\], w \[channels, outputs\].
fn matrices<T: FloatElement>(
    conv: &Conv<'_, T>,
    problem: &Problem,
    x: &TensorView<'_, T>,
    w: &TensorView<'_, T>,
    y: &TensorViewMut<'_, T>,
) -> Result<Option<GemmPlan>> {
    let size = problem.size();
    let views = || {
        let x = x.clone().reshape(&[size.places(), size.channels]).ok()?;
        let w = w.clone().reshape(&[size.outputs, size.channels]).ok()?.transpose(0, 1).ok()?;
        Some((x, w, y.reshaped(&[size.places(), size.outputs]).ok()?))
    };
    match conv.is_product(problem).then(views).flatten() {
        Some((a, b, c)) => Ok(Some(conv.gemm().plan_of(&a, &b, &c)?)),
        None => Ok(None),
    }
}

/// Whether convolutions of a filter of one pixel take less by their kernel, which has tiles that the GEMM lacks. Only kernels that read by TMA are
/// compared, whose estimates are of the same measurements.
fn is_sooner(patches: &Plan<Compiled>, product: &GemmPlan) -> bool {
    let least = product.estimate().cycles().unwrap_or(0);
    patches.descriptor().copies == Copies::Boxes
        && patches.estimate.beside_products(patches.descriptor().tile[1]) < least
}

impl fmt::Display for ConvPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            Of::Patches(plan, ..) => plan.fmt(f),
            Of::Product(plan) => plan.fmt(f),
        }
    }
}
