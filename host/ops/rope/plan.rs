//! The kernel of a rotation and its launch, for tensors wherever they lie.

use tilewright_pointwise::{
    Frequencies, RopeAppendArgs, RopeArgs, RopeCaches, RopeShape, RopeTable, Strided,
};

use super::Rope;
use super::problem::Problem;
use super::tensors::{RopeViews, Tensors, apart, appending, in_place};
use crate::ops::frame::{Choice, Operands, Places, explained};
use crate::ops::pointwise::{Compiled, PointwisePlan, launch, placed};
use crate::ops::{CacheElement, FloatElement, HalfElement, Indices};
use crate::{AnyFunction, Device, Launch, Result, Stream, TensorView, TensorViewMut};

/// The kernel that computes a rotary embedding, why it was chosen, and all that its launch needs but memory.
///
/// It is made once from shapes, strides and alignments, by [`Rope::plan`] and its kin, and runs many times, on any stream, from any thread: as what it was
/// planned for, so that a plan of [`Rope::plan_both`] has [`run_both`](Self::run_both). The [offset](Rope::offset) is the plan's: where positions change from run to
/// run, give them as [views](RopeViews::positions). It derefs to the [`Plan`](crate::ops::Plan) that explains the choice
/// of its kernel.
///
/// ```
/// use tilewright::ops::{Pairs, Rope, RopeViews};
/// use tilewright::{Device, Tensor, TensorView, TensorViewMut};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// // A token for each of two sequences, of four heads.
/// let shape = [2, 4, 64];
/// let positions = TensorView::<i32>::without_memory(&device, &[2], &[1], 4)?;
/// let x = TensorView::<f32>::without_memory(&device, &shape, &[256, 64, 1], 16)?;
/// let y = TensorViewMut::<f32>::without_memory(&device, &shape, &[256, 64, 1], 16)?;
/// let plan = Rope::new(Pairs::Halves).positions(&positions).plan(&x, &y)?;
///
/// let q = Tensor::<f32>::filled(&device, 1.0, &shape)?;
/// for step in 0..2 {
///     let positions = Tensor::<i32>::from_slice(&device, &[step, 0], &[2])?;
///     let mut y = Tensor::<f32>::zeros(&device, &shape)?;
///     let views = RopeViews { positions: Some(positions.view().into()), ..Default::default() };
///     plan.run(&device.default_stream(), &q.view(), &mut y.view_mut(), &views)?;
///     assert_eq!(y.to_vec()?[0] == 1.0, step == 0);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RopePlan {
    choice: PointwisePlan,
    operands: Operands,
    /// None where there is nothing to rotate.
    prepared: Option<Prepared>,
}

/// A launch, at the places of the plan.
#[derive(Clone, Debug)]
struct Prepared {
    function: AnyFunction,
    launch: Launch,
    /// q, k and what they become.
    heads: [Strided<4>; 4],
    positions: Strided<2>,
    table: RopeTable,
    /// Values, and where they and the keys go.
    appended: Option<(Strided<4>, RopeCaches)>,
    frequencies: Frequencies,
    shape: RopeShape,
}

impl RopePlan {
    pub(super) fn new(rope: &Rope<'_>, device: &Device, heads: Tensors<'_>) -> Result<Self> {
        let problem = Problem::new(rope, device, &rope.views.beside(heads))?;
        let choice = problem.call(&problem.lies()).choose(rope.options.kernel)?;
        let prepared = match problem.is_empty() {
            true => None,
            false => Some(Prepared::new(rope, &problem, choice.descriptor())?),
        };
        Ok(RopePlan { choice, operands: problem.operands, prepared })
    }

