//! Plans that run many times, of views that had no memory.

use tilewright::ops::{LinearAttention, LinearAttentionViews};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::planned::{nowhere, nowhere_mut, random, refused, value};
use tilewright_support::suite::Outcome;

const SHAPE: [usize; 4] = [1, 200, 2, 64];
const STATE: [usize; 4] = [1, 2, 64, 64];

/// What tells the ways of computing apart.
#[derive(Clone, Copy, Debug)]
enum Gates {
    Rows,
    Channels,
}

/// Of gates of rows and of channels, with the delta rule and without, in segments: the same bits as calls.
pub fn runs(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let rows = &SHAPE[..3];
    for (kind, delta) in
        [(Gates::Rows, false), (Gates::Rows, true), (Gates::Channels, false), (Gates::Channels, true)]
    {
        let shape = match kind {
            Gates::Rows => rows,
            Gates::Channels => &SHAPE[..],
        };
        fn with<'a>(
            kind: Gates,
            gates: &TensorView<'a, f32>,
            beta: Option<&TensorView<'a, f32>>,
        ) -> LinearAttention<'a> {
            let of = LinearAttention::new().segments(2);
            let of = match kind {
                Gates::Rows => of.gates(gates),
                Gates::Channels => of.channel_gates(gates),
            };
            match beta {
                Some(beta) => of.delta(beta),
                None => of,
            }
        }
        let plan = {
            let (gates, beta, x) =
                (nowhere(device, shape)?, nowhere(device, rows)?, nowhere(device, &SHAPE)?);
            let mut last = nowhere_mut(device, &STATE)?;
            let of = with(kind, &gates, delta.then_some(&beta)).initial_state(&nowhere(device, &STATE)?);
            value(of.final_state(&mut last).plan::<f16>(&x, &x, &x, &nowhere_mut(device, &SHAPE)?)?)
        };
        let gates = Tensor::filled(device, -0.1f32, shape)?;
        // Keys are not of length 1.
        let beta = Tensor::filled(device, 0.01f32, rows)?;
        let initial = random::<f32>(device, 4, &STATE)?;
        let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
        for seed in 1..3 {
            let [q, k, v] = [0, 10, 20].map(|of| random::<f16>(device, seed + of, &SHAPE));
            let (q, k, v) = (q?, k?, v?);
            let (q, k, v) = (q.view(), k.view(), v.view());
            let [mut o, mut to] = [Tensor::filled(device, f16::NAN, &SHAPE)?, Tensor::zeros(device, &SHAPE)?];
            let [mut last, mut behind] =
                [Tensor::filled(device, f32::NAN, &STATE)?, Tensor::zeros(device, &STATE)?];
            let given = Some(gates.view());
            let (rows, channels) = match kind {
                Gates::Rows => (given, None),
                Gates::Channels => (None, given),
            };
            let mut views = LinearAttentionViews {
                gates: rows,
                channel_gates: channels,
                beta: delta.then(|| beta.view()),
                initial_state: Some(initial.view()),
                final_state: Some(last.view_mut()),
                workspace: Some(memory.view_mut()),
                ..LinearAttentionViews::default()
            };
            plan.run(&stream, &q, &k, &v, &mut o.view_mut(), &mut views)?;
            let mut behind_view = behind.view_mut();
            let (gates, beta) = (gates.view(), beta.view());
            let of = with(kind, &gates, delta.then_some(&beta)).initial_state(&initial.view());
            of.final_state(&mut behind_view).run(&stream, &q, &k, &v, &mut to.view_mut())?;
            assert!(o.to_vec_on(&stream)? == to.to_vec_on(&stream)?, "{kind:?}, {delta}");
            assert!(last.to_vec_on(&stream)? == behind.to_vec_on(&stream)?, "{kind:?}, {delta}");
        }
    }
    Ok(())
}

/// Steps with a state that goes on.
pub fn steps(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let shape = [1, 1, 2, 64];
    let plan = {
        let (x, gates) = (nowhere::<f16>(device, &shape)?, nowhere(device, &shape[..3])?);
        let (o, state) = (nowhere_mut(device, &shape)?, nowhere_mut(device, &STATE)?);
        value(LinearAttention::new().gates(&gates).step_plan(&state, &x, &x, &x, &o)?)
    };
    let gates = Tensor::filled(device, -0.1f32, &shape[..3])?;
    let (mut state, mut called) = (Tensor::zeros(device, &STATE)?, Tensor::zeros(device, &STATE)?);
    let mut o = Tensor::filled(device, f16::NAN, &shape)?;
    for token in 0..4 {
        let x = random::<f16>(device, token, &shape)?;
        let (x, mut to) = (x.view(), Tensor::zeros(device, &shape)?);
        let views = LinearAttentionViews { gates: Some(gates.view()), ..LinearAttentionViews::default() };
        plan.run(&stream, &mut state.view_mut(), &x, &x, &x, &mut o.view_mut(), &views)?;
        let of = LinearAttention::new().gates(&gates.view());
        of.step(&stream, &mut called.view_mut(), &x, &x, &x, &mut to.view_mut())?;
        assert_eq!(o.to_vec_on(&stream)?, to.to_vec_on(&stream)?);
    }
    assert_eq!(state.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    let x = random::<f16>(device, 1, &shape)?;
    let (x, none) = (x.view(), LinearAttentionViews::default());
    let result = plan.run(&stream, &mut state.view_mut(), &x, &x, &x, &mut o.view_mut(), &none);
    assert_eq!(refused(result), "gates");
    Ok(())
}

/// What runs with a plan is what it was made for; the error names what is not.
pub fn refuses(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = nowhere::<f16>(device, &SHAPE)?;
    let of = LinearAttention::new().segments(2);
    let plan = of.plan(&x, &x, &x, &nowhere_mut(device, &SHAPE)?)?;
    let (right, mut o) = (random::<f16>(device, 1, &SHAPE)?, Tensor::filled(device, f16::NAN, &SHAPE)?);
    let mut memory = Tensor::<f32>::zeros(device, &[plan.workspace_len()])?;
    let state = Tensor::<f32>::zeros(device, &STATE)?;
    let mut run = |q: TensorView<'_, f16>, v: TensorView<'_, f16>, views: &mut LinearAttentionViews<'_>| {
        refused(plan.run(&stream, &q, &right.view(), &v, &mut o.view_mut(), views))
    };
    let none = LinearAttentionViews::default;
    assert_eq!(run(right.view().narrow(1, 0, 199)?, right.view(), &mut none()), "q");
    assert_eq!(run(right.view(), right.view().transpose(2, 3)?, &mut none()), "v");
    assert_eq!(run(right.view(), right.view(), &mut none()), "workspace");
    let mut given = LinearAttentionViews { initial_state: Some(state.view()), ..none() };
    assert_eq!(run(right.view(), right.view(), &mut given), "initial_state");
    let short = memory.view_mut().narrow(0, 1, plan.workspace_len() - 1)?;
    let mut views = LinearAttentionViews { workspace: Some(short), ..none() };
    assert_eq!(run(right.view(), right.view(), &mut views), "workspace");
    assert!(o.to_vec_on(&stream)?.iter().all(|o| o.is_nan()), "something ran");
    Ok(())
}
