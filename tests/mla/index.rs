//! An indexer's scores, and what queries choose by them.

use tilewright::ops::{IndexScores, IndexerElement};
use tilewright::{Arch, Device, Error, F8E4M3, Stream, Tensor, bf16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Sizes of a call.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    batch: usize,
    queries: usize,
    heads: usize,
    keys: usize,
    d: usize,
}

/// The score of a query and a key, and how far from it a sum in f32 may be, or one of tensor cores, which keep 13 bits of sums of 8-bit floats.
fn score<T: Real>(q: &[T], k: &[T], weights: &[f32], d: usize) -> (f64, f64) {
    let (q, k) = (T::widen(q), T::widen(k));
    let products = q.chunks(d).map(|q| q.iter().zip(&k).map(|(&a, &b)| f64::from(a) * f64::from(b)));
    let heads = products.zip(weights).map(|(products, &w)| {
        let magnitude: f64 = products.clone().map(f64::abs).sum();
        (products.sum::<f64>().max(0.0) * f64::from(w), magnitude * f64::from(w).abs())
    });
    let (sum, magnitude) = heads.fold((0.0, 0.0), |(sum, all), (x, of)| (sum + x, all + of));
    (sum, magnitude * if T::DTYPE.bytes() == 1 { 2f64.powi(-12) } else { 1e-6 } + 1e-6)
}

/// Checks scores of such sizes, each query with keys of its own; in pages of so many rows if `page` says so.
fn check<T: Real + IndexerElement>(device: &Device, sizes: Sizes, page: Option<usize>) -> Outcome {
    let Sizes { batch, queries, heads, keys, d } = sizes;
    let stream = Stream::new(device)?;
    let rows = page.unwrap_or(keys);
    let entries = keys.div_ceil(rows);
    // One page more than sequences have; the last one of a sequence's table comes first in memory.
    let pages = if page.is_some() { batch * entries + 1 } else { batch };
    let table: Vec<i32> = (0..(batch * entries) as i32).rev().collect();
    let place = |sequence: usize, key: usize| match page {
        None => sequence * rows + key,
        Some(_) => table[sequence * entries + key / rows] as usize * rows + key % rows,
    };
    let (q, k) = (normal::<T>(1, batch * queries * heads * d), normal::<T>(2, pages * rows * d));
    let weights: Vec<f32> = normal(3, batch * queries * heads);
    let scales: Vec<f32> = normal::<f32>(4, pages * rows).into_iter().map(|x| x.abs() + 0.1).collect();
    // Some queries see no key, some all of them, and some limits lie outside.
    let limits = |query: usize| match query % 5 {
        0 => (-7, keys as i64 + 9),
        1 => (keys as i64 / 3, keys as i64 / 3),
        2 => (keys as i64 / 2, keys as i64),
        _ => (0, (query * 37 % (keys + 1)) as i64),
    };
    let (begins, ends): (Vec<_>, Vec<_>) = (0..batch * queries).map(limits).unzip();
    let of = |x: &[T], shape: &[usize]| Tensor::from_slice(device, x, shape);
    let (q_t, k_t) = (of(&q, &[batch, queries, heads, d])?, of(&k, &[pages, rows, d])?);
    let weights_t = Tensor::from_slice(device, &weights, &[batch, queries, heads])?;
    let scales_t = Tensor::from_slice(device, &scales, &[pages, rows])?;
    let begins_t = Tensor::from_slice(device, &begins, &[batch, queries])?;
    let ends_t = Tensor::from_slice(
        device,
        &ends.iter().map(|&end| end as i32).collect::<Vec<_>>(),
        &[batch, queries],
    )?;
    let table_t = Tensor::from_slice(device, &table, &[batch, entries])?;
    let mut scores = Tensor::filled(device, f32::NAN, &[batch, queries, keys])?;
    let scales_v = scales_t.view();
    let mut indexer = IndexScores::new().key_scales(&scales_v).begins(begins_t.view()).ends(ends_t.view());
    if page.is_some() {
        indexer = indexer.block_table(table_t.view());
    }
    let candidates = indexer.candidates(&q_t.view(), &k_t.view(), &weights_t.view(), &scores.view_mut())?;
    let names = candidates.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
    let mut checked = 0;
    for name in names {
        scores.fill(&stream, f32::NAN)?;
        indexer = indexer.kernel(name);
        indexer.run(&stream, &q_t.view(), &k_t.view(), &weights_t.view(), &mut scores.view_mut())?;
        let scores = scores.to_vec_on(&stream)?;
        checked += 1;
        for (at, &is) in scores.iter().enumerate() {
            let (line, key) = (at / keys, at % keys);
            if !(begins[line]..ends[line]).contains(&(key as i64)) {
                assert_eq!(is, f32::NEG_INFINITY, "{name}, {sizes:?} {page:?}: query {line}, key {key}");
                continue;
            }
            let row = place(line / queries, key);
            let (q, k) = (&q[line * heads * d..][..heads * d], &k[row * d..][..d]);
            let (sum, off) = score(q, k, &weights[line * heads..][..heads], d);
            let scale = f64::from(scales[row]);
            let wrong = (f64::from(is) - sum * scale).abs();
            assert!(
                wrong <= off * scale,
                "{name}, {sizes:?} {page:?}: query {line}, key {key}: {is} for {}, off by {wrong}",
                sum * scale
            );
        }
    }
    assert!(checked > 0, "no kernel computes {sizes:?}");
    Ok(())
}

