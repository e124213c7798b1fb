//! Functions of single elements.

mod problem;

use tilewright_pointwise::{ElementwiseArgs, Formula, Operation};

pub(super) use problem::Problem;

use super::FloatElement;
use super::frame::Choice;
use super::pointwise::{Options, PointwiseCandidate, PointwisePlan, launch};
use crate::{Result, Stream, TensorView, TensorViewMut};

/// y = f(inputs), element by element: see [`Elementwise`].
pub fn elementwise<T: FloatElement, U: FloatElement, const N: usize>(
    stream: &Stream,
    f: impl Formula<N>,
    inputs: [&TensorView<'_, T>; N],
    y: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    Elementwise::new(f).run(stream, inputs, y)
}

/// y = s f(inputs) + t, element by element, for the functions of [`Unary`](super::Unary), [`Binary`](super::Binary) and
/// [`Ternary`](super::Ternary).
///
/// - y has 0 to 5 dimensions. Each input has its shape or is stretched to it: dimensions of size 1, and missing leading ones, repeat. Each
///   tensor has any strides.
/// - f16, bf16 and f32: the inputs one of them, y the same or another. Computed in f32, rounded once, to nearest even.
/// - Errors in f32, relative to the result y: those of the instructions, a few of the last places, for what is not exact; of the logarithm 3e-7 of
///   y or of 1, of sine and cosine 3e-7 of 1, of the hyperbolic tangent 1.5e-6, of GELU 6e-7 of x, of powers 4e-7 (1 + |b| + |log₂ y|) of y.
///   Results below the normal numbers may be 0.
/// - NaN gives NaN, but for powers of 1 and to 0, which are 1; so do logarithms and roots of negative numbers, sine and cosine of infinities. Maximum and minimum are NaN where one
///   input is. `Select` takes NaN for something else than 0, and does not look at what it does not take.
/// - No elements: nothing is done. A launch takes up to 2³¹ - 2¹⁶ pieces: 16 bytes each, or single elements where tensors do not lie so.
/// - Tensors whose columns are neighbours, or of an input one element, are taken in vectors of 16 bytes from those of y on, wherever their rows begin;
///   fastest where all begin as many elements behind a multiple of 16 bytes as y's. All others are correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
///
/// ```
/// use tilewright::ops::{Binary, Elementwise, Unary, elementwise};
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let stream = device.default_stream();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 4.0, 9.0, 16.0], &[2, 2])?;
/// let b = Tensor::<f32>::from_slice(&device, &[10.0, 20.0], &[2])?;
/// let mut y = Tensor::<f32>::zeros(&device, &[2, 2])?;
/// elementwise(&stream, Binary::Add, [&x.view(), &b.view()], &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [11.0, 24.0, 19.0, 36.0]);
/// Elementwise::new(Unary::Identity).scale(2.0).bias(1.0).run(&stream, [&x.view()], &mut y.view_mut())?;
/// assert_eq!(y.to_vec()?, [3.0, 9.0, 19.0, 33.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Elementwise<'a, const N: usize> {
    operation: Operation,
    /// s and t.
    affine: [f32; 2],
    options: Options<'a>,
}

impl<'a, const N: usize> Elementwise<'a, N> {
    /// y = f(inputs).
    pub fn new(f: impl Formula<N>) -> Self {
        const { assert!(N >= 1 && N <= 3, "functions have one to three inputs") };
        // Minus 0 changes no result, 0 would change minus 0.
        Elementwise { operation: f.operation(), affine: [1.0, -0.0], options: Options::DEFAULT }
    }
    /// s, with which the function is multiplied; 1 unless set.
    pub fn scale(self, scale: f32) -> Self {
        Elementwise { affine: [scale, self.affine[1]], ..self }
    }
    /// t, which is added then, with one rounding for both; nothing unless set.
    pub fn bias(self, bias: f32) -> Self {
        Elementwise { affine: [self.affine[0], bias], ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Elementwise { options: Options { kernel: Some(name), ..self.options }, ..self }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Elementwise { options: Options { overlap, ..self.options }, ..self }
    }

    /// Every compiled kernel, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: FloatElement, U: FloatElement>(
        &self,
        inputs: [&TensorView<'_, T>; N],
        y: &TensorViewMut<'_, U>,
    ) -> Result<Vec<PointwiseCandidate>> {
        Ok(Problem::new(named(inputs), y)?.call().candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: FloatElement, U: FloatElement>(
        &self,
        inputs: [&TensorView<'_, T>; N],
        y: &TensorViewMut<'_, U>,
    ) -> Result<PointwisePlan> {
        Problem::new(named(inputs), y)?.call().choose(self.options.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or y overlaps an input. Errors name a single input x, several a, b and c.
    pub fn run<T: FloatElement, U: FloatElement>(
        &self,
        stream: &Stream,
        inputs: [&TensorView<'_, T>; N],
        y: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        Problem::new(named(inputs), y)?.queue(stream, (self.operation, self.affine), self.options)
    }
}

/// The inputs by their names.
fn named<'v, 'm, T, const N: usize>(
    inputs: [&'v TensorView<'m, T>; N],
) -> [(&'static str, &'v TensorView<'m, T>); N] {
    let names = if N == 1 { ["x"; 3] } else { ["a", "b", "c"] };
    let mut names = names.into_iter();
    inputs.map(|view| (names.next().unwrap_or("c"), view))
}

impl Problem {
    /// Queues s f(inputs) + t.
    pub(super) fn queue(
        &self,
        stream: &Stream,
        (operation, [scale, bias]): (Operation, [f32; 2]),
        options: Options<'_>,
    ) -> Result<()> {
        stream.expect_on(&self.device)?;
        if self.pieces.elements() == 0 {
            return Ok(());
        }
        let kernel = self.call().choose(options.kernel)?.descriptor();
        let order = self.order(kernel.piece)?;
        let (function, grid) = launch(&self.device, kernel, (order.total(), kernel.each), options.overlap)?;
        let how = self.computed(operation as u32, [scale, bias]);
        for number in 0..self.pieces.launches() {
            let [a, b, c, y] = self.pieces.arguments(number);
            let args = ElementwiseArgs { a, b, c, y, order, how };
            // SAFETY: the arguments are those of `elementwise`. The views that they come from are borrowed by the caller, y exclusively; they have
            // the elements that the order counts, in whole pieces that lie as the kernel was chosen by. Programmatic launch only moves what
            // precedes the wait for the preceding grid.
            unsafe { function.launch_block(stream, &grid, &args)? };
        }
        Ok(())
    }
}
