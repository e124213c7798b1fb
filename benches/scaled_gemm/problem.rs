//! Cases with their matrices on a device.

use std::cell::RefCell;

use tilewright::ops::{ScaledGemm, ScaledGemmCandidate, ScaledGemmViews, ScaledInput, ScaledOutput};
use tilewright::{Device, Element, F8E4M3, F8E5M2, Result, Stream, Tensor, TensorView, bf16};
use tilewright_support::random::normal;
use tilewright_support::timing::sets;

use crate::case::{Case, Kind};

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets of inputs; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// Every kernel for this case, the best by the operator's estimate first.
    fn candidates(&self) -> Result<Vec<ScaledGemmCandidate>>;
    /// Queues the product, by the kernel of this name or the operator's choice.
    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()>;
}

/// The case, ready to be computed.
pub fn problem(device: &Device, case: Case) -> Result<Box<dyn Problem>> {
    Ok(match case.kind {
        Kind::Tensors | Kind::Fast | Kind::Rows | Kind::Blocks => {
            Box::new(Matrices::<F8E4M3, F8E4M3, bf16>::new(device, case, F8E4M3::from_f32, F8E4M3::from_f32)?)
        }
        Kind::Narrow | Kind::NarrowFast | Kind::Amax => Box::new(Matrices::<F8E4M3, F8E4M3, F8E4M3>::new(
            device,
            case,
            F8E4M3::from_f32,
            F8E4M3::from_f32,
        )?),
        Kind::Gradients => {
            Box::new(Matrices::<F8E5M2, F8E4M3, bf16>::new(device, case, F8E5M2::from_f32, F8E4M3::from_f32)?)
        }
        Kind::Sums => Box::new(Matrices::<i8, i8, i32>::new(device, case, integer, integer)?),
        Kind::Integers => Box::new(Matrices::<i8, i8, bf16>::new(device, case, integer, integer)?),
        Kind::Tf32 | Kind::Precise => {
            Box::new(Matrices::<f32, f32, f32>::new(device, case, f32::from, f32::from)?)
        }
    })
}

/// Of all values, as random bytes are.
fn integer(x: f32) -> i8 {
    (x * 12345.0) as i32 as i8
}

struct Matrices<A, B, U> {
    case: Case,
    sets: usize,
    a: Tensor<A>,
    b: Tensor<B>,
    c: RefCell<Tensor<U>>,
    scales: Option<[Tensor<f32>; 2]>,
    scale_c: Option<Tensor<f32>>,
    amax: Option<RefCell<Tensor<f32>>>,
    /// For parts of operands.
    workspace: RefCell<Tensor<f32>>,
}

/// So many random matrices, of data that repeats: an odd period keeps them from being equal.
fn random<T: Element>(device: &Device, shape: [usize; 3], of: impl Fn(f32) -> T) -> Result<Tensor<T>> {
    let len = shape.iter().product::<usize>();
    let period: Vec<_> = normal::<f32>(1, len.min((1 << 22) - 77)).into_iter().map(of).collect();
    let period = Tensor::from_slice(device, &period, &[period.len()])?;
    let mut all = Tensor::uninit(device, &[len])?;
    let stream = device.default_stream();
    for start in (0..len).step_by(period.len()) {
        let count = period.len().min(len - start);
        let mut part = all.view_mut().narrow(0, start, count)?;
        part.copy_from(&stream, &period.view().narrow(0, 0, count)?)?;
    }
    stream.synchronize()?;
    all.reshape(&shape)
}

