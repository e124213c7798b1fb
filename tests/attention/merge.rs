//! Attentions over parts of the keys, merged.

use tilewright::ops::{Attention, AttentionMerge, HalfElement, attention, merge_attention};
use tilewright::{Device, Error, Graph, Stream, Tensor, TensorViewMut, bf16, f16};
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::real::Real;
use tilewright_support::suite::Outcome;

/// Sequences, heads, queries and columns of V.
const SHAPES: [[usize; 4]; 9] = [
    [1, 1, 1, 1],
    [1, 3, 5, 33],
    [2, 2, 17, 64],
    [7, 5, 1, 128],
    [1, 4, 100, 80],
    [3, 1, 16, 136],
    [1, 2, 33, 200],
    [2, 1, 15, 256],
    [1, 1, 20, 300],
];

/// Any values, of rows with keys in both parts, in one of them or in none.
pub fn values(device: &Device) -> Outcome {
    each::<f16>(device)?;
    each::<bf16>(device)
}

fn each<T: HalfElement + Real>(device: &Device) -> Outcome {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        // Rows behind each other, or with room between them, which is no multiple of 16 bytes.
        for pitch in [shape[3], shape[3] + 3] {
            merged::<T>(device, shape, pitch, number as u64)?;
        }
    }
    Ok(())
}

fn merged<T: HalfElement + Real>(
    device: &Device,
    [batch, heads, queries, columns]: [usize; 4],
    pitch: usize,
    seed: u64,
) -> Outcome {
    let (rows, stream) = (batch * heads * queries, Stream::new(device)?);
    let lines = [batch * heads, queries, columns];
    let logs = |part: u64| -> Vec<f32> {
        let near = normal::<f32>(seed * 7 + part, rows);
        let log = |row: usize, x: f32| match (row + part as usize * (row % 2)) % 5 {
            // Rows with keys in one part, in the other, in none, with logarithms that are far apart, and near.
            0 => f32::NEG_INFINITY,
            1 if part == 1 && row.is_multiple_of(3) => f32::NEG_INFINITY,
            2 => 60.0 * x,
            // Beyond what base 2 has, in one part or in both.
            3 => -3e38,
            4 if part == 0 && row.is_multiple_of(2) => -3e38,
            _ => x,
        };
        near.into_iter().enumerate().map(|(row, x)| log(row, x)).collect()
    };
    let (logs, values) =
        ([logs(0), logs(1)], [2, 3].map(|part| normal::<T>(seed * 7 + part, rows * columns)));
    let place = || Place::by_rows(lines, pitch);
    let memory = [Guarded::with(device, place(), &values[0])?, Guarded::with(device, place(), &values[1])?];
    let shape = [batch, heads, queries];
    let log = [Tensor::from_slice(device, &logs[0], &shape)?, Tensor::from_slice(device, &logs[1], &shape)?];
    let (mut out, mut lse) = (Guarded::<T>::at(device, place())?, Tensor::filled(device, f32::NAN, &shape)?);
    let of_heads = [batch, heads, queries, columns];
    {
        let parts = [memory[0].view()?.reshape(&of_heads)?, memory[1].view()?.reshape(&of_heads)?];
        let log = log.each_ref().map(Tensor::view);
        let mut o = out.view_mut()?.reshape(&of_heads)?;
        let states = [(&parts[0], &log[0]), (&parts[1], &log[1])];
        AttentionMerge::new().lse(&mut lse.view_mut()).run(&stream, states, &mut o)?;
    }
    stream.synchronize()?;
    let ((o, outside), lse) = (out.read()?, lse.to_vec()?);
    let (o, wide) = (T::widen(&o), values.each_ref().map(|of| T::widen(of)));
    assert_eq!(outside, 0, "stores outside of {of_heads:?}");
    for row in 0..rows {
        let [x, y] = [0, 1].map(|part| f64::from(logs[part][row]));
        let most = x.max(y);
        let none = most == f64::NEG_INFINITY;
        let weights = [x, y].map(|log| if none { 0.0 } else { (log - most).exp() });
        let sum = weights[0] + weights[1];
        let expected = if none { most } else { most + sum.ln() };
        let near = lse[row] == expected as f32
            || (f64::from(lse[row]) - expected).abs() <= 1e-6 * expected.abs().max(1.0);
        assert!(near, "{of_heads:?}, row {row}: a log-sum-exp of {} for {expected}", lse[row]);
        for column in 0..columns {
            let [a, b] = [0, 1].map(|part| f64::from(wide[part][row * columns + column]));
            let expected = if none { 0.0 } else { (weights[0] * a + weights[1] * b) / sum };
            let found = f64::from(o[row * columns + column]);
            // The exponent of logarithms of some 200 is off by 2e-5.
            let allowed = 1e-4 * (a.abs() + b.abs()) + T::ROUNDING * expected.abs() + T::LEAST;
            assert!(
                (found - expected).abs() <= allowed,
                "{of_heads:?}, pitch {pitch}, row {row}, column {column}: {found} for {expected}"
            );
        }
    }
    Ok(())
}

