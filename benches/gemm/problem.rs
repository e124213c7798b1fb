//! Cases with their matrices on a device.

use std::cell::RefCell;

use tilewright::ops::{FloatElement, Gemm, GemmCandidate, GemmInput, GemmViews};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::reference::sample;
use tilewright_support::timing::sets;

use crate::case::{Case, Path};
use crate::pool::{Pool, Pools, aligned};

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets of inputs; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// Addresses of A, B and C.
    fn addresses(&self, set: usize) -> Result<[u64; 3]>;
    /// Every kernel for these types, the best by the operator's estimate first.
    fn candidates(&self) -> Result<Vec<GemmCandidate>>;
    /// What computes the product, by the kernel of this name or the operator's choice: the kernel, and whether it is of copies.
    fn way(&self, kernel: Option<&str>) -> Result<String>;
    /// Queues the product, by the kernel of this name or the operator's choice.
    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>, overlap: bool) -> Result<()>;
    /// Makes all of C not a number.
    fn poison(&self, stream: &Stream, set: usize) -> Result<()>;
    /// Some of C's rows, once the work queued on `stream` is done.
    fn some_rows(&self, stream: &Stream, set: usize) -> Result<Vec<f32>>;
}

/// The kernel that a case is computed by, if not by the operator's choice.
pub fn forced(problem: &dyn Problem) -> tilewright_support::Result<Option<&'static str>> {
    if problem.case().path == Path::Chosen {
        return Ok(None);
    }
    let candidates = problem.candidates()?;
    let best = candidates.iter().find(|c| c.cycles().is_some() && c.name().starts_with("gemm_sm_80"));
    let none = || format!("no kernel for {}", problem.case());
    Ok(Some(best.map(GemmCandidate::name).ok_or_else(none)?))
}

/// The matrices of all cases.
pub struct Matrices<'a> {
    device: &'a Device,
    pools: Pools<'a>,
    /// As large as plans want it.
    workspace: RefCell<Option<Tensor<f32>>>,
}

impl<'a> Matrices<'a> {
    pub fn new(device: &'a Device, cases: &[Case]) -> Self {
        let needs = |case: &Case| {
            let Sizes { a, b, c, sets } = Sizes::of(device, case);
            (case.dtype, [sets * (a + b), sets * c])
        };
        let pools = Pools::new(device, cases.iter().map(needs));
        Self { device, pools, workspace: RefCell::default() }
    }

    /// One of the cases, ready to be computed.
    pub fn problem(&self, case: Case) -> Result<Box<dyn Problem + '_>> {
        let (sizes, workspace) = (Sizes::of(self.device, &case), &self.workspace);
        Ok(match case.dtype {
            DType::F16 => Box::new(InPool { pool: self.pools.of::<f16>()?, case, sizes, workspace }),
            DType::F32 => Box::new(InPool { pool: self.pools.of::<f32>()?, case, sizes, workspace }),
            _ => Box::new(InPool { pool: self.pools.of::<bf16>()?, case, sizes, workspace }),
        })
    }
}

fn by<U: FloatElement>(kernel: Option<&str>) -> Gemm<'_, U> {
    kernel.map_or_else(Gemm::new, |name| Gemm::new().kernel(name))
}

/// Elements of one set, in memory.
#[derive(Clone, Copy)]
struct Sizes {
    a: usize,
    b: usize,
    c: usize,
    sets: usize,
}

impl Sizes {
    fn of(device: &Device, case: &Case) -> Self {
        let [a, b, c] = aligned(case.elements());
        Self { a, b, c, sets: sets(device, case.bytes()) }
    }
}

/// A case whose matrices lie in a pool.
struct InPool<'p, T> {
    pool: &'p Pool<T>,
    case: Case,
    sizes: Sizes,
    workspace: &'p RefCell<Option<Tensor<f32>>>,
}

impl<T: Real> InPool<'_, T> {
    fn operands(&self, set: usize) -> Result<[TensorView<'_, T>; 2]> {
        let Case { m, n, k, b_transposed, .. } = self.case;
        let Sizes { a, b, .. } = self.sizes;
        let start = set * (a + b);
        let right = match b_transposed {
            true => self.pool.input(start + a, &[n, k])?.transpose(0, 1)?,
            false => self.pool.input(start + a, &[k, n])?,
        };
        Ok([self.pool.input(start, &[m, k])?, right])
    }

    fn with_output<R>(&self, set: usize, f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>) -> Result<R> {
        let Case { m, n, .. } = self.case;
        self.pool.with_output(set * self.sizes.c, &[m, n], f)
    }
}

impl<T: Real + GemmInput + FloatElement> Problem for InPool<'_, T> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sizes.sets
    }

    fn addresses(&self, set: usize) -> Result<[u64; 3]> {
        let [a, b] = self.operands(set)?;
        Ok([a.address(), b.address(), self.with_output(set, |c| Ok(c.address()))?])
    }

    fn candidates(&self) -> Result<Vec<GemmCandidate>> {
        let [a, b] = self.operands(0)?;
        self.with_output(0, |c| Gemm::new().candidates(&a, &b, &c))
    }

    fn way(&self, kernel: Option<&str>) -> Result<String> {
        let [a, b] = self.operands(0)?;
        let plan = self.with_output(0, |c| by(kernel).plan(&a, &b, &c))?;
        // Allocated before anything is captured.
        let len = plan.workspace_len();
        let mut workspace = self.workspace.borrow_mut();
        if workspace.as_ref().is_none_or(|memory| memory.len() < len) {
            *workspace = Some(Tensor::zeros(a.device(), &[len])?);
        }
        let copies =
            plan.to_string().split(", of ").nth(1).and_then(|of| of.split(';').next().map(str::to_owned));
        Ok(match copies {
            Some(copies) => format!("{} of {copies}", plan.kernel().name()),
            None => plan.kernel().name().to_owned(),
        })
    }

    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>, overlap: bool) -> Result<()> {
        let [a, b] = self.operands(set)?;
        let gemm = by(kernel).overlap(overlap);
        self.with_output(set, |mut c| {
            let plan = gemm.plan(&a, &b, &c)?;
            let mut workspace = self.workspace.borrow_mut();
            match workspace.as_mut().filter(|_| plan.workspace_len() > 0) {
                Some(memory) => {
                    plan.run_in(stream, &a, &b, &mut c, &GemmViews::default(), &mut memory.view_mut())
                }
                None => plan.run(stream, &a, &b, &mut c, &GemmViews::default()),
            }
        })
    }

    fn poison(&self, stream: &Stream, set: usize) -> Result<()> {
        self.with_output(set, |mut c| c.fill(stream, T::POISON))
    }

    fn some_rows(&self, stream: &Stream, set: usize) -> Result<Vec<f32>> {
        let mut found = Vec::new();
        for row in sample(self.case.m, 16) {
            found.extend(self.with_output(set, |c| c.select(0, row)?.to_vec_on(stream))?);
        }
        Ok(T::widen(&found))
    }
}
