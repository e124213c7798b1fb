//! GEMM of 8-bit floats, int8 and tf32, with scales.

mod choose;
mod grouped;
mod plan;
mod problem;
mod split;
mod table;
#[cfg(test)]
mod tests;

use tilewright_device::tile::Activation;

use choose::Selection;
pub use grouped::{
    BlockScaled, GroupedScaledGemm, GroupedScaledGemmCandidate, GroupedScaledGemmPlan, grouped_scaled_gemm,
};
pub use plan::{ScaledGemmPlan, ScaledGemmViews};
use problem::Problem;
use table::{Compiled, Kind};

use super::frame::{Candidate, Choice};
use crate::{Element, F8E4M3, F8E5M2, Result, Stream, TensorView, TensorViewMut, bf16, f16};

mod sealed {
    pub trait Input<B> {
        /// The types in kernels' names.
        const NAME: &'static str;
    }
    pub trait Output {}
}

/// Element types of A, where B is of type `B`: `F8E4M3` and `F8E5M2` with either of them, `i8` and `f32` with themselves.
pub trait ScaledInput<B: Element>: Element + sealed::Input<B> {}

/// Element types of C: `f16`, `bf16` and `f32` for 8-bit floats, and `F8E4M3` where both are that; `i32`, the sums, `f16` and `bf16` for int8; `f32`
/// for f32.
pub trait ScaledOutput: Element + sealed::Output {
    /// The bias's element type: `bf16` where C is of `F8E4M3`, else C's.
    type Bias: Element;
}

macro_rules! inputs {
    ($($a:ident $b:ident $name:literal;)*) => { $(
        impl sealed::Input<$b> for $a {
            const NAME: &'static str = $name;
        }
        impl ScaledInput<$b> for $a {}
    )* };
}
inputs! {
    F8E4M3 F8E4M3 "e4m3";
    F8E5M2 F8E5M2 "e5m2";
    F8E4M3 F8E5M2 "e4m3_e5m2";
    F8E5M2 F8E4M3 "e5m2_e4m3";
    i8 i8 "i8";
    f32 f32 "tf32";
}

macro_rules! outputs {
    ($($t:ident $bias:ident;)*) => { $(
        impl sealed::Output for $t {}
        impl ScaledOutput for $t {
            type Bias = $bias;
        }
    )* };
}
outputs! {
    f16 f16;
    bf16 bf16;
    f32 f32;
    i32 i32;
    F8E4M3 bf16;
}

/// A kernel that could compute a product, or why it could not.
pub type ScaledGemmCandidate = Candidate<Compiled>;

/// C = scales A Bᵀ: A \[M, K\], B \[N, K\], C \[M, N\].
///
/// See [`ScaledGemm`] for the types, the scales, the bias, the activation and the choice of the kernel.
pub fn scaled_gemm<A: ScaledInput<B>, B: Element, U: ScaledOutput>(
    stream: &Stream,
    a: &TensorView<'_, A>,
    b: &TensorView<'_, B>,
    c: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    ScaledGemm::new().run(stream, a, b, c)
}

