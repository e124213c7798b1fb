//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{HalfElement, Mla};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::reference::{relative_error, sample};
use tilewright_support::timing::sets;

use crate::case::{COLUMNS, Case, PAGE};
use crate::pool::{Pool, Pools, aligned};

/// Heads of each of two sequences that are compared with the reference.
const CHECKED: usize = 4;

/// A case that can be computed on a device, on one of several sets of inputs.
pub trait Problem {
    fn case(&self) -> &Case;
    /// Number of sets of inputs; it takes all of them to find none in the cache when it is used again.
    fn sets(&self) -> usize;
    /// The kernel's name, and how many sequences are cut into parts.
    fn plan(&self) -> Result<(&'static str, usize)>;
    /// Queues the step; the first one makes the plan, which cannot be recorded.
    fn launch(&self, stream: &Stream, set: usize) -> Result<()>;
    /// Computes it into an output that was not a number, and compares rows with a reference in f64.
    fn check(&self, stream: &Stream) -> tilewright_support::Result<()>;
}

/// The tensors of all cases.
pub struct Tensors<'a> {
    device: &'a Device,
    pools: Pools<'a>,
}

impl<'a> Tensors<'a> {
    pub fn new(device: &'a Device, cases: &[Case]) -> Self {
        let needs = |case: &Case| {
            let Sizes { q, cache, o, sets } = Sizes::of(device, case);
            (case.dtype, [sets * (q + cache), sets * o])
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

/// Whether a case's inputs fit into memory twice: for pools of both types.
pub fn fits(device: &Device, case: &Case) -> bool {
    let Sizes { q, cache, o, sets } = Sizes::of(device, case);
    2 * sets * (q + cache + o) * case.dtype.bytes() <= device.total_memory() / 10 * 9
}

/// Elements of one set, in memory.
#[derive(Clone, Copy)]
struct Sizes {
    q: usize,
    cache: usize,
    o: usize,
    sets: usize,
}

impl Sizes {
    fn of(device: &Device, case: &Case) -> Self {
        let [q, cache, o] = aligned(case.elements());
        Self { q, cache, o, sets: sets(device, case.bytes() as usize) }
    }
}

/// A case whose tensors lie in a pool.
struct InPool<'p, T> {
    pool: &'p Pool<T>,
    case: Case,
    sizes: Sizes,
    /// The pages of each sequence.
    table: Vec<i32>,
    mla: RefCell<Mla<'static>>,
}

impl<'p, T: Real + HalfElement> InPool<'p, T> {
    fn new(device: &Device, pool: &'p Pool<T>, case: Case) -> Result<Self> {
        let pages = case.batch * case.entries();
        // A step that has no divisor in common with the number of pages, whose primes are small, reaches all of them.
        let table: Vec<i32> = (0..pages).map(|entry| (entry * 7919 % pages) as i32).collect();
        let mla = || Mla::new().lengths(&case.lengths()).host_block_table(&table);
        let sizes = Sizes::of(device, &case);
        let mut problem = InPool { pool, case, sizes, table: table.clone(), mla: RefCell::new(mla()) };
        let [q, cache] = problem.inputs(0)?;
        let len = problem.with_output(0, |o| mla().workspace_len(&q, &cache, &o))?;
        if len > 0 {
            // A graph is captured without allocations. The operator borrows this for as long as it lives: leaked.
            let memory = Box::leak(Box::new(Tensor::uninit(device, &[len])?));
            let view = Box::leak(Box::new(memory.view_mut()));
            problem.mla = RefCell::new(mla().workspace(view));
        }
        Ok(problem)
    }

    fn inputs(&self, set: usize) -> Result<[TensorView<'p, T>; 2]> {
        let Sizes { q, cache, .. } = self.sizes;
        let Case { batch, heads, .. } = self.case;
        let (start, [d, _]) = (set * (q + cache), COLUMNS);
        let pages = batch * self.case.entries();
        Ok([
            self.pool.input(start, &[batch, 1, heads, d])?,
            self.pool.input(start + q, &[pages, PAGE, 1, d])?,
        ])
    }

    fn with_output<R>(&self, set: usize, f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>) -> Result<R> {
        let Case { batch, heads, .. } = self.case;
        self.pool.with_output(set * self.sizes.o, &[batch, 1, heads, COLUMNS[1]], f)
    }

    /// The distance of some heads' results in a sequence from the reference.
    fn error(&self, stream: &Stream, sequence: usize) -> Result<f64> {
        let (Case { heads, .. }, [d, dv]) = (self.case, COLUMNS);
        let [q, cache] = self.inputs(0)?;
        let q = q.select(0, sequence)?.to_vec_on(stream)?;
        let o = self.with_output(0, |o| o.as_view().select(0, sequence)?.to_vec_on(stream))?;
        let length = self.case.lengths()[sequence] as usize;
        let mut k = Vec::new();
        for &page in &self.table[sequence * self.case.entries()..][..length.div_ceil(PAGE)] {
            k.extend(cache.clone().select(0, page as usize)?.to_vec_on(stream)?);
        }
        k.truncate(length * d);
        let v: Vec<T> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
        let rows = sample(heads, CHECKED);
        let exact = Head::new([&q, &k, &v], heads, length, COLUMNS).rows(&rows, &Scores::new(d));
        let errors = exact.iter().zip(&rows).map(|(row, head)| relative_error(&o[head * dv..][..dv], &row.o));
        Ok(errors.fold(0.0, |worst, error| if error.is_nan() { error } else { error.max(worst) }))
    }
}

impl<T: Real + HalfElement> Problem for InPool<'_, T> {
    fn case(&self) -> &Case {
        &self.case
    }

    fn sets(&self) -> usize {
        self.sizes.sets
    }

    fn plan(&self) -> Result<(&'static str, usize)> {
        let [q, cache] = self.inputs(0)?;
        let plan = self.with_output(0, |o| self.mla.borrow().plan(&q, &cache, &o))?;
        Ok((plan.kernel().name(), plan.cut()))
    }

    fn launch(&self, stream: &Stream, set: usize) -> Result<()> {
        let [q, cache] = self.inputs(set)?;
        self.with_output(set, |mut o| self.mla.borrow_mut().run(stream, &q, &cache, &mut o))
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.with_output(0, |mut o| o.fill(stream, T::POISON))?;
        self.launch(stream, 0)?;
        let o = self.with_output(0, |o| o.to_vec_on(stream))?;
        let unwritten = T::widen(&o).iter().filter(|x| x.is_nan()).count();
        // Weights are rounded once, and the result is.
        let allowed = 2.0 * T::ROUNDING;
        for sequence in [0, self.case.batch - 1] {
            let error = self.error(stream, sequence)?;
            if unwritten > 0 || error.is_nan() || error > allowed {
                let case = &self.case;
                return Err(format!("{case}: {unwritten} elements are NaN, the error is {error:.1e}").into());
            }
        }
        Ok(())
    }
}
