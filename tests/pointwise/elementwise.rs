//! Functions of single elements.

use std::collections::BTreeSet;
use std::f64::consts::PI;

use tilewright::ops::{Activation, Binary, Elementwise, Formula, Ternary, Unary, elementwise};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;
use tilewright_support::{Real, activation};

use crate::case::{LENGTHS, Number, assert_near, by_each, done, packed, places, runnable};

/// A function with its exact value, and the error that f32 may leave.
pub trait Known<const N: usize>: Formula<N> + std::fmt::Debug {
    fn exact(self, x: [f64; N]) -> f64;
    fn error(self, x: [f64; N]) -> f64;
}

impl Known<1> for Unary {
    fn exact(self, [x]: [f64; 1]) -> f64 {
        let of = |activation| if x.is_nan() { x } else { activation::exact(activation, x) };
        match self {
            Unary::Identity => x,
            Unary::Neg => -x,
            Unary::Abs => x.abs(),
            Unary::Square => x * x,
            Unary::Exp => x.exp(),
            Unary::Log => x.ln(),
            Unary::Sqrt => x.sqrt(),
            Unary::Rsqrt => 1.0 / x.sqrt(),
            Unary::Recip => 1.0 / x,
            Unary::Sin => x.sin(),
            Unary::Cos => x.cos(),
            Unary::Tanh => x.tanh(),
            Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Unary::Relu => of(Activation::Relu),
            Unary::Gelu => of(Activation::Gelu),
            Unary::Silu => of(Activation::Silu),
        }
    }
    fn error(self, [x]: [f64; 1]) -> f64 {
        match self {
            Unary::Identity | Unary::Neg | Unary::Abs => 0.0,
            Unary::Log => 3e-7 * self.exact([x]).abs().max(1.0),
            Unary::Sin | Unary::Cos => 3e-7,
            Unary::Tanh => 1.5e-6 * x.abs().min(1.0),
            Unary::Gelu => 6e-7 * x.abs(),
            Unary::Silu => 2e-6 * self.exact([x]).abs(),
            _ => 5e-7 * self.exact([x]).abs(),
        }
    }
}

impl Known<2> for Binary {
    fn exact(self, [a, b]: [f64; 2]) -> f64 {
        let any = a.is_nan() || b.is_nan();
        match self {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            Binary::Max | Binary::Min if any => f64::NAN,
            Binary::Max => a.max(b),
            Binary::Min => a.min(b),
            Binary::Pow => a.powf(b),
        }
    }
    fn error(self, [a, b]: [f64; 2]) -> f64 {
        let exact = self.exact([a, b]).abs();
        match self {
            Binary::Pow => exact * 4e-7 * (1.0 + b.abs() + exact.log2().abs().min(1e3)),
            _ => 1e-7 * exact,
        }
    }
}

impl Known<3> for Ternary {
    fn exact(self, [a, b, c]: [f64; 3]) -> f64 {
        match self {
            Ternary::MulAdd => a * b + c,
            Ternary::Select if a != 0.0 => b,
            Ternary::Select => c,
        }
    }
    fn error(self, [a, b, c]: [f64; 3]) -> f64 {
        1e-7 * self.exact([a, b, c]).abs()
    }
}

/// Runs a call on inputs of the shape of y, and checks it; whether the kernel can compute it.
fn check<T: Number, U: Number, F: Known<N>, const N: usize>(
    stream: &Stream,
    kernel: Option<&str>,
    f: F,
    values: [&[T]; N],
    places: [Place; N],
    to: Place,
) -> tilewright_support::Result<bool> {
    let device = stream.device();
    let mut tensors = Vec::new();
    for (values, place) in values.iter().zip(places) {
        tensors.push(Guarded::with(device, place, values)?);
    }
    let mut y = Guarded::<U>::at(device, to)?;
    let views = tensors.iter().map(Guarded::view).collect::<Result<Vec<_>, _>>()?;
    let options = Elementwise::new(f);
    let options = kernel.map_or(options, |name| options.kernel(name));
    if !done(options.run(stream, std::array::from_fn(|i| &views[i]), &mut y.view_mut()?))? {
        return Ok(false);
    }
    let wide = values.map(T::widen);
    let at = |i: usize| std::array::from_fn(|k| f64::from(wide[k][i]));
    let exact: Vec<f64> = (0..to.count()).map(|i| f.exact(at(i))).collect();
    // What is too large for the type becomes infinite.
    let largest = if U::DTYPE == tilewright::DType::F16 { 65519.99 } else { f64::from(f32::MAX) };
    let exact: Vec<f64> =
        exact.into_iter().map(|y| if y.abs() > largest { y * f64::INFINITY } else { y }).collect();
    let what = format!("{f:?} of {} to {} by {kernel:?} at {to:?}", T::DTYPE, U::DTYPE);
    assert_near(&what, &y, &exact, |i, exact| exact.abs() * U::ROUNDING + 2.0 * U::LEAST + f.error(at(i)));
    Ok(true)
}