/// Sequences that begin alike: one attention over what they share, one over what each has, merged, and in a graph.
pub fn of_a_shared_prefix(device: &Device) -> Outcome {
    let [sequences, heads, shared, own, columns] = [3, 2, 70, 40, 64];
    let stream = Stream::new(device)?;
    let random = |seed, shape: [usize; 4]| {
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), &shape)
    };
    let q = random(1, [sequences, heads, 1, columns])?;
    let [k, v] = [
        random(2, [sequences, heads, shared + own, columns])?,
        random(3, [sequences, heads, shared + own, columns])?,
    ];
    // All sequences have the first one's prefix.
    let (all_k, all_v) = (k.to_vec()?, v.to_vec()?);
    let same = |of: &[bf16]| -> Vec<bf16> {
        let [line, sequence] = [(shared + own) * columns, heads * (shared + own) * columns];
        let from = |i: usize| if i % line < shared * columns { i % sequence } else { i };
        (0..of.len()).map(|i| of[from(i)]).collect()
    };
    let whole = [sequences, heads, shared + own, columns];
    let (k, v) = (
        Tensor::from_slice(device, &same(&all_k), &whole)?,
        Tensor::from_slice(device, &same(&all_v), &whole)?,
    );
    let mut expected = Tensor::filled(device, bf16::NAN, &[sequences, heads, 1, columns])?;
    attention(&stream, &q.view(), &k.view(), &v.view(), &mut expected.view_mut())?;
    let nothing = || Tensor::filled(device, bf16::NAN, &[sequences, heads, 1, columns]);
    let mut parts = [nothing()?, nothing()?];
    let log = || Tensor::filled(device, f32::NAN, &[sequences, heads, 1]);
    let mut logs = [log()?, log()?];
    {
        let [prefix, suffix] = &mut parts;
        let [prefix_log, suffix_log] = &mut logs;
        let [first_k, first_v] = [
            k.view().narrow(0, 0, 1)?.narrow(2, 0, shared)?,
            v.view().narrow(0, 0, 1)?.narrow(2, 0, shared)?,
        ];
        Attention::new().lse(&mut prefix_log.view_mut().transpose(0, 2)?).run(
            &stream,
            &q.view().transpose(0, 2)?,
            &first_k,
            &first_v,
            &mut prefix.view_mut().transpose(0, 2)?,
        )?;
        let (k, v) = (k.view().narrow(2, shared, own)?, v.view().narrow(2, shared, own)?);
        Attention::new().lse(&mut suffix_log.view_mut()).run(
            &stream,
            &q.view(),
            &k,
            &v,
            &mut suffix.view_mut(),
        )?;
    }
    let [prefix, suffix] = parts.each_ref().map(Tensor::view);
    let [prefix_log, suffix_log] = logs.each_ref().map(Tensor::view);
    let states = [(&prefix, &prefix_log), (&suffix, &suffix_log)];
    let mut o = nothing()?;
    let plan = AttentionMerge::new().plan(states, &o.view_mut())?;
    let graph: Graph = stream.capture(|stream| plan.run(stream, states, &mut o.view_mut(), None))?;
    // SAFETY: the tensors live until the stream is waited for.
    unsafe { graph.launch(&stream)? };
    let (o, expected) = (o.to_vec_on(&stream)?, expected.to_vec_on(&stream)?);
    for (i, (o, expected)) in o.iter().zip(&expected).enumerate() {
        let (o, expected) = (o.to_f32(), expected.to_f32());
        assert!((o - expected).abs() < 1e-2, "element {i}: {o} for {expected}");
    }
    Ok(())
}

