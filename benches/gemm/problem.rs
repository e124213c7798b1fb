//! Cases with their matrices on a device.

use std::cell::{OnceCell, RefCell};

use tilewright::ops::{Candidate, Gemm, GemmInput, GemmOutput};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::reference::sample;
use tilewright_support::timing::sets;

use crate::case::{Case, Path};

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets of inputs; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// Addresses of A, B and C.
    fn addresses(&self, set: usize) -> [u64; 3];
    /// Every kernel for these types, the best by the operator's estimate first.
    fn candidates(&self) -> Result<Vec<Candidate>>;
    /// Queues the product, by the kernel of this name or the operator's choice.
    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>, overlap: bool) -> Result<()>;
    /// Makes all of C not a number.
    fn poison(&self, stream: &Stream, set: usize) -> Result<()>;
    /// Some of C's rows, once the work queued on `stream` is done.
    fn some_rows(&self, stream: &Stream, set: usize) -> Result<Vec<f32>>;
}

/// The name of the kernel that computes a case.
pub fn kernel(problem: &dyn Problem) -> tilewright_support::Result<&'static str> {
    let path = problem.case().path;
    let of_path = |name: &str| path == Path::Chosen || name.starts_with("gemm_sm_80");
    let candidates = problem.candidates()?;
    let best = candidates.iter().find(|c| c.cycles().is_some() && of_path(c.name()));
    best.map(Candidate::name).ok_or_else(|| format!("no kernel for {}", problem.case()).into())
}

/// The matrices of all cases.
pub struct Matrices<'a> {
    device: &'a Device,
    cases: &'a [Case],
    f16: OnceCell<Pool<f16>>,
    bf16: OnceCell<Pool<bf16>>,
}

impl<'a> Matrices<'a> {
    pub fn new(device: &'a Device, cases: &'a [Case]) -> Self {
        Self { device, cases, f16: OnceCell::new(), bf16: OnceCell::new() }
    }

    /// One of the cases, ready to be computed.
    pub fn problem(&self, case: Case) -> Result<Box<dyn Problem + '_>> {
        Ok(match case.dtype {
            DType::F16 => Box::new(self.of(&self.f16, case)?),
            _ => Box::new(self.of(&self.bf16, case)?),
        })
    }

    fn of<'p, T: Real>(&self, pool: &'p OnceCell<Pool<T>>, case: Case) -> Result<InPool<'p, T>> {
        if pool.get().is_none() {
            let cases = self.cases.iter().filter(|other| other.dtype == case.dtype);
            let most = |size: fn(&Sizes) -> usize| {
                cases.clone().map(|case| Sizes::of(self.device, case)).map(|s| s.sets * size(&s)).max()
            };
            let inputs = most(|sizes| sizes.a + sizes.b).unwrap_or(0);
            let outputs = most(|sizes| sizes.c).unwrap_or(0);
            // Another one cannot be there by now.
            let _ = pool.set(Pool::new(self.device, inputs, outputs)?);
        }
        let pool = pool.get().expect("a pool was just made");
        Ok(InPool { pool, case, sizes: Sizes::of(self.device, &case) })
    }
}

/// Memory that all cases of a type share, since filling it takes longer than measuring.
struct Pool<T> {
    /// Random data.
    inputs: Tensor<T>,
    outputs: RefCell<Tensor<T>>,
}

impl<T: Real> Pool<T> {
    fn new(device: &Device, inputs: usize, outputs: usize) -> Result<Self> {
        // The data repeats; an odd period keeps matrices from being equal.
        let random = normal::<T>(1, inputs.min((1 << 26) - 77));
        let random = Tensor::from_slice(device, &random, &[random.len()])?;
        let mut all = Tensor::uninit(device, &[inputs])?;
        let stream = device.default_stream();
        for start in (0..inputs).step_by(random.len().max(1)) {
            let len = random.len().min(inputs - start);
            let mut part = all.view_mut().narrow(0, start, len)?;
            part.copy_from(&stream, &random.view().narrow(0, 0, len)?)?;
        }
        stream.synchronize()?;
        Ok(Self { inputs: all, outputs: RefCell::new(Tensor::uninit(device, &[outputs])?) })
    }
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
        // Matrices begin at addresses that are as well aligned as allocations.
        let [a, b, c] = case.elements().map(|elements| elements.next_multiple_of(256));
        Self { a, b, c, sets: sets(device, case.bytes()) }
    }
}

/// A case whose matrices lie in a pool.
struct InPool<'p, T> {
    pool: &'p Pool<T>,
    case: Case,
    sizes: Sizes,
}

impl<T: Real> InPool<'_, T> {
    fn operands(&self, set: usize) -> Result<[TensorView<'_, T>; 2]> {
        let Case { m, n, k, b_transposed, .. } = self.case;
        let Sizes { a, b, .. } = self.sizes;
        let start = set * (a + b);
        let inputs = || self.pool.inputs.view();
        let left = inputs().narrow(0, start, m * k)?.reshape(&[m, k])?;
        let right = inputs().narrow(0, start + a, k * n)?;
        let right = match b_transposed {
            true => right.reshape(&[n, k])?.transpose(0, 1)?,
            false => right.reshape(&[k, n])?,
        };
        Ok([left, right])
    }

    fn with_output<R>(&self, set: usize, f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>) -> Result<R> {
        let Case { m, n, .. } = self.case;
        let mut outputs = self.pool.outputs.borrow_mut();
        f(outputs.view_mut().narrow(0, set * self.sizes.c, m * n)?.reshape(&[m, n])?)
    }
}

impl<T: Real + GemmInput + GemmOutput> Problem for InPool<'_, T> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sizes.sets
    }

    fn addresses(&self, set: usize) -> [u64; 3] {
        let Sizes { a, b, c, .. } = self.sizes;
        let at = |base: u64, elements: usize| base + (elements * size_of::<T>()) as u64;
        let (inputs, outputs) = (self.pool.inputs.address(), self.pool.outputs.borrow().address());
        [at(inputs, set * (a + b)), at(inputs, set * (a + b) + a), at(outputs, set * c)]
    }

    fn candidates(&self) -> Result<Vec<Candidate>> {
        let [a, b] = self.operands(0)?;
        self.with_output(0, |c| Gemm::new().candidates(&a, &b, &c))
    }

    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>, overlap: bool) -> Result<()> {
        let [a, b] = self.operands(set)?;
        let gemm = Gemm::new().overlap(overlap);
        let gemm = match kernel {
            Some(name) => gemm.kernel(name),
            None => gemm,
        };
        self.with_output(set, |mut c| gemm.run(stream, &a, &b, &mut c))
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