impl<A: ScaledInput<B>, B: Element, U: ScaledOutput> Matrices<A, B, U> {
    fn new(device: &Device, case: Case, of_a: fn(f32) -> A, of_b: fn(f32) -> B) -> Result<Self> {
        let Case { kind, m, n, k } = case;
        let sets = sets(device, case.bytes());
        // Lines of parts are rounded up to 32 elements.
        // Those of a product of f32, or as many sums as a device's CTAs have.
        let parts = if kind == Kind::Precise { 3 * (m + n) * k.next_multiple_of(32) } else { 1 << 23 };
        let scales = |of_a: &[usize], of_b: &[usize]| {
            Ok::<_, tilewright::Error>(Some([
                Tensor::filled(device, 1.0, of_a)?,
                Tensor::filled(device, 1.0, of_b)?,
            ]))
        };
        Ok(Matrices {
            case,
            sets,
            // Few numbers saturate, as in training.
            scale_c: match kind {
                Kind::Narrow | Kind::NarrowFast | Kind::Amax => {
                    Some(Tensor::filled(device, 0.5 * 448.0 / (8.0 * (k as f32).sqrt()), &[1])?)
                }
                _ => None,
            },
            amax: match kind {
                Kind::Amax => Some(RefCell::new(Tensor::filled(device, 0.0, &[1])?)),
                _ => None,
            },
            a: random(device, [sets, m, k], of_a)?,
            b: random(device, [sets, n, k], of_b)?,
            c: RefCell::new(Tensor::uninit(device, &[sets, m, n])?),
            workspace: RefCell::new(Tensor::uninit(device, &[parts])?),
            scales: match kind {
                Kind::Sums | Kind::Tf32 | Kind::Precise => None,
                Kind::Tensors
                | Kind::Fast
                | Kind::Narrow
                | Kind::NarrowFast
                | Kind::Amax
                | Kind::Gradients => scales(&[1], &[1])?,
                Kind::Rows | Kind::Integers => scales(&[m], &[n])?,
                Kind::Blocks => scales(&[m, k.div_ceil(128)], &[n.div_ceil(128), k.div_ceil(128)])?,
            },
        })
    }

    fn with<R>(&self, kernel: Option<&str>, f: impl FnOnce(ScaledGemm<'_, U>) -> Result<R>) -> Result<R> {
        let views: Option<[TensorView<'_, f32>; 2]> =
            self.scales.as_ref().map(|scales| scales.each_ref().map(Tensor::view));
        let kind = self.case.kind;
        let fast = matches!(kind, Kind::Fast | Kind::NarrowFast);
        let scale_c = self.scale_c.as_ref().map(Tensor::view);
        let mut amax = self.amax.as_ref().map(RefCell::borrow_mut);
        let mut amax = amax.as_mut().map(|amax| amax.view_mut());
        let mut gemm = ScaledGemm::new().fast_accumulation(fast).precise(kind == Kind::Precise);
        if let Some(scale) = &scale_c {
            gemm = gemm.scale_c(scale);
        }
        if let Some(amax) = &mut amax {
            gemm = gemm.amax(amax);
        }
        if let Some([of_a, of_b]) = &views {
            gemm = gemm.scale_a(of_a).scale_b(of_b);
        }
        if let Some(name) = kernel {
            gemm = gemm.kernel(name);
        }
        f(gemm)
    }
}

impl<A: ScaledInput<B>, B: Element, U: ScaledOutput> Problem for Matrices<A, B, U> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sets
    }

    fn candidates(&self) -> Result<Vec<ScaledGemmCandidate>> {
        let (a, b, mut c) = (self.a.view().select(0, 0)?, self.b.view().select(0, 0)?, self.c.borrow_mut());
        let c = c.view_mut().select(0, 0)?;
        self.with(None, |gemm| gemm.candidates(&a, &b, &c))
    }

    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        let (a, b, mut c) =
            (self.a.view().select(0, set)?, self.b.view().select(0, set)?, self.c.borrow_mut());
        let mut c = c.view_mut().select(0, set)?;
        let plan = self.with(kernel, |gemm| gemm.plan(&a, &b, &c))?;
        let (mut amax, mut room) = (self.amax.as_ref().map(RefCell::borrow_mut), self.workspace.borrow_mut());
        let scale = |i: usize| self.scales.as_ref().map(|scales| scales[i].view());
        let views = ScaledGemmViews {
            scale_a: scale(0),
            scale_b: scale(1),
            scale_c: self.scale_c.as_ref().map(Tensor::view),
            amax: amax.as_mut().map(|amax| amax.view_mut()),
            bias: None,
        };
        // Graphs capture it.
        plan.run_in(stream, &a, &b, &mut c, &views, &mut room.view_mut())
    }
}