fn all<T: Real + IndexerElement>(device: &Device) -> Outcome {
    for (batch, queries, heads, keys, d) in [
        (1, 1, 64, 300, 128),
        (2, 7, 32, 257, 64),
        (1, 40, 3, 513, 128),
        (3, 2, 65, 40, 112),
        (1, 130, 64, 128, 16),
        (1, 3, 0, 20, 128),
    ] {
        check::<T>(device, Sizes { batch, queries, heads, keys, d }, None)?;
    }
    for page in [8, 64, 512] {
        check::<T>(device, Sizes { batch: 2, queries: 3, heads: 20, keys: 300, d: 128 }, Some(page))?;
    }
    Ok(())
}

/// Of all sizes, with limits, scales and pages.
pub fn scores(device: &Device) -> Outcome {
    if device.runs(Arch::Sm90a) {
        all::<F8E4M3>(device)?;
    }
    all::<bf16>(device)
}

/// Views of any strides; NaN stays with its key; nothing to do.
pub fn views(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    // Queries, keys and weights of one fused tensor each; scores in columns.
    let fused = Tensor::from_slice(device, &normal::<bf16>(5, 4 * 2 * 3 * 160), &[2, 4, 3, 160])?;
    let q = fused.view().narrow(3, 8, 128)?.transpose(0, 1)?.narrow(1, 0, 2)?;
    let mut keys = normal::<bf16>(6, 50 * 136);
    keys[7 * 136 + 3] = bf16::NAN;
    let keys = Tensor::from_slice(device, &keys.repeat(4), &[4, 50, 136])?;
    let k = keys.view().narrow(2, 0, 128)?;
    let weights = Tensor::filled(device, 1f32, &[2, 4, 5])?;
    let weights = weights.view().transpose(0, 1)?.narrow(2, 1, 3)?;
    let mut strided = Tensor::filled(device, 9f32, &[50, 4, 2])?;
    let mut dense = Tensor::filled(device, 9f32, &[4, 2, 50])?;
    let strided_view = strided.view_mut().transpose(0, 1)?;
    IndexScores::new().run(&stream, &q, &k, &weights, &mut strided_view.transpose(1, 2)?)?;
    let contiguous = Tensor::from_slice(device, &q.to_vec()?, &[4, 2, 3, 128])?;
    IndexScores::new().run(&stream, &contiguous.view(), &k, &weights, &mut dense.view_mut())?;
    let (strided, dense) = (strided.to_vec_on(&stream)?, dense.to_vec_on(&stream)?);
    for (at, x) in dense.iter().enumerate() {
        let (line, key) = (at / 50, at % 50);
        assert_eq!(x.to_bits(), strided[key * 8 + line].to_bits(), "line {line}, key {key}");
        assert_eq!(x.is_nan(), key == 7, "line {line}, key {key}: {x}");
    }
    let mut none = Tensor::<f32>::zeros(device, &[0, 2, 50])?;
    let (q, k) =
        (Tensor::<bf16>::zeros(device, &[0, 2, 3, 128])?, Tensor::<bf16>::zeros(device, &[0, 50, 128])?);
    let weights = Tensor::<f32>::zeros(device, &[0, 2, 3])?;
    IndexScores::new().run(&stream, &q.view(), &k.view(), &weights.view(), &mut none.view_mut())?;
    Ok(())
}

