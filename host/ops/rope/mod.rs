//! Rotary position embedding.

mod plan;
mod problem;
mod tensors;

pub use plan::RopePlan;
use problem::Problem;
pub use tensors::RopeViews;
use tensors::{apart, appending, in_place};

use super::frame::Choice;
use super::pointwise::{Options, PointwiseCandidate};
use super::{CacheElement, FloatElement, HalfElement, Indices};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// Which columns are rotated together, of the first `d` that are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Columns 2 i and 2 i + 1, as RoFormer and GPT-J have it.
    Interleaved,
    /// Columns i and i + d / 2, as GPT-NeoX and Llama's checkpoints for Hugging Face have it.
    Halves,
}

/// y = x rotated by angles of theta 10000, in halves, at positions from 0 on: see [`Rope`].
pub fn rope<T: FloatElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, T>,
) -> Result<()> {
    Rope::new(Pairs::Halves).run(stream, x, y)
}

/// Rotary position embedding (Su et al. 2021, "RoFormer"): pairs of columns (a, b) become (a cos - b sin, b cos + a sin) of angles that are
/// position times theta^(-2 i / d) for pair i of d / 2.
///
/// - Tensors are \[tokens, heads, columns\] or \[batch, sequence, heads, columns\], each with any strides. q and k are rotated in one launch, and may have
///   different numbers of heads. Results lie in tensors of their own, or in place.
/// - f16, bf16 and f32 in and out; computed in f32, rounded once, to nearest even.
/// - The first [`columns`](Self::columns) d are rotated, all unless said; the others are copied.
/// - A token's position is its place in the sequence, counted from [`offset`](Self::offset), or what [`positions`](Self::positions) says: any i32.
/// - From theta angles are counted in fractions of a turn of 64 bits, so that they lose nothing at large positions: cosines and sines are within
///   2e-7 of the exact ones for positions below 2²⁴, and within 3e-6 for all.
/// - [`table`](Self::table) gives other cosines and sines: those of scaled frequencies (NTK, YaRN). A position outside of it gives NaN in the rotated
///   columns: nothing is read out of bounds.
/// - [`inverse`](Self::inverse) turns back: it is the gradient of the rotation too.
/// - No elements: nothing is done.
/// - Tensors that are aligned to 16 bytes, with halves (or, interleaved, columns) of multiples of 16 or 32 bytes, are taken in vectors; all others are
///   correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
///
/// ```
/// use tilewright::ops::{Pairs, Rope};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let q = Tensor::<f32>::filled(&device, 1.0, &[2, 1, 4])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[2, 1, 4])?;
/// Rope::new(Pairs::Interleaved).columns(2).run(&device.default_stream(), &q.view(), &mut y.view_mut())?;
/// let (y, (sin, cos)) = (y.to_vec()?, 1f32.sin_cos());
/// assert_eq!(y[..4], [1.0; 4]);
/// assert!((y[4] - (cos - sin)).abs() < 1e-6 && (y[5] - (cos + sin)).abs() < 1e-6);
/// assert_eq!(y[6..], [1.0, 1.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Rope<'a> {
    pairs: Pairs,
    columns: Option<usize>,
    theta: f64,
    offset: i32,
    views: RopeViews<'a>,
    inverse: bool,
    options: Options<'a>,
}