pub fn every_kernel(device: &Device) -> Outcome {
    let kinds = ["unary_", "binary_", "ternary_"];
    let all = runnable(device, |name| kinds.iter().any(|kind| name.starts_with(kind)));
    assert!(all.len() >= 5 * kinds.len(), "{all:?}");
    fn of<T: Number, U: Number>(
        device: &Device,
        all: &BTreeSet<&'static str>,
    ) -> tilewright_support::Result<BTreeSet<&'static str>> {
        let (stream, mut seen) = (Stream::new(device)?, BTreeSet::new());
        for (i, cols) in LENGTHS.into_iter().enumerate() {
            let place = packed(3, cols);
            let [a, b, c] = [1, 2, 3].map(|seed| normal::<T>(seed, place.count()));
            let binary = Binary::ALL[i % Binary::ALL.len()];
            let ternary = Ternary::ALL[i % Ternary::ALL.len()];
            seen.append(&mut by_each(all, |name| {
                let of = Some(name);
                match name.split('_').next() {
                    Some("binary") => check::<T, U, _, 2>(&stream, of, binary, [&a, &b], [place; 2], place),
                    Some("ternary") => {
                        check::<T, U, _, 3>(&stream, of, ternary, [&a, &b, &c], [place; 3], place)
                    }
                    _ => Unary::ALL[i % 4 * 4..][..4].iter().try_fold(true, |all, &unary| {
                        Ok(all && check::<T, U, _, 1>(&stream, of, unary, [&a], [place], place)?)
                    }),
                }
            })?);
        }
        Ok(seen)
    }
    let mut seen = of::<f16, f16>(device, &all)?;
    seen.append(&mut of::<bf16, bf16>(device, &all)?);
    seen.append(&mut of::<f32, f32>(device, &all)?);
    seen.append(&mut of::<f16, bf16>(device, &all)?);
    seen.append(&mut of::<bf16, f32>(device, &all)?);
    seen.append(&mut of::<f32, f16>(device, &all)?);
    assert_eq!(seen, all);
    Ok(())
}

/// Every function, of many elements.
pub fn every_function(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device, len: usize) -> Outcome {
        let (stream, place) = (Stream::new(device)?, packed(1, len));
        let [a, b, c] = [4, 5, 6].map(|seed| normal::<T>(seed, len));
        for &f in Unary::ALL {
            assert!(check::<T, T, _, 1>(&stream, None, f, [&a], [place], place)?);
        }
        for &f in Binary::ALL {
            assert!(check::<T, T, _, 2>(&stream, None, f, [&a, &b], [place; 2], place)?);
        }
        for &f in Ternary::ALL {
            assert!(check::<T, T, _, 3>(&stream, None, f, [&a, &b, &c], [place; 3], place)?);
        }
        Ok(())
    }
    of::<f32>(device, 8191)?;
    of::<f16>(device, 8192)?;
    of::<bf16>(device, 4099)?;
    let stream = Stream::new(device)?;
    let (place, x) = (packed(1, 131_072), normal::<f32>(7, 131_072));
    assert!(check::<f32, f16, _, 1>(&stream, None, Unary::Tanh, [&x], [place], place)?);
    Ok(())
}

/// Padded, unaligned, by columns, and all differently.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [[2, 3, 1000], [3, 5, 33], [1, 2, 4096]] {
        let (count, all) = (shape.iter().product(), places(shape));
        let [a, b, c] = [3, 4, 5].map(|seed| normal::<f16>(seed, count));
        for (i, &one) in all.iter().enumerate() {
            let [two, three] = [all[(i + 1) % 5], all[(i + 2) % 5]];
            assert!(check::<f16, f16, _, 1>(&stream, None, Unary::Exp, [&a], [one], one)?);
            assert!(check::<f16, f32, _, 1>(&stream, None, Unary::Neg, [&a], [one], two)?);
            let f = Binary::Mul;
            assert!(check::<f16, f16, _, 2>(&stream, None, f, [&a, &b], [one, two], three)?);
            let f = Ternary::Select;
            assert!(check::<f16, f16, _, 3>(&stream, None, f, [&a, &b, &c], [one, three, two], one)?);
        }
    }
    Ok(())
}

