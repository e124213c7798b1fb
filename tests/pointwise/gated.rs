//! Gated linear units and their gradients.

use std::collections::BTreeSet;

use tilewright::ops::{Activation, Gated, geglu, swiglu};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::activation;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{LENGTHS, Number, assert_near, by_each, done, packed, places, runnable};

/// An activation, of which NaN gives NaN.
fn exact(activation: Activation, x: f64) -> f64 {
    if x.is_nan() { x } else { activation::exact(activation, x) }
}

/// The derivative of an activation, by differences of f64.
fn slope(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Identity => 1.0,
        _ if x.is_nan() => x,
        Activation::Relu => f64::from(u8::from(x > 0.0)),
        _ => {
            let h = 1e-4;
            let at = |by: f64| exact(activation, x + by * h);
            (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * h)
        }
    }
}

/// Rounding, and what approximations of exponentials leave beside values of `size`.
fn allowed<T: Number>(exact: f64, size: f64) -> f64 {
    exact.abs() * T::ROUNDING + T::LEAST + 2e-6 * size.max(exact.abs())
}

fn wide<T: Number>(x: &[T]) -> Vec<f64> {
    T::widen(x).into_iter().map(f64::from).collect()
}

/// What a gated unit gives for these values, checked; whether the kernel can compute them.
fn check<T: Number>(
    stream: &Stream,
    gated: Gated<'_>,
    activation: Activation,
    values: [&[T]; 2],
    [gate, up, to]: [Place; 3],
) -> tilewright_support::Result<bool> {
    let device = stream.device();
    let place = to;
    let (g, u) = (Guarded::with(device, gate, values[0])?, Guarded::with(device, up, values[1])?);
    let mut y = Guarded::<T>::at(device, to)?;
    if !done(gated.run(stream, &g.view()?, &u.view()?, &mut y.view_mut()?))? {
        return Ok(false);
    }
    let [g, u] = values.map(wide);
    let result: Vec<f64> = g.iter().zip(&u).map(|(&g, u)| exact(activation, g) * u).collect();
    let what = format!("{gated:?}, {} at {place:?}", T::DTYPE);
    assert_near(&what, &y, &result, |i, exact| allowed::<T>(exact, u[i].abs()));
    Ok(true)
}

/// The same of the gradients, for dy that is up backwards.
fn check_gradient<T: Number>(
    stream: &Stream,
    gated: Gated<'_>,
    activation: Activation,
    values: [&[T]; 2],
    at: [Place; 3],
) -> tilewright_support::Result<bool> {
    let device = stream.device();
    let back: Vec<T> = values[1].iter().rev().copied().collect();
    let (g, u) = (Guarded::with(device, at[0], values[0])?, Guarded::with(device, at[1], values[1])?);
    let dy = Guarded::with(device, at[2], &back)?;
    let (mut by_gate, mut by_up) = (Guarded::<T>::at(device, at[1])?, Guarded::<T>::at(device, at[0])?);
    let (d_gate, d_up) = (&mut by_gate.view_mut()?, &mut by_up.view_mut()?);
    if !done(gated.run_gradient(stream, &g.view()?, &u.view()?, &dy.view()?, d_gate, d_up))? {
        return Ok(false);
    }
    let [g, u, dy] = [values[0], values[1], &back].map(wide);
    let of = |f: &dyn Fn(usize) -> f64| (0..g.len()).map(f).collect::<Vec<f64>>();
    let what = format!("{gated:?}, {} at {at:?}", T::DTYPE);
    let d_gate = of(&|i| dy[i] * u[i] * slope(activation, g[i]));
    assert_near(&what, &by_gate, &d_gate, |i, exact| allowed::<T>(exact, (dy[i] * u[i]).abs()));
    let d_up = of(&|i| dy[i] * exact(activation, g[i]));
    assert_near(&what, &by_up, &d_up, |i, exact| allowed::<T>(exact, dy[i].abs()));
    Ok(true)
}

pub fn every_kernel(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> tilewright_support::Result<()> {
        let stream = Stream::new(device)?;
        let ends = ["", "_skewed", "_any"].map(|end| format!("_{}{end}", T::DTYPE));
        let all =
            runnable(device, |name| name.starts_with("gated") && ends.iter().any(|end| name.ends_with(end)));
        let mut seen = BTreeSet::new();
        for (i, cols) in LENGTHS.into_iter().enumerate() {
            let (place, activation) = (packed(5, cols), Activation::ALL[i % 4]);
            let values = [1, 2].map(|seed| normal::<T>(seed, place.count()));
            let values = [&values[0][..], &values[1][..]];
            seen.append(&mut by_each(&all, |name| {
                let gated = Gated::new(activation).kernel(name);
                Ok(check(&stream, gated, activation, values, [place; 3])?
                    || check_gradient(&stream, gated, activation, values, [place; 3])?)
            })?);
            for activation in Activation::ALL {
                check_gradient(&stream, Gated::new(activation), activation, values, [place; 3])?;
            }
        }
        assert_eq!(seen, all);
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    Ok(of::<f32>(device)?)
}

/// Padded, unaligned, by columns, and all differently.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [[2, 3, 1000], [3, 5, 33], [1, 2, 5000]] {
        let (count, all) = (shape.iter().product(), places(shape));
        let values = [3, 4].map(|seed| normal::<f16>(seed, count));
        let values = [&values[0][..], &values[1][..]];
        for (i, &one) in all.iter().enumerate() {
            for at in [[one; 3], [one, all[(i + 1) % 5], all[(i + 2) % 5]]] {
                let activation = Activation::Silu;
                assert!(check(&stream, Gated::new(activation), activation, values, at)?);
                assert!(check_gradient(&stream, Gated::new(activation), activation, values, at)?);
            }
        }
    }
    Ok(())
}