impl<'a> Rope<'a> {
    /// All columns, theta 10000, positions from 0 on.
    pub fn new(pairs: Pairs) -> Self {
        Rope {
            pairs,
            columns: None,
            theta: 10_000.0,
            offset: 0,
            views: RopeViews { positions: None, table: None, cache_scales: None },
            inverse: false,
            options: Options::DEFAULT,
        }
    }
    /// d, the columns that are rotated: even, at most all.
    pub fn columns(self, columns: usize) -> Self {
        Rope { columns: Some(columns), ..self }
    }
    /// The base of the angles: above 1, and finite; 10000 unless set.
    pub fn theta(self, theta: f64) -> Self {
        Rope { theta, ..self }
    }
    /// The position of the first token of each sequence, where positions are not given; 0 unless set.
    pub fn offset(self, offset: i32) -> Self {
        Rope { offset, ..self }
    }
    /// The tokens' positions: \[tokens\] or \[batch, sequence\], any strides. Read when the kernel runs.
    pub fn positions(self, positions: impl Into<Indices<'a>>) -> Self {
        Rope { views: RopeViews { positions: Some(positions.into()), ..self.views }, ..self }
    }
    /// Cosines and sines \[positions, d / 2\], any strides, in place of theta's.
    pub fn table(self, cos: &'a TensorView<'a, f32>, sin: &'a TensorView<'a, f32>) -> Self {
        Rope { views: RopeViews { table: Some([cos, sin]), ..self.views }, ..self }
    }
    /// What codes of 8 bits that [`run_append`](Self::run_append) writes of keys and of values are multiplied by when they are read: f32, above 0 and finite, each
    /// \[1\] or \[KV heads\]; 1 unless set. Other runs have no use for them.
    pub fn cache_scales(self, k: &'a TensorView<'a, f32>, v: &'a TensorView<'a, f32>) -> Self {
        Rope { views: RopeViews { cache_scales: Some([k, v]), ..self.views }, ..self }
    }
    /// By the negative angles: what undoes the rotation, and its gradient.
    pub fn inverse(self) -> Self {
        Rope { inverse: true, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Rope { options: Options { kernel: Some(name), ..self.options }, ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Rope { options: Options { overlap, ..self.options }, ..self }
    }

    /// Every compiled kernel, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, T>,
    ) -> Result<Vec<PointwiseCandidate>> {
        let tensors = self.views.beside(apart([("x", x)], [("y", y)]));
        let problem = Problem::new(self, y.device(), &tensors)?;
        Ok(problem.call(&problem.lies()).candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, positions and
    /// tables too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time. Fails when shapes do not fit, a view lies on another device, or an option is out of
    /// range.
    pub fn plan<T: FloatElement>(&self, x: &TensorView<'_, T>, y: &TensorViewMut<'_, T>) -> Result<RopePlan> {
        RopePlan::new(self, y.device(), apart([("x", x)], [("y", y)]))
    }

    /// The same for queries and keys of the same tokens.
    pub fn plan_both<T: FloatElement>(
        &self,
        [q, k]: [&TensorView<'_, T>; 2],
        [q_to, k_to]: [&TensorViewMut<'_, T>; 2],
    ) -> Result<RopePlan> {
        let heads = apart([("q", q), ("k", k)], [("q_to", q_to), ("k_to", k_to)]);
        RopePlan::new(self, q_to.device(), heads)
    }

    /// The same for a tensor that is rotated in place.
    pub fn plan_in_place<T: FloatElement>(&self, x: &TensorViewMut<'_, T>) -> Result<RopePlan> {
        RopePlan::new(self, x.device(), in_place([("x", x)]))
    }

    /// The same for queries and keys that are rotated in place.
    pub fn plan_both_in_place<T: FloatElement>(
        &self,
        [q, k]: [&TensorViewMut<'_, T>; 2],
    ) -> Result<RopePlan> {
        RopePlan::new(self, q.device(), in_place([("q", q), ("k", k)]))
    }

    /// The same for what [`run_append`](Self::run_append) takes.
    pub fn plan_append<'t, T: HalfElement, C: CacheElement<T>>(
        &self,
        heads: [&TensorView<'_, T>; 3],
        q_to: &TensorViewMut<'_, T>,
        caches: [&TensorViewMut<'_, C>; 2],
        slots: impl Into<Indices<'t>>,
    ) -> Result<RopePlan> {
        RopePlan::new(self, q_to.device(), appending(heads, q_to, caches, &slots.into()))
    }

    /// Queues it on `stream`: [`plan`](Self::plan), and [`RopePlan::run`].
    ///
    /// Fails when shapes do not fit, a view lies on another device, y overlaps another tensor, or an option is out of range.
    pub fn run<T: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<()> {
        self.plan(x, y)?.run(stream, x, y, &self.views)
    }

    /// Queues it on `stream` for queries and keys of the same tokens.
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_both<T: FloatElement>(
        &self,
        stream: &Stream,
        heads: [&TensorView<'_, T>; 2],
        [q_to, k_to]: [&mut TensorViewMut<'_, T>; 2],
    ) -> Result<()> {
        self.plan_both(heads, [q_to, k_to])?.run_both(stream, heads, [q_to, k_to], &self.views)
    }

    /// Queues it on `stream` for a tensor that is rotated in place: columns that are not rotated are not touched.
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_in_place<T: FloatElement>(&self, stream: &Stream, x: &mut TensorViewMut<'_, T>) -> Result<()> {
        self.plan_in_place(x)?.run_in_place(stream, x, &self.views)
    }

    /// Queues it on `stream` for queries and keys that are rotated in place.
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_both_in_place<T: FloatElement>(
        &self,
        stream: &Stream,
        [q, k]: [&mut TensorViewMut<'_, T>; 2],
    ) -> Result<()> {
        self.plan_both_in_place([q, k])?.run_both_in_place(stream, [q, k], &self.views)
    }

    /// Queues it on `stream` for queries and keys of new tokens whose keys and values go to a paged cache in the same launch: k rotated, v as it is.
    ///
    /// - q, k and v as for [`run_both`](Self::run_both), v of k's shape; the caches \[pages, rows of a page, KV heads, columns\], any strides.
    /// - `slots` \[tokens\] or \[batch, sequence\], any strides: page times rows of a page, plus the row, of each token. No two are the same; a token whose slot there is
    ///   not goes nowhere. They are read when the kernel runs.
    /// - Caches are of `T`, or of codes of 8 bits, [`F8E4M3`](crate::F8E4M3) or `i8`: what is appended, rounded to `T`, times the inverse of its
    ///   [scale](Self::cache_scales), becomes the nearest code, of two the even one, or the largest for what is beyond. [`Attention`](crate::ops::Attention) reads them.
    ///
    /// Fails as [`run`](Self::run) does.
    pub fn run_append<'t, T: HalfElement, C: CacheElement<T>>(
        &self,
        stream: &Stream,
        heads: [&TensorView<'_, T>; 3],
        q_to: &mut TensorViewMut<'_, T>,
        [k_cache, v_cache]: [&mut TensorViewMut<'_, C>; 2],
        slots: impl Into<Indices<'t>>,
    ) -> Result<()> {
        let slots = slots.into();
        let plan = self.plan_append(heads, q_to, [k_cache, v_cache], slots.clone())?;
        plan.run_append(stream, heads, q_to, [k_cache, v_cache], slots, &self.views)
    }
}
