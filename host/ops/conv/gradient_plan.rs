//! The kernels and launches of a convolution's gradients, for tensors wherever they lie.

use std::fmt;

use super::choose::Selection;
use super::gradient::ConvGradient;
use super::table::{Call, Compiled, Finish};
use crate::ops::FloatElement;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, TileParts, Workspace, explained, room};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernels that compute the gradient of a convolution's images, why they were chosen, and all that their launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`ConvGradient::images_plan`], and runs many times, on any stream, from any thread.
#[derive(Clone, Debug)]
pub struct ConvImagesPlan {
    operands: Operands,
    choices: Vec<Plan<Compiled>>,
    /// One for each choice.
    calls: Vec<Call>,
    finish: Finish,
}

/// The kernel that computes the gradient of a convolution's filters, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`ConvGradient::filters_plan`], and runs many times, on any stream, from any thread. It
/// derefs to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct ConvFiltersPlan {
    operands: Operands,
    choice: Plan<Compiled>,
    /// None where there is nothing to store.
    ready: Option<(Call, TileParts)>,
    overlap: bool,
}

/// The tensors of a gradient, in the order of a plan's: two that are read, and the gradient.
fn named<'v, T: Element>(
    names: [&'static str; 3],
    [one, other]: [&'v TensorView<'_, T>; 2],
    gradient: &'v TensorViewMut<'_, T>,
) -> [Option<Named<'v>>; 3] {
    let [first, second, last] = names;
    [Some(Named::read(first, one)), Some(Named::read(second, other)), Some(Named::written(last, gradient))]
}

/// The names of those tensors, of images and of filters.
const OF_IMAGES: [&str; 3] = ["dy", "w", "dx"];
const OF_FILTERS: [&str; 3] = ["x", "dy", "dw"];

impl ConvImagesPlan {
    pub(super) fn new<T: FloatElement>(
        of: &ConvGradient<'_>,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(dx.device(), named(OF_IMAGES, [dy, w], dx));
        let (dy, w, dx) = (dy.planned(0), w.planned(1), dx.planned(2));
        let problem = of.of_images(&dy, &w, &dx)?;
        let products = if dx.is_empty() { Vec::new() } else { problem.backward()? };
        let (mut choices, mut calls) = (Vec::new(), Vec::new());
        for product in &products {
            let choice = Selection::of_images::<T>(&dx, product)?.choose(of.kernel)?;
            calls.push(Call::new(dx.device(), choice.descriptor(), product, choice.estimate.joined)?);
            choices.push(choice);
        }
        Ok(ConvImagesPlan { operands, choices, calls, finish: Finish::plain(of.overlap) })
    }

    /// The kernels that are launched one after the other, and why; none where there is nothing to store.
    pub fn kernels(&self) -> &[Plan<Compiled>] {
        &self.choices
    }

    /// Queues the gradient on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or dx overlaps an
    /// input; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        dy: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dx: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(OF_IMAGES, [dy, w], dx), None)?;
        self.calls.iter().try_for_each(|call| call.placed(&places).run(stream, &self.finish))
    }
}

impl fmt::Display for ConvImagesPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.choices.is_empty() {
            return f.write_str("nothing to compute");
        }
        for (i, choice) in self.choices.iter().enumerate() {
            write!(f, "{}{choice}", if i > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

impl ConvFiltersPlan {
    pub(super) fn new<T: FloatElement>(
        of: &ConvGradient<'_>,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(dw.device(), named(OF_FILTERS, [x, dy], dw));
        let (x, dy, dw) = (x.planned(0), dy.planned(1), dw.planned(2));
        let product = of.of_filters(&x, &dy, &dw)?.forward();
        let choice = Selection::of_filters::<T>(&dw, &product)?.choose(of.kernel)?;
        let ready = if dw.is_empty() {
            None
        } else {
            let call = Call::new(dw.device(), choice.descriptor(), &product, choice.estimate.joined)?;
            let parts = call.division()?;
            Some((call, parts))
        };
        Ok(ConvFiltersPlan { operands, choice, ready, overlap: of.overlap })
    }

    /// Elements of the workspace that a run needs: 0 if no tile is divided.
    pub fn workspace_len(&self) -> usize {
        self.ready.as_ref().map_or(0, |(_, parts)| parts.workspace)
    }

    /// Queues the gradient on `stream`.
    ///
    /// The workspace is as many elements as [`workspace_len`](Self::workspace_len) says, contiguous and aligned to 16 bytes, of any values. Runs that may be at
    /// work at the same time, on whatever streams, have memory of their own.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or dw or the workspace
    /// overlaps another tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &mut TensorViewMut<'_, T>,
        workspace: Option<&mut TensorViewMut<'_, f32>>,
    ) -> Result<()> {
        let workspace = workspace.as_deref();
        let memory = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.operands.places(stream, named(OF_FILTERS, [x, dy], dw), memory)?;
        self.launch(stream, &places, room(workspace, self.workspace_len())?)
    }

    /// The same with an operator's workspace.
    pub(super) fn run_in<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
        dw: &mut TensorViewMut<'_, T>,
        workspace: &mut Workspace<'_>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(OF_FILTERS, [x, dy], dw), workspace.named())?;
        workspace.lend(self.workspace_len(), stream, |address| self.launch(stream, &places, address))
    }

    fn launch(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        match &self.ready {
            Some((call, parts)) => call.placed(places).run_weights(stream, parts, workspace, self.overlap),
            None => Ok(()),
        }
    }
}

explained!(ConvFiltersPlan, Compiled);
