//! Gradients beside sinks, slopes and biases, and by them.

use tilewright::ops::{Attention, AttentionGradient, AttentionGradientViews};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::attention::Scores;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use super::case::Case;
use crate::terms::Terms;

const SINKS: Terms = Terms { sinks: true, slopes: None, bias: None };
const SLOPES: Terms = Terms { sinks: true, slopes: Some(true), bias: None };
const BIAS: Terms = Terms { sinks: false, slopes: None, bias: Some([true; 4]) };
const ALL: Terms = Terms { sinks: true, slopes: Some(false), bias: Some([false, true, true, true]) };

/// Of all head dimensions and masks; capped, of sequences one after the other, of tensors that lie anywhere; without keys.
pub fn added(device: &Device) -> Outcome {
    let causal = |scores| Scores { causal: true, ..scores };
    for columns in [[64, 64], [128, 128], [200, 256]] {
        Case::<f16>::of_heads(&[[130, 200]; 2], false, columns, [4, 2]).terms(ALL).check(device)?;
        Case::<bf16>::new(&[[150, 140]; 2], false, columns).terms(BIAS).scores(causal).check(device)?;
        Case::<f16>::new(&[[70, 129]], false, columns).terms(SLOPES).check(device)?;
        let capped = |scores| Scores { softcap: Some(1.5), causal: true, ..scores };
        Case::<f16>::new(&[[70, 129]], false, columns).terms(ALL).scores(capped).check(device)?;
    }
    let lengths = [[70, 70], [0, 0], [1, 129], [200, 30], [0, 5], [9, 0], [300, 257], [1, 1]];
    for terms in [SINKS, SLOPES] {
        Case::<bf16>::new(&lengths, true, [128, 128]).terms(terms).scores(causal).check(device)?;
    }
    let place = |shape| crate::operand::Place::ordered(shape, [0, 2, 1, 3], 3);
    Case { place, ..Case::<f16>::new(&[[70, 90]; 2], false, [64, 64]).terms(ALL) }.check(device)?;
    for lengths in [&[[70, 0]; 2][..], &[[0, 70]; 2], &[]] {
        let case = Case::<f16>::new(lengths, lengths.is_empty(), [64, 64]);
        case.terms(SINKS).check(device)?;
    }
    Ok(())
}

/// A bias of all heads, of all sequences, of both, of none; of queries or keys alone, by which there is no gradient.
pub fn shared_biases(device: &Device) -> Outcome {
    for [batch, heads] in [[true, true], [true, false], [false, true], [false, false]] {
        let terms = Terms { bias: Some([batch, heads, true, true]), ..Terms::default() };
        Case::<bf16>::of_heads(&[[70, 90]; 3], false, [128, 128], [4, 2]).terms(terms).check(device)?;
    }
    for along in [[true, false], [false, true]] {
        let terms = Terms { bias: Some([true, false, along[0], along[1]]), ..Terms::default() };
        Case::<f16>::new(&[[130, 66]; 2], false, [64, 64]).terms(terms).check(device)?;
    }
    Ok(())
}

/// A plan's runs give the bits of a call, and miss what the plan was made with.
pub fn planned(device: &Device) -> Outcome {
    let (stream, shape) = (Stream::new(device)?, [1, 2, 70, 64]);
    let of = |seed: u64, shape: &[usize]| {
        Tensor::from_slice(device, &normal::<f16>(seed, shape.iter().product()), shape)
    };
    let (q, k, v, o, d_o) = (of(1, &shape)?, of(2, &shape)?, of(3, &shape)?, of(4, &shape)?, of(5, &shape)?);
    let (lse, bias) = (Tensor::filled(device, 4.0f32, &[1, 2, 70])?, of(6, &[2, 70, 70])?);
    let numbers = Tensor::from_slice(device, &[0.25f32, 1.5], &[2])?;
    let (q, k, v, o, d_o, bias) = (q.view(), k.view(), v.view(), o.view(), d_o.view(), bias.view());
    let (lse, numbers) = (lse.view(), numbers.view());
    let attention = || Attention::new().causal().bias(bias.clone()).sinks(&numbers).alibi_slopes(&numbers);
    let mut results = Vec::new();
    for by_plan in [false, true] {
        let to = |shape: &[usize]| Tensor::filled(device, f16::NAN, shape);
        let (mut d_q, mut d_k, mut d_v) = (to(&shape)?, to(&shape)?, to(&shape)?);
        let (mut d_bias, mut d_sinks) = (to(&[2, 70, 70])?, Tensor::filled(device, f32::NAN, &[2])?);
        let mut outputs = [d_q.view_mut(), d_k.view_mut(), d_v.view_mut()];
        let [to_q, to_k, to_v] = &mut outputs;
        if by_plan {
            let (mut to_sinks, to_bias) = (d_sinks.view_mut(), d_bias.view_mut());
            let gradient = attention().gradient().d_bias(to_bias).d_sinks(&mut to_sinks);
            let plan = gradient.plan([&q, &k, &v], (&o, &lse), &d_o, [to_q, to_k, to_v])?;
            drop(gradient);
            let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
            let mut views = AttentionGradientViews {
                sinks: Some(numbers.clone()),
                alibi_slopes: Some(numbers.clone()),
                bias: Some(bias.clone().into()),
                d_bias: Some(d_bias.view_mut().into()),
                d_sinks: Some(d_sinks.view_mut()),
                workspace: Some(memory.view_mut()),
                ..Default::default()
            };
            plan.run(&stream, [&q, &k, &v], (&o, &lse), &d_o, [to_q, to_k, to_v], &mut views)?;
            views.d_bias = None;
            match plan.run(&stream, [&q, &k, &v], (&o, &lse), &d_o, [to_q, to_k, to_v], &mut views) {
                Err(Error::Argument { argument, .. }) if argument == "d_bias" => {}
                other => panic!("not an error about `d_bias`: {other:?}"),
            }
            stream.synchronize()?;
        } else {
            let mut to_sinks = d_sinks.view_mut();
            let mut gradient = attention().gradient().d_bias(d_bias.view_mut()).d_sinks(&mut to_sinks);
            gradient.run(&stream, [&q, &k, &v], (&o, &lse), &d_o, [to_q, to_k, to_v])?;
            stream.synchronize()?;
        }
        let bits = |of: &Tensor<f16>| Ok::<_, Error>(of.to_vec()?.iter().map(|x| x.to_bits()).collect());
        let halves: [Vec<u16>; 4] = [bits(&d_q)?, bits(&d_k)?, bits(&d_v)?, bits(&d_bias)?];
        let sinks = d_sinks.to_vec()?;
        assert!(sinks.iter().all(|sink| sink.is_finite() && *sink != 0.0), "{sinks:?}");
        results.push((halves, sinks));
    }
    assert_eq!(results[0], results[1]);
    Ok(())
}

