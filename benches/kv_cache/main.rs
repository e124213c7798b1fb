//! Decoding over caches of 8 bits, beside the same over one of 16.
//!
//! ```text
//! cargo bench --bench kv_cache                        criterion's measurements over e4m3, and the table of what it measured
//! cargo bench --bench kv_cache -- --table [WORDS]     the table alone
//! ```
//!
//! WORDS select cases: `kv8 b16`. One query for each sequence, of 32 heads of 128 columns, in bf16; keys and values contiguous, in bf16, e4m3 and int8, the latter with a scale for each KV head.

#[path = "../common/mod.rs"]
mod common;

use std::cell::RefCell;
use std::fmt;

use criterion::Throughput;
use tilewright::ops::{Attention, AttentionPlan, AttentionViews, CacheElement};
use tilewright::{Device, F8E4M3, Stream, Tensor, TensorView, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Variant, compare, sets};

use common::introduce;
use common::measure::{self, Work};

const HEADS: usize = 32;
const COLUMNS: usize = 128;
/// The most keys of all heads of all sequences, of which there is memory for.
const MOST: usize = 8 << 21;
/// Elements that are drawn: caches repeat them.
const DRAWN: usize = 1 << 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    batch: usize,
    kv_heads: usize,
    keys: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kv{} b{} {}", self.kv_heads, self.batch, self.keys)
    }
}

fn all() -> Vec<Case> {
    let all = [8, 1].into_iter().flat_map(|kv_heads| {
        [1, 16, 64].into_iter().flat_map(move |batch| {
            [4096, 32768, 131_072].into_iter().map(move |keys| Case { batch, kv_heads, keys })
        })
    });
    all.filter(|case| case.lines() <= MOST).collect()
}

impl Case {
    fn lines(&self) -> usize {
        self.batch * self.kv_heads * self.keys
    }
    /// Bytes of K and V, of elements of so many.
    fn bytes(&self, element: usize) -> usize {
        2 * self.lines() * COLUMNS * element
    }
    fn sets(&self, device: &Device) -> usize {
        sets(device, self.bytes(1)).min(MOST / self.lines()).max(1)
    }
}

/// K and V, with room for all cases.
struct Caches<C> {
    k: Tensor<C>,
    v: Tensor<C>,
}

impl<C: CacheElement<bf16>> Caches<C> {
    fn new(device: &Device, lines: usize, of: impl Fn(bf16) -> C) -> Result<Self> {
        let stream = Stream::new(device)?;
        let cache = |seed| -> Result<Tensor<C>> {
            let drawn: Vec<C> = normal::<bf16>(seed, DRAWN).into_iter().map(&of).collect();
            let drawn = Tensor::from_slice(device, &drawn, &[1, DRAWN])?;
            let times = (lines * COLUMNS).div_ceil(DRAWN);
            let mut cache = Tensor::<C>::zeros(device, &[times, DRAWN])?;
            for i in 0..times {
                cache.view_mut().narrow(0, i, 1)?.copy_from(&stream, &drawn.view())?;
            }
            stream.synchronize()?;
            Ok(cache)
        };
        Ok(Caches { k: cache(2)?, v: cache(3)? })
    }

    /// Those of the case's set.
    fn views(&self, case: &Case, set: usize) -> tilewright::Result<[TensorView<'_, C>; 2]> {
        let shape = [case.batch, case.kv_heads, case.keys, COLUMNS];
        let strides = [case.kv_heads * case.keys * COLUMNS, case.keys * COLUMNS, COLUMNS, 1];
        let first = (set * case.lines() * COLUMNS * size_of::<C>()) as u64;
        let view = |of: &Tensor<C>| {
            // SAFETY: the memory is this value's, which stays borrowed, and has room for all sets.
            unsafe { TensorView::from_raw_parts(of.device(), of.address() + first, &shape, &strides) }
        };
        Ok([view(&self.k)?, view(&self.v)?])
    }
}

/// A case over caches of one type.
struct Problem<'a, C> {
    case: Case,
    caches: &'a Caches<C>,
    q: Tensor<bf16>,
    o: RefCell<(Tensor<bf16>, Tensor<f32>)>,
    scales: Option<Tensor<f32>>,
    plan: AttentionPlan,
}

