//! The kernel and launch of products over groups' rows, for tensors wherever they lie.

use super::choose::{Compiled, Selection};
use super::problem::{Problem, Size};
use super::{KGroupedGemm, launch};
use crate::ops::frame::{Choice, Named, Operands, Plan, explained};
use crate::ops::grouped_gemm::table::function;
use crate::ops::groups::{GroupRows, Loaded, Tiled};
use crate::ops::{FloatElement, HalfElement};
use crate::{Element, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes products over groups' rows, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`KGroupedGemm::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct KGroupedGemmPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to store.
    loaded: Option<Loaded<Problem>>,
}

/// The tensors, in the order of a plan's.
fn named<'v, T: Element, U: Element>(
    a: &'v TensorView<'_, T>,
    b: &'v TensorView<'_, T>,
    rows: &'v GroupRows<'_>,
    c: &'v TensorViewMut<'_, U>,
) -> [Option<Named<'v>>; 4] {
    [Named::read("a", a), Named::read("b", b), rows.named(), Named::written("c", c)].map(Some)
}

impl KGroupedGemmPlan {
    pub(super) fn new<T: HalfElement, U: FloatElement>(
        gemm: &KGroupedGemm<'_>,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let operands = Operands::new(c.device(), named(a, b, rows, c));
        let (a, b, rows, c) = (a.planned(0), b.planned(1), rows.planned(2), c.planned(3));
        let problem = Problem::new(&a, &b, &rows, &c, gemm.accumulate)?;
        let choice = Selection::new(&problem)?.choose(gemm.kernel)?;
        let loaded = if problem.is_empty() {
            None
        } else {
            let kernel = choice.descriptor();
            let (Size { groups, rows, m, n }, [high, wide, _]) = (problem.size, kernel.tile.map(u64::from));
            let (Problem { numbers, c, apart, .. }, of) = (&problem, [m, n].map(|size| size as u64));
            let tiled = Tiled::by_products(numbers, c, *apart, [groups, rows], [of, [high, wide]])?;
            let function = function(&problem.device, kernel)?;
            Some(Loaded { function, problem, tiled, overlap: gemm.overlap })
        };
        Ok(KGroupedGemmPlan { choice, operands, loaded })
    }

    /// Queues the products on `stream`.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or C overlaps an
    /// input; the error names it.
    pub fn run<T: HalfElement, U: FloatElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        rows: &GroupRows<'_>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        let places = self.operands.places(stream, named(a, b, rows, c), None)?;
        self.loaded.as_ref().map_or(Ok(()), |loaded| {
            launch::run(self.choice.descriptor(), loaded, stream, &loaded.problem.placed(&places))
        })
    }
}

explained!(KGroupedGemmPlan, Compiled);
