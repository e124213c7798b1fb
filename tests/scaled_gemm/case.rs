//! One product: run on every kernel that can compute it, and compared with its reference.

use tilewright::ops::{Activation, ScaledGemm, ScaledInput, ScaledOutput};
use tilewright::{DType, Device, Element, F8E4M3, F8E5M2, Stream, Tensor, f16};
use tilewright_support::Real;
use tilewright_support::activation::exact;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Elements of A and B.
pub trait Value: Element {
    /// What the sums of products of it lose, relative to the sum of magnitudes: of 8-bit floats on tensor cores, which keep 13 bits.
    const LOSES: f64;
    fn value(self) -> f64;
    fn some(seed: u64, len: usize) -> Vec<Self>;
}

macro_rules! floats {
    ($($t:ident)*) => { $(
        impl Value for $t {
            const LOSES: f64 = 1.0 / 4096.0;
            fn value(self) -> f64 {
                self.to_f32().into()
            }
            fn some(seed: u64, len: usize) -> Vec<Self> {
                normal::<f32>(seed, len).into_iter().map($t::from_f32).collect()
            }
        }
    )* };
}
floats!(F8E4M3 F8E5M2);

impl Value for i8 {
    const LOSES: f64 = 1e-7;
    fn value(self) -> f64 {
        self.into()
    }
    fn some(seed: u64, len: usize) -> Vec<Self> {
        normal::<f32>(seed, len).into_iter().map(|x| (x * 100.0) as i32 as i8).collect()
    }
}

impl Value for f32 {
    const LOSES: f64 = 1.0 / 4096.0;
    fn value(self) -> f64 {
        self.into()
    }
    /// Of few digits, as tf32 has.
    fn some(seed: u64, len: usize) -> Vec<Self> {
        normal::<f16>(seed, len).into_iter().map(f16::to_f32).collect()
    }
}

/// Whose scales there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaled {
    No,
    Tensors,
    Rows,
    Blocks,
}

/// C = act(alpha · scales · A Bᵀ + bias), on the host.
pub struct Case<A, B> {
    pub size: [usize; 3],
    pub a: Vec<A>,
    pub b: Vec<B>,
    pub scaled: Scaled,
    pub scales: [Vec<f32>; 2],
    pub alpha: f32,
    pub activation: Activation,
    pub biased: bool,
    pub fast: bool,
}

impl<A: Value + ScaledInput<B>, B: Value> Case<A, B> {
    pub fn new(size: [usize; 3], scaled: Scaled) -> Self {
        let [m, n, k] = size;
        let lines = |lines: usize, of: usize| match scaled {
            Scaled::No => 0,
            Scaled::Tensors => 1,
            Scaled::Rows => lines,
            Scaled::Blocks => of * k.div_ceil(128),
        };
        let scales = |seed, len| normal::<f32>(seed, len).into_iter().map(|x| x.exp2()).collect();
        Case {
            size,
            a: A::some(1, m * k),
            b: B::some(2, n * k),
            scaled,
            scales: [scales(3, lines(m, m)), scales(4, lines(n, n.div_ceil(128)))],
            alpha: 1.0,
            activation: Activation::Identity,
            biased: false,
            fast: false,
        }
    }

    fn shapes(&self) -> [Vec<usize>; 2] {
        let ([m, n, k], of) = (self.size, k_blocks(self.size));
        match self.scaled {
            Scaled::No | Scaled::Tensors => [vec![1], vec![1]],
            Scaled::Rows => [vec![m], vec![n]],
            Scaled::Blocks => [vec![m, k.div_ceil(128)], vec![n.div_ceil(128), of]],
        }
    }

    /// The scale of the sum of the `block`-th 128 of the depth.
    fn scale(&self, row: usize, column: usize, block: usize) -> f64 {
        let of = k_blocks(self.size);
        let [a, b] = match self.scaled {
            Scaled::No => return 1.0,
            Scaled::Tensors => [0, 0],
            Scaled::Rows => [row, column],
            Scaled::Blocks => [row * of + block, column / 128 * of + block],
        };
        f64::from(self.scales[0][a]) * f64::from(self.scales[1][b])
    }

