//! A GEMM's kernel and launches, for matrices wherever they lie.

use std::sync::Arc;

use tilewright_device::arch::tma::{EVICT_FIRST, EVICT_NORMAL};
use tilewright_device::tile::RasterOrder;

use super::Gemm;
use super::batches::Batches;
use super::choose::Selection;
use super::lines::Lines;
use super::parts::tile_parts;
use super::problem::{Matrices, Size};
use super::table::{self, Call, Compiled};
use crate::ops::FloatElement;
use crate::ops::frame::{Choice, Named, Operands, Places, Plan, TileParts, explained, of_shape, room};
use crate::{AnyFunction, Element, Error, Result, Stream, TensorView, TensorViewMut};

/// Rows of tiles that are taken together, so that CTAs which run at a time share their operands in L2.
pub(super) const PANEL: u32 = 16;
/// The same of kernels whose warpgroups take tiles in turn, each row of them a cluster's: half as many rows of C. Twice and four times as many
/// took up to 2 % and 5 % longer at 8192 x 8192 x 8192.
const PANEL_IN_TURN: u32 = 4;

/// The kernel that computes a GEMM, why it was chosen, and all that its launches need but memory.
///
/// It is made once from shapes, strides and alignments, by [`Gemm::plan`], and runs many times, on any stream, from any thread. It derefs to
/// the [`Plan`] that explains the choice of its kernel.
///
/// ```
/// use tilewright::ops::{Gemm, GemmViews};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = TensorView::<f16>::without_memory(&device, &[4, 32], &[32, 1], 16)?;
/// let w = TensorView::<f16>::without_memory(&device, &[32, 64], &[1, 32], 16)?;
/// let y = TensorViewMut::<f16>::without_memory(&device, &[4, 64], &[64, 1], 16)?;
/// let plan = Gemm::new().plan(&x, &w, &y)?;
///
/// let weight = Tensor::filled(&device, f16::ONE, &[64, 32])?;
/// for token in 0..2 {
///     let x = Tensor::filled(&device, f16::from_f32(token as f32), &[4, 32])?;
///     let mut y = Tensor::<f16>::zeros(&device, &[4, 64])?;
///     let w = weight.view().transpose(0, 1)?;
///     plan.run(&device.default_stream(), &x.view(), &w, &mut y.view_mut(), &GemmViews::default())?;
///     assert_eq!(y.to_vec()?[7].to_f32(), token as f32 * 32.0);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct GemmPlan {
    choice: Plan<Compiled>,
    operands: Operands,
    /// None where there is nothing to store.
    launches: Vec<Step>,
    /// For launches that no workspace was given for and that can have none, where this one needs one.
    bare: Option<Arc<GemmPlan>>,
}

/// A launch.
#[derive(Clone, Debug)]
struct Step {
    kernel: &'static Compiled,
    function: AnyFunction,
    matrices: Matrices,
    call: Call,
    /// Of a kernel that divides tiles.
    parts: Option<TileParts<true>>,
    /// What is copied before it, by which kernel.
    lines: Option<(Lines, AnyFunction)>,
}

impl Step {
    /// Elements of the workspace: copies, then sums of parts.
    fn workspace_len(&self) -> usize {
        self.copies_len() + self.parts.map_or(0, |parts| parts.workspace)
    }
    fn copies_len(&self) -> usize {
        self.lines.as_ref().map_or(0, |(lines, _)| lines.bytes / size_of::<f32>())
    }
}

/// What a [`GemmPlan`] runs on beside A, B and C: given where the plan was made with it.
#[derive(Clone, Debug)]
pub struct GemmViews<'a, U: Element> {
    /// See [`Gemm::bias`].
    pub bias: Option<TensorView<'a, U>>,
}

impl<U: Element> Default for GemmViews<'_, U> {
    fn default() -> Self {
        GemmViews { bias: None }
    }
}

/// The tensors of a GEMM, in the order of a plan's.
pub(super) fn named<'v, T: Element, U: Element>(
    a: &'v TensorView<'_, T>,
    b: &'v TensorView<'_, T>,
    c: &'v TensorViewMut<'_, U>,
    bias: Option<&'v TensorView<'_, U>>,
) -> [Option<Named<'v>>; 4] {
    let bias = bias.map(|bias| Named::read("bias", bias));
    [Some(Named::read("a", a)), Some(Named::read("b", b)), Some(Named::written("c", c)), bias]
}

/// Where CTAs may hand over the sums of parts of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    /// In shared memory of a cluster alone.
    InClusters,
    /// In a workspace too.
    Anywhere,
    /// In a workspace too, in a plan that no captured stream runs.
    Uncaptured,
}

