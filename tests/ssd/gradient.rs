//! The scan's gradients.

use tilewright::ops::{SsdGradient, kernels};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Data, random_cases};
use crate::gradient_case::{assert_near, check, check_positive, exact, given, run};

pub fn every_kernel(device: &Device) -> Outcome {
    let names: Vec<_> = kernels()
        .filter(|k| k.name.starts_with("block_gradient_bx") && device.runs(k.arch))
        .map(|k| k.name)
        .collect();
    assert!(names.len() >= 4, "{names:?}");
    for kernel in names {
        let n = [64, 128, 256].into_iter().find(|n| kernel.contains(&format!("_n{n}s")));
        let n = n.expect("columns in the name");
        let case = Case { kernel: Some(kernel), n, chunk: Some(64), skip: true, ..Case::new(130) };
        if kernel.contains("_f16_") {
            check::<f16>(device, &Case { gate: true, ..case })?;
        } else {
            check::<bf16>(device, &case)?;
        }
    }
    for length in [1, 63, 64, 65] {
        check::<f16>(device, &Case { batch: 2, heads: 1, ..Case::new(length) })?;
        check::<bf16>(device, &Case { n: 64, groups: 2, initial: false, ..Case::new(length) })?;
    }
    for length in [1, 65] {
        check::<bf16>(device, &Case { heads: 3, p: 72, n: 200, ..Case::new(length) })?;
    }
    Ok(())
}

/// Sums over many tokens, in chunks and whole.
pub fn long(device: &Device) -> Outcome {
    let case = Case { heads: 1, p: 16, n: 32, ..Case::new(1000) };
    check::<bf16>(device, &Case { chunk: Some(320), ..case.clone() })?;
    for a in [0.0, -0.001, -0.1, -1.0] {
        check_positive::<f16>(device, &Case { a: vec![a], chunk: Some(320), ..case.clone() })?;
    }
    check::<f16>(device, &Case { a: vec![-0.001], chunk: Some(1 << 20), length: 4097, ..case })
}

pub fn options(device: &Device) -> Outcome {
    let case = Case { heads: 2, n: 40, ..Case::new(70) };
    check::<f16>(device, &Case { skip: true, gate: true, bias: true, softplus: true, ..case.clone() })?;
    check::<bf16>(device, &Case { gate: true, softplus: true, limits: Some([0.05, 0.2]), ..case.clone() })?;
    check::<bf16>(device, &Case { skip: true, limits: Some([0.1, 0.1]), ..case.clone() })?;
    // Heads of several groups, and heads that share one: as many sums.
    check::<f16>(device, &Case { heads: 6, groups: 2, ..case.clone() })?;
    check::<bf16>(device, &Case { heads: 5, p: 100, gate: true, ..case })
}

/// A decay of 0, of 1, of exp(-80) a step, of all between: gradients by dt and A of terms that vanish, and of none that do.
pub fn decays(device: &Device) -> Outcome {
    let case = Case { limits: Some([0.0, 100.0]), n: 64, heads: 1, ..Case::new(130) };
    for a in [-1e30, 0.0, -800.0, -1e4, f32::MIN, -15.0, -1.0] {
        for chunk in [64, 256] {
            check::<bf16>(device, &Case { a: vec![a], chunk: Some(chunk), ..case.clone() })?;
        }
    }
    // All steps are cut off, to 0: the state stays.
    check::<f16>(device, &Case { limits: Some([0.0, 0.0]), ..case })
}

/// Two halves with the state handed on, and its gradient handed back, are the whole.
pub fn halves(device: &Device) -> Outcome {
    const LENGTH: usize = 200;
    let case = Case { chunk: Some(1 << 20), n: 64, heads: 1, initial: true, ..Case::new(LENGTH) };
    let data = Data::<bf16>::new(&case);
    let (dy, d_last) = given::<bf16>(&case);
    let exact = exact(&case, &data, (&dy, &d_last));
    for at in [128, 77] {
        let of = |of: &[bf16], rows: [usize; 2]| {
            let each = of.len() / LENGTH;
            of[rows[0] * each..rows[1] * each].to_vec()
        };
        let part = |rows: [usize; 2], initial: Vec<f32>| Data {
            x: of(&data.x, rows),
            dt: of(&data.dt, rows),
            b: of(&data.b, rows),
            c: of(&data.c, rows),
            z: of(&data.z, rows),
            a: data.a.clone(),
            bias: data.bias.clone(),
            skip: data.skip.clone(),
            initial,
        };
        let (first, second) = ([0, at], [at, LENGTH]);
        let cases = [first, second].map(|[from, to]| Case { length: to - from, ..case.clone() });
        let before = part(first, data.initial.clone());
        let (_, state) = crate::case::run(device, &cases[0], &before)?;
        let later = run(device, &cases[1], &part(second, state), (&of(&dy, second), &d_last))?;
        let back = later.iter().find(|(name, _)| *name == "d_initial_state").ok_or("no state")?.1.clone();
        let earlier = run(device, &cases[0], &before, (&of(&dy, first), &back))?;
        let both = earlier.into_iter().zip(later).map(|((name, first), (_, second))| match name {
            "d_initial_state" => (name, first),
            "d_a" | "d_skip" | "d_dt_bias" => {
                (name, first.iter().zip(&second).map(|(a, b)| a + b).collect::<Vec<_>>())
            }
            _ => (name, [first, second].concat()),
        });
        assert_near::<bf16>(&case, &both.collect(), &exact);
    }
    Ok(())
}