    /// Queues it on `stream`, for a plan of [`Rope::plan`].
    ///
    /// Fails when a view is not of the type, shape, strides and alignment that the plan was made for, lies on another device, is missing or too
    /// many, or what is written overlaps another tensor; the error names it.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
        views: &RopeViews<'_>,
    ) -> Result<()> {
        self.launch(stream, views.beside(apart([("x", x)], [("y", y)])))
    }

    /// Queues it on `stream` for queries and keys of the same tokens, for a plan of [`Rope::plan_both`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_both<T: FloatElement>(
        &self,
        stream: &Stream,
        [q, k]: [&TensorView<'_, T>; 2],
        [q_to, k_to]: [&mut TensorViewMut<'_, T>; 2],
        views: &RopeViews<'_>,
    ) -> Result<()> {
        self.launch(stream, views.beside(apart([("q", q), ("k", k)], [("q_to", q_to), ("k_to", k_to)])))
    }

    /// Queues it on `stream` for a tensor that is rotated in place, for a plan of [`Rope::plan_in_place`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_in_place<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &mut TensorViewMut<'_, T>,
        views: &RopeViews<'_>,
    ) -> Result<()> {
        self.launch(stream, views.beside(in_place([("x", x)])))
    }

    /// Queues it on `stream` for queries and keys that are rotated in place, for a plan of [`Rope::plan_both_in_place`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_both_in_place<T: FloatElement>(
        &self,
        stream: &Stream,
        [q, k]: [&mut TensorViewMut<'_, T>; 2],
        views: &RopeViews<'_>,
    ) -> Result<()> {
        self.launch(stream, views.beside(in_place([("q", q), ("k", k)])))
    }

    /// Queues it on `stream` for queries and keys of new tokens whose keys and values go to a paged cache, for a plan of [`Rope::plan_append`].
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_append<'t, T: HalfElement, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        heads: [&TensorView<'_, T>; 3],
        q_to: &mut TensorViewMut<'_, T>,
        [k_cache, v_cache]: [&mut TensorViewMut<'_, C>; 2],
        slots: impl Into<Indices<'t>>,
        views: &RopeViews<'_>,
    ) -> Result<()> {
        self.launch(stream, views.beside(appending(heads, q_to, [k_cache, v_cache], &slots.into())))
    }

    /// What is written is borrowed by the caller exclusively, and the others.
    pub(super) fn launch(&self, stream: &Stream, tensors: Tensors<'_>) -> Result<()> {
        let places = self.operands.places(stream, tensors, None)?;
        // SAFETY: the tensors are like those of the plan, and borrowed by the caller, those that are written exclusively.
        self.prepared.as_ref().map_or(Ok(()), |prepared| unsafe { prepared.run(stream, &places) })
    }
}

explained!(RopePlan, Compiled);

impl Prepared {
    fn new(rope: &Rope<'_>, problem: &Problem, kernel: &'static Compiled) -> Result<Self> {
        let shape = problem.shape(rope, kernel.piece)?;
        let work = (shape.total(), 1);
        let (function, launch) = launch(&problem.device, kernel, work, rope.options.overlap)?;
        let ratio = rope.theta.powf(-1.0 / problem.pairs.max(1) as f64);
        Ok(Prepared {
            function,
            launch,
            heads: problem.tensors.map(|operand| operand.strided()),
            positions: problem.positions.map_or(Strided::NONE, |positions| positions.strided()),
            table: problem.table(),
            appended: problem.appended.as_ref().map(|appended| (appended.v.strided(), appended.caches())),
            frequencies: Frequencies::new(ratio, kernel.piece),
            shape,
        })
    }

    /// Queues the kernel for tensors that lie so.
    ///
    /// # Safety
    /// The tensors are as the plan was made for, and borrowed by the caller, exclusively where they are written.
    unsafe fn run(&self, stream: &Stream, places: &Places) -> Result<()> {
        let Prepared { function, launch, table, appended, frequencies, shape, .. } = self;
        let (frequencies, shape) = (*frequencies, *shape);
        let [q, k, q_to, k_to] = self.heads.map(|heads| placed(places, heads));
        let positions = placed(places, self.positions);
        let table = RopeTable { cos: placed(places, table.cos), sin: placed(places, table.sin), ..*table };
        if let Some((v, caches)) = appended {
            let caches = RopeCaches {
                keys: placed(places, caches.keys),
                values: placed(places, caches.values),
                slots: placed(places, caches.slots),
                scales: caches.scales.map(|scale| places.at(scale)),
                ..*caches
            };
            let v = placed(places, *v);
            let args = RopeAppendArgs { q, k, v, q_to, caches, positions, table, frequencies, shape };
            // SAFETY: as below, of `rope_append`; the kernel keeps to the caches' rows.
            return unsafe { function.launch_block(stream, launch, &args) };
        }
        let args = RopeArgs { q, k, q_to, k_to, positions, table, frequencies, shape };
        // SAFETY: the arguments are those of `rope`. The tensors have the tokens, heads and columns of the shape, and lie as the kernel was chosen by. A
        // thread has read what it writes. Programmatic launch only moves what precedes the wait for the preceding grid. The rest is the caller's.
        unsafe { function.launch_block(stream, launch, &args) }
    }
}
