//! Products of f32 by parts of tf32.

use tilewright::ops::{Activation, ScaledGemm, ScaledGemmViews};
use tilewright::{Device, Error, Stream, Tensor, TensorView};
use tilewright_support::activation::exact;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// What a product may be off by, and with it their sum, relative to the sum of magnitudes.
const LOSES: f64 = 1.0 / (1u64 << 20) as f64;

/// A matrix in memory, and how it lies there.
struct Matrix {
    values: Vec<f32>,
    tensor: Tensor<f32>,
    lies: Lies,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lies {
    /// Row after row.
    Rows,
    /// Column after column.
    Columns,
    /// From the second element of memory on, with one between two rows.
    Apart,
    /// Every second element.
    Spread,
}

/// Where an element of a matrix of this shape lies.
type PlaceOf = fn([usize; 2], [usize; 2]) -> usize;

impl Matrix {
    fn new(device: &Device, seed: u64, [lines, depth]: [usize; 2], lies: Lies) -> tilewright::Result<Self> {
        let values = normal::<f32>(seed, lines * depth);
        let (shape, place): (_, PlaceOf) = match lies {
            Lies::Rows => ([lines, depth], |[i, j], [_, depth]| i * depth + j),
            Lies::Columns => ([depth, lines], |[i, j], [lines, _]| j * lines + i),
            Lies::Apart => ([lines, depth + 1], |[i, j], [_, depth]| i * (depth + 1) + j + 1),
            Lies::Spread => ([lines, 2 * depth], |[i, j], [_, depth]| 2 * (i * depth + j)),
        };
        // What lies between is nobody's.
        let mut memory = vec![f32::NAN; shape[0] * shape[1]];
        for (at, &x) in values.iter().enumerate() {
            memory[place([at / depth, at % depth], [lines, depth])] = x;
        }
        Ok(Matrix { values, tensor: Tensor::from_slice(device, &memory, &shape)?, lies })
    }

    fn view(&self) -> tilewright::Result<TensorView<'_, f32>> {
        let view = self.tensor.view();
        let [lines, depth] = [0, 1].map(|dim| view.shape()[dim]);
        match self.lies {
            Lies::Rows => Ok(view),
            Lies::Columns => view.transpose(0, 1),
            Lies::Apart => view.narrow(1, 1, depth - 1),
            Lies::Spread => view.reshape(&[lines, depth / 2, 2])?.select(2, 0),
        }
    }
}

pub fn sizes(device: &Device) -> Outcome {
    let all = [
        ([1, 1, 1], [Lies::Rows, Lies::Rows]),
        ([130, 70, 33], [Lies::Apart, Lies::Columns]),
        ([65, 257, 100], [Lies::Columns, Lies::Rows]),
        ([264, 136, 200], [Lies::Rows, Lies::Columns]),
        ([40, 66, 31], [Lies::Spread, Lies::Apart]),
    ];
    for ([m, n, k], lies) in all {
        let a = Matrix::new(device, 1, [m, k], lies[0])?;
        let b = Matrix::new(device, 2, [n, k], lies[1])?;
        let (bias, scale) = (normal::<f32>(3, n), normal::<f32>(4, m));
        let bias_there = Tensor::from_slice(device, &bias, &[n])?;
        let scale_there = Tensor::from_slice(device, &scale, &[m])?;
        let (bias_view, scale_view) = (bias_there.view(), scale_there.view());
        let gemm = || {
            let gemm = ScaledGemm::new().precise(true).alpha(0.5).bias(&bias_view);
            gemm.scale_a(&scale_view).activation(Activation::Relu)
        };
        let mut c = Tensor::<f32>::filled(device, f32::NAN, &[m, n])?;
        let candidates = gemm().candidates(&a.view()?, &b.view()?, &c.view_mut())?;
        assert!(candidates.iter().all(|candidate| candidate.name().contains("promoted")), "{candidates:?}");
        for name in candidates.iter().map(|candidate| candidate.name()) {
            let mut c = Tensor::<f32>::filled(device, f32::NAN, &[m, n])?;
            let stream = Stream::new(device)?;
            gemm().kernel(name).run(&stream, &a.view()?, &b.view()?, &mut c.view_mut())?;
            for (at, got) in c.to_vec_on(&stream)?.into_iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let products = a.values[row * k..][..k].iter().zip(&b.values[column * k..][..k]);
                let products = products.map(|(&a, &b)| f64::from(a) * f64::from(b));
                let by = 0.5 * f64::from(scale[row]);
                let sum = by * products.clone().sum::<f64>() + f64::from(bias[column]);
                let want = exact(Activation::Relu, sum);
                let size = by.abs() * products.map(f64::abs).sum::<f64>() + f64::from(bias[column]).abs();
                let off = (f64::from(got) - want).abs();
                if off.is_nan() || off > LOSES * size {
                    let what = format!("{name}, {m} x {n} x {k}, {lies:?}");
                    return Err(format!("{what}: ({row}, {column}) is {got}, not {want}, of {size}").into());
                }
            }
        }
    }
    Ok(())
}

