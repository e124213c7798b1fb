//! Attention whose queries see the blocks of keys of their own lists.

use tilewright::ops::{Attention, HalfElement, Indices};
use tilewright::{Device, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::sequences::Sequences;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of::<f16>(random, device, call),
        _ => of::<bf16>(random, device, call),
    }
}

/// Lists of blocks of keys, of `i32` or of `i64`.
enum Lists {
    Short(Placed<i32>),
    Long(Placed<i64>),
}

impl Lists {
    fn new(device: &Device, place: Place, numbers: &[i32], long: bool) -> tilewright::Result<Self> {
        if !long {
            return Ok(Lists::Short(Placed::new(device, place, numbers)?));
        }
        // Kernels read the low half.
        let numbers: Vec<_> = numbers.iter().map(|&number| i64::from(number)).collect();
        Ok(Lists::Long(Placed::new(device, place, &numbers)?))
    }

    fn indices(&self) -> tilewright::Result<Indices<'_>> {
        Ok(match self {
            Lists::Short(lists) => lists.view()?.into(),
            Lists::Long(lists) => lists.view()?.into(),
        })
    }
}

/// A shape that broadcasts to `to`, which may lack dimensions in front; the last one stays.
fn narrower(random: &mut Random, to: [usize; 4]) -> Vec<usize> {
    let first = random.pick(&[0, 0, 0, 1, 2, 3]);
    (first..4).map(|dim| if dim < 3 && random.one_in(4) { 1 } else { to[dim] }).collect()
}

