//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{Conv, ConvCandidate, ConvGradient, FloatElement};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::timing::sets;

use crate::case::{Case, Pass};
use crate::pool::{Pool, Pools, aligned};

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// The name of the kernel that computes it; of several products, of the first.
    fn kernel(&self) -> Result<&'static str>;
    /// Every kernel for it, the best by the operator's estimate first.
    fn candidates(&self) -> Result<Vec<ConvCandidate>>;
    /// Queues it, by the kernel of this name or the operator's choice.
    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()>;
    /// Computes it into an output that was not a number: all of it must be written. Against references in f64 the tests compare.
    fn check(&self, stream: &Stream) -> tilewright_support::Result<()>;
}

/// The tensors of all cases.
pub struct Tensors<'a> {
    device: &'a Device,
    pools: Pools<'a>,
}

/// Elements of one set, in memory.
fn elements(case: &Case) -> [usize; 3] {
    aligned(case.operands().map(|shape| shape.iter().product()))
}

impl<'a> Tensors<'a> {
    pub fn new(device: &'a Device, cases: &[Case]) -> Self {
        let needs = |case: &Case| {
            let ([a, b, c], sets) = (elements(case), sets(device, case.bytes()));
            (case.dtype, [sets * (a + b), sets * c])
        };
        Self { device, pools: Pools::new(device, cases.iter().map(needs)) }
    }

    /// One of the cases, ready to be computed.
    pub fn problem(&self, case: Case) -> Result<Box<dyn Problem + '_>> {
        Ok(match case.dtype {
            DType::F16 => Box::new(InPool::new(self.device, self.pools.of::<f16>()?, case)?),
            _ => Box::new(InPool::new(self.device, self.pools.of::<bf16>()?, case)?),
        })
    }
}

/// A case whose tensors lie in a pool.
struct InPool<'p, T> {
    pool: &'p Pool<T>,
    case: Case,
    sets: usize,
    /// For parts of filters' gradients: a graph is captured without allocations.
    workspace: RefCell<Tensor<f32>>,
}

impl<'p, T: Real + FloatElement> InPool<'p, T> {
    fn new(device: &Device, pool: &'p Pool<T>, case: Case) -> Result<Self> {
        let (sets, none) = (sets(device, case.bytes()), Tensor::zeros(device, &[0])?);
        let mut problem = InPool { pool, case, sets, workspace: RefCell::new(none) };
        if case.pass == Pass::Filters {
            let [x, dy] = problem.inputs(0)?;
            // As much as any kernel takes that can compute it.
            let mut most = 0;
            for kernel in problem.candidates()?.iter().filter(|kernel| kernel.rejection().is_none()) {
                let gradient = problem.gradient().kernel(kernel.name());
                most = most.max(problem.with_output(0, |dw| gradient.workspace_len(&x, &dy, &dw))?);
            }
            problem.workspace = RefCell::new(Tensor::zeros(device, &[most])?);
        }
        Ok(problem)
    }

    fn inputs(&self, set: usize) -> Result<[TensorView<'_, T>; 2]> {
        let ([a, b, _], [of_a, of_b, _]) = (elements(&self.case), self.case.operands());
        let start = set * (a + b);
        Ok([self.pool.input(start, &of_a)?, self.pool.input(start + a, &of_b)?])
    }

    fn with_output<R>(&self, set: usize, f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>) -> Result<R> {
        self.pool.with_output(set * elements(&self.case)[2], &self.case.operands()[2], f)
    }

    fn conv(&self) -> Conv<'_, T> {
        let Case { stride, groups, planes, .. } = self.case;
        let (padding, conv) = (self.case.padding(), Conv::new().groups(groups));
        match planes {
            Some(_) => conv.stride([stride; 3]).padding([padding; 3]),
            None => conv.stride([stride; 2]).padding([padding; 2]),
        }
    }

    fn gradient<'a>(&self) -> ConvGradient<'a> {
        let Case { stride, groups, planes, .. } = self.case;
        let (padding, gradient) = (self.case.padding(), ConvGradient::new().groups(groups));
        match planes {
            Some(_) => gradient.stride([stride; 3]).padding([padding; 3]),
            None => gradient.stride([stride; 2]).padding([padding; 2]),
        }
    }
}

impl<T: Real + FloatElement> Problem for InPool<'_, T> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sets
    }

    fn kernel(&self) -> Result<&'static str> {
        let [a, b] = self.inputs(0)?;
        self.with_output(0, |c| {
            Ok(match self.case.pass {
                Pass::Outputs => self.conv().plan(&a, &b, &c)?.name(),
                Pass::Images => self
                    .gradient()
                    .images_plan(&a, &b, &c)?
                    .kernels()
                    .first()
                    .map_or("", |plan| plan.kernel().name()),
                Pass::Filters => self.gradient().filters_plan(&a, &b, &c)?.kernel().name(),
            })
        })
    }

    fn candidates(&self) -> Result<Vec<ConvCandidate>> {
        let [a, b] = self.inputs(0)?;
        self.with_output(0, |c| match self.case.pass {
            Pass::Outputs => self.conv().candidates(&a, &b, &c),
            Pass::Images => self.gradient().images_candidates(&a, &b, &c),
            Pass::Filters => self.gradient().filters_candidates(&a, &b, &c),
        })
    }

    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        let [a, b] = self.inputs(set)?;
        self.with_output(set, |mut c| {
            let mut workspace = self.workspace.borrow_mut();
            let mut workspace = workspace.view_mut();
            match self.case.pass {
                Pass::Outputs => {
                    kernel.into_iter().fold(self.conv(), Conv::kernel).run(stream, &a, &b, &mut c)
                }
                Pass::Images => kernel
                    .into_iter()
                    .fold(self.gradient(), ConvGradient::kernel)
                    .images(stream, &a, &b, &mut c),
                Pass::Filters => {
                    let gradient = kernel.into_iter().fold(self.gradient(), ConvGradient::kernel);
                    let gradient =
                        if workspace.is_empty() { gradient } else { gradient.workspace(&mut workspace) };
                    let mut gradient = gradient;
                    gradient.filters(stream, &a, &b, &mut c)
                }
            }
        })
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.with_output(0, |mut c| c.fill(stream, T::POISON))?;
        self.launch(stream, 0, None)?;
        let c = T::widen(&self.with_output(0, |c| c.to_vec_on(stream))?);
        match c.iter().filter(|x| x.is_nan()).count() {
            0 => Ok(()),
            unwritten => Err(format!("{}: {unwritten} elements are NaN", self.case).into()),
        }
    }
}