/// Rows that begin at every element of a vector, and results too, are taken in vectors.
pub fn begins_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for skew in 0..8 {
        let (rows, cols, pitch) = (5, 203, 211 + skew);
        let values = normal::<f16>(skew as u64, 8 + rows * pitch);
        let x = Tensor::from_slice(device, &values, &[values.len()])?;
        let rows_of = |first: usize| {
            x.view().narrow(0, first, rows * pitch)?.reshape(&[rows, pitch])?.narrow(1, 0, cols)
        };
        let (a, b) = (rows_of(skew)?, rows_of(7 - skew)?);
        let mut room = Tensor::filled(device, f16::NAN, &[rows, cols + 13])?;
        let mut y = room.view_mut().narrow(1, skew, cols)?;
        let f = Elementwise::new(Binary::Sub);
        assert!(!f.plan([&a, &b], &y)?.kernel().name().ends_with("_any"));
        f.run(&stream, [&a, &b], &mut y)?;
        for (i, y) in f16::widen(&room.to_vec()?).iter().enumerate() {
            let (row, col) = (i / (cols + 13), i % (cols + 13));
            match col.checked_sub(skew).filter(|col| *col < cols) {
                Some(col) => {
                    let of = |first: usize| values[first + row * pitch + col].to_f32();
                    assert_eq!(*y, f16::from_f32(of(skew) - of(7 - skew)).to_f32(), "{skew}: ({row}, {col})");
                }
                None => assert!(y.is_nan(), "{skew}: ({row}, {col}) was written"),
            }
        }
    }
    Ok(())
}

/// Rows of every length and pitch, of tensors that begin at any element, and a row that repeats: pieces begin where vectors of y do.
pub fn rows_anywhere(device: &Device) -> Outcome {
    let all = runnable(device, |name| name.starts_with("binary_") || name.starts_with("unary_"));
    fn of<T: Number, U: Number>(device: &Device, all: &BTreeSet<&'static str>) -> Outcome {
        let stream = Stream::new(device)?;
        for (cols, more) in [(1, 4), (7, 0), (8, 1), (9, 0), (33, 0), (33, 8), (203, 2), (1001, 0)] {
            let shape = [2, 3, cols];
            let (packed, pitched) = (Place::by_rows(shape, cols), Place::by_rows(shape, cols + more));
            let row = pitched.strided([0, 0, 1]);
            let a = normal::<T>(cols as u64, packed.count());
            let b: Vec<T> = (0..a.len()).map(|i| a[i % cols]).collect();
            for (first, other) in [(0, 0), (1, 1), (3, 6), (0, 5)] {
                let (from, to) = (pitched.shifted(first), packed.shifted(other));
                let ran = by_each(all, |name| match name.split('_').next() {
                    Some("unary") => check::<T, U, _, 1>(&stream, Some(name), Unary::Neg, [&a], [from], to),
                    _ => {
                        let places = [from, row.shifted(other)];
                        check::<T, U, _, 2>(&stream, Some(name), Binary::Mul, [&a, &b], places, to)
                    }
                })?;
                let vectors = ran.iter().filter(|name| !name.ends_with("_any")).count();
                // A single column is a row of elements that are apart.
                assert!(vectors >= 2 || cols == 1, "{ran:?}: {cols} columns of {more} more");
            }
        }
        Ok(())
    }
    of::<f16, f16>(device, &all)?;
    of::<f32, f32>(device, &all)?;
    of::<bf16, f32>(device, &all)?;
    of::<f32, f16>(device, &all)
}

/// Rows, columns, matrices and single elements that repeat; in vectors where rows allow it.
pub fn broadcasts(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for [batch, rows, cols] in [[2, 3, 64], [3, 1, 40], [2, 5, 33], [1, 1, 1]] {
        let shapes = [
            vec![batch, rows, cols],
            vec![cols],
            vec![rows, 1],
            vec![batch, 1, 1],
            vec![1, rows, cols],
            vec![],
        ];
        let whole = normal::<f16>(1, batch * rows * cols);
        let a = Tensor::from_slice(device, &whole, &[batch, rows, cols])?;
        for shape in &shapes {
            let b = Tensor::from_slice(device, &normal::<f16>(2, shape.iter().product()), shape)?;
            let mut y = Tensor::filled(device, f16::NAN, &[batch, rows, cols])?;
            elementwise(&stream, Binary::Sub, [&a.view(), &b.view()], &mut y.view_mut())?;
            let stretched = f16::widen(&b.view().broadcast(&[batch, rows, cols])?.to_vec()?);
            for ((y, a), b) in f16::widen(&y.to_vec()?).iter().zip(f16::widen(&whole)).zip(stretched) {
                assert_eq!(*y, f16::from_f32(a - b).to_f32(), "{shape:?}");
            }
            let plan = Elementwise::new(Binary::Sub).plan([&a.view(), &b.view()], &y.view_mut())?;
            let vectors = !plan.kernel().name().ends_with("_any");
            let in_one = batch * rows == 1 || *shape == [batch, rows, cols] || shape.is_empty();
            assert!(vectors || !(cols % 8 == 0 || in_one), "{shape:?}: {plan}");
        }
    }
    Ok(())
}