pub fn packed(device: &Device) -> Outcome {
    let lengths = vec![70, 0, 1, 64, 130, 0, 5];
    let total: usize = lengths.iter().sum();
    let case = Case { packed: Some(lengths), n: 64, skip: true, ..Case::new(total) };
    for chunk in [64, 1024] {
        check::<bf16>(device, &Case { chunk: Some(chunk), gate: chunk == 64, ..case.clone() })?;
    }
    let names = kernels().filter(|k| k.name.starts_with("block_gradient_bx") && device.runs(k.arch));
    for kernel in names.map(|k| k.name).filter(|name| name.contains("_f16_")) {
        check::<f16>(device, &Case { kernel: Some(kernel), ..case.clone() })?;
    }
    Ok(())
}

/// A NaN in a sequence leaves the others alone.
pub fn nan(device: &Device) -> Outcome {
    let case = Case { packed: Some(vec![70, 30, 40]), n: 64, heads: 1, pad: 8, ..Case::new(140) };
    let (dy, d_last) = given::<bf16>(&case);
    let exact = exact(&case, &Data::<bf16>::new(&case), (&dy, &d_last));
    for input in 0..4 {
        let (mut data, mut dy) = (Data::<bf16>::new(&case), dy.clone());
        let of = [&mut data.x, &mut data.b, &mut data.c, &mut dy];
        for (i, of) in of.into_iter().enumerate() {
            if i == input {
                of[75 * 64..][..64].fill(bf16::NAN);
            }
        }
        let results = run(device, &case, &data, (&dy, &d_last))?;
        // What the sequence that has it comes to is not asked here, nor sums of all tokens.
        let left = |all: usize, each: usize| (0..all).filter(move |i| !(70..100).contains(&(i / each)));
        let (mut kept, mut right) = (Vec::new(), Vec::new());
        for ((name, got), (_, exact)) in results.iter().zip(&exact) {
            let each = match *name {
                "dx" | "d_b" | "d_c" => 64,
                "d_dt" => 1,
                _ => continue,
            };
            assert!(got[75 * each..76 * each].iter().any(|x| x.is_nan()) || *name != "dx" || input == 0);
            kept.push((*name, left(got.len(), each).map(|i| got[i]).collect()));
            right.push((*name, left(got.len(), each).map(|i| exact[i]).collect()));
        }
        assert_near::<bf16>(&case, &kept, &right);
    }
    Ok(())
}

/// Heads and states of other sizes, tokens with something between them, lines that are not aligned.
pub fn places(device: &Device) -> Outcome {
    for (p, n, pad) in [(32, 16, 0), (128, 64, 8), (20, 36, 3), (72, 100, 0), (64, 128, 1), (1, 1, 0)] {
        check::<f16>(device, &Case { p, n, pad, gate: true, chunk: Some(64), ..Case::new(67) })?;
    }
    Ok(())
}

/// Whatever goes together, of numbers that are the same each time.
pub fn random(device: &Device) -> Outcome {
    for case in random_cases(16, 7) {
        check::<f16>(device, &case)?;
        check::<bf16>(device, &case)?;
    }
    Ok(())
}

/// In random orders of warps nothing races, and results are the same to the bit.
pub fn schedules(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    let case = Case { heads: 3, gate: true, softplus: true, chunk: Some(64), ..Case::new(130) };
    let data = Data::<bf16>::new(&case);
    let (dy, d_last) = given::<bf16>(&case);
    let right = run(device, &case, &data, (&dy, &d_last))?;
    for seed in 1..3 {
        let device = Device::emulator_with_seed(seed);
        assert_eq!(run(&device, &case, &data, (&dy, &d_last))?, right);
    }
    Ok(())
}

/// Without tokens the gradient by the state stays, and sums are zeros; what is not wanted is not needed.
pub fn nothing(device: &Device) -> Outcome {
    let case = Case { n: 64, ..Case::new(0) };
    let data = Data::<bf16>::new(&case);
    let (dy, d_last) = given::<bf16>(&case);
    let results = run(device, &case, &data, (&dy, &d_last))?;
    for (name, got) in results {
        match name {
            "d_initial_state" => assert_eq!(got, d_last),
            _ => assert!(got.iter().all(|&x| x == 0.0), "{name}"),
        }
    }
    for none in [Case { batch: 0, ..case.clone() }, Case { heads: 0, ..case.clone() }, Case { p: 0, ..case }]
    {
        let (dy, d_last) = given::<bf16>(&none);
        run(device, &none, &Data::<bf16>::new(&none), (&dy, &d_last))?;
    }
    Ok(())
}

