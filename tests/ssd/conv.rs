//! The causal convolution.

use tilewright::ops::{CausalConv1d, FloatElement, kernels};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::reference::convolved;

/// Data of a convolution.
pub struct Data<T> {
    /// Batch, length, channels and width.
    pub size: [usize; 4],
    pub x: Vec<T>,
    pub w: Vec<T>,
    pub bias: Vec<T>,
    pub before: Vec<T>,
}

impl<T: Real> Data<T> {
    pub fn new([batch, length, channels, width]: [usize; 4]) -> Self {
        Data {
            size: [batch, length, channels, width],
            x: normal(1, batch * length * channels),
            w: normal(2, channels * width),
            bias: normal(3, channels),
            before: normal(4, batch * channels * (width - 1)),
        }
    }

    /// The results, and the state behind: of the matrices, tokens and channels in this order. Rows of the sequence are `rows` of matrix `matrix`.
    fn exact(
        &self,
        [matrix, number]: [usize; 2],
        rows: std::ops::Range<usize>,
        [states, bias, silu]: [bool; 3],
    ) -> [Vec<f64>; 2] {
        let [_, length, channels, width] = self.size;
        let [x, w, b, before] = [&self.x, &self.w, &self.bias, &self.before].map(|of| T::widen(of));
        let (mut y, mut after) = (vec![0.0; rows.len() * channels], Vec::new());
        for c in 0..channels {
            let x: Vec<f64> = rows.clone().map(|t| x[(matrix * length + t) * channels + c].into()).collect();
            let w: Vec<f64> = w[c * width..][..width].iter().map(|&w| w.into()).collect();
            let past = &before[(number * channels + c) * (width - 1)..][..width - 1];
            let past: Vec<f64> = past.iter().map(|&x| if states { x.into() } else { 0.0 }).collect();
            let bias = if bias { b[c].into() } else { 0.0 };
            for (t, value) in convolved(&past, &x, &w, bias, silu).into_iter().enumerate() {
                y[t * channels + c] = value;
            }
            let all: Vec<f64> = past.into_iter().chain(x).collect();
            after.extend_from_slice(&all[all.len() - (width - 1)..]);
        }
        [y, after]
    }
}

/// Checks results that lie one token behind the other.
#[track_caller]
fn assert_near<T: Real>(what: &str, y: &[T], exact: &[f64]) {
    assert_eq!(y.len(), exact.len(), "{what}");
    for (i, (&y, &exact)) in T::widen(y).iter().zip(exact).enumerate() {
        let allowed = T::ROUNDING * exact.abs() + 2e-5;
        assert!((f64::from(y) - exact).abs() <= allowed, "{what}: element {i} is {y:e}, must be {exact:e}");
    }
}

fn check<T: Real + FloatElement>(
    device: &Device,
    size: [usize; 4],
    options: [bool; 3],
    kernel: Option<&str>,
) -> Outcome {
    let ([batch, length, channels, width], [states, biased, silu]) = (size, options);
    let data = Data::<T>::new(size);
    let stream = Stream::new(device)?;
    let place = Place::by_rows([batch, length, channels], channels.next_multiple_of(8));
    let x = Guarded::with(device, place, &data.x)?;
    let mut y = Guarded::<T>::at(device, place)?;
    let w = Tensor::from_slice(device, &data.w, &[channels, width])?;
    let bias = Tensor::from_slice(device, &data.bias, &[channels])?;
    let before = Tensor::from_slice(device, &data.before, &[batch, channels, width - 1])?;
    let mut after = Tensor::filled(device, T::POISON, &[batch, channels, width - 1])?;
    {
        let (bias, before, mut after) = (bias.view(), before.view(), after.view_mut());
        let mut conv = CausalConv1d::new().final_state(&mut after);
        conv = if biased { conv.bias(&bias) } else { conv };
        conv = if states { conv.initial_state(&before) } else { conv };
        conv = if silu { conv.silu() } else { conv };
        conv = match kernel {
            Some(kernel) => conv.kernel(kernel),
            None => conv,
        };
        conv.run(&stream, &x.view()?, &w.view(), &mut y.view_mut()?)?;
    }
    let what = format!("{} {size:?} {options:?} {kernel:?}", T::DTYPE);
    let (out, outside) = y.read()?;
    assert_eq!(outside, 0, "{what}: elements outside were written");
    let (mut exact, mut state) = (Vec::new(), Vec::new());
    for i in 0..batch {
        let [y, after] = data.exact([i, i], 0..length, options);
        exact.extend(y);
        state.extend(after);
    }
    assert_near(&what, &out, &exact);
    let after: Vec<f64> = T::widen(&after.to_vec()?).into_iter().map(f64::from).collect();
    assert_eq!(after, state, "{what}: the final state");
    Ok(())
}

fn each<T: Real + FloatElement>(device: &Device) -> Outcome {
    let names = kernels().filter(|k| device.runs(k.arch)).map(|k| k.name);
    let own = format!("causal_conv1d_sm_80_{}_", T::DTYPE);
    let names: Vec<_> = names.filter(|name| name.starts_with(&own)).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let wide = if name.ends_with("w8") { [8, 5] } else { [4, 3] };
        let lengths = if name.contains("_1x1") { [1, 1] } else { [65, 9] };
        check::<T>(device, [2, lengths[0], 264, wide[0]], [true, true, true], Some(name))?;
        check::<T>(device, [1, lengths[1], 8, wide[1]], [false, false, false], Some(name))?;
    }
    for (length, width) in [(0, 4), (1, 4), (2, 4), (3, 2), (63, 4), (64, 3), (65, 1), (200, 4), (7, 8)] {
        check::<T>(device, [2, length, 24, width], [true, length % 2 == 0, width == 4], None)?;
        check::<T>(device, [1, length, 3, width], [false, true, false], None)?;
    }
    Ok(())
}

