//! Sequences one after the other: variable lengths.

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::case::{Input, Sizes, allow_nan};
use crate::operand::{Operand, Place};
use crate::terms::Terms;
use crate::values::{BESIDE, MASKED};

/// Queries and keys of each sequence.
pub type Lengths<'a> = &'a [[usize; 2]];

/// Of many lengths, empty ones among them; with masks, with heads that share keys.
pub fn lengths(device: &Device) -> Outcome {
    let few: Lengths = &[[70, 70], [0, 0], [1, 129], [200, 30], [0, 5], [9, 0], [128, 128], [65, 257]];
    for columns in [[64, 64], [128, 128], [192, 128], [256, 256], [100, 60]] {
        each::<f16>(device, few, columns, |scores| scores)?;
        each::<bf16>(device, few, columns, |scores| Scores { causal: true, ..scores })?;
    }
    each::<f16>(device, few, [128, 128], |scores| Scores {
        window: Some([40, 3]),
        softcap: Some(3.0),
        ..scores
    })?;
    each::<f16>(device, &[[0, 0], [0, 9]], [64, 64], |scores| scores)
}

/// With sinks, and slopes of ALiBi.
pub fn terms(device: &Device) -> Outcome {
    let few: Lengths = &[[70, 70], [0, 0], [1, 129], [9, 0], [40, 30], [65, 257]];
    let (both, slopes) = (
        Terms { sinks: true, slopes: Some(true), ..Terms::default() },
        Terms { slopes: Some(false), ..Terms::default() },
    );
    let causal = Scores { causal: true, ..Scores::new(128) };
    check::<f16>(device, few, [128, 128], causal, (None, both))?;
    check::<bf16>(
        device,
        few,
        [256, 256],
        Scores { softcap: Some(2.0), ..Scores::new(256) },
        (None, slopes),
    )?;
    check::<bf16>(device, few, [64, 64], Scores::new(64), (None, Terms { sinks: true, ..Terms::default() }))
}

/// NaN in the last key or value of one sequence, which only its last query sees: as without packing, and no other sequence sees it.
pub fn behind_the_mask(device: &Device) -> Outcome {
    let scores = Scores { causal: true, ..Scores::new(64) };
    for input in [1, 2] {
        let nan = (Some(input), Terms::default());
        check::<f16>(device, &[[70, 70], [30, 30], [MASKED; 2]], [64, 64], scores, nan)?;
    }
    Ok(())
}

