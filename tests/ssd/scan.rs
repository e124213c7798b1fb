//! The scan.

use tilewright::ops::{Ssd, kernels};
use tilewright::{Arch, Device, Stream, Tensor, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Case, Data, assert_near, check, random_cases, run};

pub fn every_kernel(device: &Device) -> Outcome {
    let scans: Vec<_> = kernels()
        .filter(|k| k.name.starts_with("chunk_scan") && device.runs(k.arch))
        .map(|k| k.name)
        .collect();
    assert!(scans.len() >= 6, "{scans:?}");
    for kernel in scans {
        let n = [64, 128, 256]
            .into_iter()
            .find(|n| kernel.contains(&format!("_n{n}s")))
            .expect("columns in the name");
        let case = Case { kernel: Some(kernel), n, chunk: Some(64), skip: true, ..Case::new(130) };
        if kernel.contains("_bf16_") { check::<bf16>(device, &case)? } else { check::<f16>(device, &case)? }
    }
    for length in [1, 63, 64, 65] {
        check::<f16>(device, &Case { batch: 2, heads: 1, ..Case::new(length) })?;
        check::<bf16>(device, &Case { n: 64, groups: 2, initial: false, ..Case::new(length) })?;
    }
    for length in [1, 63, 65] {
        check::<f16>(device, &Case { heads: 1, n: 200, ..Case::new(length) })?;
    }
    check::<bf16>(device, &Case { heads: 1, n: 64, ..Case::new(1000) })
}

pub fn long(device: &Device) -> Outcome {
    let case = Case { heads: 1, n: 64, ..Case::new(4097) };
    check::<bf16>(device, &Case { chunk: Some(1024), ..case })
}

/// Chunks of every number of blocks give the same, to rounding; a state's way over memory as f32 loses nothing.
pub fn chunks(device: &Device) -> Outcome {
    for chunk in [64, 128, 192, 64 << 30] {
        check::<bf16>(device, &Case { chunk: Some(chunk), heads: 3, groups: 3, ..Case::new(300) })?;
    }
    check::<f16>(device, &Case { chunk: Some(64), batch: 2, initial: false, n: 40, ..Case::new(128) })
}

pub fn options(device: &Device) -> Outcome {
    let case = Case { heads: 2, ..Case::new(70) };
    check::<f16>(device, &Case { skip: true, gate: true, bias: true, softplus: true, ..case.clone() })?;
    check::<bf16>(device, &Case { gate: true, softplus: true, limits: Some([0.05, 0.2]), ..case.clone() })?;
    check::<bf16>(device, &Case { skip: true, limits: Some([0.1, 0.1]), ..case })
}

/// A decay of 0, of 1, of exp(-80) a step, of a step that is not there.
pub fn decays(device: &Device) -> Outcome {
    let case = Case { limits: Some([0.1, 0.1]), n: 64, heads: 1, ..Case::new(130) };
    for a in [-1e30, 0.0, -800.0, -1e4, f32::MIN, -15.0] {
        for chunk in [64, 256] {
            check::<bf16>(device, &Case { a: vec![a], chunk: Some(chunk), ..case.clone() })?;
        }
    }
    // Steps of 0: the state stays, and y is C H.
    check::<f16>(device, &Case { limits: Some([0.0, 0.0]), ..case })
}

/// Two halves at a block's end are the whole to the bit, elsewhere to rounding.
pub fn halves(device: &Device) -> Outcome {
    let case = Case { chunk: Some(1 << 20), n: 64, initial: false, ..Case::new(200) };
    let data = Data::<bf16>::new(&case);
    let exact = data.exact(&case);
    let whole = run(device, &case, &data)?;
    for at in [128, 77] {
        let (mut y, mut state) = (Vec::new(), data.initial.clone());
        for (rows, initial) in [(0..at, false), (at..200, true)] {
            let part = Case { length: rows.len(), initial, ..case.clone() };
            let of = |of: &[bf16]| of[rows.start * (of.len() / 200)..rows.end * (of.len() / 200)].to_vec();
            let half = Data {
                x: of(&data.x),
                dt: of(&data.dt),
                b: of(&data.b),
                c: of(&data.c),
                z: of(&data.z),
                a: data.a.clone(),
                bias: data.bias.clone(),
                skip: data.skip.clone(),
                initial: state,
            };
            let results = run(device, &part, &half)?;
            y.extend(results.0);
            state = results.1;
        }
        assert_near(&case, (&y, &state), &exact);
        if at % 64 == 0 {
            assert_eq!((&y, &state), (&whole.0, &whole.1));
        }
    }
    Ok(())
}

