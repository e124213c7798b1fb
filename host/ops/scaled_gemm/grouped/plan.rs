//! The kernel and launch of products of groups, for tensors wherever they lie.

use super::choose::{Compiled, Selection};
use super::problem::{Problem, named};
use super::{BlockScaled, GroupedScaledGemm, launch};
use crate::ops::HalfElement;
use crate::ops::frame::{Choice, Operands, Plan, explained};
use crate::ops::groups::{GroupRows, Loaded};
use crate::ops::scaled_gemm::table::function;
use crate::{Result, Stream, TensorViewMut};

/// The kernel that computes products of groups, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`GroupedScaledGemm::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct GroupedScaledGemmPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to store.
    loaded: Option<Loaded<Problem>>,
}

impl BlockScaled<'_> {
    /// The same at the places of a plan.
    fn planned(&self, numbers: [usize; 2]) -> Self {
        BlockScaled { codes: self.codes.planned(numbers[0]), scales: self.scales.planned(numbers[1]) }
    }
}

impl GroupedScaledGemmPlan {
    pub(super) fn new<U: HalfElement>(
        gemm: &GroupedScaledGemm<'_>,
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let operands = Operands::new(c.device(), named(a, b, rows, c).map(Some));
        let problem = Problem::new(&a.planned([0, 2]), &b.planned([1, 3]), &rows.planned(4), &c.planned(5))?;
        let choice = Selection::new(&problem, gemm.expected).choose(gemm.kernel)?;
        let loaded = if problem.sides.is_empty() {
            None
        } else {
            let (kernel, sides) = (choice.descriptor(), &problem.sides);
            let tiled = sides.tiled([kernel.tile[0], kernel.tile[1]])?;
            let function = function(&sides.device, kernel)?;
            Some(Loaded { function, problem, tiled, overlap: gemm.overlap })
        };
        Ok(GroupedScaledGemmPlan { choice, operands, loaded })
    }

    /// Queues the products on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or C overlaps an
    /// input; the error names it.
    pub fn run<U: HalfElement>(
        &self,
        stream: &Stream,
        a: &BlockScaled<'_>,
        b: &BlockScaled<'_>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(a, b, rows, c).map(Some), None)?;
        self.loaded.as_ref().map_or(Ok(()), |loaded| {
            launch::run(self.choice.descriptor(), loaded, stream, &loaded.problem.placed(&places))
        })
    }
}

explained!(GroupedScaledGemmPlan, Compiled);
