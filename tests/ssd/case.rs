//! What the tests of the scan and of its step share: cases, their numbers, how they are run.

use std::ops::Range;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tilewright::ops::{HalfElement, Ssd};
use tilewright::{Device, Stream, Tensor, TensorView};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::reference::{Head, Time, silu};

/// Element types of the scan.
pub trait Number: Real + HalfElement {}

impl<T: Real + HalfElement> Number for T {}

/// What is asked for of a scan.
#[derive(Clone, Debug)]
pub struct Case {
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub groups: usize,
    pub p: usize,
    pub n: usize,
    /// A of the heads, in turn.
    pub a: Vec<f32>,
    pub bias: bool,
    pub softplus: bool,
    pub limits: Option<[f32; 2]>,
    pub skip: bool,
    pub gate: bool,
    pub initial: bool,
    pub chunk: Option<usize>,
    /// Lengths of packed sequences.
    pub packed: Option<Vec<usize>>,
    pub kernel: Option<&'static str>,
    /// Of unused elements behind each token of x, B, C and y.
    pub pad: usize,
}

impl Case {
    pub fn new(length: usize) -> Self {
        Case {
            batch: 1,
            length,
            heads: 2,
            groups: 1,
            p: 64,
            n: 128,
            a: vec![-1.0, -0.05],
            bias: false,
            softplus: false,
            limits: None,
            skip: false,
            gate: false,
            initial: true,
            chunk: None,
            packed: None,
            kernel: None,
            pad: 0,
        }
    }

    /// The sequences: matrix and rows.
    pub fn sequences(&self) -> Vec<(usize, Range<usize>)> {
        match &self.packed {
            None => (0..self.batch).map(|i| (i, 0..self.length)).collect(),
            Some(lengths) => {
                let mut end = 0;
                lengths
                    .iter()
                    .map(|length| {
                        end += length;
                        (0, end - length..end)
                    })
                    .collect()
            }
        }
    }

    fn state_len(&self) -> usize {
        self.sequences().len() * self.heads * self.p * self.n
    }
}

/// So many cases of whatever goes together, the same for the same seed.
pub fn random_cases(count: usize, seed: u64) -> Vec<Case> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |n: usize| random.random_range(0..n);
    let mut case = || {
        let groups = 1 + below(3);
        let lengths: Vec<_> = (0..1 + below(4)).map(|_| [0, 1, 64, 1 + below(150)][below(4)]).collect();
        let packed = below(2) == 0;
        Case {
            batch: if packed { 1 } else { 1 + below(2) },
            length: if packed { lengths.iter().sum() } else { 1 + below(150) },
            heads: groups * (1 + below(2)),
            groups,
            p: [64, 64, 8, 32, 96, 1 + below(80)][below(6)],
            n: [64, 128, 16, 1 + below(128)][below(4)],
            a: [vec![-1.0, -0.1], vec![0.0, -1e5], vec![-30.0]][below(3)].clone(),
            bias: below(2) == 0,
            softplus: below(2) == 0,
            limits: [None, Some([0.0, 0.3])][below(2)],
            skip: below(2) == 0,
            gate: below(3) == 0,
            initial: below(2) == 0,
            chunk: [None, Some(64), Some(128)][below(3)],
            packed: packed.then_some(lengths),
            kernel: None,
            pad: [0, 0, 8, 3][below(4)],
        }
    };
    (0..count).map(|_| case()).collect()
}

/// The numbers of a case.
pub struct Data<T> {
    pub x: Vec<T>,
    pub dt: Vec<T>,
    pub b: Vec<T>,
    pub c: Vec<T>,
    pub z: Vec<T>,
    pub a: Vec<f32>,
    pub bias: Vec<f32>,
    pub skip: Vec<f32>,
    pub initial: Vec<f32>,
}