/// s f(x) + t, with one rounding.
pub fn affine(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let values = normal::<f32>(1, 1000);
    let x = Tensor::from_slice(device, &values, &[1000])?;
    let mut y = Tensor::<f32>::zeros(device, &[1000])?;
    let plain = Elementwise::new(Unary::Identity);
    plain.scale(3.0).bias(-0.25).run(&stream, [&x.view()], &mut y.view_mut())?;
    for (y, x) in y.to_vec()?.iter().zip(&values) {
        assert_eq!(*y, x.mul_add(3.0, -0.25));
    }
    // Nothing is added to minus 0.
    let zeros = Tensor::from_slice(device, &[-0.0f32, 0.0], &[2])?;
    let mut y = Tensor::<f32>::zeros(device, &[2])?;
    plain.run(&stream, [&zeros.view()], &mut y.view_mut())?;
    assert_eq!(y.to_vec()?.iter().map(|y| y.to_bits()).collect::<Vec<_>>(), [1 << 31, 0]);
    Ok(())
}

/// Inputs that are no ordinary numbers, and large angles.
pub fn extremes(device: &Device) -> Outcome {
    let (stream, inf) = (Stream::new(device)?, f32::INFINITY);
    let numbers = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-30,
        -1e-30,
        88.0,
        -87.0,
        200.0,
        -200.0,
        1e30,
        -1e30,
        inf,
        -inf,
        f32::NAN,
        0.25,
        -0.2499,
        0.9999,
        2.0,
        3.0,
        -2.0,
        0.5,
        -0.5,
        1e-3,
    ];
    let place = packed(1, numbers.len());
    for &f in Unary::ALL {
        // What overflows on the way; and the limits of x Φ(x) and its kin are products of 0 and infinity.
        let left_out = |x: f32| match f {
            Unary::Gelu | Unary::Silu => x.is_infinite(),
            _ => false,
        };
        let x = numbers.map(|x| if left_out(x) { 0.0 } else { x });
        assert!(check::<f32, f32, _, 1>(&stream, None, f, [&x], [place], place)?);
    }
    let a: Vec<f32> = numbers.iter().flat_map(|&a| [a; 24]).collect();
    let b: Vec<f32> = (0..24).flat_map(|_| numbers).collect();
    let place = packed(1, a.len());
    for &f in Binary::ALL {
        assert!(check::<f32, f32, _, 2>(&stream, None, f, [&a, &b], [place; 2], place)?);
    }
    let c: Vec<f32> = b.iter().rev().copied().collect();
    let select = check::<f32, f32, _, 3>(&stream, None, Ternary::Select, [&a, &b, &c], [place; 3], place)?;
    assert!(select);
    let angles: Vec<f32> = (0..400)
        .map(|i| {
            let size = 10f32.powi(i / 10 - 4) * (1.0 + i as f32 / 37.0);
            if i % 2 == 0 { size } else { -size }
        })
        .chain((0..40).map(|i| (f64::from(i) * PI / 4.0) as f32))
        .filter(|x| x.is_finite())
        .collect();
    let place = packed(1, angles.len());
    for f in [Unary::Sin, Unary::Cos] {
        assert!(check::<f32, f32, _, 1>(&stream, None, f, [&angles], [place], place)?);
    }
    // Subnormal numbers have roots and logarithms.
    let small = [1e-40, 3e-39, 1e-45, 1e-38];
    for f in [Unary::Log, Unary::Sqrt] {
        assert!(check::<f32, f32, _, 1>(&stream, None, f, [&small], [packed(1, 4)], packed(1, 4))?);
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [&[0, 5][..], &[5, 0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f32>::zeros(device, shape)?);
        elementwise(&stream, Unary::Exp, [&x.view()], &mut y.view_mut())?;
        Elementwise::new(Unary::Exp).plan([&x.view()], &y.view_mut())?;
    }
    // A tensor without dimensions has one element.
    let one = Tensor::from_slice(device, &[2.0f32], &[])?;
    let mut y = Tensor::<f32>::zeros(device, &[])?;
    elementwise(&stream, Ternary::MulAdd, [&one.view(); 3], &mut y.view_mut())?;
    assert_eq!(y.to_vec()?, [6.0]);
    Ok(())
}
