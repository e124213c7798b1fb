//! Gradients, of all forms but the delta rule.

use tilewright::ops::{LinearAttention, LinearAttentionGradient};
use tilewright::{Device, Error, Graph, Stream, Tensor, bf16, f16};
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Data};
use crate::gradient::Given;

/// Every kernel, of whole and partial chunks.
pub fn each(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128]] {
        Case::new(130, columns).decay(&[-0.03, -0.015]).gates(-0.1).check_gradient_all::<f16>(device)?;
        Case::new(130, columns).channels(-0.1).check_gradient_all::<bf16>(device)?;
    }
    let wide = || Case { heads: 1, ..Case::new(70, [256, 64]) };
    wide().check_gradient_all::<bf16>(device)?;
    wide().channels(-0.1).check_gradient_all::<f16>(device)
}

/// Decays of 0 leave everything, of exp(-80) all but nothing.
pub fn strengths(device: &Device) -> Outcome {
    let case = || Case::new(150, [64, 64]);
    case().decay(&[0.0, -80.0, f32::NEG_INFINITY, -0.3]).check_gradient::<f16>(device)?;
    case().decay(&[-5.0]).check_gradient::<bf16>(device)?;
    // Above 0 they count as 0, and have no gradient.
    for mean in [0.0, -0.01, -1.0, -10.0, -80.0, 0.1] {
        let case = || Case { heads: 1, ..case() };
        case().gates(mean).check_gradient::<f16>(device)?;
        case().channels(mean).check_gradient::<f16>(device)?;
    }
    Ok(())
}

/// By heads' constants: of rows without gates and with them, of several sequences and of none.
pub fn decays(device: &Device) -> Outcome {
    let case = || Case::new(150, [64, 64]).decay(&[-0.01, -0.4]);
    case().check_decay_gradient::<f16>(device)?;
    Case { batch: 2, ..case() }.gates(-0.1).check_decay_gradient::<bf16>(device)?;
    Case::new(0, [64, 64])
        .decay(&[-0.01, -0.2])
        .packed(&[70, 0, 1, 129])
        .check_decay_gradient::<f16>(device)?;
    Case { rows: 0, ..case() }.check_decay_gradient::<f16>(device)
}

/// Around the chunk's length, and long.
pub fn lengths(device: &Device) -> Outcome {
    let case = |rows| Case { heads: 1, ..Case::new(rows, [64, 64]) };
    for rows in [0, 1, 63, 64, 65, 1000] {
        case(rows).gates(-0.05).check_gradient::<bf16>(device)?;
    }
    for rows in [0, 1, 64, 65, 500] {
        case(rows).channels(-0.05).check_gradient::<f16>(device)?;
    }
    case(4097).gates(-0.5).check_gradient::<f16>(device)
}

/// Few and many segments, some of which have no rows, of one and of several sequences; a long one is divided unasked.
pub fn segments(device: &Device) -> Outcome {
    let case = |rows| Case { heads: 1, ..Case::new(rows, [64, 64]) };
    for (segments, mean) in [(2, -0.02), (3, -0.5), (9, f32::NEG_INFINITY)] {
        case(300).gates(mean).segments(segments).check_gradient::<f16>(device)?;
        case(300).channels(mean).segments(segments).check_gradient::<bf16>(device)?;
    }
    let wide = Case { batch: 2, ..Case::new(200, [128, 72]) }.segments(3);
    wide.clone().decay(&[-0.01, -0.2]).check_gradient_all::<bf16>(device)?;
    wide.channels(-0.01).check_gradient_all::<f16>(device)?;
    let packed = Case::new(0, [72, 64]).packed(&[70, 0, 1, 129]).segments(2);
    packed.clone().gates(-0.1).check_gradient::<f16>(device)?;
    packed.channels(-0.1).check_gradient::<f16>(device)?;
    let tensor = || Tensor::<bf16>::uninit(device, &[1, 16384, 1, 128]);
    let (x, mut d_q, mut d_k, mut d_v) = (tensor()?, tensor()?, tensor()?, tensor()?);
    let x = x.view();
    let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
    let len = |operator: LinearAttention<'_>| operator.gradient().workspace_len([&x, &x, &x], &x, outputs);
    assert!(len(LinearAttention::new())? > len(LinearAttention::new().segments(1))?, "not divided");
    Ok(())
}

