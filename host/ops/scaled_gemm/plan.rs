//! A product's kernel and launch, for matrices wherever they lie.

use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};
use tilewright_device::tile::RasterOrder;

use super::choose::{Selection, parts};
use super::problem::Problem;
use super::split::Splitting;
use super::table::{self, Call, Compiled, Order};
use super::{ScaledGemm, ScaledInput, ScaledOutput};
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, TileParts, explained, of_shape, room};
use crate::{AnyFunction, Element, Error, Result, Stream, TensorView, TensorViewMut};

/// Rows that are taken together, so that CTAs which run at a time share their operands in L2.
const PANEL: u32 = 2048;

/// The numbers of a plan's tensors.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;
pub(super) const SCALE_A: usize = 3;
pub(super) const SCALE_B: usize = 4;
pub(super) const BIAS: usize = 5;
pub(super) const SCALE_C: usize = 6;
pub(super) const AMAX: usize = 7;

/// The kernel that computes a product, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`ScaledGemm::plan`], and runs many times, on any stream, from any thread. It derefs
/// to the [`Plan`] that explains the choice of its kernel.
#[derive(Clone, Debug)]
pub struct ScaledGemmPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to store.
    launch: Option<Step>,
}

/// The launch, behind those that split operands.
#[derive(Clone, Debug)]
struct Step {
    splitting: Option<Splitting>,
    kernel: &'static Compiled,
    function: AnyFunction,
    problem: Problem,
    call: Call,
    /// Of a kernel that divides the depth of tiles.
    division: Option<Division>,
}

/// How CTAs take the tiles of a kernel that divides their depth.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// With memory for the sums of parts.
    parts: TileParts,
    /// Without: whole.
    whole: TileParts,
}

/// What a [`ScaledGemmPlan`] runs on beside A, B and C: given where the plan was made with it.
#[derive(Debug)]
pub struct ScaledGemmViews<'a, U: ScaledOutput> {
    /// See [`ScaledGemm::scale_a`].
    pub scale_a: Option<TensorView<'a, f32>>,
    /// See [`ScaledGemm::scale_b`].
    pub scale_b: Option<TensorView<'a, f32>>,
    /// See [`ScaledGemm::scale_c`].
    pub scale_c: Option<TensorView<'a, f32>>,
    /// See [`ScaledGemm::amax`].
    pub amax: Option<TensorViewMut<'a, f32>>,
    /// See [`ScaledGemm::bias`].
    pub bias: Option<TensorView<'a, U::Bias>>,
}

impl<U: ScaledOutput> Default for ScaledGemmViews<'_, U> {
    fn default() -> Self {
        ScaledGemmViews { scale_a: None, scale_b: None, scale_c: None, amax: None, bias: None }
    }
}

impl<U: ScaledOutput> ScaledGemmViews<'_, U> {
    /// The tensors of a run, these beside A, B and C.
    fn beside<'v, L: Element, R: Element>(
        &'v self,
        a: &'v TensorView<'_, L>,
        b: &'v TensorView<'_, R>,
        c: &'v TensorViewMut<'_, U>,
    ) -> [Option<Named<'v>>; 8] {
        let scales = [&self.scale_a, &self.scale_b, &self.scale_c].map(Option::as_ref);
        named(a, b, c, scales, self.bias.as_ref(), self.amax.as_ref())
    }
}

/// The tensors of a product, in the order of a plan's.
pub(super) fn named<'v, L: Element, R: Element, U: ScaledOutput>(
    a: &'v TensorView<'_, L>,
    b: &'v TensorView<'_, R>,
    c: &'v TensorViewMut<'_, U>,
    [scale_a, scale_b, scale_c]: [Option<&'v TensorView<'_, f32>>; 3],
    bias: Option<&'v TensorView<'_, U::Bias>>,
    amax: Option<&'v TensorViewMut<'_, f32>>,
) -> [Option<Named<'v>>; 8] {
    [
        Some(Named::read("a", a)),
        Some(Named::read("b", b)),
        Some(Named::written("c", c)),
        scale_a.map(|scale| Named::read("scale_a", scale)),
        scale_b.map(|scale| Named::read("scale_b", scale)),
        bias.map(|bias| Named::read("bias", bias)),
        scale_c.map(|scale| Named::read("scale_c", scale)),
        amax.map(|amax| Named::written("amax", amax)),
    ]
}

