//! The table: narrow weights beside cuBLAS with dense ones.

use std::fmt;

use tilewright::{DType, Device, Stream, Tensor, f16};
use tilewright_support::Result;
use tilewright_support::cublas::{CublasLt, Gemm};
use tilewright_support::random::normal;
use tilewright_support::timing::{Options, Timing, Variant, compare, sets};

use crate::case::Case;
use crate::problem::Problem;

/// A case's line.
pub struct Row {
    case: Case,
    kernel: &'static str,
    bytes: f64,
    ours: Timing,
    dense: Option<Timing>,
}

/// The table's first lines.
pub fn heading(with_peer: bool) -> &'static str {
    match with_peer {
        true => {
            "| case | kernel | µs | TFLOP/s | GB/s | cuBLAS dense f16, µs | of cuBLAS |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: |"
        }
        false => "| case | kernel | µs | TFLOP/s | GB/s |\n| --- | --- | ---: | ---: | ---: |",
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.ours.median();
        let (rate, bandwidth) = (self.case.flops() / ms / 1e9, self.bytes / ms / 1e6);
        write!(f, "| {} | `{}` | {:.1} | {rate:.0} | {bandwidth:.0} |", self.case, self.kernel, ms * 1e3)?;
        let Some(dense) = &self.dense else { return Ok(()) };
        let dense = dense.median();
        write!(f, " {:.1} | **{:.2}** |", dense * 1e3, dense / ms)
    }
}

impl Row {
    /// How far apart the quartiles of the measurements lie, as a share of the median.
    pub fn spread(&self) -> f64 {
        (self.ours.quantile(0.75) - self.ours.quantile(0.25)) / self.ours.median()
    }

    /// Measures a case with the options for so many sets of inputs.
    pub fn measure(
        device: &Device,
        library: Option<&CublasLt>,
        case: Case,
        options: fn(usize) -> Options,
    ) -> Result<Self> {
        let problem = Problem::new(device, case)?;
        problem.check(&Stream::new(device)?)?;
        let dense = library.map(|library| Dense::new(device, library, &case)).transpose()?;
        let ours = |stream: &Stream, set: usize| problem.launch(stream, set % problem.sets());
        let mut variants = vec![Variant::new("tilewright", ours)];
        if let Some(dense) = &dense {
            variants.push(Variant::new("cuBLAS", |stream: &Stream, set| dense.launch(stream, set)));
        }
        let copies = problem.sets().max(dense.as_ref().map_or(0, |dense| dense.weights.len()));
        let mut timings = compare(device, &variants, &options(copies))?.into_iter();
        let ours = timings.next().ok_or("nothing was measured")?;
        let kernel = problem.plan()?.kernel().name();
        Ok(Self { case: *problem.case(), kernel, bytes: problem.bytes(), ours, dense: timings.next() })
    }
}

/// cuBLAS's own choice for the product with weights of f16, of which there are several copies.
struct Dense<'a> {
    plan: tilewright_support::cublas::Plan<'a>,
    a: Tensor<f16>,
    weights: Vec<Tensor<f16>>,
    c: Tensor<f16>,
}

impl<'a> Dense<'a> {
    fn new(device: &Device, library: &'a CublasLt, case: &Case) -> Result<Self> {
        let [m, n, k] = case.size;
        let (input, output, a_transposed, b_transposed) = (DType::F16, DType::F16, false, true);
        let asked = Gemm { input, output, m, n, k, a_transposed, b_transposed, batch: 1 };
        let few = normal::<f16>(3, 1 << 18);
        let dense: Vec<f16> = few.iter().cycle().take(n * k).copied().collect();
        let copies = sets(device, 2 * n * k).min(8);
        Ok(Self {
            plan: library.plan(&asked, 1)?,
            a: Tensor::from_slice(device, &normal::<f16>(2, m * k), &[m, k])?,
            weights: (0..copies)
                .map(|_| Tensor::from_slice(device, &dense, &[n, k]))
                .collect::<tilewright::Result<_>>()?,
            c: Tensor::uninit(device, &[m, n])?,
        })
    }

    fn launch(&self, stream: &Stream, set: usize) -> tilewright::Result<()> {
        let b = self.weights[set % self.weights.len()].address();
        // SAFETY: the matrices are as was asked of cuBLAS, and one computation runs at a time.
        unsafe { self.plan.run(stream, 0, self.a.address(), b, self.c.address()) }
    }
}