    /// The sum at a place of C, scaled, and that of magnitudes.
    pub fn sum(&self, row: usize, column: usize) -> (f64, f64) {
        let [_, _, k] = self.size;
        let (a, b) = (&self.a[row * k..(row + 1) * k], &self.b[column * k..(column + 1) * k]);
        // What has one scale is summed up first: an infinite one makes no NaN of sums of both signs.
        let depth = if self.scaled == Scaled::Blocks { 128 } else { k.max(1) };
        let sums = a.chunks(depth).zip(b.chunks(depth)).enumerate().map(|(block, (a, b))| {
            let products = || a.iter().zip(b).map(|(a, b)| a.value() * b.value());
            let scale = self.scale(row, column, block);
            (products().sum::<f64>() * scale, products().map(f64::abs).sum::<f64>() * scale.abs())
        });
        sums.fold((0.0, 0.0), |(sum, size), (x, its)| (sum + x, size + its))
    }

    /// Runs it on every kernel for C of this type that lies at this place.
    pub fn check_at<U: Real + ScaledOutput<Bias: Real>>(&self, device: &Device, place: Place) -> Outcome {
        let [m, n, k] = self.size;
        let stream = Stream::new(device)?;
        let (a, b) =
            (Tensor::from_slice(device, &self.a, &[m, k])?, Tensor::from_slice(device, &self.b, &[n, k])?);
        let [of_a, of_b] = self.shapes();
        let scale = |values: &[f32], shape: &[usize]| match self.scaled {
            Scaled::No => Tensor::filled(device, f32::NAN, &[1]),
            _ => Tensor::from_slice(device, values, shape),
        };
        let (of_a, of_b) = (scale(&self.scales[0], &of_a)?, scale(&self.scales[1], &of_b)?);
        let bias = normal::<U::Bias>(5, n);
        let bias_there = Tensor::from_slice(device, &bias, &[n])?;
        let (of_a, of_b, bias_view) = (of_a.view(), of_b.view(), bias_there.view());
        let gemm = |kernel: Option<&'static str>| {
            let mut gemm = ScaledGemm::<U>::new()
                .alpha(self.alpha)
                .activation(self.activation)
                .fast_accumulation(self.fast);
            if self.scaled != Scaled::No {
                gemm = gemm.scale_a(&of_a).scale_b(&of_b);
            }
            if self.biased {
                gemm = gemm.bias(&bias_view);
            }
            match kernel {
                Some(name) => gemm.kernel(name),
                None => gemm,
            }
        };
        let mut c = Guarded::<U>::at(device, place)?;
        let all = gemm(None).candidates(&a.view(), &b.view(), &c.view_mut()?.select(0, 0)?)?;
        let names: Vec<_> =
            all.iter().filter(|found| found.rejection().is_none()).map(|found| found.name()).collect();
        assert!(!names.is_empty(), "{all:?}");
        let sums: Vec<_> = (0..m * n).map(|at| self.sum(at / n, at % n)).collect();
        for name in names {
            let mut c = Guarded::<U>::at(device, place)?;
            gemm(Some(name)).run(&stream, &a.view(), &b.view(), &mut c.view_mut()?.select(0, 0)?)?;
            stream.synchronize()?;
            let (out, outside) = c.read()?;
            assert_eq!(outside, 0, "{name}: elements outside of C were written");
            let loses = if name.contains("fast") { 16.0 * A::LOSES } else { A::LOSES };
            for (at, got) in U::widen(&out).into_iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let (sum, size) = sums[at];
                let bias = if self.biased { f64::from(U::Bias::widen(&bias)[column]) } else { 0.0 };
                let alpha = f64::from(self.alpha);
                let want = exact(self.activation, alpha * sum + bias);
                // Numbers of 8 bits saturate; NaN stays.
                let want = if U::DTYPE == DType::E4M3 { want.clamp(-448.0, 448.0) } else { want };
                let allowed = U::ROUNDING * want.abs()
                    + 1.2 * loses * (alpha * size).abs()
                    + U::LEAST
                    + 1e-6 * (1.0 + bias.abs());
                let off = (f64::from(got) - want).abs();
                let same = f64::from(got) == want || (got.is_nan() && want.is_nan());
                // Beside an infinity no number is near.
                if !same && (off.is_nan() || off > allowed || allowed.is_infinite()) {
                    let what = format!("{name}, {:?}, {:?}", self.size, self.scaled);
                    return Err(
                        format!("{what}: ({row}, {column}) is {got}, not {want} (within {allowed})").into()
                    );
                }
            }
        }
        Ok(())
    }

    /// The same with C's rows one behind the other.
    pub fn check<U: Real + ScaledOutput<Bias: Real>>(&self, device: &Device) -> Outcome {
        let [m, n, _] = self.size;
        self.check_at::<U>(device, Place::by_rows([1, m, n], n.next_multiple_of(8)))
    }
}

fn k_blocks([_, _, k]: [usize; 3]) -> usize {
    k.div_ceil(128)
}