/// C = act(alpha · scales · A Bᵀ + bias) of 8-bit floats, int8, or f32 as tf32.
///
/// - A is \[M, K\], B is \[N, K\], of `F8E4M3` and `F8E5M2` in any pair, or both of `i8` or `f32`: rows contiguous, from multiples of 16
///   bytes on, K a multiple of 16, of f32 of 4, or if [`precise`](Self::precise) anyhow. C is \[M, N\] with any strides.
/// - Products of 8-bit floats (Micikevicius et al. 2022) are exact and summed up in f32. The tensor cores' sums keep about 14 bits, so those of
///   each 128 along K are added up in f32 registers; with [`fast_accumulation`](Self::fast_accumulation) a kernel may leave all of the depth to
///   the tensor cores. C is of `f16`, `bf16` or `f32`, rounded to nearest even; what is too large for `f16` becomes infinite.
/// - Where A and B are of `F8E4M3`, without scales of blocks, C may be of `F8E4M3` too: every element is multiplied by [`scale_c`](Self::scale_c) behind the
///   activation, rounded to nearest even and saturated: what is beyond ±448 becomes that, infinities too; NaN stays. [`amax`](Self::amax) collects the largest
///   magnitude before that factor, of which the next one is made (delayed scaling: Micikevicius et al. 2022, "FP8 formats for deep learning").
/// - Products of int8 are summed up exactly, modulo 2^32. C of `i32` is those sums; of `f16` or `bf16` they are converted to f32, which rounds
///   from 2^24 on, before scales apply.
/// - Of f32 the tensor cores read the upper 19 bits, tf32: the exponent and 10 bits of mantissa, rounded towards zero. Products are summed up
///   in f32; C is of `f32`. [`precise`](Self::precise) ones take three products of such numbers, and are nearly those of f32.
/// - [`scale_a`](Self::scale_a) and [`scale_b`](Self::scale_b) are factors in f32 of the whole matrix, of A's rows and B's rows (C's
///   columns), or, where both are of `F8E4M3`, of blocks of 1 x 128 of A and 128 x 128 of B (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section
///   3.3.2): sums of 128 along K are multiplied by their two blocks' scales before they are added up.
/// - Scales, alpha, the bias and the activation apply in f32. Scales may be anything: zeros, infinities and NaN give what IEEE arithmetic
///   makes of their products.
/// - No rows or columns: nothing is done. K of 0: a product of 0.
///
/// Products of 8-bit floats and of f32 need Hopper's instructions (sm_90a); those of int8 run on everything since Ampere.
///
/// A call does not wait; it can be captured in a [`Graph`](crate::Graph), precise products in a plan's
/// [workspace](ScaledGemmPlan::run_in). Where a product of e4m3 has at most half as many tiles as there are SMs, as of few rows, several CTAs divide the depth of each (stream-K, Osama et al. 2023): sums of
/// parts are in memory that the device keeps, which the first such call allocates. A captured call without a workspace does not divide it, and may round differently. The first use of a kernel on a device compiles
/// it in the driver. What is called again and again is [planned](Self::plan) once.
///
/// ```no_run
/// use tilewright::ops::ScaledGemm;
/// use tilewright::{Device, F8E4M3, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::default()?;
/// let x = Tensor::<F8E4M3>::zeros(&device, &[512, 1024])?;
/// let w = Tensor::<F8E4M3>::zeros(&device, &[4096, 1024])?;
/// let mut y = Tensor::<bf16>::zeros(&device, &[512, 4096])?;
/// // One scale a row of x, one for all of w.
/// let (rows, all) = (Tensor::filled(&device, 0.02, &[512])?, Tensor::filled(&device, 0.5, &[1])?);
/// let (rows, all) = (rows.view(), all.view());
/// ScaledGemm::new().scale_a(&rows).scale_b(&all).run(
///     &device.default_stream(),
///     &x.view(),
///     &w.view(),
///     &mut y.view_mut(),
/// )?;
/// # Ok(())
/// # }
/// ```
pub struct ScaledGemm<'a, U: ScaledOutput> {
    alpha: f32,
    scale_a: Option<&'a TensorView<'a, f32>>,
    scale_b: Option<&'a TensorView<'a, f32>>,
    scale_c: Option<&'a TensorView<'a, f32>>,
    amax: Option<TensorViewMut<'a, f32>>,
    bias: Option<&'a TensorView<'a, U::Bias>>,
    activation: Activation,
    fast: bool,
    precise: bool,
    kernel: Option<&'a str>,
    overlap: bool,
}

impl<U: ScaledOutput> ScaledGemm<'_, U> {
    /// C = A Bᵀ.
    pub fn new() -> Self {
        ScaledGemm {
            alpha: 1.0,
            scale_a: None,
            scale_b: None,
            scale_c: None,
            amax: None,
            bias: None,
            activation: Activation::Identity,
            fast: false,
            precise: false,
            kernel: None,
            overlap: true,
        }
    }
}

