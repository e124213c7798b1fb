//! Attention of every kind: sequences apart, of lengths of their own, in pages, packed.

use tilewright::ops::{Attention, HalfElement};
use tilewright::{Device, Stream, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Bias, Head, Scores};
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::sequences::{Sequences, numbers};
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of::<f16>(random, device, call),
        _ => of::<bf16>(random, device, call),
    }
}

/// Heads' queries, keys and values, row-major, and where the rows of the first query are in O and the log-sum-exp.
struct Part {
    first: usize,
    queries: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
    count: usize,
}

fn of<T: Real + Number + HalfElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (batch, kv_heads) = (random.pick(&[1, 1, 2, 3]), random.within(1..=2));
    let heads = kv_heads * random.pick(&[1, 1, 2, 3, 8]);
    let columns = random.pick(&[64, 64, 128, 1, 5, 40, 100, 136, 192, 256, 300, 512]);
    let [d, dv] = [
        columns,
        if random.one_in(2) { columns } else { random.pick(&[64, 128, 8, 136, 192, 256, 300, 512]) },
    ];
    let (queries, keys) = (random.size(100), random.size(220));
    let sequences = Sequences::any(random, batch, keys);
    let keys = sequences.room(batch, keys);
    let (batch, queries) = match &sequences {
        Sequences::Packed(all) => (1, all.iter().map(|one| one[0]).sum()),
        _ => (batch, queries),
    };
    // As they lie: [batch or pages, heads, rows].
    let [blocks, rows] = sequences.blocks(batch, keys);
    let shapes = [[batch, heads, queries, d], [blocks, kv_heads, rows, d], [blocks, kv_heads, rows, dv]];
    let places = shapes.map(|shape| Place::any(random, &shape));
    let o_place = Place::any(random, &[batch, heads, queries, dv]);
    let lse_place = Place::any(random, &[batch, heads, queries]);
    let scores = Scores {
        scale: random.pick(&[1.0 / (d as f32).sqrt(), 1.0 / (d as f32).sqrt(), 0.02, 0.7]),
        softcap: random.one_in(4).then(|| random.pick(&[0.5, 5.0, 50.0])),
        causal: random.one_in(3),
        window: random.one_in(4).then(|| [random.size(80), random.pick(&[0, 3, 40, usize::MAX])]),
        ..Scores::new(d)
    };
    let packed = matches!(sequences, Sequences::Packed(_));
    let splits = (!packed && random.one_in(3)).then(|| random.within(1..=6));
    let alone = matches!(sequences, Sequences::Equal) && splits.is_none();
    let bias_place =
        (alone && random.one_in(3)).then(|| Place::lines(random, &[batch, heads, queries, keys], 3));
    let bias_of = |head| Bias { head, along: [true; 2] };
    let (with_lse, own, forced) = (random.one_in(2), random.one_in(2), random.next());
    call.set(format!(
        "Attention<{}>: {sequences:?}, Q {:?}, K {:?}, V {:?}, O {o_place:?}, {scores:?}, bias {bias_place:?}, splits {splits:?}, log-sum-exp \
         {with_lse} {lse_place:?}, workspace of its own {own}",
        T::DTYPE,
        places[0],
        places[1],
        places[2]
    ));

    let inputs = [0, 1, 2].map(|i| {
        Placed::new(device, places[i].clone(), &normal::<T>(forced.wrapping_add(i as u64), places[i].count()))
    });
    let [q, k, v] = inputs;
    let (q, k, v) = (q?, k?, v?);
    let mut o = Placed::<T>::poisoned(device, o_place)?;
    let mut lse = Placed::<f32>::poisoned(device, lse_place)?;
    let [lengths, table] = sequences.on(device, batch)?;
    let offsets = match &sequences {
        Sequences::Packed(all) => {
            let sums = |of: usize| {
                let ends = all.iter().scan(0, |sum, one| {
                    *sum += one[of] as i32;
                    Some(*sum)
                });
                std::iter::once(0).chain(ends).collect::<Vec<_>>()
            };
            let [queries, keys] = [0, 1].map(|of| numbers(device, &sums(of), &[all.len() + 1]));
            Some((queries?, keys?, all.iter().map(|one| one[0]).max().unwrap_or(0)))
        }
        _ => None,
    };
    let bias = bias_place.map(|place| {
        let values: Vec<f32> = (0..place.count())
            .map(|i| bias_of(i / (queries * keys)).at(i / keys % queries, i % keys))
            .collect();
        Placed::new(device, place, &T::round(&values))
    });
    let bias = bias.transpose()?;
    let stream = Stream::new(device)?;
    {
        let (q, k, v, mut o) = (q.view()?, k.view()?, v.view()?, o.view_mut()?);
        let mut rows: TensorViewMut<'_, f32> = lse.view_mut()?;
        let with_options = || -> tilewright::Result<Attention<'_>> {
            let attention = Attention::new().scale(scores.scale);
            let attention = if scores.causal { attention.causal() } else { attention };
            let attention = scores.softcap.into_iter().fold(attention, Attention::softcap);
            let attention =
                scores.window.into_iter().fold(attention, |a, [left, right]| a.window(left, right));
            let attention = splits.into_iter().fold(attention, Attention::splits);
            let attention = match &lengths {
                Some(lengths) => attention.lengths(&lengths.view()?),
                None => attention,
            };
            let attention = match &table {
                Some(table) => attention.block_table(&table.view()?),
                None => attention,
            };
            let attention = match &offsets {
                Some((queries, keys, longest)) => attention.packed(queries.view()?, keys.view()?, *longest),
                None => attention,
            };
            match &bias {
                Some(bias) => Ok(attention.bias(bias.view()?)),
                None => Ok(attention),
            }
        };
        let attention = with_options()?;
        let attention = if with_lse { attention.lse(&mut rows) } else { attention };
        let mut names = Vec::new();
        if !o.is_empty() && forced.is_multiple_of(2) {
            let all = attention.candidates(&q, &k, &v, &o)?;
            names
                .extend(all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()));
            assert!(!names.is_empty(), "no kernel for it");
        }
        let name = (!names.is_empty()).then(|| names[(forced / 2) as usize % names.len()]);
        call.add(name.map(|name| format!(", kernel {name}")).unwrap_or_default());
        let attention = name.into_iter().fold(attention, Attention::kernel);
        let mut memory = Placed::<f32>::poisoned(device, Place::packed(&[16]))?;
        if !own && !o.is_empty() {
            // With memory of the caller's keys may be divided otherwise.
            let mut little = memory.view_mut()?;
            let asked = with_options()?.workspace(&mut little);
            let len = name.into_iter().fold(asked, Attention::kernel).workspace_len(&q, &k, &v, &o)?;
            memory = Placed::poisoned(device, Place::packed(&[len]))?;
        }
        {
            let mut workspace = memory.view_mut()?;
            let mut attention = if own { attention } else { attention.workspace(&mut workspace) };
            attention.run(&stream, &q, &k, &v, &mut o)?;
        }
        stream.synchronize()?;
        memory.read()?;
    }
    let (out, lse) = (T::widen(&o.read()?), lse.read()?);
    if !with_lse && lse.iter().any(|x| !x.is_nan()) {
        return Err("a log-sum-exp was written that was not asked for".into());
    }

    let [q_values, k_values, v_values] =
        [T::widen(&q.values()?), T::widen(&k.values()?), T::widen(&v.values()?)];
    let cap = scores.softcap.map_or(0.0, f64::from);
    for b in 0..batch {
        for head in 0..heads {
            let kv = head / (heads / kv_heads);
            // A row of K or V.
            let row = |of: &[f32], columns: usize, at: usize| -> Vec<f32> {
                let Some((block, at)) = sequences.place((b, batch), at) else { return vec![0.0; columns] };
                of[((block * kv_heads + kv) * rows + at) * columns..][..columns].to_vec()
            };
            let part = |first: usize, queries: usize, from: usize, count: usize| Part {
                first: (b * heads + head) * (q_values.len() / (batch * heads * d)) + first,
                queries,
                keys: (from..from + count).flat_map(|at| row(&k_values, d, at)).collect(),
                values: (from..from + count).flat_map(|at| row(&v_values, dv, at)).collect(),
                count,
            };
            let parts = match &sequences {
                Sequences::Packed(all) => {
                    let mut at = [0, 0];
                    let next = all.iter().map(|&[queries, keys]| {
                        let this = part(at[0], queries, at[1], keys);
                        at = [at[0] + queries, at[1] + keys];
                        this
                    });
                    next.collect()
                }
                apart => vec![part(0, queries, 0, apart.length(b, keys))],
            };
            for Part { first, queries, keys, values, count } in parts {
                let q = &q_values[first * d..][..queries * d];
                let all: Vec<_> = (0..queries).collect();
                let of_head = bias.as_ref().map(|_| bias_of(b * heads + head));
                let scores = Scores { bias: of_head, ..scores };
                let expected =
                    Head::new::<f32>([q, &keys, &values], queries, count, [d, dv]).rows(&all, &scores);
                for (at, row) in (first..).zip(&expected) {
                    let lse = with_lse.then(|| lse[at]);
                    row.agrees::<T>(d, cap, &out[at * dv..][..dv], lse)
                        .map_err(|what| format!("batch {b}, head {head}, row {at}: {what}"))?;
                }
            }
        }
    }
    Ok(())
}