/// The keys with the largest scores, to which MLA attends: as lists that the host makes.
#[cfg(feature = "reduce")]
pub fn chosen(device: &Device) -> Outcome {
    use tilewright::ops::{Mla, TopK, append_latent};

    const KEYS: usize = 90;
    const QUERIES: usize = 5;
    const CHOSEN: usize = 16;
    let stream = Stream::new(device)?;
    let tokens = Tensor::from_slice(device, &normal::<bf16>(1, KEYS * 576), &[KEYS, 576])?;
    let slots = Tensor::from_slice(device, &(0..KEYS as i32).collect::<Vec<_>>(), &[KEYS])?;
    let mut cache = Tensor::<u8>::zeros(device, &[KEYS, 1, 1, 656])?;
    let (latent, rotary) = (tokens.view().narrow(1, 0, 512)?, tokens.view().narrow(1, 512, 64)?);
    append_latent(&stream, &latent, &rotary, slots.view(), &mut cache.view_mut())?;

    let (q, k) = (normal::<F8E4M3>(2, QUERIES * 32 * 128), normal::<F8E4M3>(3, KEYS * 128));
    let weights: Vec<f32> = normal(4, QUERIES * 32);
    // Query i sees the keys up to its own: the first ones fewer than are chosen.
    let ends: Vec<i32> = (0..QUERIES as i32).map(|i| 10 + 20 * i).collect();
    let (q_t, k_t) = (
        Tensor::from_slice(device, &q, &[1, QUERIES, 32, 128])?,
        Tensor::from_slice(device, &k, &[1, KEYS, 128])?,
    );
    let weights_t = Tensor::from_slice(device, &weights, &[1, QUERIES, 32])?;
    let ends_t = Tensor::from_slice(device, &ends, &[1, QUERIES])?;
    let mut scores = Tensor::<f32>::zeros(device, &[1, QUERIES, KEYS])?;
    let indexer = IndexScores::new().ends(ends_t.view());
    indexer.run(&stream, &q_t.view(), &k_t.view(), &weights_t.view(), &mut scores.view_mut())?;
    let mut values = Tensor::<f32>::zeros(device, &[QUERIES, CHOSEN])?;
    let mut lists = Tensor::<i32>::zeros(device, &[QUERIES, CHOSEN])?;
    let rows = scores.view().select(0, 0)?;
    TopK::new().run(&stream, &rows, &mut values.view_mut(), &mut lists.view_mut())?;

    let lengths: Vec<u32> = ends.iter().map(|&end| (end as u32).min(CHOSEN as u32)).collect();
    let of = |query: usize, key: usize| {
        score(&q[query * 32 * 128..][..32 * 128], &k[key * 128..][..128], &weights[query * 32..][..32], 128)
    };
    for (query, list) in lists.to_vec_on(&stream)?.chunks(CHOSEN).enumerate() {
        let chosen = &list[..lengths[query] as usize];
        let least = chosen.iter().map(|&key| of(query, key as usize).0).fold(f64::INFINITY, f64::min);
        for key in 0..ends[query] {
            let (score, off) = of(query, key as usize);
            assert!(
                chosen.contains(&key) || score <= least + 2.0 * off,
                "query {query}: key {key} has {score}, {least} was chosen"
            );
        }
        assert!(chosen.iter().all(|key| (0..ends[query]).contains(key)), "query {query}: {chosen:?}");
    }
    let q = Tensor::from_slice(device, &normal::<bf16>(5, QUERIES * 128 * 576), &[QUERIES, 1, 128, 576])?;
    let attend = |table: &Tensor<i32>| -> Result<Vec<bf16>, Error> {
        let mut o = Tensor::filled(device, bf16::NAN, &[QUERIES, 1, 128, 512])?;
        let mut mla = Mla::new().block_table(table.view()).lengths(&lengths);
        mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
        o.to_vec_on(&stream)
    };
    // Places behind a list's length are of keys that the query does not see: others there change nothing.
    let mut others = lists.to_vec_on(&stream)?;
    for (list, &length) in others.chunks_mut(CHOSEN).zip(&lengths) {
        list[length as usize..].fill(-1);
    }
    let o = attend(&lists)?;
    assert!(o.iter().all(|x| x.is_finite()));
    assert_eq!(o, attend(&Tensor::from_slice(device, &others, &[QUERIES, CHOSEN])?)?);
    Ok(())
}