/// Offsets that are not as they must be, and a sequence that is longer than it may be: what is computed is right, the rest is left alone.
pub fn wrong_offsets(device: &Device) -> Outcome {
    const ROWS: usize = 140;
    let case = Case { packed: Some(vec![60, 0, 70]), initial: false, n: 64, heads: 1, ..Case::new(ROWS) };
    let data = Data::<bf16>::new(&case);
    let (dy, _) = given::<bf16>(&case);
    let exact = exact(&case, &data, (&dy, &vec![0.0; 3 * 64 * 64]));
    let stream = Stream::new(device)?;
    let of = |of: &[bf16]| Tensor::from_slice(device, of, &[1, ROWS, 1, 64]);
    let (x, b, c, dy) = (of(&data.x)?, of(&data.b)?, of(&data.c)?, of(&dy)?);
    let dt = Tensor::from_slice(device, &data.dt, &[1, ROWS, 1])?;
    let a = Tensor::from_slice(device, &data.a, &[1])?;
    let offsets = Tensor::from_slice(device, &[-5, 60, 60, i32::MAX], &[4])?;
    let poison = || Tensor::filled(device, bf16::NAN, &[1, ROWS, 1, 64]);
    let (mut dx, mut d_b, mut d_c) = (poison()?, poison()?, poison()?);
    SsdGradient::new()
        .packed(offsets.view(), 70)
        .dx(&mut dx.view_mut())
        .d_b(&mut d_b.view_mut())
        .d_c(&mut d_c.view_mut())
        .run(&stream, &x.view(), &dt.view(), &a.view(), [&b.view(), &c.view()], &dy.view())?;
    let mut results = Vec::new();
    for (name, got) in [("dx", dx), ("d_b", d_b), ("d_c", d_c)] {
        let mut got = bf16::widen(&got.to_vec_on(&stream)?);
        assert!(got.drain(130 * 64..).all(|x| x.is_nan()), "{name}: rows behind the longest sequence");
        results.push((name, got));
    }
    let exact: Vec<_> = exact
        .into_iter()
        .filter(|(name, _)| matches!(*name, "dx" | "d_b" | "d_c"))
        .map(|(name, of)| (name, of[..130 * 64].to_vec()))
        .collect();
    assert_near::<bf16>(&case, &results, &exact);
    Ok(())
}

/// A graph replays it, with a workspace that was given; gradients that are not wanted are not launched.
pub fn replay(device: &Device) -> Outcome {
    let case = Case { initial: false, n: 64, ..Case::new(130) };
    let data = Data::<bf16>::new(&case);
    let (dy, _) = given::<bf16>(&case);
    let stream = Stream::new(device)?;
    let of = |of: &[bf16], count| Tensor::from_slice(device, of, &[1, 130, count, 64]);
    let (x, b, c, dy) = (of(&data.x, 2)?, of(&data.b, 1)?, of(&data.c, 1)?, of(&dy, 2)?);
    let dt = Tensor::from_slice(device, &data.dt, &[1, 130, 2])?;
    let a = Tensor::from_slice(device, &data.a, &[2])?;
    let (x, b, c, dy, dt, a) = (x.view(), b.view(), c.view(), dy.view(), dt.view(), a.view());
    let mut dx = Tensor::filled(device, bf16::NAN, &[1, 130, 2, 64])?;
    let right = {
        let mut dx = dx.view_mut();
        SsdGradient::new().dx(&mut dx).run(&stream, &x, &dt, &a, [&b, &c], &dy)?;
        stream.synchronize()?;
        dx.as_view().to_vec_on(&stream)?
    };
    let need = SsdGradient::new().dx(&mut dx.view_mut()).workspace_len(&x, &dt, &a, [&b, &c], &dy)?;
    let mut room = Tensor::<f32>::filled(device, f32::NAN, &[need])?;
    let graph = {
        let (mut room, mut dx) = (room.view_mut(), dx.view_mut());
        let mut gradient = SsdGradient::new().dx(&mut dx).workspace(&mut room);
        stream.capture(|stream| gradient.run(stream, &x, &dt, &a, [&b, &c], &dy))?
    };
    // Steps, the walk from the end, blocks.
    assert_eq!(graph.nodes(), 3);
    for _ in 0..2 {
        dx.write(&vec![bf16::NAN; dx.len()])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(dx.to_vec_on(&stream)?, right);
    }
    Ok(())
}