/// Those that kernels are made for and others, with several sequences, without states.
pub fn head_dimensions(device: &Device) -> Outcome {
    for columns in [[64, 256], [72, 40], [33, 70], [1, 1]] {
        let case = Case { batch: 2, heads: 1, ..Case::new(70, columns) };
        case.clone().gates(-0.1).check_gradient::<f16>(device)?;
        Case { states: false, ..case }.channels(-0.1).check_gradient::<bf16>(device)?;
    }
    Ok(())
}

/// Lengths of all kinds.
pub fn packed(device: &Device) -> Outcome {
    let lengths = [70, 0, 1, 129, 64, 0];
    Case::new(0, [64, 64]).packed(&lengths).gates(-0.1).check_gradient_all::<f16>(device)?;
    Case::new(0, [64, 64]).packed(&lengths).channels(-0.1).check_gradient::<bf16>(device)?;
    Case::new(0, [128, 128]).packed(&lengths).check_gradient::<bf16>(device)
}

/// The second half's gradient by its first state, taken to be that by the first half's last one, gives what the whole gives.
pub fn halves(device: &Device) -> Outcome {
    for case in [Case::new(150, [64, 64]).gates(-0.05), Case::new(150, [64, 64]).channels(-0.1)] {
        let case = Case { heads: 1, ..case };
        let (data, given) = (case.data::<f16>(), case.given::<f16>());
        let whole = case.run_gradient(device, None, &data, &given)?;
        // A multiple of a chunk and not.
        for cut in [64, 70] {
            let part = |first: usize, count: usize, initial: &[f32], last: &[f32]| {
                let of = |x: &[f16]| x[first * 64..][..count * 64].to_vec();
                let f32s = |x: &[f32], columns: usize| {
                    if x.is_empty() { Vec::new() } else { x[first * columns..][..count * columns].to_vec() }
                };
                let data = Data {
                    q: of(&data.q),
                    k: of(&data.k),
                    v: of(&data.v),
                    decay: Vec::new(),
                    gates: f32s(&data.gates, 1),
                    channel_gates: f32s(&data.channel_gates, 64),
                    beta: Vec::new(),
                    initial: initial.to_vec(),
                };
                let given = Given { d_o: of(&given.d_o), last: last.to_vec(), no_gates: false };
                Case { rows: count, ..case.clone() }.run_gradient(device, None, &data, &given)
            };
            // The state between, of the first half.
            let between = Case { rows: cut, ..case.clone() }.exact(&Data {
                q: data.q.clone(),
                k: data.k.clone(),
                v: data.v.clone(),
                gates: data.gates.clone(),
                channel_gates: data.channel_gates.clone(),
                initial: data.initial.clone(),
                decay: Vec::new(),
                beta: Vec::new(),
            });
            let between: Vec<f32> = between.states.iter().map(|&x| x as f32).collect();
            let second = part(cut, 150 - cut, &between, &given.last)?;
            let first = part(0, cut, &data.initial, &second.initial)?;
            for (i, whole) in whole.by.iter().enumerate() {
                let both: Vec<f16> = first.by[i].iter().chain(&second.by[i]).copied().collect();
                let exact: Vec<f64> = whole.iter().map(|x| x.to_f32().into()).collect();
                let error = relative_error(&both, &exact);
                assert!(error < 1.5e-3, "the {i}-th gradient is off by {error:.1e}, cut at {cut}: {case:?}");
            }
            let both: Vec<f32> = first.gates.iter().chain(&second.gates).copied().collect();
            let exact: Vec<f64> = whole.gates.iter().map(|&x| x.into()).collect();
            let error = relative_error(&both, &exact);
            assert!(error < 1.5e-3, "the gradient by gates is off by {error:.1e}, cut at {cut}: {case:?}");
        }
    }
    Ok(())
}

/// What a sequence's neighbours are, NaN even, is nothing to it.
pub fn neighbours(device: &Device) -> Outcome {
    for case in [Case::new(0, [64, 64]).gates(-0.1), Case::new(0, [64, 64]).channels(-0.1)] {
        let case = Case { heads: 1, ..case }.packed(&[50, 70, 30]);
        let (mut data, mut given) = (case.data::<f16>(), case.given::<f16>());
        let right = case.run_gradient(device, None, &data, &given)?;
        for of in [&mut data.q, &mut data.k, &mut data.v, &mut given.d_o] {
            of[..50 * 64].fill(f16::NAN);
            of[120 * 64..].fill(f16::NAN);
        }
        let alone = case.run_gradient(device, None, &data, &given)?;
        for (alone, right) in alone.by.iter().zip(&right.by) {
            assert_eq!(alone[50 * 64..120 * 64], right[50 * 64..120 * 64], "{case:?}");
        }
        let columns = case.gate_columns();
        assert_eq!(alone.gates[50 * columns..120 * columns], right.gates[50 * columns..120 * columns]);
    }
    Ok(())
}