/// What sequences share has gradients of zeros where there is no sequence, or no head.
pub fn nobody(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for [batch, heads] in [[0, 2], [2, 0]] {
        let of = |rows: usize| Tensor::<f16>::zeros(device, &[batch, heads, rows, 64]);
        let (q, k, v, o, d_o) = (of(8)?, of(9)?, of(9)?, of(8)?, of(8)?);
        let (mut d_q, mut d_k, mut d_v) = (of(8)?, of(9)?, of(9)?);
        let bias = Tensor::<f16>::zeros(device, &[8, 9])?;
        let sinks = Tensor::<f32>::zeros(device, &[heads])?;
        let mut d_bias = Tensor::filled(device, f16::NAN, &[8, 9])?;
        let mut d_sinks = Tensor::filled(device, f32::NAN, &[heads])?;
        let lse = Tensor::<f32>::zeros(device, &[batch, heads, 8])?;
        let mut to_sinks = d_sinks.view_mut();
        let attention = Attention::new().bias(bias.view()).sinks(&sinks.view());
        let mut gradient = attention.gradient().d_bias(d_bias.view_mut()).d_sinks(&mut to_sinks);
        let inputs = [&q.view(), &k.view(), &v.view()];
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        gradient.run(&stream, inputs, (&o.view(), &lse.view()), &d_o.view(), outputs)?;
        stream.synchronize()?;
        drop(gradient);
        let zeros =
            d_bias.to_vec()?.iter().all(|x| x.to_f32() == 0.0) && d_sinks.to_vec()?.iter().all(|&x| x == 0.0);
        assert!(zeros, "{batch} sequences of {heads} heads: {:?}", d_sinks.to_vec()?);
    }
    Ok(())
}

/// What does not fit is refused, by name.
pub fn added_errors(device: &Device) -> Outcome {
    let case = Case::<f16>::new(&[[8, 9]], false, [64, 64]);
    let exact = case.exact();
    let tensor = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (bias, line) = (tensor(&[1, 2, 8, 9])?, tensor(&[9])?);
    let (mut whole, mut of_line, mut other) = (tensor(&[1, 2, 8, 9])?, tensor(&[9])?, tensor(&[2, 8, 9])?);
    let (wrong, sinks) = (tensor(&[3, 8, 9])?, Tensor::<f32>::zeros(device, &[2])?);
    let (mut d_sinks, mut more) = (Tensor::<f32>::zeros(device, &[2])?, Tensor::<f32>::zeros(device, &[3])?);
    let (offsets, none) = (Tensor::<i32>::from_slice(device, &[0, 8], &[2])?, Attention::new);
    let (_, _) = case.with(device, &exact, |stream, _, [q, k, v, o, d_o], given, outputs| {
        let [d_q, d_k, d_v] = outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.view_mut()?, d_k.view_mut()?, d_v.view_mut()?);
        let mut refused = |name: &str, mut of: AttentionGradient<'_>| {
            let outputs = [&mut d_q, &mut d_k, &mut d_v];
            match of.run(stream, [q, k, v], (o, given), d_o, outputs) {
                Err(Error::Argument { argument, .. }) if argument == name => {}
                other => panic!("not an error about `{name}`: {other:?}"),
            }
        };
        let biased = || none().bias(bias.view());
        refused("d_bias", none().gradient().d_bias(whole.view_mut()));
        refused("d_bias", biased().gradient().d_bias(other.view_mut()));
        refused("d_bias", none().bias(line.view()).gradient().d_bias(of_line.view_mut()));
        refused("bias", none().bias(wrong.view()).gradient());
        refused("bias", biased().packed(offsets.view(), offsets.view(), 8).gradient());
        refused("d_sinks", none().gradient().d_sinks(&mut d_sinks.view_mut()));
        refused("d_sinks", none().sinks(&sinks.view()).gradient().d_sinks(&mut more.view_mut()));
        refused("alibi_slopes", none().alibi_slopes(&more.view()).gradient());
        Ok(())
    })?;
    Ok(())
}