pub fn packed(device: &Device) -> Outcome {
    let lengths = vec![70, 0, 1, 64, 130, 0, 5];
    let total: usize = lengths.iter().sum();
    let case = Case { packed: Some(lengths), n: 64, skip: true, ..Case::new(total) };
    for chunk in [64, 128, 1024] {
        check::<bf16>(device, &Case { chunk: Some(chunk), ..case.clone() })?;
    }
    let scans = kernels().filter(|k| k.name.starts_with("chunk_scan") && device.runs(k.arch));
    for kernel in scans.map(|k| k.name).filter(|name| name.contains("_f16_")) {
        check::<f16>(device, &Case { kernel: Some(kernel), ..case.clone() })?;
    }
    if device.runs(Arch::Sm90a) {
        check::<bf16>(device, &Case { n: 200, chunk: Some(64), ..case })?;
    }
    Ok(())
}

/// Offsets that are not as they must be, and a sequence that is longer than it may be: what is computed is right, the rest is left alone.
pub fn wrong_offsets(device: &Device) -> Outcome {
    const ROWS: usize = 140;
    let case = Case { packed: Some(vec![60, 0, 80]), initial: false, n: 64, heads: 1, ..Case::new(ROWS) };
    let data = Data::<bf16>::new(&case);
    let [exact, _] = data.exact(&case);
    let stream = Stream::new(device)?;
    let x = Tensor::from_slice(device, &data.x, &[1, ROWS, 1, 64])?;
    let b = Tensor::from_slice(device, &data.b, &[1, ROWS, 1, 64])?;
    let c = Tensor::from_slice(device, &data.c, &[1, ROWS, 1, 64])?;
    let dt = Tensor::from_slice(device, &data.dt, &[1, ROWS, 1])?;
    let a = Tensor::from_slice(device, &data.a, &[1])?;
    let offsets = Tensor::from_slice(device, &[-5, 60, 60, i32::MAX], &[4])?;
    for (longest, chunk) in [(usize::MAX, 64), (70, 64), (70, 256)] {
        let mut y = Tensor::filled(device, bf16::NAN, &[1, ROWS, 1, 64])?;
        let bc = [&b.view(), &c.view()];
        let mut ssd = Ssd::new().packed(offsets.view(), longest).chunk(chunk);
        ssd.run(&stream, &x.view(), &dt.view(), &a.view(), bc, &mut y.view_mut())?;
        let mut y = y.to_vec_on(&stream)?;
        let mut exact = exact.clone();
        if longest < 80 {
            assert!(y[(60 + longest) * 64..].iter().all(|y| y.is_nan()), "rows behind the longest sequence");
            y.truncate((60 + longest) * 64);
            exact.truncate((60 + longest) * 64);
        }
        assert_near(&case, (&y, &[]), &[exact, Vec::new()]);
    }
    Ok(())
}