/// In random orders nothing races, and results are the same to the bit.
pub fn random(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for case in [Case::new(150, [64, 64]).gates(-0.1), Case::new(150, [64, 64]).channels(-0.1)] {
        let (data, given) = (case.data::<bf16>(), case.given::<bf16>());
        let right = case.run_gradient(device, None, &data, &given)?;
        for seed in 1..4 {
            let results = case.run_gradient(&Device::emulator_with_seed(seed), None, &data, &given)?;
            assert!(results.by == right.by && results.gates == right.gates, "seed {seed}: {case:?}");
        }
    }
    Ok(())
}

/// Each wrong argument by its name, with nothing written; and a workspace for calls that are captured.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::filled(device, f16::ONE, &[1, 70, 2, 64])?;
    let f32s = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    let (rows, narrow) = (f32s(&[1, 70, 2])?, x.view().narrow(3, 0, 60)?);
    let (mut last, mut gates, mut state) =
        (f32s(&[1, 2, 64, 64])?, f32s(&[1, 70, 2])?, f32s(&[1, 2, 64, 60])?);
    let (wrong, channels, mut room) = (f32s(&[1, 2, 64, 60])?, f32s(&[1, 70, 2, 64])?, f32s(&[3])?);
    let (mut last, mut gates, mut state) = (last.view_mut(), gates.view_mut(), state.view_mut());
    let (mut room, mut short) = (room.view_mut(), Tensor::<f32>::zeros(device, &[1, 69, 2])?);
    let mut short = short.view_mut();
    let (mut three, mut two) = (f32s(&[3])?, f32s(&[2])?);
    let (mut three, mut two) = (three.view_mut(), two.view_mut());
    let new = LinearAttention::new;
    let refused: Vec<(&str, LinearAttentionGradient<'_>)> = vec![
        ("beta", new().delta(&rows.view()).gradient()),
        ("final_state", new().final_state(&mut last).gradient()),
        ("segments", new().segments(0).gradient()),
        ("scale", new().scale(-1.0).gradient()),
        ("gates", new().gates(&rows.view().narrow(1, 0, 9)?).gradient()),
        ("d_gates", new().gradient().d_gates(&mut short)),
        ("d_gates", new().channel_gates(&channels.view()).gradient().d_gates(&mut gates)),
        ("d_decay", new().gradient().d_decay(&mut three)),
        ("d_decay", new().channel_gates(&channels.view()).gradient().d_decay(&mut two)),
        ("d_initial_state", new().gradient().d_initial_state(&mut state)),
        ("d_final_state", new().gradient().d_final_state(&wrong.view())),
        ("workspace", new().gradient().workspace(&mut room)),
        ("kernel", new().gradient().kernel("none such")),
    ];
    let poison = || Tensor::filled(device, f16::NAN, &[1, 70, 2, 64]);
    let (mut d_q, mut d_k, mut d_v) = (poison()?, poison()?, poison()?);
    let x = x.view();
    let names = |result: Result<(), Error>, name: &str| match result {
        Err(Error::Argument { argument, .. }) if argument == name => {}
        other => panic!("not an error about `{name}`: {other:?}"),
    };
    for (name, mut operator) in refused {
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        names(operator.run(&stream, [&x, &x, &x], &x, outputs), name);
    }
    let mut run = |inputs, d_o| {
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        new().gradient().run(&stream, inputs, d_o, outputs)
    };
    names(run([&x, &x, &x], &narrow), "d_o");
    names(run([&x, &narrow, &x], &x), "k");
    names(run([&narrow, &narrow, &x], &x), "d_q");
    for written in [&d_q, &d_k, &d_v] {
        assert!(written.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    }
    let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
    let len = new().gradient().workspace_len([&x, &x, &x], &x, outputs)?;
    let mut workspace = Tensor::<f32>::uninit(device, &[len])?;
    let mut workspace = workspace.view_mut();
    let mut operator = new().gradient().workspace(&mut workspace);
    let (mut d_q, mut d_k, mut d_v) = (d_q.view_mut(), d_k.view_mut(), d_v.view_mut());
    let graph: Graph =
        stream.capture(|stream| operator.run(stream, [&x, &x, &x], &x, [&mut d_q, &mut d_k, &mut d_v]))?;
    assert_eq!(graph.nodes(), 3);
    Ok(())
}