pub fn every_kernel(device: &Device) -> Outcome {
    each::<f16>(device)?;
    each::<bf16>(device)?;
    each::<f32>(device)
}

/// A sequence in two parts, and token by token with the state in place, is the whole to the bit.
pub fn states(device: &Device) -> Outcome {
    const SIZE: [usize; 4] = [2, 21, 40, 4];
    let [batch, length, channels, width] = SIZE;
    let data = Data::<bf16>::new(SIZE);
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &data.x, &[batch, length, channels])?;
    let w = Tensor::from_slice(device, &data.w, &[channels, width])?;
    let mut whole = Tensor::filled(device, bf16::NAN, &[batch, length, channels])?;
    CausalConv1d::new().silu().run(&stream, &x.view(), &w.view(), &mut whole.view_mut())?;
    let whole = whole.to_vec()?;

    let mut state = Tensor::<bf16>::zeros(device, &[batch, channels, width - 1])?;
    let mut y = Tensor::filled(device, bf16::NAN, &[batch, length, channels])?;
    for (from, to) in [(0, 2), (2, 2), (2, 13), (13, 21)] {
        let (mut state, part) = (state.view_mut(), x.view().narrow(1, from, to - from)?);
        let mut to = y.view_mut().narrow(1, from, to - from)?;
        CausalConv1d::new().silu().state(&mut state).run(&stream, &part, &w.view(), &mut to)?;
    }
    assert_eq!(y.to_vec()?, whole, "in parts");

    state = Tensor::zeros(device, &[batch, channels, width - 1])?;
    y = Tensor::filled(device, bf16::NAN, &[batch, length, channels])?;
    for t in 0..length {
        let (x, mut y) = (x.view().select(1, t)?, y.view_mut().select(1, t)?);
        CausalConv1d::new().silu().step(&stream, &x, &w.view(), &mut y, &mut state.view_mut())?;
    }
    assert_eq!(y.to_vec()?, whole, "token by token");
    Ok(())
}

pub fn packed(device: &Device) -> Outcome {
    const LENGTHS: [usize; 6] = [70, 0, 1, 64, 2, 30];
    let total: usize = LENGTHS.iter().sum();
    let [channels, width] = [16, 4];
    let mut data = Data::<f16>::new([1, total, channels, width]);
    data.before = normal(5, LENGTHS.len() * channels * (width - 1));
    let mut offsets = vec![0];
    for length in LENGTHS {
        offsets.push(offsets[offsets.len() - 1] + i64::try_from(length)?);
    }
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &data.x, &[1, total, channels])?;
    let w = Tensor::from_slice(device, &data.w, &[channels, width])?;
    let before = Tensor::from_slice(device, &data.before, &[LENGTHS.len(), channels, width - 1])?;
    let mut after = Tensor::filled(device, f16::NAN, &[LENGTHS.len(), channels, width - 1])?;
    let mut y = Tensor::filled(device, f16::NAN, &[1, total, channels])?;
    let offsets_on = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
    CausalConv1d::new()
        .packed(offsets_on.view(), 70)
        .initial_state(&before.view())
        .final_state(&mut after.view_mut())
        .run(&stream, &x.view(), &w.view(), &mut y.view_mut())?;
    let (mut exact, mut state) = (Vec::new(), Vec::new());
    for (i, rows) in offsets.windows(2).enumerate() {
        let [y, after] = data.exact([0, i], rows[0] as usize..rows[1] as usize, [true, false, false]);
        exact.extend(y);
        state.extend(after);
    }
    assert_near("packed", &y.to_vec()?, &exact);
    let after: Vec<f64> = f16::widen(&after.to_vec()?).into_iter().map(f64::from).collect();
    assert_eq!(after, state, "the final states");
    Ok(())
}

/// Channels that are not contiguous, a batch whose elements are those of the channels, weights with their taps first.
pub fn places(device: &Device) -> Outcome {
    const SIZE: [usize; 4] = [2, 20, 12, 4];
    let [batch, length, channels, width] = SIZE;
    let data = Data::<f32>::new(SIZE);
    let stream = Stream::new(device)?;
    let place = Place::by_columns([batch, length, channels], length + 3).shifted(1);
    let x = Guarded::with(device, place, &data.x)?;
    let mut y = Guarded::<f32>::at(device, place)?;
    let turned: Vec<f32> = (0..width)
        .flat_map(|k| (0..channels).map(move |c| (k, c)))
        .map(|(k, c)| data.w[c * width + k])
        .collect();
    let w = Tensor::from_slice(device, &turned, &[width, channels])?;
    let w: TensorView<'_, f32> = w.view().transpose(0, 1)?;
    CausalConv1d::new().run(&stream, &x.view()?, &w, &mut y.view_mut()?)?;
    let (out, outside) = y.read()?;
    assert_eq!(outside, 0, "elements outside were written");
    let exact: Vec<f64> =
        (0..batch).flat_map(|i| data.exact([i, i], 0..length, [false; 3])[0].clone()).collect();
    assert_near("places", &out, &exact);
    Ok(())
}
