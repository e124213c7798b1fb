//! Decoding: row by row, with the state in place.

use tilewright::ops::LinearAttention;
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input};

/// All kinds of decays, with and without the delta rule, of all head dimensions.
pub fn each(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 200], [256, 64], [33, 70]] {
        let case = Case { batch: 2, heads: 3, ..Case::new(4, columns) };
        steps::<f16>(device, &case.clone().gates(-0.3))?;
        steps::<bf16>(device, &case.clone().channels(-0.3).delta(1.0))?;
    }
    let case = Case::new(3, [64, 64]);
    steps::<f16>(device, &case.clone())?;
    steps::<f16>(device, &case.clone().decay(&[-0.1, f32::NEG_INFINITY]).delta(1.0))?;
    steps::<bf16>(device, &case.channels(-80.0))
}

/// Takes the rows one by one.
fn steps<T: Input>(device: &Device, case: &Case) -> Outcome {
    let data = case.data::<T>();
    let exact = case.exact(&data);
    let Case { batch, heads, rows, columns: [d, dv], .. } = *case;
    let stream = Stream::new(device)?;
    let of = |data: &[T], columns| Tensor::from_slice(device, data, &[batch, rows, heads, columns]);
    let (q, k, v) = (of(&data.q, d)?, of(&data.k, d)?, of(&data.v, dv)?);
    let mut o = Tensor::filled(device, T::POISON, &[batch, rows, heads, dv])?;
    let mut state = Tensor::from_slice(device, &data.initial, &[batch, heads, d, dv])?;
    let some = |data: &Vec<f32>| if data.is_empty() { vec![0.0; batch * rows * heads] } else { data.clone() };
    let gates = Tensor::from_slice(device, &data.gates, &[batch, rows, heads])?;
    let beta = Tensor::from_slice(device, &some(&data.beta), &[batch, rows, heads])?;
    let channels = if data.channel_gates.is_empty() { 0 } else { d };
    let channels = Tensor::from_slice(device, &data.channel_gates, &[batch, rows, heads, channels])?;
    let decay = Tensor::from_slice(device, &data.decay, &[data.decay.len()])?;
    for row in 0..rows {
        let mut operator = LinearAttention::new();
        if case.decay.is_some() {
            operator = operator.decay(&decay.view());
        }
        if case.gates.is_some() {
            operator = operator.gates(&gates.view().narrow(1, row, 1)?);
        }
        if case.channel_gates.is_some() {
            operator = operator.channel_gates(&channels.view().narrow(1, row, 1)?);
        }
        if case.delta.is_some() {
            operator = operator.delta(&beta.view().narrow(1, row, 1)?);
        }
        let [q, k, v] = [q.view(), k.view(), v.view()].map(|x| x.narrow(1, row, 1));
        operator.step(&stream, &mut state.view_mut(), &q?, &k?, &v?, &mut o.view_mut().narrow(1, row, 1)?)?;
    }
    let error = relative_error(&o.to_vec_on(&stream)?, &exact.o);
    assert!(error <= 1.2 * T::ROUNDING, "O is off by {error:.1e}: {case:?}");
    let error = relative_error(&state.to_vec_on(&stream)?, &exact.states);
    assert!(error <= 1e-5, "the state is off by {error:.1e}: {case:?}");
    Ok(())
}
