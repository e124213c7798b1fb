//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{Attention, AttentionCandidate, HalfElement};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::Head;
use tilewright_support::reference::{pick, relative_error, sample};
use tilewright_support::timing::sets;

use crate::case::{Case, Kind};
use crate::pool::{Pool, Pools, aligned};

/// Queries of each of two heads that are compared with the reference.
const CHECKED: usize = 16;

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets of inputs; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// Every kernel for the type, the best by the operator's estimate first.
    fn candidates(&self) -> Result<Vec<AttentionCandidate>>;
    /// Queues the attention, by the kernel of this name or the operator's choice.
    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()>;
    /// Computes it into an output that was not a number, and compares rows with a reference in f64.
    fn check(&self, stream: &Stream) -> tilewright_support::Result<()>;
}

/// The name of the kernel that computes a case.
pub fn kernel(problem: &dyn Problem) -> tilewright_support::Result<&'static str> {
    let candidates = problem.candidates()?;
    let best = candidates.first().filter(|c| c.cycles().is_some());
    best.map(AttentionCandidate::name).ok_or_else(|| format!("no kernel for {}", problem.case()).into())
}

/// The tensors of all cases.
pub struct Tensors<'a> {
    device: &'a Device,
    pools: Pools<'a>,
}

impl<'a> Tensors<'a> {
    pub fn new(device: &'a Device, cases: &[Case]) -> Self {
        let needs = |case: &Case| {
            let Sizes { q, k, v, o, sets } = Sizes::of(device, case);
            (case.dtype, [sets * (q + k + v), sets * o])
        };
        Self { device, pools: Pools::new(device, cases.iter().map(needs)) }
    }

    /// One of the cases, ready to be computed.
    pub fn problem(&self, case: Case) -> Result<Box<dyn Problem + '_>> {
        let sizes = Sizes::of(self.device, &case);
        Ok(match case.dtype {
            DType::F16 => Box::new(InPool::new(self.device, self.pools.of::<f16>()?, case, sizes)?),
            _ => Box::new(InPool::new(self.device, self.pools.of::<bf16>()?, case, sizes)?),
        })
    }
}

/// Whether a case's inputs fit into memory five times: for two pools, and for peers with layouts of their own.
pub fn fits(device: &Device, case: &Case) -> bool {
    let Sizes { q, k, v, o, sets } = Sizes::of(device, case);
    5 * sets * (q + k + v + o) * case.dtype.bytes() <= device.total_memory()
}

/// Elements of one set, in memory.
#[derive(Clone, Copy)]
struct Sizes {
    q: usize,
    k: usize,
    v: usize,
    o: usize,
    sets: usize,
}

impl Sizes {
    fn of(device: &Device, case: &Case) -> Self {
        let [q, k, v, o] = aligned(case.elements());
        Self { q, k, v, o, sets: sets(device, case.bytes()) }
    }
}

/// A case whose tensors lie in a pool, packed as [batch, heads, length, columns].
struct InPool<'p, T> {
    pool: &'p Pool<T>,
    case: Case,
    sizes: Sizes,
    /// For parts of the keys: a graph is captured without allocations.
    workspace: RefCell<Tensor<f32>>,
}

impl<'p, T: Real + HalfElement> InPool<'p, T> {
    fn new(device: &Device, pool: &'p Pool<T>, case: Case, sizes: Sizes) -> Result<Self> {
        let mut problem = InPool { pool, case, sizes, workspace: RefCell::new(Tensor::zeros(device, &[0])?) };
        if let Kind::Decode = case.kind {
            let parts =
                problem.candidates()?.iter().map(|kernel| kernel.splits() as usize).max().unwrap_or(0);
            let Case { batch, heads, queries, columns: [_, columns], .. } = case;
            let len = parts * batch * heads * queries * (columns + 1);
            problem.workspace = RefCell::new(Tensor::uninit(device, &[len])?);
        }
        Ok(problem)
    }

    fn inputs(&self, set: usize) -> Result<[TensorView<'_, T>; 3]> {
        let Sizes { q, k, v, .. } = self.sizes;
        let start = set * (q + k + v);
        let [of_q, of_k, of_v, _] = self.case.shapes();
        let input = |start, shape: [usize; 4]| self.pool.input(start, &shape);
        Ok([input(start, of_q)?, input(start + q, of_k)?, input(start + q + k, of_v)?])
    }

    fn with_output<R>(&self, set: usize, f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>) -> Result<R> {
        self.pool.with_output(set * self.sizes.o, &self.case.shapes()[3], f)
    }

    fn attention(&self) -> Attention<'static> {
        if self.case.causal { Attention::new().causal() } else { Attention::new() }
    }

    /// The distance of some queries' results in a head from the reference.
    fn error(&self, stream: &Stream, batch: usize, head: usize) -> Result<f64> {
        let Case { heads, kv_heads, queries, keys, columns: [d, dv], .. } = self.case;
        let of = |x: TensorView<'_, T>, head| x.select(0, batch)?.select(0, head)?.to_vec_on(stream);
        let [q, k, v] = self.inputs(0)?;
        let kv = head / (heads / kv_heads);
        let (q, k, v) = (of(q, head)?, of(k, kv)?, of(v, kv)?);
        let o = self.with_output(0, |o| of(o.as_view(), head))?;
        let rows = sample(queries, CHECKED);
        let exact = Head::new([&q, &k, &v], queries, keys, [d, dv]).rows(&rows, &self.case.scores());
        let exact: Vec<_> = exact.into_iter().flat_map(|row| row.o).collect();
        Ok(relative_error(&pick(&o, dv, &rows), &exact))
    }
}

impl<T: Real + HalfElement> Problem for InPool<'_, T> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sizes.sets
    }

    fn candidates(&self) -> Result<Vec<AttentionCandidate>> {
        let [q, k, v] = self.inputs(0)?;
        self.with_output(0, |o| self.attention().candidates(&q, &k, &v, &o))
    }

    fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        let [q, k, v] = self.inputs(set)?;
        let mut workspace = self.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let attention: Attention<'_> = self.attention();
        let attention = if workspace.is_empty() { attention } else { attention.workspace(&mut workspace) };
        let mut attention = kernel.into_iter().fold(attention, Attention::kernel);
        self.with_output(set, |mut o| attention.run(stream, &q, &k, &v, &mut o))
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.with_output(0, |mut o| o.fill(stream, T::POISON))?;
        self.launch(stream, 0, Some(kernel(self)?))?;
        let o = self.with_output(0, |o| o.to_vec_on(stream))?;
        let unwritten = T::widen(&o).iter().filter(|x| x.is_nan()).count();
        let Case { batch, heads, .. } = self.case;
        // Weights are rounded once, and the result is.
        let allowed = 2.0 * T::ROUNDING;
        for (batch, head) in [(0, 0), (batch - 1, heads - 1)] {
            let error = self.error(stream, batch, head)?;
            if unwritten > 0 || error.is_nan() || error > allowed {
                let case = &self.case;
                return Err(format!("{case}: {unwritten} elements are NaN, the error is {error:.1e}").into());
            }
        }
        Ok(())
    }
}