impl<T: Number> Data<T> {
    pub fn new(case: &Case) -> Self {
        let tokens = case.batch * case.length;
        let small = |seed, len, by: f32| {
            let values: Vec<f32> = normal::<f32>(seed, len).iter().map(|x| x * by).collect();
            T::round(&values)
        };
        let dt: Vec<f32> = normal::<f32>(2, tokens * case.heads)
            .iter()
            .map(|x| if case.softplus { x - 2.0 } else { 0.1 * x.abs() + 0.01 })
            .collect();
        Data {
            x: normal(1, tokens * case.heads * case.p),
            dt: T::round(&dt),
            b: small(3, tokens * case.groups * case.n, 0.5),
            c: small(4, tokens * case.groups * case.n, 0.5),
            z: normal(5, tokens * case.heads * case.p),
            a: case.a.iter().copied().cycle().take(case.heads).collect(),
            bias: normal(6, case.heads),
            skip: normal(7, case.heads),
            initial: normal(8, case.state_len()),
        }
    }

    /// The result and the magnitude of each element of y, as they lie; the same of the states.
    pub fn exact(&self, case: &Case) -> [Vec<[f64; 2]>; 2] {
        let Case { length, heads, groups, p, n, .. } = *case;
        let wide = |of: &[T]| T::widen(of).into_iter().map(f64::from).collect::<Vec<_>>();
        let [x, dt, b, c, z] = [&self.x, &self.dt, &self.b, &self.c, &self.z].map(|of| wide(of));
        let mut y = vec![[f64::NAN; 2]; x.len()];
        let mut states = Vec::new();
        for (i, (matrix, rows)) in case.sequences().into_iter().enumerate() {
            for h in 0..heads {
                let g = h / (heads / groups);
                let pick = |of: &[f64], per: usize, at: usize, len: usize| {
                    let each = |t: usize| of[((matrix * length + t) * per + at) * len..][..len].to_vec();
                    rows.clone().flat_map(each).collect::<Vec<_>>()
                };
                let time = Time {
                    a: self.a[h].into(),
                    bias: if case.bias { self.bias[h].into() } else { 0.0 },
                    softplus: case.softplus,
                    limits: case.limits.map_or([0.0, f64::INFINITY], |limits| limits.map(f64::from)),
                    skip: if case.skip { self.skip[h].into() } else { 0.0 },
                };
                let head = Head {
                    x: &pick(&x, heads, h, p),
                    dt: &pick(&dt, heads, h, 1),
                    b: &pick(&b, groups, g, n),
                    c: &pick(&c, groups, g, n),
                    time,
                    size: [p, n],
                };
                let initial: Vec<f64> = match case.initial {
                    true => {
                        self.initial[(i * heads + h) * p * n..][..p * n].iter().map(|&x| x.into()).collect()
                    }
                    false => vec![0.0; p * n],
                };
                let scanned = head.scan(&initial);
                for (t, row) in rows.clone().enumerate() {
                    for q in 0..p {
                        let at = ((matrix * length + row) * heads + h) * p + q;
                        let by = if case.gate { silu(z[at]) } else { 1.0 };
                        let [exact, size] = scanned.y[t * p + q];
                        y[at] = [exact * by, size * by.abs()];
                    }
                }
                states.extend(scanned.state);
            }
        }
        [y, states]
    }
}

/// Rows of `len` elements, `pad` unused ones behind each.
pub fn padded<T: Real>(data: &[T], len: usize, pad: usize) -> Vec<T> {
    data.chunks(len.max(1))
        .flat_map(|row| row.iter().copied().chain(std::iter::repeat_n(T::POISON, pad)))
        .collect()
}