impl GemmPlan {
    pub(super) fn new<T: Element, U: FloatElement>(
        gemm: &Gemm<'_, U>,
        sums: Sums,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let operands = Operands::new(c.device(), named(a, b, c, gemm.bias));
        let bias = gemm.bias.map(|bias| bias.planned(3));
        if gemm.gated && gemm.beta != 0.0 {
            return Err(Error::argument("beta", gemm.beta.to_string(), "0 of gated products"));
        }
        let batches = Batches::new(&a.planned(0), &b.planned(1), &c.planned(2), bias.as_ref(), gemm.gated)?;
        let kind = gemm.kind::<T>();
        if gemm.sms == Some(0) {
            return Err(Error::argument("sms", "0", "1 or more"));
        }
        // By what is known of the matrices of every run.
        let chosen = |matrices: &Matrices, known: &Matrices| {
            let direct = Selection::new(known, kind, gemm, sums)?.choose(gemm.kernel)?;
            if sums == Sums::InClusters || gemm.kernel.is_some() {
                return Ok::<_, Error>((direct, None));
            }
            let Some(lines) = Lines::of(matrices, known, gemm.overlap)? else { return Ok((direct, None)) };
            let copied = lines.applied(known)?;
            let choice = Selection::new(&copied, kind, gemm, sums)?.behind(&lines).choose(None)?;
            let faster = choice.estimate.cycles < direct.estimate.cycles;
            Ok(if faster { (choice, Some(lines)) } else { (direct, None) })
        };
        let (choice, _) = chosen(batches.first(), batches.first())?;
        let too_large = || {
            let allowed = format!("of at most {} tiles", RasterOrder::MAX_TILES);
            Error::argument("c", of_shape(c.shape()), allowed)
        };
        // Those of later launches may be aligned to less.
        let step = |(i, matrices): (usize, Matrices)| {
            let known = if i == 0 { matrices.clone() } else { matrices.surely_aligned(batches.first()) };
            let (choice, lines) = chosen(&matrices, &known)?;
            let matrices = lines.as_ref().map_or(Ok(matrices.clone()), |lines| lines.applied(&matrices))?;
            let kernel = choice.descriptor();
            let matrices = if choice.estimate.transposed { matrices.t()? } else { matrices };
            let [m, n, batch] = tiles(matrices.size, kernel.tile).ok_or_else(too_large)?;
            let panel = if kernel.apart { PANEL_IN_TURN } else { PANEL };
            let order = RasterOrder::new(batch, m, n, panel).ok_or_else(too_large)?;
            // What one row or column of tiles reads, no other CTA reads again. Where much is written beside it, saying so cost a tenth.
            let Size { m: rows, n: columns, k, .. } = matrices.size;
            let written = rows.saturating_mul(columns);
            let policy = |tiles, lines: usize| {
                let little = written.saturating_mul(16) <= lines.saturating_mul(k);
                if tiles == 1 && little { EVICT_FIRST } else { EVICT_NORMAL }
            };
            let (scale, policies) = ([gemm.alpha, gemm.beta], [policy(n, rows), policy(m, columns)]);
            let Gemm { overlap, sms, .. } = *gemm;
            // A copy of B is written just before.
            let constant = gemm.constant && lines.is_none();
            let overlap = overlap && !(kernel.apart && choice.estimate.loses_step(c.device()));
            let call = Call { order, scale, policies, overlap, constant, sms };
            let function = table::function(c.device(), kernel)?;
            let parts = if kernel.stream {
                let resident = table::resident(&function, sms) / kernel.cluster[0];
                Some(
                    tile_parts(kernel, [m, n, batch], k, resident, sums != Sums::InClusters)
                        .ok_or_else(too_large)?,
                )
            } else {
                None
            };
            let lines = match lines {
                Some(lines) => {
                    let function = lines.function(c.device())?;
                    Some((lines, function))
                }
                None => None,
            };
            Ok(Step { kernel, function, matrices, call, parts, lines })
        };
        let launches = if batches.is_empty() {
            Vec::new()
        } else {
            batches.launches().enumerate().map(step).collect::<Result<_>>()?
        };
        let plan = GemmPlan { choice, operands, launches, bare: None };
        if sums == Sums::Anywhere && gemm.kernel.is_none() { plan.with_bare(gemm, a, b, c) } else { Ok(plan) }
    }