impl<U: ScaledOutput> Default for ScaledGemm<'_, U> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, U: ScaledOutput> ScaledGemm<'a, U> {
    /// A factor of the product, such as the scales of both matrices; 1 unless set.
    pub fn alpha(self, alpha: f32) -> Self {
        ScaledGemm { alpha, ..self }
    }
    /// Factors of A: one in \[1\], or \[M\] of its rows, or \[M, K / 128\] of its blocks, K / 128 rounded up; any strides.
    pub fn scale_a(self, scale: &'a TensorView<'a, f32>) -> Self {
        ScaledGemm { scale_a: Some(scale), ..self }
    }
    /// Factors of B: one in \[1\], or \[N\] of its rows, or, where A's are of blocks, \[N / 128, K / 128\] of its blocks, both rounded up; any
    /// strides.
    pub fn scale_b(self, scale: &'a TensorView<'a, f32>) -> Self {
        ScaledGemm { scale_b: Some(scale), ..self }
    }
    /// What the elements of a C of `F8E4M3` are multiplied by before they are rounded, \[1\]; 1 unless set. Read when the kernel runs. An error for other
    /// types, whose factor is [`alpha`](Self::alpha).
    pub fn scale_c(self, scale: &'a TensorView<'a, f32>) -> Self {
        ScaledGemm { scale_c: Some(scale), ..self }
    }
    /// Where the largest magnitude of the elements of a C of `F8E4M3` goes, \[1\]: of all of them, behind the activation, before [`scale_c`](Self::scale_c)
    /// applies. An error for other types.
    ///
    /// It becomes the greater of what is there and of this product's: several products may share it, and replays of a graph go on with it. So it holds 0 at first,
    /// and whenever a new maximum begins: [fill](TensorViewMut::fill) it, which graphs capture too. An infinite element makes it infinite; one that is NaN makes
    /// it NaN, which it remains until it is filled. A product without elements leaves it alone.
    ///
    /// ```no_run
    /// # use tilewright::ops::ScaledGemm;
    /// # use tilewright::{Device, F8E4M3, Tensor};
    /// # fn main() -> tilewright::Result<()> {
    /// # let device = Device::default()?;
    /// # let stream = device.default_stream();
    /// # let (x, w) = (Tensor::<F8E4M3>::zeros(&device, &[512, 1024])?, Tensor::<F8E4M3>::zeros(&device, &[4096, 1024])?);
    /// // The scale is of the steps before, the next one is made of this step's amax.
    /// let (scale, mut amax) = (Tensor::filled(&device, 8.0, &[1])?, Tensor::filled(&device, 0.0, &[1])?);
    /// let mut y = Tensor::<F8E4M3>::zeros(&device, &[512, 4096])?;
    /// ScaledGemm::new().scale_c(&scale.view()).amax(&mut amax.view_mut()).run(
    ///     &stream,
    ///     &x.view(),
    ///     &w.view(),
    ///     &mut y.view_mut(),
    /// )?;
    /// let amax = amax.to_vec_on(&stream)?[0];
    /// let next = if amax > 0.0 { 448.0 / amax } else { 1.0 };
    /// # Ok(())
    /// # }
    /// ```
    pub fn amax(self, amax: &'a mut TensorViewMut<'_, f32>) -> Self {
        ScaledGemm { amax: Some(amax.reborrow()), ..self }
    }
    /// What is added before the activation: \[N\], one value a column, or anything else that broadcasts to C's shape; of C's type, of `bf16` where that is
    /// `F8E4M3`.
    pub fn bias(self, bias: &'a TensorView<'a, U::Bias>) -> Self {
        ScaledGemm { bias: Some(bias), ..self }
    }
    /// What is applied to every element before it is rounded; nothing unless set.
    pub fn activation(self, activation: Activation) -> Self {
        ScaledGemm { activation, ..self }
    }
    /// Whether sums of 8-bit floats may stay in the tensor cores' accumulators, with relative errors of about 2^-13 for each of the products
    /// added to them; not unless set. Of products of int8 it changes nothing.
    pub fn fast_accumulation(self, fast: bool) -> Self {
        ScaledGemm { fast, ..self }
    }
    /// Whether products of f32 are nearly those of f32 and not of tf32: A and B of any strides, each as the sum of two numbers of tf32, in three products
    /// (Ootomo & Yokota 2022, "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance"); not unless
    /// set. An error for other types.
    ///
    /// Each product is off by at most 2^-20 of itself, and sums of 32 along K are added up in f32. Parts are written first, to memory that the device keeps or to a plan's
    /// [workspace](ScaledGemmPlan::run_in): 12 bytes for each element of A and B. It pays from some hundred rows and columns on; [`Gemm`](super::Gemm) multiplies f32
    /// as it is.
    pub fn precise(self, precise: bool) -> Self {
        ScaledGemm { precise, ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        ScaledGemm { kernel: Some(name), ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless set.
    /// It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        ScaledGemm { overlap, ..self }
    }

    fn scales(&self) -> [Option<&TensorView<'_, f32>>; 3] {
        [self.scale_a, self.scale_b, self.scale_c]
    }

    fn kind<A: ScaledInput<B>, B: Element>(&self, problem: &Problem) -> Kind {
        let input = if problem.split.is_some() { table::SPLIT } else { A::NAME };
        Kind { input, output: U::DTYPE.name(), blocks: problem.blocks.is_some(), fast: self.fast }
    }

    /// Every compiled kernel for these types and scales, the best by estimate first, with the reason for those that cannot compute this
    /// product.
    pub fn candidates<A: ScaledInput<B>, B: Element>(
        &self,
        a: &TensorView<'_, A>,
        b: &TensorView<'_, B>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Vec<ScaledGemmCandidate>> {
        let problem = Problem::new(self, a, b, c)?;
        Ok(Selection::new(&problem, self.kind::<A, B>(&problem))?.candidates())
    }

    /// A plan for matrices of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. All tensors may
    /// be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<A: ScaledInput<B>, B: Element>(
        &self,
        a: &TensorView<'_, A>,
        b: &TensorView<'_, B>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<ScaledGemmPlan> {
        ScaledGemmPlan::new(self, a, b, c)
    }

    /// Queues the product on `stream`: [`plan`](Self::plan), and [`ScaledGemmPlan::run`].
    ///
    /// Fails when the views do not fit together, rows of A and B that are not split are no multiples of 16 bytes, rows of A or B are not aligned, views lie on another device, C or
    /// [`amax`](Self::amax) overlaps another, or no kernel runs on the device; the error names the argument.
    pub fn run<A: ScaledInput<B>, B: Element>(
        &self,
        stream: &Stream,
        a: &TensorView<'_, A>,
        b: &TensorView<'_, B>,
        c: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        let tensors = plan::named(a, b, c, self.scales(), self.bias, self.amax.as_ref());
        self.plan(a, b, c)?.queue(stream, tensors)
    }
}