/// Rows of every length and pitch, of tensors that begin at any element: in vectors from those of y on.
pub fn rows_anywhere(device: &Device) -> Outcome {
    fn of<T: Number>(device: &Device) -> Outcome {
        let (stream, activation) = (Stream::new(device)?, Activation::Gelu);
        let name = format!("gated_sm_80_{}_skewed", T::DTYPE);
        for (cols, more) in [(2, 4), (7, 0), (8, 1), (9, 0), (33, 0), (33, 8), (203, 2), (1001, 0)] {
            let shape = [2, 3, cols];
            let (packed, pitched) = (Place::by_rows(shape, cols), Place::by_rows(shape, 2 * cols + more));
            let values = [1, 2].map(|seed| normal::<T>(seed, packed.count()));
            let values = [&values[0][..], &values[1][..]];
            for (first, other) in [(0, 0), (1, 1), (3, 6), (0, 5)] {
                for to in [packed.shifted(other), pitched.shifted(other)] {
                    let at = [pitched.shifted(first), pitched.shifted(first + cols), to];
                    let gated = Gated::new(activation);
                    assert!(check(&stream, gated.kernel(&name), activation, values, at)?, "{at:?}");
                    assert!(check(&stream, gated, activation, values, at)?);
                }
            }
        }
        let x = Tensor::<T>::from_slice(device, &normal(1, 2 * 3 * 1001), &[3, 2002])?;
        let y = &mut Tensor::<T>::from_slice(device, &normal(1, 3 * 1001), &[3, 1001])?;
        let plan = Gated::new(activation).plan_packed(&x.view(), &y.view_mut())?;
        assert_eq!(plan.kernel().name(), name);
        Ok(())
    }
    of::<f16>(device)?;
    of::<bf16>(device)?;
    of::<f32>(device)
}

/// One tensor of twice the columns, and its gradient; beside what two tensors give.
pub fn packed_halves(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for [rows, cols] in [[3, 256], [4, 33], [2, 1]] {
        let x = Tensor::from_slice(device, &normal::<f32>(8, 2 * rows * cols), &[rows, 2 * cols])?;
        let dy = Tensor::from_slice(device, &normal::<f32>(9, rows * cols), &[rows, cols])?;
        let new = |cols| Tensor::filled(device, f32::NAN, &[rows, cols]);
        let (mut y, mut expected, mut d_gate, mut d_up) = (new(cols)?, new(cols)?, new(cols)?, new(cols)?);
        let mut dx = new(2 * cols)?;
        let (gate, up) = (x.view().narrow(1, 0, cols)?, x.view().narrow(1, cols, cols)?);
        let unit = Gated::new(Activation::Gelu);
        unit.run_packed(&stream, &x.view(), &mut y.view_mut())?;
        geglu(&stream, &gate, &up, &mut expected.view_mut())?;
        assert_eq!(y.to_vec()?, expected.to_vec()?);
        swiglu(&stream, &gate, &up, &mut y.view_mut())?;
        assert_ne!(y.to_vec()?, expected.to_vec()?);
        unit.run_packed_gradient(&stream, &x.view(), &dy.view(), &mut dx.view_mut())?;
        unit.run_gradient(&stream, &gate, &up, &dy.view(), &mut d_gate.view_mut(), &mut d_up.view_mut())?;
        assert_eq!(dx.view().narrow(1, 0, cols)?.to_vec()?, d_gate.to_vec()?);
        assert_eq!(dx.view().narrow(1, cols, cols)?.to_vec()?, d_up.to_vec()?);
    }
    Ok(())
}

/// Gates that are no ordinary numbers; NaN stays in its place.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let gates = [0.0, -0.0, 1e-30, -1e-30, 80.0, -80.0, 1e4, -1e4, f32::NAN, 1e-3, -1e-3, 9e-4];
    for activation in Activation::ALL {
        let ups = [1.0; 12];
        let (gated, place) = (Gated::new(activation), packed(1, 12));
        assert!(check(&stream, gated, activation, [&gates[..], &ups], [place; 3])?);
        assert!(check_gradient(&stream, gated, activation, [&gates[..], &ups], [place; 3])?);
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [&[0, 5][..], &[5, 0], &[2, 0, 3, 4]] {
        let (x, mut y) = (Tensor::<f16>::zeros(device, shape)?, Tensor::<f16>::zeros(device, shape)?);
        swiglu(&stream, &x.view(), &x.view(), &mut y.view_mut())?;
        Gated::new(Activation::Silu).plan(&x.view(), &x.view(), &y.view_mut())?;
    }
    // A tensor without dimensions has one element.
    let one = Tensor::from_slice(device, &[2.0f32], &[])?;
    let mut y = Tensor::<f32>::zeros(device, &[])?;
    Gated::new(Activation::Relu).run(&stream, &one.view(), &one.view(), &mut y.view_mut())?;
    assert_eq!(y.to_vec()?, [4.0]);
    Ok(())
}
