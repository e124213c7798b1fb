//! The kernel and launch of products of groups, for tensors and weights wherever they lie.

use super::super::DeviceWeights;
use super::super::weights::Like;
use super::choose::Selection;
use super::problem::{Problem, named};
use super::table::{self, Compiled};
use super::{GroupRows, GroupedDequantGemm};
use crate::ops::HalfElement;
use crate::ops::frame::{Choice, Named, Operands, Plan, explained};
use crate::ops::groups::Loaded;
use crate::{Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes products of groups with narrow weights, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`GroupedDequantGemm::plan`], and runs many times, on any stream, from any thread, with any
/// weights of one shape and scheme. It derefs to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct GroupedDequantPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    weights: Like,
    /// None where there is nothing to store.
    loaded: Option<Loaded<Problem>>,
}

impl GroupedDequantPlan {
    pub(super) fn new<T: HalfElement>(
        gemm: &GroupedDequantGemm<'_>,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(c.device(), named(a, rows, c));
        let problem = Problem::new(&a.planned(0), w, &rows.planned(1), &c.planned(2))?;
        let choice = Selection::new(&problem, table::kind::<T>(w)?, gemm.expected)?.choose(gemm.kernel)?;
        let loaded = if problem.sides.is_empty() {
            None
        } else {
            let (kernel, sides) = (choice.descriptor(), &problem.sides);
            let tiled = sides.tiled([kernel.tile[0], kernel.tile[1]])?;
            let function = table::function(&sides.device, kernel)?;
            Some(Loaded { function, problem, tiled, overlap: gemm.overlap })
        };
        Ok(GroupedDequantPlan { choice, operands, weights: w.like(), loaded })
    }

    /// Queues the products on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, or the weights are not of its shape and scheme, when one
    /// lies on another device, or C overlaps an input; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        w: &DeviceWeights,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.queue(stream, named(a, rows, c), w)
    }

    pub(super) fn queue(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 3],
        w: &DeviceWeights,
    ) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        stream.device().expect_same(w.device(), "w")?;
        w.expect(&self.weights)?;
        self.loaded.as_ref().map_or(Ok(()), |loaded| {
            table::run(self.choice.descriptor(), loaded, stream, &loaded.problem.placed(&places), w)
        })
    }
}

explained!(GroupedDequantPlan, Compiled);
