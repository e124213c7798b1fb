//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{
    CrossEntropy, FloatElement, Norm, NormGradient, NormGradientViews, NormViews, Softmax,
};
use tilewright::{DType, Device, Result, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::timing::sets;
use tilewright_support::{Real, rows};

use crate::case::{Case, Op};
use crate::copies::{Problem, Random};

/// Of norms.
const EPSILON: f32 = 1e-5;

/// How a case is launched.
#[derive(Clone, Copy)]
pub struct By<'a> {
    /// The name of the kernel, if not the one that is chosen.
    pub kernel: Option<&'a str>,
    /// Whether it may start while the preceding grid runs.
    pub overlap: bool,
}

impl By<'_> {
    /// By the kernel that is chosen, as users have it.
    pub const CHOSEN: Self = By { kernel: None, overlap: true };
}

/// What queues a case on the tensors of this set.
pub type Queue<'a> = dyn Fn(&Stream, usize) -> Result<()> + 'a;

/// A case that several kernels can compute.
pub trait ByKernel: Problem {
    /// The kernels that can compute it with what they are estimated to take, the one that is chosen first.
    fn kernels(&self) -> Result<Vec<(&'static str, u64)>>;
    /// What queues it by a plan that is made here once.
    fn planned(&self) -> Result<Box<Queue<'_>>>;
    /// Queues it so.
    fn launch_by(&self, stream: &Stream, set: usize, by: By<'_>) -> Result<()>;
    /// As [`Problem::check`], launched so.
    fn check_by(&self, stream: &Stream, by: By<'_>) -> tilewright_support::Result<()>;
}

/// A case, ready to be computed.
pub fn problem<'d>(device: &'d Device, case: Case) -> Result<Box<dyn ByKernel + 'd>> {
    Ok(match case.dtype {
        DType::F16 => Box::new(Sets::<f16>::new(device, case)?),
        DType::BF16 => Box::new(Sets::<bf16>::new(device, case)?),
        _ => Box::new(Sets::<f32>::new(device, case)?),
    })
}

/// The label of a row.
fn label(case: &Case, row: usize) -> usize {
    row * 7919 % case.cols
}

struct Set<T> {
    /// Or a softmax, of which the gradient is computed.
    x: Tensor<T>,
    /// Or the gradient by y, or the mask.
    residual: Tensor<T>,
    sum: RefCell<Tensor<T>>,
    y: RefCell<Tensor<T>>,
}

struct Sets<T> {
    case: Case,
    weight: Tensor<T>,
    bias: Tensor<T>,
    labels: Tensor<i32>,
    loss: RefCell<Tensor<f32>>,
    d_weight: RefCell<Tensor<T>>,
    d_bias: RefCell<Tensor<T>>,
    workspace: RefCell<Tensor<f32>>,
    sets: Vec<Set<T>>,
}

impl<T: Real + FloatElement> Sets<T> {
    fn new(device: &Device, case: Case) -> Result<Self> {
        let (shape, count) = ([case.rows, case.cols], sets(device, case.bytes()));
        let unless = |unused: bool| if unused { [0, case.cols] } else { shape };
        let [read, written] = case.tensors();
        let (data, stream) = (Random::<T>::new(device, case.elements())?, device.default_stream());
        let random = |shape: [usize; 2]| data.tensor(&stream, &shape);
        let set = |_| -> Result<_> {
            let (mut x, mut y) = (random(shape)?, Tensor::uninit(device, &shape)?);
            if case.op == Op::SoftmaxGradient {
                Softmax::new().run(&stream, &x.view(), &mut y.view_mut())?;
                x.copy_from(&stream, &y)?;
            }
            Ok(Set {
                x,
                residual: random(unless(read < 2))?,
                sum: RefCell::new(Tensor::uninit(device, &unless(written < 2))?),
                y: RefCell::new(y),
            })
        };
        let sets = (0..count).map(set).collect::<Result<Vec<_>>>()?;
        stream.synchronize()?;
        let [weight, bias] = [2, 3].map(|seed| normal::<T>(seed, case.cols));
        let vector = |data: &[T]| Tensor::from_slice(device, data, &[case.cols]);
        let labels: Vec<i32> = (0..case.rows).map(|row| label(&case, row) as i32).collect();
        let labels = Tensor::from_slice(device, &labels, &[case.rows])?;
        let loss = RefCell::new(Tensor::uninit(device, &[case.rows])?);
        let (weight, bias) = (vector(&weight)?, vector(&bias)?);
        let gradient = || Ok::<_, tilewright::Error>(RefCell::new(Tensor::uninit(device, &[case.cols])?));
        let (d_weight, d_bias) = (gradient()?, gradient()?);
        let workspace = RefCell::new(Tensor::uninit(device, &[0])?);
        let sets = Sets { case, weight, bias, labels, loss, d_weight, d_bias, workspace, sets };
        let len = sets.workspace_len()?;
        *sets.workspace.borrow_mut() = Tensor::uninit(device, &[len])?;
        Ok(sets)
    }