impl<'a, C: CacheElement<bf16>> Problem<'a, C> {
    fn new(device: &Device, case: Case, caches: &'a Caches<C>) -> Result<Self> {
        let shape = [case.batch, HEADS, 1, COLUMNS];
        let q = Tensor::from_slice(device, &normal::<bf16>(1, case.batch * HEADS * COLUMNS), &shape)?;
        let mut o = Tensor::<bf16>::zeros(device, &shape)?;
        let scales =
            (size_of::<C>() == 1).then(|| Tensor::filled(device, SPREAD, &[case.kv_heads])).transpose()?;
        let plan = {
            let [k, v] = caches.views(&case, 0)?;
            let scale = scales.as_ref().map(Tensor::view);
            let attention = Attention::new();
            let attention = match &scale {
                Some(scale) => attention.cache_scales(scale, scale),
                None => attention,
            };
            attention.plan(&q.view(), &k, &v, &o.view_mut())?
        };
        let workspace = Tensor::zeros(device, &[plan.workspace_len().max(1)])?;
        Ok(Problem { case, caches, q, o: (o, workspace).into(), scales, plan })
    }

    fn launch(&self, stream: &Stream, set: usize) -> tilewright::Result<()> {
        let mut out = self.o.borrow_mut();
        let (o, workspace) = &mut *out;
        let [k, v] = self.caches.views(&self.case, set)?;
        let scale = || self.scales.as_ref().map(Tensor::view);
        let mut views = AttentionViews {
            cache_scales: scale().zip(scale()).map(|(k, v)| [k, v]),
            workspace: (self.plan.workspace_len() > 0).then(|| workspace.view_mut()),
            ..AttentionViews::default()
        };
        self.plan.run(stream, &self.q.view(), &k, &v, &mut o.view_mut(), &mut views)
    }
}

/// What a code of 1 stands for.
const SPREAD: f32 = 1.0 / 32.0;

fn e4m3(x: bf16) -> F8E4M3 {
    F8E4M3::from_f32(x.to_f32() / SPREAD)
}

fn int8(x: bf16) -> i8 {
    (x.to_f32() / SPREAD).round_ties_even() as i8
}

fn main() -> std::process::ExitCode {
    common::main(run)
}

fn run(device: &Device, arguments: &[String]) -> Result<()> {
    let cases = match arguments.split_first() {
        Some((mode, words)) if mode == "--table" => common::selected(all(), words)?,
        _ => {
            let floats = Caches::new(device, lines(device, &all()), e4m3)?;
            let throughput = |case: &Case| Throughput::Bytes(case.bytes(1) as u64);
            measure::all(device, "kv_cache", &all(), throughput, |case| {
                let problem = Problem::new(device, case, &floats)?;
                Ok(Work::new(case.sets(device), move |stream, set| problem.launch(stream, set)))
            })?
        }
    };
    if cases.is_empty() { Ok(()) } else { tabulate(device, &cases) }
}

/// Lines of K, and of V, of all sets of each of these cases.
fn lines(device: &Device, cases: &[Case]) -> usize {
    cases.iter().map(|case| case.lines() * case.sets(device)).max().unwrap_or(0)
}

fn tabulate(device: &Device, cases: &[Case]) -> Result<()> {
    introduce(device, Ok(()), |()| "decoding over caches of 16 and of 8 bits".to_owned());
    let lines = lines(device, cases);
    let (wide, floats, integers) = (
        Caches::new(device, lines, |x| x)?,
        Caches::new(device, lines, e4m3)?,
        Caches::new(device, lines, int8)?,
    );
    println!(
        "\n| case | bf16 µs | e4m3 µs | int8 µs | e4m3 of bf16 | bf16 GB/s | e4m3 GB/s |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    );
    for &case in cases {
        let of = (
            Problem::new(device, case, &wide)?,
            Problem::new(device, case, &floats)?,
            Problem::new(device, case, &integers)?,
        );
        let variants = [
            Variant::new("bf16", |stream: &Stream, set| of.0.launch(stream, set)),
            Variant::new("e4m3", |stream: &Stream, set| of.1.launch(stream, set)),
            Variant::new("int8", |stream: &Stream, set| of.2.launch(stream, set)),
        ];
        let timings = compare(device, &variants, &common::options(case.sets(device)))?;
        let [wide, floats, integers] = [0, 1, 2].map(|i| timings[i].median());
        let rate = |element, ms: f64| case.bytes(element) as f64 / ms / 1e6;
        println!(
            "| {case} | {:.1} | {:.1} | {:.1} | {:.2} | {:.0} | {:.0} |",
            wide * 1e3,
            floats * 1e3,
            integers * 1e3,
            floats / wide,
            rate(2, wide),
            rate(1, floats)
        );
    }
    Ok(())
}