/// A logarithm that is NaN or infinite makes its row NaN, and no other.
pub fn not_numbers(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let values = Tensor::filled(device, f16::ONE, &[1, 1, 4, 40])?;
    let log = |x: [f32; 4]| Tensor::from_slice(device, &x, &[1, 1, 4]);
    let (first, second) = (log([f32::NAN, 0.0, f32::INFINITY, 0.0])?, log([0.0; 4])?);
    let (mut o, mut lse) =
        (Tensor::<f16>::zeros(device, &[1, 1, 4, 40])?, Tensor::<f32>::zeros(device, &[1, 1, 4])?);
    let x = values.view();
    let parts = [(&x, &first.view()), (&x, &second.view())];
    AttentionMerge::new().lse(&mut lse.view_mut()).run(&stream, parts, &mut o.view_mut())?;
    let (o, lse) = (o.to_vec_on(&stream)?, lse.to_vec_on(&stream)?);
    for row in 0..4 {
        let bad = row % 2 == 0;
        assert_eq!(lse[row].is_nan(), bad, "row {row}: {}", lse[row]);
        assert!(
            o[row * 40..][..40].iter().all(|x| if bad { x.is_nan() } else { *x == f16::ONE }),
            "row {row}"
        );
    }
    Ok(())
}

/// Nothing to merge, and what is refused, by name.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for shape in [[0, 2, 3, 8], [2, 0, 3, 8], [2, 2, 0, 8], [2, 2, 3, 0]] {
        let x = Tensor::<f16>::zeros(device, &shape)?;
        let log = Tensor::<f32>::zeros(device, &shape[..3])?;
        let (mut o, mut lse) =
            (Tensor::<f16>::zeros(device, &shape)?, Tensor::<f32>::zeros(device, &shape[..3])?);
        let (x, log) = (x.view(), log.view());
        AttentionMerge::new().lse(&mut lse.view_mut()).run(&stream, [(&x, &log); 2], &mut o.view_mut())?;
        // Of logarithms of 0 twice.
        assert!(lse.to_vec_on(&stream)?.iter().all(|x| (x - 2f32.ln()).abs() < 1e-6), "{shape:?}");
    }
    let x = Tensor::<f16>::zeros(device, &[2, 2, 3, 8])?;
    let log = Tensor::<f32>::zeros(device, &[2, 2, 3])?;
    let (x, log) = (x.view(), log.view());
    let mut o = Tensor::<f16>::zeros(device, &[2, 2, 3, 8])?;
    let mut lse = Tensor::<f32>::zeros(device, &[2, 2, 2])?;
    let (less, less_log) = (x.clone().narrow(2, 0, 2)?, log.clone().narrow(2, 0, 2)?);
    let mut expect = |name: &str, states, lse: Option<&mut TensorViewMut<'_, f32>>, kernel: Option<&str>| {
        let mut merge = AttentionMerge::new();
        if let Some(lse) = lse {
            merge = merge.lse(lse);
        }
        if let Some(kernel) = kernel {
            merge = merge.kernel(kernel);
        }
        match merge.run(&stream, states, &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
            other => Err(format!("not an error about `{name}`: {other:?}")),
        }
    };
    let both = [(&x, &log); 2];
    expect("parts[0].0", [(&less, &log), (&x, &log)], None, None)?;
    expect("parts[1].0", [(&x, &log), (&less, &log)], None, None)?;
    expect("parts[0].1", [(&x, &less_log), (&x, &log)], None, None)?;
    expect("parts[1].1", [(&x, &log), (&x, &less_log)], None, None)?;
    expect("lse", both, Some(&mut lse.view_mut()), None)?;
    expect("kernel", both, None, Some("none such"))?;
    let other = Device::emulator_with_seed(5);
    let there = Tensor::<f16>::zeros(&other, &[2, 2, 3, 8])?;
    match merge_attention(&stream, [(&x, &log), (&there.view(), &log)], &mut o.view_mut()) {
        Err(Error::WrongDevice { argument, .. }) if argument == "parts[1].0" => {}
        other => return Err(format!("not an error about another device: {other:?}").into()),
    }
    let mut flat = Tensor::<f16>::zeros(device, &[2, 2, 24])?;
    match merge_attention(&stream, both, &mut flat.view_mut()) {
        Err(Error::Argument { argument, .. }) if argument == "o" => {}
        other => return Err(format!("not an error about `o`: {other:?}").into()),
    }
    let names: Vec<_> =
        AttentionMerge::new().candidates(both, &o.view_mut())?.iter().map(|of| of.name()).collect();
    assert!(names.iter().all(|name| name.starts_with("merge_states_") && name.ends_with("f16")), "{names:?}");
    assert!(!names.is_empty());
    Ok(())
}