    fn softmax<'k>(&self, by: By<'k>) -> Softmax<'k> {
        let softmax = by.kernel.into_iter().fold(Softmax::new().overlap(by.overlap), Softmax::kernel);
        if self.case.op == Op::LogSoftmax { softmax.log() } else { softmax }
    }

    /// Gives the norm to `run`, with its weight and bias.
    fn norm<R>(&self, by: By<'_>, run: impl FnOnce(&Norm<'_, T>) -> R) -> R {
        let (weight, bias) = (self.weight.view(), self.bias.view());
        let norm = match self.case.op {
            Op::LayerNorm | Op::LayerNormGradient => Norm::layer().bias(&bias),
            _ => Norm::rms(),
        };
        let norm = norm.weight(&weight).epsilon(EPSILON).overlap(by.overlap);
        run(&by.kernel.into_iter().fold(norm, Norm::kernel))
    }

    /// Gives the norm's gradient to `run`.
    fn gradient<R>(&self, by: By<'_>, run: impl FnOnce(&mut NormGradient<'_, T>) -> R) -> R {
        let (mut d_weight, mut d_bias) = (self.d_weight.borrow_mut(), self.d_bias.borrow_mut());
        let (mut d_weight, mut d_bias) = (d_weight.view_mut(), d_bias.view_mut());
        let mut workspace = self.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        self.norm(By { kernel: None, ..by }, |norm| {
            let gradient = norm.gradient().d_weight(&mut d_weight).workspace(&mut workspace);
            let gradient = match self.case.op {
                Op::LayerNormGradient => gradient.d_bias(&mut d_bias),
                _ => gradient,
            };
            run(&mut by.kernel.into_iter().fold(gradient, |gradient, name| gradient.kernel(name)))
        })
    }

    /// What queues a case by what runs it on a set.
    fn queue<'a>(&'a self, run: impl Fn(&Stream, &Set<T>) -> Result<()> + 'a) -> Box<Queue<'a>> {
        Box::new(move |stream, set| run(stream, &self.sets[set]))
    }

    /// Room for every kernel of the norm's gradient.
    fn workspace_len(&self) -> Result<usize> {
        if !matches!(self.case.op, Op::RmsNormGradient | Op::LayerNormGradient) {
            return Ok(0);
        }
        let Set { x, residual, y, .. } = &self.sets[0];
        let (x, dy, mut dx) = (x.view(), residual.view(), y.borrow_mut());
        let dx = dx.view_mut();
        let all = self.gradient(By::CHOSEN, |gradient| gradient.candidates(&x, &dy, &dx))?;
        let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
        let lens = possible.map(|kernel| {
            let by = By { kernel: Some(kernel.name()), ..By::CHOSEN };
            self.gradient(by, |gradient| gradient.workspace_len(&x, &dy, &dx))
        });
        // Where a build compiled some kernels alone, the others need none.
        Ok(lens.filter_map(Result::ok).max().unwrap_or(0))
    }

    /// A row of the result, exactly.
    fn exact(&self, row: usize) -> Result<Vec<f64>> {
        let of = |tensor: &Tensor<T>| {
            Ok::<_, tilewright::Error>(T::widen(&tensor.view().select(0, row)?.to_vec()?))
        };
        let x = of(&self.sets[0].x)?;
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (w, zeros) = (T::widen(&self.weight.to_vec()?), vec![0.0; self.case.cols]);
        let epsilon = f64::from(EPSILON);
        let other = || of(&self.sets[0].residual);
        Ok(match self.case.op {
            Op::MaskedSoftmax => {
                let scores = wide(&x).into_iter().zip(other()?).map(|(x, mask)| x + f64::from(mask));
                rows::softmax_of(&scores.collect::<Vec<_>>(), false)
            }
            Op::SoftmaxGradient => rows::softmax_gradient(&x, &other()?, 1.0, false),
            Op::RmsNormGradient => rows::norm_gradient(&wide(&x), [&other()?, &w], epsilon, false).0,
            Op::LayerNormGradient => rows::norm_gradient(&wide(&x), [&other()?, &w], epsilon, true).0,
            Op::Softmax => rows::softmax(&x, 1.0, false),
            Op::LogSoftmax => rows::softmax(&x, 1.0, true),
            Op::RmsNorm => rows::norm(&wide(&x), [&w, &zeros], epsilon, false),
            Op::LayerNorm => rows::norm(&wide(&x), [&w, &T::widen(&self.bias.to_vec()?)], epsilon, true),
            Op::CrossEntropy => rows::cross_entropy(&x, label(&self.case, row), [0.0; 2]).1,
            Op::AddRmsNorm => {
                let s: Vec<f64> = wide(&x).iter().zip(wide(&other()?)).map(|(x, r)| x + r).collect();
                rows::norm(&s, [&w, &zeros], epsilon, false)
            }
        })
    }
}