/// A NaN in one sequence leaves the others alone, and what lies between tokens is not read.
pub fn nan(device: &Device) -> Outcome {
    let case = Case { packed: Some(vec![70, 30, 40]), n: 64, heads: 1, pad: 8, ..Case::new(140) };
    let exact = Data::<bf16>::new(&case).exact(&case);
    for input in 0..3 {
        let mut data = Data::<bf16>::new(&case);
        let (of, cols) = match input {
            0 => (&mut data.x, 64),
            1 => (&mut data.b, 64),
            _ => (&mut data.dt, 1),
        };
        of[75 * cols..][..cols].fill(bf16::NAN);
        let (y, last) = run(device, &case, &data)?;
        let (mut expected, mut states) = (exact[0].clone(), exact[1].clone());
        let (mut y, mut last) = (y, last);
        // What the sequence that has it comes to is not asked here.
        let zero = |got: &mut [bf16], exact: &mut [[f64; 2]]| {
            got.fill(bf16::ZERO);
            exact.fill([0.0; 2]);
        };
        assert!(f16::from_f32(y[75 * 64].to_f32()).is_nan(), "input {input}: its own result");
        assert!(last[64 * 64].is_nan(), "input {input}: its own state");
        zero(&mut y[70 * 64..100 * 64], &mut expected[70 * 64..100 * 64]);
        last[64 * 64..2 * 64 * 64].fill(0.0);
        states[64 * 64..2 * 64 * 64].fill([0.0; 2]);
        assert_near(&case, (&y, &last), &[expected, states]);
    }
    Ok(())
}

/// Heads and states of other sizes, tokens with something between them, lines that are not aligned.
pub fn places(device: &Device) -> Outcome {
    for (p, n, pad) in
        [(32, 16, 0), (128, 64, 8), (64, 64, 24), (20, 36, 3), (72, 100, 0), (64, 128, 1), (1, 1, 0)]
    {
        check::<f16>(device, &Case { p, n, pad, gate: true, chunk: Some(64), ..Case::new(67) })?;
    }
    Ok(())
}

/// Whatever goes together, of numbers that are the same each time.
pub fn random(device: &Device) -> Outcome {
    for (i, case) in random_cases(24, 0x5eed).into_iter().enumerate() {
        if i % 2 == 0 { check::<f16>(device, &case)? } else { check::<bf16>(device, &case)? }
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let case = Case { n: 64, ..Case::new(0) };
    let data = Data::<bf16>::new(&case);
    let (_, last) = run(device, &case, &data)?;
    assert_eq!(last, data.initial, "without tokens the state stays");
    for none in [Case { batch: 0, ..case.clone() }, Case { heads: 0, ..case.clone() }, Case { p: 0, ..case }]
    {
        run(device, &none, &Data::<bf16>::new(&none))?;
    }
    Ok(())
}

pub fn replay(device: &Device) -> Outcome {
    let case = Case { initial: false, n: 64, chunk: Some(64), ..Case::new(130) };
    let data = Data::<bf16>::new(&case);
    let stream = Stream::new(device)?;
    let &Case { heads, groups, p, n, length, .. } = &case;
    let x = Tensor::from_slice(device, &data.x, &[1, length, heads, p])?;
    let b = Tensor::from_slice(device, &data.b, &[1, length, groups, n])?;
    let c = Tensor::from_slice(device, &data.c, &[1, length, groups, n])?;
    let dt = Tensor::from_slice(device, &data.dt, &[1, length, heads])?;
    let a = Tensor::from_slice(device, &data.a, &[heads])?;
    let mut last = Tensor::filled(device, f32::NAN, &[1, heads, p, n])?;
    let mut y = Tensor::filled(device, bf16::NAN, &[1, length, heads, p])?;
    let (dt, a, x, b, c) = (dt.view(), a.view(), x.view(), b.view(), c.view());
    let need = Ssd::new().chunk(64).workspace_len(&x, &dt, &a, [&b, &c], &y.view_mut())?;
    let mut room = Tensor::<f32>::filled(device, f32::NAN, &[need])?;
    let graph = stream.capture(|stream| {
        let (mut room, mut last) = (room.view_mut(), last.view_mut());
        let mut ssd = Ssd::new().chunk(64).workspace(&mut room).final_state(&mut last);
        ssd.run(stream, &x, &dt, &a, [&b, &c], &mut y.view_mut())
    })?;
    for _ in 0..2 {
        y.write(&vec![bf16::NAN; y.len()])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let y = y.to_vec_on(&stream)?;
        assert_near(&case, (&y, &last.to_vec_on(&stream)?), &data.exact(&case));
    }
    Ok(())
}
