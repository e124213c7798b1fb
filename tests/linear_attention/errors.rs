//! Calls that are refused name the argument, and leave everything alone.

use tilewright::ops::{LinearAttention, linear_attention};
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::suite::Outcome;

/// Each wrong argument by its name, and what is allowed.
pub fn named(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::filled(device, f16::ONE, &[1, 70, 2, 64])?;
    let f32s = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    let (three, rows, channels) = (f32s(&[3])?, f32s(&[1, 70, 2])?, f32s(&[1, 70, 2, 64])?);
    let (short, state) = (f32s(&[1, 69, 2])?, f32s(&[1, 2, 64, 60])?);
    let (mut written, mut room) = (f32s(&[1, 2, 60, 64])?, f32s(&[3])?);
    let two_dimensional = Tensor::<i32>::zeros(device, &[2, 2])?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 70, 2, 64])?;
    let (mut written, mut room) = (written.view_mut(), room.view_mut());
    let new = LinearAttention::new;
    let refused: Vec<(&str, LinearAttention<'_>)> = vec![
        ("scale", new().scale(0.0)),
        ("scale", new().scale(f32::NAN)),
        ("decay", new().decay(&three.view())),
        ("gates", new().gates(&short.view())),
        ("channel_gates", new().channel_gates(&rows.view())),
        ("beta", new().delta(&short.view())),
        ("gates", new().gates(&rows.view()).channel_gates(&channels.view())),
        ("initial_state", new().initial_state(&state.view())),
        ("final_state", new().final_state(&mut written)),
        ("offsets", new().packed(two_dimensional.view(), 9)),
        ("segments", new().segments(0)),
        ("segments", new().segments(1025)),
        ("workspace", new().segments(2).channel_gates(&channels.view()).workspace(&mut room)),
        ("kernel", new().kernel("none such")),
        ("kernel", new().kernel("delta_sm_80_f16_64x128s2")),
    ];
    for (name, mut operator) in refused {
        match operator.run(&stream, &x.view(), &x.view(), &x.view(), &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    let narrow = x.view().narrow(3, 0, 60)?;
    let flat = x.view().select(0, 0)?;
    let wide = Tensor::<f16>::zeros(device, &[1, 70, 2, 257])?;
    let (x, wide) = (x.view(), wide.view());
    for (name, [q, k, v]) in [("k", [&x, &narrow, &x]), ("q", [&flat, &x, &x]), ("q", [&wide, &wide, &x])] {
        match linear_attention(&stream, q, k, v, &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    let names = |result: Result<(), Error>, name: &str| match result {
        Err(Error::Argument { argument, .. }) if argument == name => {}
        other => panic!("not an error about `{name}`: {other:?}"),
    };
    let mut state = f32s(&[1, 2, 64, 64])?;
    let step = new().step(&stream, &mut state.view_mut(), &x, &x, &x, &mut o.view_mut());
    names(step, "q");
    let initial = f32s(&[1, 2, 64, 64])?;
    let step = new().initial_state(&initial.view());
    let step = step.step(&stream, &mut state.view_mut(), &x, &x, &x, &mut o.view_mut());
    names(step, "initial_state");
    let step = new().step(&stream, &mut written, &x, &x, &x, &mut o.view_mut());
    names(step, "state");

    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    Ok(())
}

/// What a forced kernel cannot read is said.
pub fn reasons(device: &Device) -> Outcome {
    let x = Tensor::<f16>::zeros(device, &[1, 4, 2, 200])?;
    let x = x.view();
    let mut o = Tensor::<f16>::zeros(device, &[1, 4, 2, 200])?;
    let all = LinearAttention::new().candidates(&x, &x, &x, &o.view_mut())?;
    let text = |name: &str| {
        let found = all.iter().find(|kernel| kernel.name() == name);
        found.and_then(|kernel| kernel.rejection()).map_or("none".to_owned(), |why| why.to_string())
    };
    let most = "it takes a head dimension of Q and K up to 128";
    assert_eq!(text("retention_sm_80_f16_64x128s2"), most);
    let beta = Tensor::<f32>::zeros(device, &[1, 4, 2])?;
    let gates = Tensor::<f32>::zeros(device, &[1, 4, 2, 200])?;
    let error = LinearAttention::new().delta(&beta.view()).channel_gates(&gates.view()).run(
        &Stream::new(device)?,
        &x,
        &x,
        &x,
        &mut o.view_mut(),
    );
    let error = error.expect_err("the delta rule with gates of channels has no kernel of 200").to_string();
    assert!(error.contains("f16 and the delta rule with gates") && error.contains(most), "{error}");
    Ok(())
}