/// Offsets that are not as they must be: nothing outside of O is written, and its rows are those of a sequence that has them.
pub fn wrong_offsets(device: &Device) -> Outcome {
    const ROWS: usize = 150;
    const D: usize = 64;
    let stream = Stream::new(device)?;
    let place = Place::bshd([1, 1, ROWS, D]);
    let [q, k, v] = [1, 2, 3].map(|seed| normal::<f16>(seed, ROWS * D));
    let operand = |data: &[f16]| Operand::new(device, place, data);
    let (on_q, on_k, on_v) = (operand(&q)?, operand(&k)?, operand(&v)?);
    // Sequences that are longer than they may be, that reach beyond all rows, and that overlap: a race, which the emulator reports.
    let cases = [([0, 100, 130, 150], 40), ([-5, 60, 1 << 30, i32::MAX], 150), ([0, 70, 20, 90], 70)];
    for (offsets, longest) in cases.into_iter().take(if device.is_emulator() { 2 } else { 3 }) {
        let at = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let sequences: Vec<_> = offsets
            .windows(2)
            .map(|pair| {
                let [from, to] = [pair[0], pair[1]].map(|at| (at.max(0) as usize).min(ROWS));
                let of = |data: &[f16]| data[from * D..to.max(from) * D].to_vec();
                let (rows, [q, k, v]) = (to.saturating_sub(from), [of(&q), of(&k), of(&v)]);
                let numbers: Vec<_> = (0..rows).collect();
                (from, Head::new([&q, &k, &v], rows, rows, [D, D]).rows(&numbers, &Scores::new(D)))
            })
            .collect();
        let attention = || Attention::new().packed(at.view(), at.view(), longest);
        let mut o = Operand::<f16>::poisoned(device, place)?;
        let (q, k, v) = (on_q.view()?, on_k.view()?, on_v.view()?);
        let all = attention().candidates(&q, &k, &v, &o.view_mut()?)?;
        let possible: Vec<_> = all.iter().filter(|kernel| kernel.rejection().is_none()).collect();
        assert!(!possible.is_empty());
        for kernel in possible {
            o = Operand::<f16>::poisoned(device, place)?;
            let mut attention = attention().kernel(kernel.name());
            attention.run(&stream, &q, &k, &v, &mut o.view_mut()?)?;
            let (out, outside) = o.read()?;
            assert_eq!(outside, 0, "{}: elements outside of O", kernel.name());
            let out = f16::widen(&out);
            for (row, out) in out.chunks(D).enumerate() {
                let mut is_of = sequences.iter().filter_map(|(from, rows)| {
                    let number = row.checked_sub(*from)?;
                    Some((number, rows.get(number)?))
                });
                let must = is_of.clone().any(|(number, _)| number < longest);
                if is_of.clone().count() > 1 {
                    // Two sequences race for it, store by store: its elements are those of either.
                    assert!(out.iter().all(|x| x.is_finite()), "{}: row {row} of {offsets:?}", kernel.name());
                    continue;
                }
                let right = is_of.any(|(_, exact)| exact.agrees::<f16>(D, 0.0, out, None).is_ok());
                let untouched = out.iter().all(|x| x.is_nan());
                assert!(right || untouched && !must, "{}: row {row} of {offsets:?}", kernel.name());
            }
        }
    }
    Ok(())
}

pub fn each<T: Input>(
    device: &Device,
    lengths: Lengths,
    columns: [usize; 2],
    scores: impl Fn(Scores) -> Scores,
) -> Outcome {
    check::<T>(device, lengths, columns, scores(Scores::new(columns[0])), (None, Terms::default()))
}

