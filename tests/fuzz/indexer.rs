//! Scores of an indexer.

use tilewright::ops::{IndexScores, IndexerElement};
use tilewright::{Arch, Device, Element, F8E4M3, Stream, bf16};
use tilewright_support::Real;
use tilewright_support::random::normal;

use crate::place::{Number, Place, Placed};
use crate::random::Random;
use crate::{Call, Outcome};

/// How far a sum of products may be off, of the sum of their magnitudes: Hopper's tensor cores keep 13 bits of sums of 8-bit floats.
fn rounding<T: Element>() -> f64 {
    if T::DTYPE.bytes() == 1 { 1.0 / 4096.0 } else { 1e-6 }
}

pub fn case(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    if device.runs(Arch::Sm90a) && random.one_in(2) {
        of::<F8E4M3>(random, device, call)
    } else {
        of::<bf16>(random, device, call)
    }
}

fn of<T: Real + Number + IndexerElement>(random: &mut Random, device: &Device, call: &mut Call) -> Outcome {
    let (batch, queries) = (random.within(0..=3), random.size(40));
    let heads = random.pick(&[0, 1, 3, 16, 32, 64, 65]);
    let d = random.pick(&[16, 32, 64, 96, 128]);
    let paged = random.one_in(2);
    let rows = if paged { random.pick(&[8, 16, 64, 512]) } else { random.size(400).max(1) };
    let entries = if paged { random.within(1..=300 / rows + 1) } else { 1 };
    let keys = if paged { random.within(1..=entries * rows) } else { rows };
    let pages = if paged { batch * entries + 1 } else { batch };
    let mut table: Vec<i32> =
        random.shuffled(pages)[..batch * entries].iter().map(|&page| page as i32).collect();
    if paged && !table.is_empty() && random.one_in(4) {
        let at = random.below(table.len());
        table[at] = random.pick(&[-1, i32::MIN, i32::MAX, 1 << 20]);
    }
    let limits = |random: &mut Random| -> Option<Vec<i32>> {
        let mut limit = |_| {
            let any = random.below(keys + 1) as i32;
            random.pick(&[-5, 0, any, any, keys as i32, i32::MAX])
        };
        let of: Vec<_> = (0..batch * queries).map(&mut limit).collect();
        random.one_in(2).then_some(of)
    };
    let (begins, ends) = (limits(random), limits(random));
    let (scaled, seed) = (random.one_in(2), random.next());
    // Lines begin at multiples of 8 elements; of bytes twice that is 16 bytes.
    let mut lines = |shape: &[usize]| {
        let mut place = Place::lines(random, shape, 1);
        if T::DTYPE.bytes() == 1 {
            let inner = place.strides.len() - 1;
            place.strides[..inner].iter_mut().for_each(|stride| *stride *= 2);
            place.offset *= 2;
        }
        place
    };
    let (q_place, k_place) = (lines(&[batch, queries, heads, d]), lines(&[pages, rows, d]));
    let weights_place = Place::lines(random, &[batch, queries, heads], 1);
    let scales_place = Place::any(random, &[pages, rows]);
    let scores_place = Place::any(random, &[batch, queries, keys]);
    call.set(format!(
        "IndexScores<{}>: Q {q_place:?}, K {k_place:?}, weights {weights_place:?}, scales {scaled} {scales_place:?}, \
         scores {scores_place:?}, begins {begins:?}, ends {ends:?}, paged {paged}, table {table:?}",
        T::DTYPE
    ));

    let q = Placed::new(device, q_place.clone(), &normal::<T>(seed, q_place.count()))?;
    let k = Placed::new(device, k_place.clone(), &normal::<T>(seed.wrapping_add(1), k_place.count()))?;
    let weights = Placed::<f32>::new(device, weights_place.clone(), &normal(seed, weights_place.count()))?;
    let scales = Placed::<f32>::new(device, scales_place.clone(), &normal(seed, scales_place.count()))?;
    let mut scores = Placed::<f32>::poisoned(device, scores_place)?;
    let of_queries = |of: &Option<Vec<i32>>| {
        Placed::new(
            device,
            Place::packed(&[batch, queries]),
            of.as_deref().unwrap_or(&vec![0; batch * queries]),
        )
    };
    let (first, last) = (of_queries(&begins)?, of_queries(&ends)?);
    let entries_of = Placed::new(device, Place::packed(&[batch, entries]), &table)?;
    let stream = Stream::new(device)?;
    {
        let (q, k, weights, mut scores) = (q.view()?, k.view()?, weights.view()?, scores.view_mut()?);
        let scales = scales.view()?;
        let indexer = IndexScores::new();
        let indexer = if scaled { indexer.key_scales(&scales) } else { indexer };
        let indexer = if begins.is_some() { indexer.begins(first.view()?) } else { indexer };
        let indexer = if ends.is_some() { indexer.ends(last.view()?) } else { indexer };
        let indexer = if paged { indexer.block_table(entries_of.view()?) } else { indexer };
        let all = indexer.candidates(&q, &k, &weights, &scores)?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        if names.is_empty() {
            let refused = indexer.run(&stream, &q, &k, &weights, &mut scores);
            return call.refused(refused.err().ok_or("no kernel, and no error")?);
        }
        let name = names[seed as usize % names.len()];
        call.add(format!(", kernel {name}"));
        indexer.kernel(name).run(&stream, &q, &k, &weights, &mut scores)?;
        stream.synchronize()?;
    }

    let out = scores.read()?;
    let (q, k) = (T::widen(&q.values()?), T::widen(&k.values()?));
    let (weights, scales) = (weights.values()?, scales.values()?);
    for (at, &is) in out.iter().enumerate() {
        let (line, key) = (at / keys, at % keys);
        let from = begins.as_ref().map_or(0, |of| of[line]);
        let to = ends.as_ref().map_or(i32::MAX, |of| of[line]);
        if !(from..to).contains(&(key as i32)) {
            if is != f32::NEG_INFINITY {
                return Err(format!("query {line}, key {key} that it does not see: {is}").into());
            }
            continue;
        }
        let page = if paged { table[line / queries * entries + key / rows] } else { (line / queries) as i32 };
        // Pages that do not exist are zeros with a scale of 1.
        let row =
            usize::try_from(page).ok().filter(|&page| page < pages).map(|page| page * rows + key % rows);
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for head in (0..heads).filter(|_| row.is_some()) {
            let q = &q[(line * heads + head) * d..][..d];
            let products =
                q.iter().zip(&k[row.unwrap_or(0) * d..]).map(|(q, k)| f64::from(*q) * f64::from(*k));
            let weight = f64::from(weights[line * heads + head]);
            magnitude += products.clone().map(f64::abs).sum::<f64>() * weight.abs();
            sum += products.sum::<f64>().max(0.0) * weight;
        }
        let scale = row.filter(|_| scaled).map_or(1.0, |row| f64::from(scales[row]));
        let off = (f64::from(is) - sum * scale).abs();
        if off.is_nan() || off > (magnitude * rounding::<T>() + 1e-6) * scale.abs() + 1e-30 {
            return Err(format!("query {line}, key {key}: {is} for {}", sum * scale).into());
        }
    }
    Ok(())
}