/// Numbers at the ends of the range, and those that are none, reach their rows alone.
pub fn extremes(device: &Device) -> Outcome {
    let (max, least) = (f32::MAX, f32::MIN_POSITIVE);
    let values = [
        max / 2.0,
        -max / 2.0,
        max,
        least,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        0.0,
        1.0 + f32::EPSILON,
    ];
    // A NaN of which only low bits are set.
    let faint = f32::from_bits(0x7f80_0001);
    let rows: Vec<f32> = values.into_iter().chain([faint]).collect();
    let (m, k) = (rows.len(), 8);
    let a: Vec<f32> = rows.iter().flat_map(|&x| (0..k).map(move |j| if j == 3 { x } else { 0.0 })).collect();
    let a = Tensor::from_slice(device, &a, &[m, k])?;
    // One without a part that tf32 leaves, one with a negative one.
    let by = [1.0, 1.0 + 7.0 / 4096.0];
    let b: Vec<f32> = by.into_iter().flat_map(|x| [x; 8]).collect();
    let b = Tensor::from_slice(device, &b, &[2, k])?;
    let mut c = Tensor::<f32>::zeros(device, &[m, 2])?;
    ScaledGemm::new().precise(true).run(&Stream::new(device)?, &a.view(), &b.view(), &mut c.view_mut())?;
    for (at, got) in c.to_vec()?.into_iter().enumerate() {
        // What is finite in f32 but not times the second number, neither is there.
        let want = rows[at / 2] * by[at % 2];
        let near = (got - want).abs() <= want.abs() * LOSES as f32;
        assert!(got == want || near || got.is_nan() && want.is_nan(), "element {at}: {got}, not {want}");
    }
    Ok(())
}

fn is_about_workspace(outcome: &tilewright::Result<()>) -> bool {
    matches!(outcome, Err(Error::Argument { argument, .. }) if argument == "workspace")
}

pub fn planned(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let [m, n, k] = [70, 40, 50];
    let (a, b) = (normal::<f32>(1, m * k), normal::<f32>(2, n * k));
    let mut a = Tensor::from_slice(device, &a, &[m, k])?;
    let b = Tensor::from_slice(device, &b, &[n, k])?;
    let (mut c, mut other) = (Tensor::zeros(device, &[m, n])?, Tensor::filled(device, f32::NAN, &[m, n])?);
    let plan = ScaledGemm::new().precise(true).plan(&a.view(), &b.view(), &c.view_mut())?;
    // Lines are rounded up to 32 elements.
    assert_eq!(plan.workspace_len(), 3 * 64 * (m + n));
    let mut workspace = Tensor::<f32>::filled(device, f32::NAN, &[plan.workspace_len()])?;
    let views = ScaledGemmViews::default();
    let short = &mut workspace.view_mut().narrow(0, 0, 100)?;
    let error = plan.run_in(&stream, &a.view(), &b.view(), &mut c.view_mut(), &views, short);
    assert!(is_about_workspace(&error), "{error:?}");
    // Captured, it has no memory of the device's.
    let captured = |stream: &Stream| plan.run(stream, &a.view(), &b.view(), &mut c.view_mut(), &views);
    let refused = stream.capture(captured).map(|_| ());
    assert!(is_about_workspace(&refused), "{refused:?}");
    let (to, room) = (&mut other.view_mut(), &mut workspace.view_mut());
    let graph = stream.capture(|stream| plan.run_in(stream, &a.view(), &b.view(), to, &views, room))?;
    // The graph reads what lies there when it is launched.
    for seed in [1, 7] {
        a.copy_from(&stream, &Tensor::from_slice(device, &normal::<f32>(seed, m * k), &[m, k])?)?;
        plan.run(&stream, &a.view(), &b.view(), &mut c.view_mut(), &views)?;
        // SAFETY: what it was captured with is alive, and nobody else uses it.
        unsafe { graph.launch(&stream)? };
        assert_eq!(c.to_vec_on(&stream)?, other.to_vec_on(&stream)?);
    }
    Ok(())
}

pub fn refused(device: &Device) -> Outcome {
    let bytes = Tensor::<i8>::zeros(device, &[16, 16])?;
    let mut sums = Tensor::<i32>::zeros(device, &[16, 16])?;
    let gemm = ScaledGemm::new().precise(true);
    let error = gemm.plan(&bytes.view(), &bytes.view(), &sums.view_mut()).expect_err("bytes have no parts");
    let text = "`precise` was set for products of i8; it must be left out but for products of f32";
    assert_eq!(error.to_string(), text);
    // Without depth nothing is split.
    let empty = Tensor::<f32>::zeros(device, &[16, 0])?;
    let mut c = Tensor::<f32>::filled(device, f32::NAN, &[16, 16])?;
    let stream = Stream::new(device)?;
    ScaledGemm::new().precise(true).run(&stream, &empty.view(), &empty.view(), &mut c.view_mut())?;
    assert_eq!(c.to_vec_on(&stream)?, [0.0; 256]);
    Ok(())
}