/// Errors name their arguments.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<bf16>::zeros(device, shape);
    let floats = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    let refused = |name: &str, q: &[usize], k: &[usize], weights: &[usize], scores: &[usize]| -> Outcome {
        let (q, k, weights) = (zeros(q)?, zeros(k)?, floats(weights)?);
        let mut scores = floats(scores)?;
        match IndexScores::new().run(&stream, &q.view(), &k.view(), &weights.view(), &mut scores.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
            other => Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    };
    let (q, k, w, s) = (&[2, 3, 4, 128][..], &[2, 9, 128][..], &[2, 3, 4][..], &[2, 3, 9][..]);
    refused("q", &[2, 3, 4], k, w, s)?;
    refused("q", &[2, 3, 4, 136], &[2, 9, 136], w, s)?;
    refused("q", &[2, 3, 4, 12], &[2, 9, 12], w, s)?;
    refused("k", q, &[2, 9], w, s)?;
    refused("k", q, &[3, 9, 128], w, s)?;
    refused("k", q, &[2, 9, 64], w, s)?;
    refused("weights", q, k, &[2, 4, 3], s)?;
    refused("scores", q, k, w, &[2, 3, 8])?;
    let (q, k, weights, mut scores) = (zeros(q)?, zeros(&[5, 12, 128])?, floats(w)?, floats(&[2, 3, 20])?);
    let (table, short) = (Tensor::<i32>::zeros(device, &[2, 2])?, Tensor::<i32>::zeros(device, &[3, 2])?);
    let (scales, good) = (floats(&[2, 8])?, zeros(&[5, 8, 128])?);
    let scales = scales.view();
    let of = [
        ("k", IndexScores::new().block_table(table.view()), &k),
        ("block_table", IndexScores::new().block_table(short.view()), &good),
        ("scores", IndexScores::new().block_table(table.view()), &good),
        ("begins", IndexScores::new().begins(short.view()), &zeros(&[2, 20, 128])?),
        ("ends", IndexScores::new().ends(short.view()), &zeros(&[2, 20, 128])?),
        ("key_scales", IndexScores::new().key_scales(&scales), &zeros(&[2, 20, 128])?),
    ];
    for (name, indexer, k) in of {
        match indexer.run(&stream, &q.view(), &k.view(), &weights.view(), &mut scores.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    Ok(())
}