/// Runs it on every kernel, on the emulator on a sixth of them. An element of `nan`, of Q, K and V, is NaN: in the last key of the last sequence's first head.
fn check<T: Input>(
    device: &Device,
    lengths: Lengths,
    columns: [usize; 2],
    scores: Scores,
    (nan, terms): (Option<usize>, Terms),
) -> Outcome {
    let stream = Stream::new(device)?;
    let [d, dv] = columns;
    let (heads, kv_heads) = (4, 2);
    let offsets = |of: usize| {
        let sums = lengths.iter().scan(0, |sum, lengths| {
            *sum += lengths[of];
            Some(*sum)
        });
        std::iter::once(0).chain(sums).collect::<Vec<usize>>()
    };
    let (begins, key_begins) = (offsets(0), offsets(1));
    let rows = [begins[lengths.len()], key_begins[lengths.len()]];
    let places = [
        [1, heads, rows[0], d],
        [1, kv_heads, rows[1], d],
        [1, kv_heads, rows[1], dv],
        [1, heads, rows[0], dv],
    ]
    .map(Place::bshd);
    // The keys and values of one sequence are NaN, which its neighbours do not see.
    let spoilt = lengths.len() - 2;
    let mut inputs = [1, 2, 3].map(|seed| normal::<T>(seed, places[seed as usize - 1].count()));
    for (input, columns) in inputs[1..].iter_mut().zip([d, dv]) {
        for head in 0..kv_heads {
            let row = |at: usize| (head * rows[1] + key_begins[at]) * columns;
            input[row(spoilt)..row(spoilt + 1)].fill(T::POISON);
        }
    }
    if let Some(nan) = nan {
        inputs[nan][(rows[1] - 1) * columns[nan - 1] + 5] = T::POISON;
    }
    let operand = |i: usize| Operand::new(device, places[i], &inputs[i]);
    let (q, k, v) = (operand(0)?, operand(1)?, operand(2)?);
    let tensor = |offsets: &[usize]| {
        let offsets: Vec<i32> = offsets.iter().map(|&at| at as i32).collect();
        Tensor::from_slice(device, &offsets, &[offsets.len()])
    };
    let (query_offsets, key_offsets) = (tensor(&begins)?, tensor(&key_begins)?);
    let sizes = Sizes { batch: lengths.len(), heads, kv_heads, ..Sizes::new(0, 0, columns) };
    let [sinks, slopes] = terms.tensors(device, sizes)?;
    let longest = lengths.iter().map(|lengths| lengths[0]).max().unwrap_or(0);
    let attention = || {
        let attention =
            Attention::new().scale(scores.scale).packed(query_offsets.view(), key_offsets.view(), longest);
        let attention = if scores.causal { attention.causal() } else { attention };
        let attention = scores.softcap.into_iter().fold(attention, Attention::softcap);
        let attention = sinks.iter().fold(attention, |attention, sinks| attention.sinks(&sinks.view()));
        let attention =
            slopes.iter().fold(attention, |attention, slopes| attention.alibi_slopes(&slopes.view()));
        scores.window.into_iter().fold(attention, |attention, [left, right]| attention.window(left, right))
    };
    let mut o = Operand::<T>::poisoned(device, places[3])?;
    let (q, k, v) = (q.view()?, k.view()?, v.view()?);
    let all = attention().candidates(&q, &k, &v, &o.view_mut()?)?;
    let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
    for kernel in possible.filter(|kernel| {
        watched::runs(kernel.name()) && picked(device, (kernel.name(), columns, lengths, nan), 6)
    }) {
        o = Operand::<T>::poisoned(device, places[3])?;
        let mut lse = Operand::<f32>::poisoned(device, Place::bhsd([1, heads, rows[0], 1]))?;
        let mut lse_rows: TensorViewMut<'_, f32> = lse.view_mut()?.select(3, 0)?;
        let mut attention = attention().kernel(kernel.name()).lse(&mut lse_rows);
        attention.run(&stream, &q, &k, &v, &mut o.view_mut()?)?;
        stream.synchronize()?;
        let ((out, outside), (lse, outside_lse)) = (o.read()?, lse.read()?);
        assert_eq!(outside + outside_lse, 0, "{}: elements outside of O", kernel.name());
        let out = T::widen(&out);
        for (i, &[queries, keys]) in lengths.iter().enumerate().filter(|&(i, _)| i != spoilt) {
            for head in 0..heads {
                let kv = head / (heads / kv_heads) * rows[1] + key_begins[i];
                let q = &inputs[0][(head * rows[0] + begins[i]) * d..][..queries * d];
                let k = &inputs[1][kv * d..][..keys * d];
                let v = &inputs[2][kv * dv..][..keys * dv];
                let numbers: Vec<_> = (0..queries).collect();
                let scores = terms.scores(scores, (i, head), heads);
                let expected = Head::new([q, k, v], queries, keys, columns).rows(&numbers, &scores);
                for (number, row) in expected.iter().enumerate() {
                    let (at, cap) =
                        (head * rows[0] + begins[i] + number, scores.softcap.map_or(0.0, f64::from));
                    let mut out = out[at * dv..][..dv].to_vec();
                    if nan == Some(2) && i + 1 == lengths.len() && BESIDE.contains(&number) {
                        allow_nan(&mut out, row, &T::widen(v));
                    }
                    row.agrees::<T>(d, cap, &out, Some(lse[at])).map_err(|what| {
                        format!(
                            "{}: sequence {i}, head {head}: {what}\n{columns:?} {scores:?}",
                            kernel.name()
                        )
                    })?;
                }
            }
        }
    }
    Ok(())
}