    /// With what captured launches of it take without a workspace, if it needs one.
    pub(super) fn with_bare<T: Element, U: FloatElement>(
        self,
        gemm: &Gemm<'_, U>,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        if self.workspace_len() == 0 {
            return Ok(self);
        }
        Ok(GemmPlan { bare: Some(Arc::new(Self::new(gemm, Sums::InClusters, a, b, c)?)), ..self })
    }

    /// Whether all its launches are of the kernel that was chosen for the first.
    pub(super) fn is_of_one_kernel(&self) -> bool {
        self.launches.iter().all(|step| step.kernel.name == self.choice.kernel().name())
    }

    /// Whether it copies operands before it multiplies them.
    pub(super) fn copies(&self) -> bool {
        self.launches.iter().any(|step| step.lines.is_some())
    }

    pub(super) fn operands(&self) -> &Operands {
        &self.operands
    }

    /// Queues the product on `stream`. If CTAs divide tiles, or operands are copied, sums and copies are in memory that the device keeps; where the stream is captured, or there is none left, another kernel runs, or an error
    /// says that the kernel that was forced needs a [workspace](Self::run_in).
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, or C overlaps an
    /// input; the error names it.
    pub fn run<T: Element, U: FloatElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &mut TensorViewMut<'_, U>,
        views: &GemmViews<'_, U>,
    ) -> Result<()> {
        self.queue(stream, named(a, b, c, views.bias.as_ref()))
    }

    /// [`run`](Self::run) with memory for the sums of parts of tiles and for copies, captured or not: [`workspace_len`](Self::workspace_len) elements or more, contiguous and aligned to 16 bytes, of any
    /// values. Runs that may be at work at the same time, on whatever streams, have memory of their own; on one device they are at most four, whose CTAs wait for each other.
    pub fn run_in<T: Element, U: FloatElement>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, T>,
        b: &TensorView<'_, T>,
        c: &mut TensorViewMut<'_, U>,
        views: &GemmViews<'_, U>,
        workspace: &mut TensorViewMut<'_, f32>,
    ) -> Result<()> {
        self.queue_in(stream, named(a, b, c, views.bias.as_ref()), Some(workspace))
    }

    pub(super) fn queue_in(
        &self,
        stream: &Stream,
        tensors: [Option<Named<'_>>; 4],
        workspace: Option<&TensorViewMut<'_, f32>>,
    ) -> Result<()> {
        let given = workspace.map(|workspace| Named::room("workspace", workspace));
        let places = self.operands.places(stream, tensors, given)?;
        self.launch_steps(stream, &places, room(workspace, self.workspace_len())?)
    }

    /// Elements of the [workspace](Self::run_in) of a run: 0 unless CTAs divide tiles, or operands are copied.
    pub fn workspace_len(&self) -> usize {
        self.launches.iter().map(Step::workspace_len).max().unwrap_or(0)
    }

    pub(super) fn queue(&self, stream: &Stream, tensors: [Option<Named<'_>>; 4]) -> Result<()> {
        self.launch(stream, &self.operands.places(stream, tensors, None)?)
    }

    /// Launches it on tensors that lie so: those of its own plan, or of one with them at the same places.
    pub(in crate::ops) fn launch(&self, stream: &Stream, places: &Places) -> Result<()> {
        let len = self.workspace_len();
        if len == 0 {
            return self.launch_steps(stream, places, 0);
        }
        if !stream.is_captured()? {
            let lent = |address| self.launch_steps(stream, places, address);
            let done = stream.device().scratch().lend(stream, len * size_of::<f32>(), lent);
            return match (done, &self.bare) {
                (Err(Error::OutOfMemory { .. }), Some(bare)) => bare.launch(stream, places),
                (done, _) => done,
            };
        }
        match &self.bare {
            Some(bare) => bare.launch(stream, places),
            None => room(None, len).map(|_| ()),
        }
    }

    fn launch_steps(&self, stream: &Stream, places: &Places, workspace: u64) -> Result<()> {
        let places = &places.with_room(workspace);
        self.launches.iter().try_for_each(|step| {
            let Step { kernel, function, matrices, call, parts, lines } = step;
            if let Some((lines, function)) = lines {
                lines.run(function, stream, places)?;
            }
            let sums = workspace + (step.copies_len() * size_of::<f32>()) as u64;
            let parts = parts.as_ref().map(|parts| (parts, sums));
            table::run(kernel, function, stream, &matrices.placed(places), call, parts)
        })
    }
}

explained!(GemmPlan, Compiled);

/// Rows and columns of tiles, and matrices of the batch.
fn tiles(size: Size, [m, n, _]: [u32; 3]) -> Option<[u32; 3]> {
    let count = |len: usize, tile: u32| u32::try_from(len.div_ceil(tile as usize)).ok();
    Some([count(size.m, m)?, count(size.n, n)?, count(size.batch, 1)?])
}
