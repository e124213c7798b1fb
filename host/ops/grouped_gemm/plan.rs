//! The kernel and launch of products of groups, for tensors wherever they lie.

use super::choose::Selection;
use super::problem::Problem;
use super::table::{self, Compiled};
use super::{GroupRows, GroupedGemm};
use crate::ops::HalfElement;
use crate::ops::frame::{Choice, Named, Operands, Plan, explained};
use crate::ops::groups::Loaded;
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes products of groups, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`GroupedGemm::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct GroupedGemmPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to store.
    loaded: Option<Loaded<Problem>>,
}

/// What a [`GroupedGemmPlan`] runs on beside A, B, the groups' rows and C: given where the plan was made with it.
#[derive(Clone, Debug, Default)]
pub struct GroupedGemmViews<'a> {
    /// See [`GroupedGemm::scales`].
    pub scales: Option<TensorView<'a, f32>>,
}

/// The tensors, in the order of a plan's.
pub(super) fn named<'v, T: Element>(
    a: &'v TensorView<'_, T>,
    b: &'v TensorView<'_, T>,
    rows: &'v GroupRows<'_>,
    c: &'v TensorViewMut<'_, T>,
    scales: Option<&'v TensorView<'_, f32>>,
) -> [Option<Named<'v>>; 5] {
    let scales = scales.map(|scales| Named::read("scales", scales));
    [
        Some(Named::read("a", a)),
        Some(Named::read("b", b)),
        Some(rows.named()),
        Some(Named::written("c", c)),
        scales,
    ]
}

impl GroupedGemmPlan {
    pub(super) fn new<T: HalfElement>(
        gemm: &GroupedGemm<'_>,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let operands = Operands::new(c.device(), named(a, b, rows, c, gemm.scales));
        let scales = gemm.scales.map(|scales| scales.planned(4));
        let (a, b, rows, c) = (a.planned(0), b.planned(1), rows.planned(2), c.planned(3));
        let problem = Problem::new(&a, &b, &rows, &c, scales.as_ref(), gemm.gated)?;
        let choice = Selection::new(&problem, T::DTYPE.name(), gemm.expected)?.choose(gemm.kernel)?;
        let loaded = if problem.sides.is_empty() {
            None
        } else {
            let (kernel, sides) = (choice.descriptor(), &problem.sides);
            let tiled = sides.tiled([kernel.tile[0], kernel.tile[1]])?;
            let function = table::function(&sides.device, kernel)?;
            Some(Loaded { function, problem, tiled, overlap: gemm.overlap })
        };
        Ok(GroupedGemmPlan { choice, operands, loaded })
    }

    /// Queues the products on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or C overlaps an
    /// input; the error names it.
    pub fn run<T: HalfElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, T>,
        views: &GroupedGemmViews<'_>,
    ) -> Result<()> {
        self.queue(stream, named(a, b, rows, c, views.scales.as_ref()))
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 5]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        self.loaded.as_ref().map_or(Ok(()), |loaded| {
            table::run(self.choice.descriptor(), loaded, stream, &loaded.problem.placed(&places))
        })
    }
}

explained!(GroupedGemmPlan, Compiled);
