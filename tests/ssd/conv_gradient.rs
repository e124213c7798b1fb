//! The causal convolution's gradients.

use std::ops::Range;

use tilewright::ops::{CausalConv1dGradient, FloatElement};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::adjoint::{Sized, slope};
use crate::conv::Data;

/// What is asked for.
#[derive(Clone, Debug)]
struct Case {
    /// Batch, length, channels and width.
    size: [usize; 4],
    /// Initial and final states, bias, SiLU.
    options: [bool; 3],
    /// Lengths of packed sequences.
    packed: Option<Vec<usize>>,
}

impl Case {
    fn new(size: [usize; 4], options: [bool; 3]) -> Self {
        Case { size, options, packed: None }
    }
    fn sequences(&self) -> Vec<(usize, Range<usize>)> {
        let lengths = self.packed.clone().unwrap_or_else(|| vec![self.size[1]; self.size[0]]);
        let mut end = 0;
        let each = |(i, length): (usize, usize)| {
            if self.packed.is_none() {
                return (i, 0..length);
            }
            end += length;
            (0, end - length..end)
        };
        lengths.into_iter().enumerate().map(each).collect()
    }
}

/// By x, w, the bias and the inputs before, each as it lies.
struct Gradients([Vec<Sized>; 4]);

/// Scatters what each result says of each input.
fn exact<T: Real>(case: &Case, data: &Data<T>, [dy, d_last]: [&[T]; 2]) -> Gradients {
    let [_, length, channels, width] = case.size;
    let [states, biased, silu] = case.options;
    let wide = |of: &[T]| T::widen(of).into_iter().map(f64::from).collect::<Vec<_>>();
    let [x, w, bias, before] = [&data.x, &data.w, &data.bias, &data.before].map(|of| wide(of));
    let (dy, d_last) = (wide(dy), wide(d_last));
    let zeros = |len: usize| vec![[0.0; 2]; len];
    let (mut dx, mut d_w, mut d_bias, mut d_before) =
        (zeros(x.len()), zeros(w.len()), zeros(channels), zeros(before.len()));
    let put = |to: &mut Sized, x: f64| *to = [to[0] + x, to[1] + x.abs()];
    for (i, (matrix, rows)) in case.sequences().into_iter().enumerate() {
        for c in 0..channels {
            let past = (i * channels + c) * (width - 1);
            // Input t of the sequence: one before it where t is less than width - 1.
            let place = |t: usize| match t.checked_sub(width - 1) {
                None => Err(past + t),
                Some(t) => Ok((matrix * length + rows.start + t) * channels + c),
            };
            let value = |t: usize| match place(t) {
                Ok(at) => x[at],
                Err(at) if states => before[at],
                Err(_) => 0.0,
            };
            for t in 0..rows.len() {
                let sum = (0..width).map(|k| w[c * width + k] * value(t + k)).sum::<f64>();
                let sum = sum + if biased { bias[c] } else { 0.0 };
                let dy = dy[(matrix * length + rows.start + t) * channels + c];
                let ds = if silu { dy * slope(sum) } else { dy };
                put(&mut d_bias[c], ds);
                for k in 0..width {
                    put(&mut d_w[c * width + k], ds * value(t + k));
                    let d = ds * w[c * width + k];
                    match place(t + k) {
                        Ok(at) => put(&mut dx[at], d),
                        Err(at) => put(&mut d_before[at], d),
                    }
                }
            }
            for k in 0..if states { width - 1 } else { 0 } {
                match place(rows.len() + k) {
                    Ok(at) => put(&mut dx[at], d_last[past + k]),
                    Err(at) => put(&mut d_before[at], d_last[past + k]),
                }
            }
        }
    }
    Gradients([dx, d_w, d_bias, d_before])
}

