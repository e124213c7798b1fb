//! Conversions of element types.

use tilewright_pointwise::Operation;

use super::elementwise::Problem;
use super::frame::Choice;
use super::pointwise::{Options, PointwiseCandidate, PointwisePlan};
use super::transpose::Transpose;
use crate::{Element, F8E4M3, F8E5M2, Result, Stream, TensorView, TensorViewMut, bf16, f16};

/// Element types that are converted: `f16`, `bf16`, `f32`, `F8E4M3`, `F8E5M2`, `i8`, `u8` and `i32`.
pub trait CastElement: Element + sealed::Cast {}

mod sealed {
    pub trait Cast {}
}

macro_rules! types {
    ($($t:ty)*) => { $( impl sealed::Cast for $t {} impl CastElement for $t {} )* };
}
types!(f16 bf16 f32 F8E4M3 F8E5M2 i8 u8 i32);

/// y = x in y's element type: see [`Cast`].
pub fn cast<T: CastElement, U: CastElement>(
    stream: &Stream,
    x: &TensorView<'_, T>,
    y: &mut TensorViewMut<'_, U>,
) -> Result<()> {
    Cast::new().run(stream, x, y)
}

/// y = x in y's element type.
///
/// - y has 0 to 5 dimensions; x has its shape or is stretched to it: dimensions of size 1, and missing leading ones, repeat. Any strides.
/// - f16, bf16, f32, e4m3, e5m2, i8, u8 and i32, each to each. Rounded to nearest, of two to the even one.
/// - To f16, bf16 and f32: what is beyond the largest number becomes infinite, infinities and NaN stay.
/// - To e4m3 and e5m2: what is beyond ±448 and ±57344 becomes that, infinities too (saturation, as of PTX's `cvt.satfinite`); NaN stays. PyTorch's
///   `to` gives NaN and infinities in place of that.
/// - To integers: what is beyond the least or the largest becomes that (saturation), NaN becomes 0.
/// - Integers are taken as f32, in which i32 from 2²⁴ on are rounded. One type to itself is a copy, bit by bit.
/// - No elements: nothing is done. A launch takes up to 2³¹ - 2¹⁶ pieces: 16 bytes each, or single elements where tensors do not lie so.
/// - Tensors that are aligned to 16 bytes, with rows that begin at multiples of that or lie one behind the other, are taken in vectors, unless
///   both have elements of one byte; all others are correct but slower.
///
/// A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). The same call gives the same bits.
///
/// ```
/// use tilewright::ops::cast;
/// use tilewright::{Device, Tensor, f16};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.5, 1e6, f32::NAN, -300.0], &[4])?;
/// let (mut y, mut z) = (Tensor::<f16>::zeros(&device, &[4])?, Tensor::<i8>::zeros(&device, &[4])?);
/// cast(&device.default_stream(), &x.view(), &mut y.view_mut())?;
/// cast(&device.default_stream(), &x.view(), &mut z.view_mut())?;
/// let y = y.to_vec()?;
/// assert!(y[0].to_f32() == 1.5 && y[1] == f16::INFINITY && y[2].is_nan() && y[3].to_f32() == -300.0);
/// assert_eq!(z.to_vec()?, [2, 127, 0, -128]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cast<'a> {
    options: Options<'a>,
}

impl Default for Cast<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Cast<'a> {
    /// y = x.
    pub fn new() -> Self {
        Cast { options: Options::DEFAULT }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        Cast { options: Options { kernel: Some(name), ..self.options } }
    }
    /// Whether the kernel may start while the preceding grid of the stream still runs (programmatic dependent launch, Hopper); on unless
    /// set. It waits for that one's results before it reads or writes memory.
    pub fn overlap(self, overlap: bool) -> Self {
        Cast { options: Options { overlap, ..self.options } }
    }

    /// Every compiled kernel, the best by estimate first, with the reason for those that cannot compute this.
    pub fn candidates<T: CastElement, U: CastElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
    ) -> Result<Vec<PointwiseCandidate>> {
        if T::DTYPE == U::DTYPE {
            return self.copy().candidates_of(x, y);
        }
        Ok(Problem::new([("x", x)], y)?.call().candidates())
    }

    /// The kernel that [`run`](Self::run) would launch, and why.
    pub fn plan<T: CastElement, U: CastElement>(
        &self,
        x: &TensorView<'_, T>,
        y: &TensorViewMut<'_, U>,
    ) -> Result<PointwisePlan> {
        if T::DTYPE == U::DTYPE {
            return self.copy().plan_of(x, y);
        }
        Problem::new([("x", x)], y)?.call().choose(self.options.kernel)
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or y overlaps x.
    pub fn run<T: CastElement, U: CastElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        y: &mut TensorViewMut<'_, U>,
    ) -> Result<()> {
        if T::DTYPE == U::DTYPE {
            return self.copy().queue(stream, x, y);
        }
        Problem::new([("x", x)], y)?.queue(stream, (Operation::Identity, [1.0, -0.0]), self.options)
    }

    /// One type to itself.
    fn copy(&self) -> Transpose<'a> {
        Transpose::with(self.options)
    }
}