impl<T: Real + FloatElement> Problem for Sets<T> {
    fn case(&self) -> String {
        self.case.to_string()
    }

    fn bytes(&self) -> usize {
        self.case.bytes()
    }

    fn sets(&self) -> usize {
        self.sets.len()
    }

    fn kernel(&self) -> Result<&'static str> {
        Ok(self.kernels()?.first().map_or("none", |&(name, _)| name))
    }

    fn launch(&self, stream: &Stream, set: usize) -> Result<()> {
        self.launch_by(stream, set, By::CHOSEN)
    }

    fn copy(&self, stream: &Stream, set: usize) -> Result<()> {
        let Set { x, residual, sum, y } = &self.sets[set];
        if self.case.op == Op::AddRmsNorm {
            sum.borrow_mut().copy_from(stream, residual)?;
        }
        if self.case.tensors() == [2, 1] {
            // Half of the other tensor is read, and as much written.
            let (all, half) = (self.case.elements(), self.case.elements() / 2);
            let from = residual.view().reshape(&[all])?.narrow(0, 0, half)?;
            y.borrow_mut().view_mut().reshape(&[all])?.narrow(0, 0, half)?.copy_from(stream, &from)?;
        }
        y.borrow_mut().copy_from(stream, x)
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.check_by(stream, By::CHOSEN)
    }
}

impl<T: Real + FloatElement> ByKernel for Sets<T> {
    fn kernels(&self) -> Result<Vec<(&'static str, u64)>> {
        let Set { x, residual, sum, y } = &self.sets[0];
        let (x, r) = (x.view(), residual.view());
        let (mut sum, mut y) = (sum.borrow_mut(), y.borrow_mut());
        let (sum, y) = (sum.view_mut(), y.view_mut());
        let all = match self.case.op {
            Op::Softmax | Op::LogSoftmax => self.softmax(By::CHOSEN).candidates(&x, &y)?,
            Op::MaskedSoftmax => Softmax::new().mask(&r).candidates(&x, &y)?,
            Op::SoftmaxGradient => Softmax::new().candidates_gradient(&x, &r, &y)?,
            Op::AddRmsNorm => self.norm(By::CHOSEN, |norm| norm.candidates_added(&x, &r, &sum, &y))?,
            Op::RmsNormGradient | Op::LayerNormGradient => {
                self.gradient(By::CHOSEN, |gradient| gradient.candidates(&x, &r, &y))?
            }
            Op::CrossEntropy => {
                let mut loss = self.loss.borrow_mut();
                CrossEntropy::new().candidates(&x, &self.labels.view(), &loss.view_mut(), &y)?
            }
            _ => self.norm(By::CHOSEN, |norm| norm.candidates(&x, &y))?,
        };
        Ok(all.iter().filter_map(|k| Some((k.name(), k.cycles()?))).collect())
    }

