//! Attention.

use half::f16;
use tilewright_emulator::Launch;

use crate::device::Argument::{Float, Integer, Pointer};
use crate::device::{Device, assert_close, floats};
use crate::triton::launch_of;

/// Queries, keys and values of some heads, and what attention makes of them.
pub struct Problem {
    pub heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub columns: usize,
    pub scale: f32,
    pub q: Vec<f16>,
    pub k: Vec<f16>,
    pub v: Vec<f16>,
}

impl Problem {
    pub fn new(heads: usize, queries: usize, keys: usize, columns: usize) -> Self {
        let halves = |seed, rows: usize| {
            floats(seed, heads * rows * columns).iter().map(|x| f16::from_f32(*x)).collect()
        };
        let (q, k, v) = (halves(50, queries), halves(51, keys), halves(52, keys));
        Self { heads, queries, keys, columns, scale: 1.0 / (columns as f32).sqrt(), q, k, v }
    }

    /// The result in f64. The last query sees the last key.
    pub fn expected(&self, causal: bool) -> Vec<f64> {
        let Self { heads, queries, keys, columns, .. } = *self;
        let mut all = Vec::new();
        for (head, query) in (0..heads).flat_map(|head| (0..queries).map(move |query| (head, query))) {
            let q = &self.q[(head * queries + query) * columns..][..columns];
            let key = |of: &'_ [f16], key: usize| of[(head * keys + key) * columns..][..columns].to_vec();
            let seen = if causal { query + 1 + keys - queries } else { keys };
            let weights: Vec<f64> = (0..seen)
                .map(|i| q.iter().zip(key(&self.k, i)).map(|(q, k)| q.to_f64() * k.to_f64()).sum::<f64>())
                .map(|score| (score * f64::from(self.scale)).exp())
                .collect();
            let total: f64 = weights.iter().sum();
            all.extend((0..columns).map(|d| {
                let sum: f64 =
                    weights.iter().enumerate().map(|(i, weight)| weight * key(&self.v, i)[d].to_f64()).sum();
                sum / total
            }));
        }
        all
    }

    /// That these bits are the result.
    #[track_caller]
    pub fn check(&self, causal: bool, found: &[u16]) {
        for (i, (found, expected)) in found.iter().zip(self.expected(causal)).enumerate() {
            assert_close(
                f16::from_bits(*found).to_f64(),
                expected,
                2e-3,
                &format!("element {i}, causal: {causal}"),
            );
        }
    }
}

/// The bits of numbers.
pub fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn by_triton() {
    // By mma.sync and cp.async, and by wgmma.
    for (name, causal) in [("attention", false), ("causal", true)] {
        for arch in [80, 90] {
            let problem = Problem::new(2, 100, 133, 32);
            Device::in_each_order(&format!("triton/{name}.{arch}.ptx"), |device| {
                let o = device.buffer(&vec![0u16; problem.q.len()]);
                let inputs = [&problem.q, &problem.k, &problem.v].map(|x| Pointer(device.buffer(&bits(x))));
                let sizes =
                    [Integer(problem.queries as i32), Integer(problem.keys as i32), Float(problem.scale)];
                launch_of(
                    128,
                    device,
                    "attention",
                    [2, 2, 1],
                    &[&inputs[..], &[Pointer(o)], &sizes].concat(),
                );
                problem.check(causal, &device.read(o, problem.q.len()));
            });
        }
    }
}

#[test]
fn by_threads() {
    let problem = Problem::new(2, 70, 101, 32);
    Device::in_each_order("cuda/flash.80.ptx", |device| {
        for causal in [false, true] {
            let o = device.buffer(&vec![0u16; problem.q.len()]);
            let arguments = [
                Pointer(device.buffer(&bits(&problem.q))),
                Pointer(device.buffer(&bits(&problem.k))),
                Pointer(device.buffer(&bits(&problem.v))),
                Pointer(o),
                Integer(problem.queries as i32),
                Integer(problem.keys as i32),
                Float(problem.scale),
                Integer(causal.into()),
            ];
            let launch = Launch { grid: [3, 2, 1], threads: [128, 1, 1], ..Launch::default() };
            device.launch("attention", launch, &arguments);
            problem.check(causal, &device.read(o, problem.q.len()));
        }
    });
}