/// Runs a case: y as it lies, and the final states.
pub fn run<T: Number>(
    device: &Device,
    case: &Case,
    data: &Data<T>,
) -> Result<(Vec<T>, Vec<f32>), tilewright::Error> {
    let stream = Stream::new(device)?;
    let &Case { batch, length, heads, groups, p, n, pad, .. } = case;
    let on = |of: &[T], count: usize, cols: usize| {
        Tensor::from_slice(device, &padded(of, count * cols, pad), &[batch, length, count * cols + pad])
    };
    let (x, b, c) = (on(&data.x, heads, p)?, on(&data.b, groups, n)?, on(&data.c, groups, n)?);
    let z = on(&data.z, heads, p)?;
    let of = |tensor: &'_ Tensor<T>, count: usize, cols: usize| {
        // SAFETY: a view of the tensor's own elements, which outlives it.
        unsafe {
            let width = count * cols + pad;
            TensorView::<T>::from_raw_parts(
                device,
                tensor.address(),
                &[batch, length, count, cols],
                &[length * width, width, cols, 1],
            )
        }
    };
    let dt = Tensor::from_slice(device, &data.dt, &[batch, length, heads])?;
    let [a, bias, skip] =
        [&data.a, &data.bias, &data.skip].map(|of| Tensor::from_slice(device, of, &[heads]));
    let (a, bias, skip) = (a?, bias?, skip?);
    let sequences = case.sequences();
    let initial = Tensor::from_slice(device, &data.initial, &[sequences.len(), heads, p, n])?;
    let mut last = Tensor::filled(device, f32::NAN, &[sequences.len(), heads, p, n])?;
    let mut y = Tensor::filled(device, T::POISON, &[batch, length, heads * p])?;
    {
        let ends = sequences.iter().map(|(_, rows)| rows.end as i64);
        let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
        let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let (bias, skip, initial, offsets, z) =
            (bias.view(), skip.view(), initial.view(), offsets.view(), of(&z, heads, p)?);
        let mut last = last.view_mut();
        let mut ssd = Ssd::new().final_state(&mut last);
        ssd = if case.bias { ssd.dt_bias(&bias) } else { ssd };
        ssd = if case.softplus { ssd.softplus() } else { ssd };
        ssd = if case.skip { ssd.skip(&skip) } else { ssd };
        ssd = if case.gate { ssd.gate(&z) } else { ssd };
        ssd = if case.initial { ssd.initial_state(&initial) } else { ssd };
        if let Some([least, most]) = case.limits {
            ssd = ssd.dt_limits(least, most);
        }
        if let Some(lengths) = &case.packed {
            ssd = ssd.packed(&offsets, lengths.iter().copied().max().unwrap_or(0));
        }
        if let Some(chunk) = case.chunk {
            ssd = ssd.chunk(chunk);
        }
        if let Some(kernel) = case.kernel {
            ssd = ssd.kernel(kernel);
        }
        let bc = [&of(&b, groups, n)?, &of(&c, groups, n)?];
        let mut out = y.view_mut().reshape(&[batch, length, heads, p])?;
        ssd.run(&stream, &of(&x, heads, p)?, &dt.view(), &a.view(), bc, &mut out)?;
        stream.synchronize()?;
    }
    Ok((y.to_vec()?, last.to_vec()?))
}

/// Checks results against the recurrence: what is rounded to the element type is weights, dt x and states, each once for every term.
#[track_caller]
pub fn assert_near<T: Number>(case: &Case, (y, last): (&[T], &[f32]), exact: &[Vec<[f64; 2]>; 2]) {
    let near = |what: &str, got: &[f32], exact: &[[f64; 2]], rounding: f64, least: f64| {
        assert_eq!(got.len(), exact.len());
        for (i, (&got, &[exact, size])) in got.iter().zip(exact).enumerate() {
            let allowed = rounding * size + T::ROUNDING * exact.abs() + least;
            let error = (f64::from(got) - exact).abs();
            assert!(
                error <= allowed,
                "{case:?}: {what} {i} is {got:e}, must be {exact:e} to within {allowed:e}"
            );
        }
    };
    // Numbers below the least normal one of f16 lose digits.
    let least = 1e-6 + 64.0 * T::LEAST;
    near("y", &T::widen(y), &exact[0], 3.0 * T::ROUNDING, least);
    near("state", last, &exact[1], 1.5 * T::ROUNDING, least);
}

pub fn check<T: Number>(device: &Device, case: &Case) -> Outcome {
    let data = Data::<T>::new(case);
    let (y, last) = run(device, case, &data)?;
    assert_near(case, (&y, &last), &data.exact(case));
    Ok(())
}