    fn planned(&self) -> Result<Box<Queue<'_>>> {
        let Set { x, residual, sum, y } = &self.sets[0];
        let (x, r, mut sum, mut y) = (x.view(), residual.view(), sum.borrow_mut(), y.borrow_mut());
        let (sum, y) = (sum.view_mut(), y.view_mut());
        let centred = matches!(self.case.op, Op::LayerNorm | Op::LayerNormGradient);
        let vectors =
            move || NormViews { weight: Some(self.weight.view()), bias: centred.then(|| self.bias.view()) };
        Ok(match self.case.op {
            Op::Softmax | Op::LogSoftmax => {
                let plan = self.softmax(By::CHOSEN).plan(&x, &y)?;
                self.queue(move |stream, Set { x, y, .. }| {
                    plan.run(stream, &x.view(), &mut y.borrow_mut().view_mut())
                })
            }
            Op::MaskedSoftmax => {
                let plan = Softmax::new().mask(&r).plan(&x, &y)?;
                self.queue(move |stream, Set { x, residual, y, .. }| {
                    plan.run_masked(stream, &x.view(), &residual.view(), &mut y.borrow_mut().view_mut())
                })
            }
            Op::SoftmaxGradient => {
                let plan = Softmax::new().plan_gradient(&x, &r, &y)?;
                self.queue(move |stream, Set { x, residual, y, .. }| {
                    plan.run(stream, &x.view(), &residual.view(), &mut y.borrow_mut().view_mut())
                })
            }
            Op::RmsNormGradient | Op::LayerNormGradient => {
                let plan = self.gradient(By::CHOSEN, |gradient| gradient.plan(&x, &r, &y))?;
                self.queue(move |stream, Set { x, residual, y, .. }| {
                    let (mut d_weight, mut d_bias) = (self.d_weight.borrow_mut(), self.d_bias.borrow_mut());
                    let mut workspace = self.workspace.borrow_mut();
                    let mut views = NormGradientViews {
                        weight: Some(self.weight.view()),
                        d_weight: Some(d_weight.view_mut()),
                        d_bias: centred.then(|| d_bias.view_mut()),
                        workspace: Some(workspace.view_mut()),
                        ..NormGradientViews::default()
                    };
                    let (x, dy, mut dx) = (x.view(), residual.view(), y.borrow_mut());
                    plan.run(stream, &x, &dy, &mut dx.view_mut(), &mut views)
                })
            }
            Op::AddRmsNorm => {
                let plan = self.norm(By::CHOSEN, |norm| norm.plan_added(&x, &r, &sum, &y))?;
                self.queue(move |stream, Set { x, residual, sum, y }| {
                    let (mut sum, mut y) = (sum.borrow_mut(), y.borrow_mut());
                    let (mut sum, mut y) = (sum.view_mut(), y.view_mut());
                    plan.run_added(stream, &x.view(), &residual.view(), &mut sum, &mut y, &vectors())
                })
            }
            Op::CrossEntropy => {
                let mut loss = self.loss.borrow_mut();
                let plan = CrossEntropy::new().plan(&x, &self.labels.view(), &loss.view_mut(), &y)?;
                self.queue(move |stream, Set { x, y, .. }| {
                    let (mut loss, mut y) = (self.loss.borrow_mut(), y.borrow_mut());
                    let (labels, mut loss, mut y) = (self.labels.view(), loss.view_mut(), y.view_mut());
                    plan.run(stream, &x.view(), &labels, &mut loss, Some(&mut y))
                })
            }
            Op::RmsNorm | Op::LayerNorm => {
                let plan = self.norm(By::CHOSEN, |norm| norm.plan(&x, &y))?;
                self.queue(move |stream, Set { x, y, .. }| {
                    plan.run(stream, &x.view(), &mut y.borrow_mut().view_mut(), &vectors())
                })
            }
        })
    }

    fn launch_by(&self, stream: &Stream, set: usize, by: By<'_>) -> Result<()> {
        let Set { x, residual, sum, y } = &self.sets[set];
        let (x, r, mut sum, mut y) = (x.view(), residual.view(), sum.borrow_mut(), y.borrow_mut());
        let (mut sum, mut y) = (sum.view_mut(), y.view_mut());
        match self.case.op {
            Op::Softmax | Op::LogSoftmax => self.softmax(by).run(stream, &x, &mut y),
            Op::MaskedSoftmax => self.softmax(by).mask(&r).run(stream, &x, &mut y),
            Op::SoftmaxGradient => self.softmax(by).run_gradient(stream, &x, &r, &mut y),
            Op::RmsNormGradient | Op::LayerNormGradient => {
                self.gradient(by, |gradient| gradient.run(stream, &x, &r, &mut y))
            }
            Op::AddRmsNorm => self.norm(by, |norm| norm.run_added(stream, &x, &r, &mut sum, &mut y)),
            Op::CrossEntropy => {
                let mut loss = self.loss.borrow_mut();
                let options = CrossEntropy::new().overlap(by.overlap);
                let options = by.kernel.into_iter().fold(options, CrossEntropy::kernel);
                options.run_with_gradient(stream, &x, &self.labels.view(), &mut loss.view_mut(), &mut y)
            }
            _ => self.norm(by, |norm| norm.run(stream, &x, &mut y)),
        }
    }

    fn check_by(&self, stream: &Stream, by: By<'_>) -> tilewright_support::Result<()> {
        let y = &self.sets[0].y;
        y.borrow_mut().fill(stream, T::POISON)?;
        self.launch_by(stream, 0, by)?;
        for row in [0, self.case.rows - 1] {
            let is = y.borrow().view().select(0, row)?.to_vec_on(stream)?;
            let [error, allowed] = rows::error(&is, &self.exact(row)?);
            if error.is_nan() || error > allowed {
                return Err(
                    format!("{}, {:?}: the error of row {row} is {error:.1e}", self.case, by.kernel).into()
                );
            }
        }
        Ok(())
    }
}