impl ScaledGemmPlan {
    pub(super) fn new<L: ScaledInput<R>, R: Element, U: ScaledOutput>(
        gemm: &ScaledGemm<'_, U>,
        a: &TensorView<'_, L>,
        b: &TensorView<'_, R>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let tensors = named(a, b, c, gemm.scales(), gemm.bias, gemm.amax.as_ref());
        let operands = Operands::new(c.device(), tensors);
        let problem = Problem::new(gemm, a, b, c)?;
        let choice = Selection::new(&problem, gemm.kind::<L, R>(&problem))?.choose(gemm.kernel)?;
        if c.is_empty() {
            return Ok(ScaledGemmPlan { choice, operands, launch: None });
        }
        let kernel = choice.descriptor();
        let splitting = match &problem.split {
            Some(split) => Some(split.clone().load(c.device(), gemm.overlap)?),
            None => None,
        };
        let problem = if kernel.row_major { problem } else { problem.t()? };
        let [rows, columns, k] = problem.size;
        let count = |len: usize, tile: u32| u32::try_from(len.div_ceil(tile as usize)).ok();
        let [m, n, _] = kernel.tile;
        let tiles = count(rows, m).zip(count(columns, table::lines_read(kernel, columns)));
        let order = tiles.and_then(|(rows, columns)| {
            RasterOrder::new(1, rows, columns, PANEL / m).map(|order| (order, rows, columns))
        });
        let too_many = || {
            let allowed = format!("of at most {} tiles", RasterOrder::MAX_TILES);
            Error::argument("c", of_shape(c.shape()), allowed)
        };
        let Some((order, row_tiles, column_tiles)) = order else {
            return Err(too_many());
        };
        // What one row or column of tiles reads, no other CTA reads again.
        let written = rows.saturating_mul(columns);
        let policy = |tiles, lines: usize| {
            let little = written.saturating_mul(16) <= lines.saturating_mul(k);
            if tiles == 1 && little { EVICT_FIRST } else { EVICT_NORMAL }
        };
        let function = table::function(c.device(), kernel)?;
        let division = if kernel.stream {
            let steps = u32::try_from(k.div_ceil(kernel.tile[2] as usize)).map_err(|_| too_many())?;
            let (tiles, resident) = (order.total(), function.resident_ctas().max(1));
            let of = |whole, ctas| TileParts::new(order, steps, whole, ctas, [m, n], kernel.consumers);
            let parts = parts(kernel, [tiles, steps, resident].map(u64::from)) as u32;
            let divided = if parts > 1 { of(0, tiles * parts) } else { None };
            let whole = of(tiles, resident).ok_or_else(too_many)?;
            Some(Division { parts: divided.unwrap_or(whole), whole })
        } else {
            None
        };
        let call = Call {
            order: Order::Tiles(order),
            alpha: gemm.alpha,
            activation: gemm.activation,
            policies: [policy(column_tiles, rows), policy(row_tiles, columns)],
            overlap: gemm.overlap,
        };
        let step = Step { splitting, kernel, function, problem, call, division };
        Ok(ScaledGemmPlan { choice, operands, launch: Some(step) })
    }

    /// Queues the product on `stream`. Parts of [precise](ScaledGemm::precise) products are in memory that the device keeps; where the stream is captured an
    /// error says that they need a [workspace](Self::run_in). Sums of tiles whose depth CTAs divide are there too; where the stream is captured, CTAs take tiles whole
    /// unless a workspace is given.
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or C or amax overlaps
    /// another; the error names it.
    pub fn run<L: ScaledInput<R>, R: Element, U: ScaledOutput>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, L>,
        b: &TensorView<'_, R>,
        c: &mut TensorViewMut<'_, U>,
        views: &ScaledGemmViews<'_, U>,
    ) -> Result<()> {
        self.queue(stream, views.beside(a, b, c))
    }

    /// [`run`](Self::run) with memory for parts, captured or not: [`workspace_len`](Self::workspace_len) elements or more, contiguous and aligned to 16 bytes, of any
    /// values. Runs that may be at work at the same time, on whatever streams, have memory of their own.
    pub fn run_in<L: ScaledInput<R>, R: Element, U: ScaledOutput>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, L>,
        b: &TensorView<'_, R>,
        c: &mut TensorViewMut<'_, U>,
        views: &ScaledGemmViews<'_, U>,
        workspace: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        let memory = Some(Named::room("workspace", workspace));
        let places = self.operands.places(stream, views.beside(a, b, c), memory)?;
        self.launch(stream, &places, Some(room(Some(workspace), self.workspace_len())?))
    }

    /// Elements of the [workspace](Self::run_in) of a run: 0 but for [precise](ScaledGemm::precise) products and for sums of tiles whose depth CTAs divide.
    pub fn workspace_len(&self) -> usize {
        self.launch.as_ref().map_or(0, |step| {
            step.splitting_len() + step.division.map_or(0, |division| division.parts.workspace)
        })
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 8]) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        let (len, needed) = (self.workspace_len(), self.launch.as_ref().map_or(0, Step::splitting_len));
        if len == 0 || stream.is_captured()? {
            room(None, needed)?;
            return self.launch(stream, &places, None);
        }
        let lent = |address| self.launch(stream, &places, Some(address));
        match stream.device().scratch().lend(stream, len * size_of::<f32>(), lent) {
            Err(Error::OutOfMemory { .. }) if needed == 0 => self.launch(stream, &places, None),
            done => done,
        }
    }

    fn launch(&self, stream: &Stream, places: &Places, workspace: Option<u64>) -> Result<()> {
        let Some(step) = &self.launch else { return Ok(()) };
        let Step { splitting, kernel, function, problem, call, division } = step;
        let places = &places.with_room(workspace.unwrap_or(0));
        if let Some(splitting) = splitting {
            splitting.run(stream, places)?;
        }
        let order = match (division, workspace) {
            (None, _) => call.order,
            (Some(Division { whole, .. }), None) => Order::Stream(whole.order(0), whole.ctas),
            (Some(Division { parts, .. }), Some(address)) => {
                let sums = address + (step.splitting_len() * size_of::<f32>()) as u64;
                Order::Stream(parts.order(sums), parts.ctas)
            }
        };
        table::run(kernel, function, stream, &problem.placed(places), &Call { order, ..*call })
    }
}

impl Step {
    /// Elements of the parts that operands are split into.
    fn splitting_len(&self) -> usize {
        self.splitting.as_ref().map_or(0, Splitting::len)
    }
}

explained!(ScaledGemmPlan, Compiled);
