//! States that go from one call to the next.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input};

/// A sequence in two calls gives what it gives in one, wherever it is cut; in every form.
pub fn round_trip(device: &Device) -> Outcome {
    let case = || Case { heads: 1, ..Case::new(150, [64, 64]) };
    for cut in [1, 64, 100] {
        halves::<f16>(device, &case().gates(-0.05), cut)?;
    }
    halves::<bf16>(device, &case().channels(-0.1), 70)?;
    halves::<f16>(device, &case().gates(-0.05).delta(1.0), 70)?;
    halves::<f16>(device, &case().gates(-0.01).segments(2), 90)?;
    halves::<f16>(device, &case().channels(-0.05).segments(2), 90)?;
    halves::<bf16>(device, &case().gates(-0.05).delta(1.0).segments(2), 80)
}

fn halves<T: Input>(device: &Device, case: &Case, cut: usize) -> Outcome {
    let data = case.data::<T>();
    let exact = case.exact(&data);
    let Case { rows, columns: [d, dv], .. } = *case;
    let stream = Stream::new(device)?;
    let of = |data: &[T], columns| Tensor::from_slice(device, data, &[1, rows, 1, columns]);
    let (q, k, v) = (of(&data.q, d)?, of(&data.k, d)?, of(&data.v, dv)?);
    let f32s = |data: &[f32], columns: usize| {
        let of_rows = if data.is_empty() { 0 } else { rows };
        Tensor::from_slice(device, data, &[1, of_rows, 1, columns])
    };
    let (gates, beta) = (f32s(&data.gates, 1)?, f32s(&data.beta, 1)?);
    let channels = f32s(&data.channel_gates, d)?;
    let mut o = Tensor::filled(device, T::POISON, &[1, rows, 1, dv])?;
    let mut before = Tensor::from_slice(device, &data.initial, &[1, 1, d, dv])?;
    for (first, count) in [(0, cut), (cut, rows - cut)] {
        let mut behind = Tensor::filled(device, f32::NAN, &[1, 1, d, dv])?;
        {
            let mut view = behind.view_mut();
            let mut operator = LinearAttention::new().initial_state(&before.view()).final_state(&mut view);
            operator = case.segments.into_iter().fold(operator, LinearAttention::segments);
            if case.gates.is_some() {
                operator = operator.gates(&gates.view().select(3, 0)?.narrow(1, first, count)?);
            }
            if case.channel_gates.is_some() {
                operator = operator.channel_gates(&channels.view().narrow(1, first, count)?);
            }
            if case.delta.is_some() {
                operator = operator.delta(&beta.view().select(3, 0)?.narrow(1, first, count)?);
            }
            let [q, k, v] = [q.view(), k.view(), v.view()].map(|x| x.narrow(1, first, count));
            operator.run(&stream, &q?, &k?, &v?, &mut o.view_mut().narrow(1, first, count)?)?;
        }
        before = behind;
    }
    let allowed = if case.delta.is_some() { 3.0 } else { 1.5 } * T::ROUNDING;
    let error = relative_error(&o.to_vec_on(&stream)?, &exact.o);
    assert!(error <= allowed, "O is off by {error:.1e}, cut at {cut}: {case:?}");
    let error = relative_error(&before.to_vec_on(&stream)?, &exact.states);
    assert!(error <= allowed, "the state is off by {error:.1e}, cut at {cut}: {case:?}");
    Ok(())
}

/// What a sequence's neighbours are, NaN even, is nothing to it.
pub fn neighbours(device: &Device) -> Outcome {
    let (stream, lengths) = (Stream::new(device)?, [50usize, 70, 30]);
    let case = Case { heads: 1, ..Case::new(0, [64, 64]) }.packed(&lengths).gates(-0.1);
    let mut data = case.data::<f16>();
    let exact = case.exact(&data);
    // The first and the last sequence.
    for of in [&mut data.q, &mut data.k, &mut data.v] {
        of[..50 * 64].fill(f16::NAN);
        of[120 * 64..].fill(f16::NAN);
    }
    let tensor = |data: &[f16]| Tensor::from_slice(device, data, &[1, 150, 1, 64]);
    let (q, k, v) = (tensor(&data.q)?, tensor(&data.k)?, tensor(&data.v)?);
    let gates = Tensor::from_slice(device, &data.gates, &[1, 150, 1])?;
    let initial = Tensor::from_slice(device, &data.initial, &[3, 1, 64, 64])?;
    let offsets = Tensor::from_slice(device, &[0, 50, 120, 150], &[4])?;
    let channels = gates.view().insert_dim(3)?;
    let channels = channels.broadcast(&[1, 150, 1, 64])?;
    for by_channels in [false, true] {
        let mut o = Tensor::filled(device, f16::NAN, &[1, 150, 1, 64])?;
        let operator = LinearAttention::new().packed(offsets.view(), 70).initial_state(&initial.view());
        let mut operator =
            if by_channels { operator.channel_gates(&channels) } else { operator.gates(&gates.view()) };
        operator.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut())?;
        let o = o.to_vec_on(&stream)?;
        let error = relative_error(&o[50 * 64..120 * 64], &exact.o[50 * 64..120 * 64]);
        assert!(error < 2e-3, "off by {error:.1e}");
    }
    Ok(())
}

/// Tensors with other strides, a state that is a part of a larger one.
pub fn views(device: &Device) -> Outcome {
    let case = Case::new(70, [64, 64]).gates(-0.1);
    let data = case.data::<f16>();
    let exact = case.exact(&data);
    let stream = Stream::new(device)?;
    // [batch, heads, length, D], of which views are taken.
    let turned = |data: &[f16]| -> Vec<f16> {
        (0..2 * 70 * 64).map(|i| data[(i / 64 % 70 * 2 + i / (70 * 64)) * 64 + i % 64]).collect()
    };
    let tensor = |data: &[f16]| Tensor::from_slice(device, &turned(data), &[1, 2, 70, 64]);
    let (q, k, v) = (tensor(&data.q)?, tensor(&data.k)?, tensor(&data.v)?);
    let gates = Tensor::from_slice(device, &data.gates, &[1, 70, 2])?;
    let initial = Tensor::from_slice(device, &data.initial, &[1, 2, 64, 64])?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 2, 70, 64])?;
    let mut last = Tensor::filled(device, f32::NAN, &[1, 2, 64, 100])?;
    {
        let mut last = last.view_mut().narrow(3, 36, 64)?;
        let mut operator = LinearAttention::new().gates(&gates.view()).initial_state(&initial.view());
        operator = operator.final_state(&mut last);
        let [q, k, v] = [q.view(), k.view(), v.view()].map(|x| x.transpose(1, 2));
        operator.run(&stream, &q?, &k?, &v?, &mut o.view_mut().transpose(1, 2)?)?;
    }
    let error = relative_error(&o.view().transpose(1, 2)?.to_vec_on(&stream)?, &exact.o);
    assert!(error < 2e-3, "O is off by {error:.1e}");
    let error = relative_error(&last.view().narrow(3, 36, 64)?.to_vec_on(&stream)?, &exact.states);
    assert!(error < 2e-3, "the state is off by {error:.1e}");
    assert!(last.view().narrow(3, 0, 36)?.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}