fn of<T: Real + Number + HalfElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (batch, kv_heads) = (random.pick(&[1, 1, 1, 2, 3]), random.within(1..=2));
    let group = random.pick(&[1, 1, 2, 4, 5, 16, 70]);
    let heads = kv_heads * group;
    let columns = [64, 64, 128, 128, 1, 40, 100, 136, 192, 256];
    let d = random.pick(&columns);
    let dv = if random.one_in(2) { d } else { random.pick(&columns) };
    let queries = random.size(if group > 5 { 3 } else { 12 });
    let keys = random.size(300);
    let sequences = Sequences::apart(random, batch, keys);
    let keys = sequences.room(batch, keys);
    let [blocks, rows] = sequences.blocks(batch, keys);
    let shapes = [[batch, heads, queries, d], [blocks, kv_heads, rows, d], [blocks, kv_heads, rows, dv]];
    let places = shapes.map(|shape| Place::any(random, &shape));
    let o_place = Place::any(random, &[batch, heads, queries, dv]);
    let lse_place = Place::any(random, &[batch, heads, queries]);
    let scores = Scores {
        scale: random.pick(&[1.0 / (d as f32).sqrt(), 1.0 / (d as f32).sqrt(), 0.02, 0.7]),
        causal: random.one_in(2),
        window: random.one_in(4).then(|| [random.size(80), random.pick(&[0, 3, 40, usize::MAX])]),
        ..Scores::new(d)
    };

    let block = random.pick(&[64, 64, 64, 128, 192, 320, (1 << 31) - 64]);
    let all = keys.div_ceil(block);
    let most = random.pick(&[0, 1, 2, 3, 3, 6]);
    let lists_place = {
        let shape = narrower(random, [batch, kv_heads, queries, most]);
        Place::any(random, &shape)
    };
    let twice = random.one_in(8);
    let list = |random: &mut Random| -> Vec<i32> {
        let order = random.shuffled(all.max(1));
        let number = |(i, random): (usize, &mut Random)| match random.below(6) {
            0 => random.pick(&[-1, i32::MIN, i32::MAX, all as i32, all as i32 + 1, 1 << 24]),
            _ if twice => random.below(all + 1) as i32,
            _ => order.get(i).map_or(-1, |&block| block as i32),
        };
        (0..most).map(|i| number((i, random))).collect()
    };
    let lines = lists_place.shape[..lists_place.shape.len() - 1].iter().product();
    let lists: Vec<i32> = (0..lines).flat_map(|_| list(random)).collect();
    let (long, splits) = (random.one_in(3), random.one_in(3).then(|| random.within(1..=6)));
    let (with_sinks, with_lse, own, forced) =
        (random.one_in(3), random.one_in(2), random.one_in(2), random.next());
    call.set(format!(
        "Attention<{}> of selected blocks of {block} keys: lists {lists_place:?} of 64 bits {long}: {lists:?}, {sequences:?}, Q {:?}, K {:?}, \
         V {:?}, O {o_place:?}, {scores:?}, sinks {with_sinks}, splits {splits:?}, log-sum-exp {with_lse} {lse_place:?}, workspace of its \
         own {own}",
        T::DTYPE,
        places[0],
        places[1],
        places[2]
    ));

    // The keys that query `i` of a head of keys sees, as often as it does.
    let seen = |b: usize, kv: usize, i: usize| -> Vec<usize> {
        let mut line = 0;
        let shape = &lists_place.shape;
        for (&size, at) in shape.iter().zip(&[b, kv, i][4 - shape.len()..]) {
            line = line * size + if size == 1 { 0 } else { *at };
        }
        let length = sequences.length(b, keys);
        let masked = scores.seen(i, queries, length);
        let of_block = |&number: &i32| {
            let first = usize::try_from(number).map_or(length, |number| number.saturating_mul(block));
            first.min(length)..first.saturating_add(block).min(length)
        };
        let listed = lists[line * most..][..most].iter().flat_map(of_block);
        listed.filter(|key| masked.contains(key)).collect()
    };
    // The rows of K and V that are in a list, and before the end of what its query sees: others are NaN.
    let mut used = vec![false; blocks * kv_heads * rows];
    for (b, kv, i) in (0..batch * kv_heads * queries)
        .map(|at| (at / queries / kv_heads, at / queries % kv_heads, at % queries))
    {
        for key in seen(b, kv, i) {
            // A window's begin is within a block.
            for key in key / 64 * 64..=key {
                if let Some((matrix, row)) = sequences.place((b, batch), key) {
                    used[(matrix * kv_heads + kv) * rows + row] = true;
                }
            }
        }
    }
    let [q, k, v] = [0, 1, 2].map(|i: usize| {
        let mut values = normal::<T>(forced.wrapping_add(i as u64), places[i].count());
        let columns = shapes[i][3];
        if i > 0 {
            let unused = values.chunks_mut(columns).zip(&used).filter(|(_, used)| !**used);
            unused.for_each(|(row, _)| row.fill(<T as Number>::POISON));
        }
        Placed::new(device, places[i].clone(), &values)
    });
    let (q, k, v) = (q?, k?, v?);
    let mut o = Placed::<T>::poisoned(device, o_place)?;
    let mut lse = Placed::<f32>::poisoned(device, lse_place)?;
    let sinks: Vec<f32> = normal(forced, heads);
    let sinks_there = Placed::new(device, Place::packed(&[heads]), &sinks)?;
    let lists_there = Lists::new(device, lists_place.clone(), &lists, long)?;
    let [lengths, table] = sequences.on(device, batch)?;
    let stream = Stream::new(device)?;
    {
        let (q, k, v, mut o) = (q.view()?, k.view()?, v.view()?, o.view_mut()?);
        let mut rows = lse.view_mut()?;
        let with_options = || -> tilewright::Result<Attention<'_>> {
            let attention = Attention::new().scale(scores.scale);
            let attention = attention.selected_blocks(lists_there.indices()?, block);
            let attention = if scores.causal { attention.causal() } else { attention };
            let attention =
                scores.window.into_iter().fold(attention, |a, [left, right]| a.window(left, right));
            let attention = splits.into_iter().fold(attention, Attention::splits);
            let attention = if with_sinks { attention.sinks(&sinks_there.view()?) } else { attention };
            let attention = match &lengths {
                Some(lengths) => attention.lengths(&lengths.view()?),
                None => attention,
            };
            match &table {
                Some(table) => Ok(attention.block_table(&table.view()?)),
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

    let [q, k, v] = [T::widen(&q.values()?), T::widen(&k.values()?), T::widen(&v.values()?)];
    for at in 0..batch * heads * queries {
        let (b, head, i) = (at / queries / heads, at / queries % heads, at % queries);
        let keys = seen(b, head / group, i);
        // Rows of K or V; those of pages that do not exist are zeros.
        let of = |of: &[f32], columns: usize| -> Vec<f32> {
            let row = |&key: &usize| match sequences.place((b, batch), key) {
                Some((matrix, row)) => {
                    of[((matrix * kv_heads + head / group) * rows + row) * columns..][..columns].to_vec()
                }
                None => vec![0.0; columns],
            };
            keys.iter().flat_map(row).collect()
        };
        let sink = with_sinks.then(|| sinks[head]);
        let plain = Scores { causal: false, window: None, sink, ..scores };
        let (k, v) = (of(&k, d), of(&v, dv));
        let expected = Head::new::<f32>([&q[at * d..][..d], &k, &v], 1, keys.len(), [d, dv]);
        expected.rows(&[0], &plain)[0]
            .agrees::<T>(d, 0.0, &out[at * dv..][..dv], with_lse.then(|| lse[at]))
            .map_err(|what| format!("batch {b}, head {head}, query {i}: {what}"))?;
    }
    Ok(())
}
