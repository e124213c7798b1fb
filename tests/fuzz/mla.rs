//! Decoding steps of latent attention.

use tilewright::ops::{HalfElement, Mla};
use tilewright::{Device, Stream, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    match random.below(2) {
        0 => of::<f16>(random, device, call),
        _ => of::<bf16>(random, device, call),
    }
}

/// Heads of a position that are compared.
const HEADS: usize = 5;

fn of<T: Real + Number + HalfElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (batch, positions) = (random.within(1..=3), random.pick(&[1, 1, 2, 5]));
    let heads = random.pick(&[1, 2, 16, 40, 64, 100]);
    let [d, dv] = random.pick(&[[576, 512], [320, 256]]);
    // Each sequence by itself, or pages of so many rows with a table on the device or on the host.
    let (dense, host) = (random.one_in(3), random.one_in(2));
    let rows = if dense { random.size(200).max(1) } else { random.pick(&[16, 32, 64, 128]) };
    let entries = if dense { 1 } else { random.within(1..=200 / rows + 1) };
    let pages = if dense { batch } else { batch * entries + 2 };
    let room = entries * rows;
    let lengths: Option<Vec<u32>> =
        random.one_in(2).then(|| (0..batch).map(|_| random.below(room + 1) as u32).collect());
    let mut table: Vec<i32> =
        random.shuffled(pages)[..batch * entries].iter().map(|&page| page as i32).collect();
    if !dense && !host && random.one_in(4) {
        let at = random.below(table.len());
        table[at] = random.pick(&[-1, i32::MIN, i32::MAX, 1 << 20]);
    }
    let q_place = Place::lines(random, &[batch, positions, heads, d], 2);
    let o_place = Place::lines(random, &[batch, positions, heads, dv], 2);
    let mut cache_place = Place::lines(random, &[pages, rows, 1, d], 2);
    cache_place.strides[2] = random.pick(&[d, 0, 1, usize::MAX]);
    let lse_place = Place::packed(&[batch, positions, heads]);
    let scores = Scores {
        scale: random.pick(&[1.0 / (d as f32).sqrt(), 0.02, 0.3]),
        causal: random.one_in(2),
        ..Scores::new(d)
    };
    let splits = random.one_in(3).then(|| random.within(1..=5));
    let (with_lse, own, forced) = (random.one_in(2), random.one_in(2), random.next());
    call.set(format!(
        "Mla<{}>: dense {dense}, table {table:?} of the host's {host}, lengths {lengths:?}, Q {q_place:?}, cache \
         {cache_place:?}, O {o_place:?}, {scores:?}, splits {splits:?}, log-sum-exp {with_lse}, workspace of its own {own}",
        T::DTYPE
    ));

    let q = Placed::new(device, q_place.clone(), &normal::<T>(forced, q_place.count()))?;
    let cache =
        Placed::new(device, cache_place.clone(), &normal::<T>(forced.wrapping_add(1), cache_place.count()))?;
    let mut o = Placed::<T>::poisoned(device, o_place)?;
    let mut lse = Placed::<f32>::poisoned(device, lse_place)?;
    let on_device = Placed::new(device, Place::packed(&[batch, entries]), &table)?;
    let stream = Stream::new(device)?;
    {
        let (q, cache, mut o) = (q.view()?, cache.view()?, o.view_mut()?);
        let (mut rows, on_device) = (lse.view_mut()?, on_device.view()?);
        let mla = Mla::new().scale(scores.scale);
        let mla = if scores.causal { mla.causal() } else { mla };
        let mla = splits.into_iter().fold(mla, Mla::splits);
        let mla = match &lengths {
            Some(lengths) => mla.lengths(lengths),
            None => mla,
        };
        let mla = match (dense, host) {
            (true, _) => mla,
            (false, true) => mla.host_block_table(&table),
            (false, false) => mla.block_table(&on_device),
        };
        let mla = if with_lse { mla.lse(&mut rows) } else { mla };
        let all = mla.candidates(&q, &cache, &o)?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "no kernel for it");
        let mla = if forced.is_multiple_of(2) {
            let name = names[(forced / 2) as usize % names.len()];
            call.add(format!(", kernel {name}"));
            mla.kernel(name)
        } else {
            mla
        };
        let memory = Place::packed(&[mla.workspace_len(&q, &cache, &o)?]);
        let mut memory = Placed::<f32>::poisoned(device, memory)?;
        {
            let mut workspace = memory.view_mut()?;
            let mut mla = if own { mla } else { mla.workspace(&mut workspace) };
            // The second run has its plan.
            for _ in 0..random.within(1..=2) {
                mla.run(&stream, &q, &cache, &mut o)?;
            }
            stream.synchronize()?;
        }
        memory.read()?;
    }
    let (out, lse) = (T::widen(&o.read()?), lse.read()?);

    let (q, keys) = (T::widen(&q.values()?), T::widen(&cache.values()?));
    let some = sample(heads, HEADS);
    for sequence in 0..batch {
        let length = lengths.as_ref().map_or(room, |lengths| lengths[sequence] as usize);
        let row = |at: usize| {
            let page = if dense { sequence as i32 } else { table[sequence * entries + at / rows] };
            let page = usize::try_from(page).ok().filter(|&page| page < pages);
            page.map_or(vec![0.0; d], |page| keys[(page * rows + at % rows) * d..][..d].to_vec())
        };
        for position in 0..positions {
            let seen = scores.seen(position, positions, length).end;
            let k: Vec<f32> = (0..seen).flat_map(row).collect();
            let v: Vec<f32> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
            let first = (sequence * positions + position) * heads;
            let q = &q[first * d..][..heads * d];
            let plain = Scores { causal: false, ..scores };
            let rows = Head::new::<f32>([q, &k, &v], heads, seen, [d, dv]).rows(&some, &plain);
            for (expected, at) in rows.iter().zip(some.iter().map(|head| first + head)) {
                expected
                    .agrees::<T>(d, 0.0, &out[at * dv..][..dv], with_lse.then(|| lse[at]))
                    .map_err(|what| format!("sequence {sequence}, position {position}, row {at}: {what}"))?;
            }
        }
    }
    if let Some(at) = out.iter().position(|x| x.is_nan()) {
        return Err(format!("O's element {at} is NaN or was not written").into());
    }
    Ok(())
}