fn check<T: Real + FloatElement>(device: &Device, case: &Case) -> Outcome {
    let ([batch, length, channels, width], [states, biased, silu]) = (case.size, case.options);
    let mut data = Data::<T>::new(case.size);
    let sequences = case.sequences();
    let count = sequences.len() * channels * (width - 1);
    data.before = normal(4, count);
    let (dy, d_last) = (normal::<T>(5, batch * length * channels), normal::<T>(6, count));
    let stream = Stream::new(device)?;
    let place = Place::by_rows([batch, length, channels], channels.next_multiple_of(8));
    let (x, dy_on) = (Guarded::with(device, place, &data.x)?, Guarded::with(device, place, &dy)?);
    let mut dx = Guarded::<T>::at(device, place)?;
    let w = Tensor::from_slice(device, &data.w, &[channels, width])?;
    let bias = Tensor::from_slice(device, &data.bias, &[channels])?;
    let state = [sequences.len(), channels, width - 1];
    let before = Tensor::from_slice(device, &data.before, &state)?;
    let d_last_on = Tensor::from_slice(device, &d_last, &state)?;
    let mut d_w = Tensor::filled(device, T::POISON, &[channels, width])?;
    let mut d_bias = Tensor::filled(device, T::POISON, &[channels])?;
    let mut d_before = Tensor::filled(device, T::POISON, &state)?;
    let ends = sequences.iter().map(|(_, rows)| rows.end as i64);
    let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
    let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
    {
        let (bias, before, d_last, offsets) = (bias.view(), before.view(), d_last_on.view(), offsets.view());
        let (mut dx, mut d_w) = (dx.view_mut()?, d_w.view_mut());
        let (mut d_bias, mut d_before) = (d_bias.view_mut(), d_before.view_mut());
        let mut gradient = CausalConv1dGradient::new().dx(&mut dx).d_w(&mut d_w).d_bias(&mut d_bias);
        gradient = gradient.d_initial_state(&mut d_before);
        gradient = if biased { gradient.bias(&bias) } else { gradient };
        gradient = if states { gradient.initial_state(&before).d_final_state(&d_last) } else { gradient };
        gradient = if silu { gradient.silu() } else { gradient };
        gradient = match &case.packed {
            Some(lengths) => gradient.packed(&offsets, lengths.iter().copied().max().unwrap_or(0)),
            None => gradient,
        };
        gradient.run(&stream, &x.view()?, &w.view(), &dy_on.view()?)?;
    }
    let what = format!("{} {case:?}", T::DTYPE);
    let (dx, outside) = dx.read()?;
    assert_eq!(outside, 0, "{what}: elements outside were written");
    let Gradients(exact) = exact(case, &data, [&dy, &d_last]);
    let got = [dx, d_w.to_vec()?, d_bias.to_vec()?, d_before.to_vec()?];
    for (name, (got, exact)) in
        ["dx", "d_w", "d_bias", "d_initial_state"].into_iter().zip(got.iter().zip(&exact))
    {
        assert_eq!(got.len(), exact.len(), "{what}: {name}");
        for (i, (got, &[exact, size])) in T::widen(got).into_iter().zip(exact).enumerate() {
            let allowed = T::ROUNDING * exact.abs() + 2e-6 * size + 1e-6 + T::LEAST;
            let error = (f64::from(got) - exact).abs();
            assert!(
                error <= allowed,
                "{what}: {name} {i} is {got:e}, must be {exact:e} to within {allowed:e}"
            );
        }
    }
    Ok(())
}

fn each<T: Real + FloatElement>(device: &Device) -> Outcome {
    for (length, width) in
        [(0, 4), (1, 4), (2, 4), (3, 2), (63, 4), (127, 3), (128, 4), (129, 1), (200, 8), (7, 8)]
    {
        check::<T>(device, &Case::new([2, length, 24, width], [true, length % 2 == 0, true]))?;
        check::<T>(device, &Case::new([1, length, 3, width], [false, true, false]))?;
    }
    check::<T>(device, &Case::new([1, 260, 136, 4], [true; 3]))
}

pub fn lengths(device: &Device) -> Outcome {
    each::<f16>(device)?;
    each::<bf16>(device)?;
    each::<f32>(device)
}

pub fn packed(device: &Device) -> Outcome {
    let lengths = vec![140, 0, 1, 64, 2, 30];
    let size = [1, lengths.iter().sum(), 16, 4];
    check::<f32>(device, &Case { packed: Some(lengths), ..Case::new(size, [true; 3]) })
}

/// A workspace that was given can be captured; without one the error says so.
pub fn captured(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &normal::<f32>(1, 300 * 8), &[1, 300, 8])?;
    let w = Tensor::from_slice(device, &normal::<f32>(2, 8 * 4), &[8, 4])?;
    let (x, w) = (x.view(), w.view());
    let mut d_w = Tensor::filled(device, f32::NAN, &[8, 4])?;
    let len = CausalConv1dGradient::new().workspace_len(&x, &w, &x)?;
    let mut workspace = Tensor::<f32>::filled(device, f32::NAN, &[len])?;
    let graph = {
        let (mut workspace, mut d_w) = (workspace.view_mut(), d_w.view_mut());
        let mut gradient = CausalConv1dGradient::new().d_w(&mut d_w).workspace(&mut workspace);
        stream.capture(|stream| gradient.run(stream, &x, &w, &x))?
    };
    assert_eq!(graph.nodes(), 2);
    // SAFETY: the tensors are alive.
    unsafe { graph.launch(&stream)? };
    assert!(d_w.to_vec_on(&stream)?.iter().all(|x| x.is_finite()));
    let mut own = CausalConv1dGradient::new();
    match stream.capture(|stream| own.run(stream, &x, &w, &x)) {
        Err(Error::Argument { argument, .. }) if argument == "workspace" => Ok(()),
        other => Err(format!("not an error about the workspace: {other:?}").into()),
    }
}
