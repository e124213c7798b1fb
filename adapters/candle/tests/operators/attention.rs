use candle_core::{D, DType, Device, Result, Tensor};
use tilewright_candle::{
    MlaDecode, Scores, append_to_cache, append_to_latent_cache, flash_attn, flash_attn_alibi,
    flash_attn_alibi_windowed_softcap, flash_attn_varlen, flash_attn_varlen_paged_windowed,
    flash_attn_varlen_windowed, flash_attn_windowed, paged_attention, sdpa,
};

use crate::support::{BF16, F16, close, device, random, wide};

/// What is done to scores.
#[derive(Clone, Copy)]
struct Reference {
    scale: f64,
    left: usize,
    right: usize,
    softcap: Option<f64>,
    slopes: Option<[f32; 4]>,
}

const PLAIN: Reference =
    Reference { scale: 0.25, left: usize::MAX, right: usize::MAX, softcap: None, slopes: None };

/// Of (batch, length, heads, columns), by candle's matmul and softmax.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, how: Reference) -> Result<Tensor> {
    let turn = |x: &Tensor| wide(x)?.transpose(1, 2)?.contiguous();
    let (q, k, v) = (turn(q)?, turn(k)?, turn(v)?);
    let (_, heads, queries, _) = q.dims4()?;
    let (batch, kv_heads, keys, _) = k.dims4()?;
    let repeat = |x: &Tensor| {
        let columns = x.dim(D::Minus1)?;
        let shape = (batch, kv_heads, heads / kv_heads, keys, columns);
        x.unsqueeze(2)?.broadcast_as(shape)?.reshape((batch, heads, keys, columns))
    };
    let mut scores = (q.matmul(&repeat(&k)?.transpose(2, 3)?.contiguous()?)? * how.scale)?;
    if let Some(cap) = how.softcap {
        scores = ((scores / cap)?.tanh()? * cap)?;
    }
    if let Some(slopes) = how.slopes {
        let bias = slopes.into_iter().flat_map(|slope| {
            (0..queries * keys).map(move |at| {
                let (own, key) = (at / keys + keys - queries, at % keys);
                -slope * own.abs_diff(key) as f32
            })
        });
        let bias = Tensor::from_vec(bias.collect::<Vec<_>>(), (1, heads, queries, keys), &Device::Cpu)?;
        scores = scores.broadcast_add(&bias)?;
    }
    let mask: Vec<f32> = (0..queries * keys)
        .map(|at| {
            let (own, key) = ((at / keys + keys).saturating_sub(queries), at % keys);
            let seen = own.saturating_sub(how.left) <= key && key <= own.saturating_add(how.right);
            if seen { 0.0 } else { f32::NEG_INFINITY }
        })
        .collect();
    let scores = scores.broadcast_add(&Tensor::from_vec(mask, (queries, keys), &Device::Cpu)?)?;
    candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&repeat(&v)?)?.transpose(1, 2)
}

fn qkv(shape: [usize; 4], keys: usize, kv_heads: usize, dtype: DType) -> Result<[Tensor; 3]> {
    let [batch, queries, heads, columns] = shape;
    Ok([
        random(&[batch, queries, heads, columns], 1, dtype)?,
        random(&[batch, keys, kv_heads, columns], 2, dtype)?,
        random(&[batch, keys, kv_heads, columns], 3, dtype)?,
    ])
}

#[test]
fn masks_of_flash_attention() -> Result<()> {
    let [q, k, v] = qkv([2, 33, 4, 64], 70, 2, DType::BF16)?;
    close(&flash_attn(&q, &k, &v, 0.25, false)?, &reference(&q, &k, &v, PLAIN)?, BF16);
    let causal = Reference { right: 0, ..PLAIN };
    close(&flash_attn(&q, &k, &v, 0.25, true)?, &reference(&q, &k, &v, causal)?, BF16);
    let by_window = flash_attn_windowed(&q, &k, &v, 0.25, None, Some(0))?;
    let [wide_q, wide_k, wide_v] = qkv([1, 9, 4, 512], 40, 2, DType::BF16)?;
    let wide = flash_attn(&wide_q, &wide_k, &wide_v, 0.04, true)?;
    close(&wide, &reference(&wide_q, &wide_k, &wide_v, Reference { scale: 0.04, ..causal })?, BF16);
    close(&by_window, &reference(&q, &k, &v, causal)?, BF16);
    let windowed = flash_attn_windowed(&q, &k, &v, 0.25, Some(9), Some(3))?;
    close(&windowed, &reference(&q, &k, &v, Reference { left: 9, right: 3, ..PLAIN })?, BF16);
    // A window that is larger than the keys is none.
    let large = flash_attn_windowed(&q, &k, &v, 0.25, Some(1000), None)?;
    close(&large, &reference(&q, &k, &v, PLAIN)?, BF16);
    let capped = flash_attn_alibi_windowed_softcap(&q, &k, &v, None, 0.25, None, Some(0), 2.0)?;
    close(&capped, &reference(&q, &k, &v, Reference { softcap: Some(2.0), ..causal })?, BF16);
    let slopes = [0.5, 0.125, 0.03, 0.0];
    let told = Tensor::new(&slopes, &device())?;
    let biased = Reference { slopes: Some(slopes), ..PLAIN };
    close(&flash_attn_alibi(&q, &k, &v, &told, 0.25, false)?, &reference(&q, &k, &v, biased)?, BF16);
    let all = flash_attn_alibi_windowed_softcap(&q, &k, &v, Some(&told), 0.25, None, Some(0), 2.0)?;
    close(&all, &reference(&q, &k, &v, Reference { softcap: Some(2.0), right: 0, ..biased })?, BF16);
    Ok(())
}

/// candle-nn's arguments: tensors by heads, and masks of all shapes that are added.
#[test]
fn masks_that_are_added() -> Result<()> {
    let [q, k, v] = qkv([2, 33, 4, 64], 70, 2, DType::BF16)?;
    let heads = |x: &Tensor| x.transpose(1, 2);
    let (turned_q, turned_k, turned_v) = (heads(&q)?, heads(&k)?, heads(&v)?);
    let run = |mask: Option<&Tensor>, causal: bool, cap: f32| {
        heads(&sdpa(&turned_q, &turned_k, &turned_v, mask, causal, 0.25, cap)?)
    };
    close(&run(None, false, 1.0)?, &reference(&q, &k, &v, PLAIN)?, BF16);
    let causal = Reference { right: 0, softcap: Some(2.0), ..PLAIN };
    close(&run(None, true, 2.0)?, &reference(&q, &k, &v, causal)?, BF16);
    // A bias like that of slopes, exact in bf16: of heads alone, of both sequences, and of lines that are not contiguous.
    let slopes = [0.5, 0.125, 0.03125, 0.0];
    let biased = Reference { slopes: Some(slopes), ..PLAIN };
    let expected = reference(&q, &k, &v, biased)?;
    let bias: Vec<f32> = (0..4 * 33 * 70)
        .map(|at| -slopes[at / (33 * 70)] * (at / 70 % 33 + 37).abs_diff(at % 70) as f32)
        .collect();
    let mask = Tensor::from_vec(bias, (1, 4, 33, 70), &device())?.to_dtype(DType::BF16)?;
    close(&run(Some(&mask), false, 1.0)?, &expected, BF16);
    close(&run(Some(&mask.broadcast_as((2, 4, 33, 70))?), false, 1.0)?, &expected, BF16);
    let turned = mask.transpose(2, 3)?.contiguous()?.transpose(2, 3)?;
    close(&run(Some(&turned), false, 1.0)?, &expected, BF16);
    // The last 20 keys are hidden from the first sequence.
    let hidden: Vec<f32> =
        (0..2 * 70).map(|at| if (50..70).contains(&at) { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mask = Tensor::from_vec(hidden, (2, 1, 1, 70), &device())?.to_dtype(DType::BF16)?;
    let [first, second] = [0, 1].map(|i| (q.narrow(0, i, 1), k.narrow(0, i, 1), v.narrow(0, i, 1)));
    let expected = Tensor::cat(
        &[
            reference(&first.0?, &first.1?.narrow(1, 0, 50)?, &first.2?.narrow(1, 0, 50)?, PLAIN)?,
            reference(&second.0?, &second.1?, &second.2?, PLAIN)?,
        ],
        0,
    )?;
    close(&run(Some(&mask), false, 1.0)?, &expected, BF16);
    let wrong = mask.narrow(3, 0, 69)?;
    let text = run(Some(&wrong), false, 1.0).unwrap_err().to_string();
    assert!(text.contains("`mask` was of shape [2, 1, 1, 69]; it must be one that broadcasts to"), "{text}");
    assert!(text.contains("`mask` is bf16 [2, 1, 1, 69]"), "{text}");
    Ok(())
}

/// Queries, keys and values are parts of one tensor; a tensor begins in the middle of its storage.
#[test]
fn strides_and_offsets_are_read_as_they_are() -> Result<()> {
    let joint = random(&[1, 20, 8, 64], 4, DType::F16)?;
    let part = |first, heads| joint.narrow(2, first, heads);
    let (q, k, v) = (part(0, 4)?, part(4, 2)?, part(6, 2)?);
    assert!(!q.is_contiguous() && k.layout().start_offset() > 0);
    close(&flash_attn(&q, &k, &v, 0.25, false)?, &reference(&q, &k, &v, PLAIN)?, F16);
    let late = joint.narrow(1, 7, 13)?;
    let (q, k) = (late.narrow(2, 0, 4)?, late.narrow(2, 4, 2)?);
    close(
        &flash_attn(&q, &k, &k, 0.25, true)?,
        &reference(&q, &k, &k, Reference { right: 0, ..PLAIN })?,
        F16,
    );
    // [batch, heads, length, columns], seen as [batch, length, heads, columns].
    let turned = random(&[1, 4, 20, 64], 5, DType::F16)?.transpose(1, 2)?;
    close(
        &flash_attn(&turned, &turned, &turned, 0.25, false)?,
        &reference(&turned, &turned, &turned, PLAIN)?,
        F16,
    );
    Ok(())
}

#[test]
fn sequences_one_after_the_other() -> Result<()> {
    let (of_q, of_k) = ([0u32, 5, 5, 18], [0u32, 9, 11, 40]);
    let (q, k, v) = (
        random(&[18, 4, 64], 6, DType::BF16)?,
        random(&[40, 2, 64], 7, DType::BF16)?,
        random(&[40, 2, 64], 8, DType::BF16)?,
    );
    let expected = |how: Reference| -> Result<Tensor> {
        let parts = of_q.windows(2).zip(of_k.windows(2)).filter(|(q, _)| q[1] > q[0]);
        let parts = parts.map(|(at, from)| {
            let part = |x: &Tensor, ends: &[u32]| {
                x.narrow(0, ends[0] as usize, (ends[1] - ends[0]) as usize)?.unsqueeze(0)
            };
            reference(&part(&q, at)?, &part(&k, from)?, &part(&v, from)?, how)?.squeeze(0)
        });
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    };
    let signed = |offsets: [u32; 4]| Tensor::new(&offsets.map(u32::cast_signed), &device());
    let (signed_q, signed_k) = (signed(of_q)?, signed(of_k)?);
    let (of_q, of_k) = (Tensor::new(&of_q, &device())?, Tensor::new(&of_k, &device())?);
    let causal = Reference { right: 0, ..PLAIN };
    close(&flash_attn_varlen(&q, &k, &v, &of_q, &of_k, 13, 29, 0.25, true)?, &expected(causal)?, BF16);
    // Offsets may be signed too.
    let actual =
        flash_attn_varlen_windowed(&q, &k, &v, &signed_q, &signed_k, 13, 29, 0.25, Some(4), Some(0))?;
    close(&actual, &expected(Reference { left: 4, ..causal })?, BF16);
    Ok(())
}

#[test]
fn pages() -> Result<()> {
    let [pages, rows, kv_heads, columns] = [7, 16, 2, 64];
    let k = random(&[pages, rows, kv_heads, columns], 9, DType::BF16)?;
    let v = random(&[pages, rows, kv_heads, columns], 10, DType::BF16)?;
    let (table, lengths) = ([[3u32, 0, 6], [5, 2, 2]], [41u32, 17]);
    let sequence = |q: &Tensor, i: usize| -> Result<Tensor> {
        let (pages, length) = (&table[i], lengths[i]);
        let gather = |cache: &Tensor| {
            let all = wide(cache)?.index_select(&Tensor::new(pages, &Device::Cpu)?, 0)?;
            all.flatten(0, 1)?.narrow(0, 0, length as usize)?.unsqueeze(0)
        };
        reference(q, &gather(&k)?, &gather(&v)?, Reference { right: 0, ..PLAIN })
    };
    let expected = |q: &Tensor| -> Result<Tensor> {
        let sequences = (0..2).map(|i| sequence(&q.narrow(0, i, 1)?, i));
        Tensor::cat(&sequences.collect::<Result<Vec<_>>>()?, 0)
    };
    let table_of = Tensor::new(&table, &device())?;
    let scores = Scores::new(0.25).causal();
    for queries in [1, 3] {
        let q = random(&[2, queries, 8, columns], 11, DType::BF16)?;
        let actual = paged_attention(&q, &k, &v, &table_of, &Tensor::new(&lengths, &device())?, scores)?;
        close(&actual, &expected(&q)?, BF16);
    }
    // The same by candle-flash-attn's function, with one query of each sequence.
    let q = random(&[2, 1, 8, columns], 11, DType::BF16)?;
    let (of_q, of_k) = (Tensor::new(&[0u32, 1, 2], &device())?, Tensor::new(&[0u32, 41, 58], &device())?);
    let packed = q.squeeze(1)?;
    let call = |q: &Tensor, of_q: &Tensor, longest| {
        flash_attn_varlen_paged_windowed(
            q,
            &k,
            &v,
            of_q,
            &of_k,
            &table_of,
            None,
            longest,
            41,
            0.25,
            None,
            Some(0),
            rows,
            None,
        )
    };
    close(&call(&packed, &of_q, 1)?, &expected(&q)?.squeeze(1)?, BF16);
    // Chunks of 7 and of 2 queries.
    let q = random(&[1, 9, 8, columns], 12, DType::BF16)?;
    let of_q = Tensor::new(&[0u32, 7, 9], &device())?;
    let chunks = [sequence(&q.narrow(1, 0, 7)?, 0)?, sequence(&q.narrow(1, 7, 2)?, 1)?];
    close(&call(&q.squeeze(0)?, &of_q, 7)?, &Tensor::cat(&chunks, 1)?.squeeze(0)?, BF16);
    Ok(())
}

#[test]
fn tokens_go_to_their_rows() -> Result<()> {
    let [pages, rows, heads, columns] = [3, 16, 2, 64];
    let [k_cache, v_cache] = [1, 2].map(|seed| random(&[pages, rows, heads, columns], seed, DType::BF16));
    let (k_cache, v_cache) = (k_cache?, v_cache?);
    let before = [wide(&k_cache)?, wide(&v_cache)?];
    // Keys lie between queries and values, as a joint product leaves them.
    let joint = random(&[5, 3 * heads, columns], 3, DType::BF16)?;
    let (k, v) = (joint.narrow(1, heads, heads)?, joint.narrow(1, 2 * heads, heads)?);
    // The fourth token has no row.
    let slots = [47u32, 0, 17, 1000, 16];
    append_to_cache(&k, &v, &k_cache, &v_cache, &Tensor::new(&slots, &device())?)?;
    for ((cache, before), new) in [&k_cache, &v_cache].into_iter().zip(before).zip([&k, &v]) {
        let (after, before) = (wide(cache)?.flatten(0, 1)?, before.flatten(0, 1)?);
        for row in 0..pages * rows {
            let token = slots.iter().position(|&slot| slot as usize == row);
            let expected = token.map_or_else(|| before.get(row), |token| wide(new)?.get(token))?;
            close(&after.get(row)?, &expected, 0.0);
        }
    }
    let error = append_to_cache(&k, &v, &k_cache, &k_cache, &Tensor::new(&slots, &device())?).unwrap_err();
    assert!(error.to_string().contains("`v_cache` was in one storage with `k_cache`"), "{error}");
    let other = random(&[4], 4, DType::BF16)?;
    let error = append_to_cache(&k, &v, &k_cache, &v_cache, &other).unwrap_err().to_string();
    assert!(error.contains("`slots` was of bf16; it must be of i32 or u32"), "{error}");
    let error =
        append_to_cache(&k, &v, &k_cache.narrow(0, 0, 2)?, &v_cache, &Tensor::new(&slots, &device())?);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`v_cache` was of shape [3, 16, 2, 64]"), "{error}");
    Ok(())
}

#[test]
fn latent_attention() -> Result<()> {
    let cache = random(&[3, 16, 576], 12, DType::BF16)?;
    let mut decode = MlaDecode::new(0.125);
    for (lengths, table) in [([20u32, 7], [2, 0, 1, 1]), ([21, 8], [2, 0, 1, 1])] {
        let q = random(&[2, 1, 16, 576], 13, DType::BF16)?;
        decode.step(&lengths, &table);
        let actual = decode.forward(&q, &cache)?;
        let sequences = table.chunks(2).zip(lengths).enumerate().map(|(i, (pages, length))| {
            let pages: Vec<u32> = pages.iter().map(|&page| page as u32).collect();
            let all =
                wide(&cache)?.index_select(&Tensor::new(&pages[..], &Device::Cpu)?, 0)?.flatten(0, 1)?;
            let keys = all.narrow(0, 0, length as usize)?.reshape((1, length as usize, 1, 576))?;
            let how = Reference { scale: 0.125, ..PLAIN };
            reference(&q.narrow(0, i, 1)?, &keys, &keys.narrow(3, 0, 512)?, how)
        });
        close(&actual, &Tensor::cat(&sequences.collect::<Result<Vec<_>>>()?, 0)?, BF16);
    }
    Ok(())
}

#[test]
fn latent_attention_of_8_bits() -> Result<()> {
    // Multiples of an eighth up to 1, and 1.75 in each 128 columns, so that scales are 1 / 256: codes hold them.
    let keys = ((random(&[40, 576], 12, DType::F32)? * 8.)?.round()? / 8.)?;
    let most = Tensor::full(1.75f32, (40, 1), &Device::Cpu)?.to_device(keys.device())?;
    let parts = (0..4).map(|i| Tensor::cat(&[most.clone(), keys.narrow(1, i * 128 + 1, 127)?], 1));
    let keys =
        Tensor::cat(&[Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 1)?, keys.narrow(1, 512, 64)?], 1)?;
    let tokens = keys.to_dtype(DType::BF16)?;
    let cache = Tensor::zeros((3, 16, 656), DType::U8, &device())?;
    // The rows of pages 2, 0 and 1, one after the other.
    let slots: Vec<u32> = (0..40).map(|token| [32, 0, 16][token as usize / 16] + token % 16).collect();
    let slots = Tensor::new(&slots[..], &device())?;
    append_to_latent_cache(&tokens.narrow(1, 0, 512)?, &tokens.narrow(1, 512, 64)?, &slots, &cache)?;
    let q = random(&[1, 1, 16, 576], 13, DType::BF16)?;
    let mut decode = MlaDecode::new(0.125);
    decode.step(&[40], &[2, 0, 1]);
    let actual = decode.forward(&q, &cache)?;
    let keys = wide(&tokens)?.reshape((1, 40, 1, 576))?;
    let how = Reference { scale: 0.125, ..PLAIN };
    close(&actual, &reference(&q, &keys, &keys.narrow(3, 0, 512)?, how)?, BF16);
    let error =
        append_to_latent_cache(&tokens.narrow(1, 0, 512)?, &tokens.narrow(1, 512, 63)?, &slots, &cache);
    assert!(error.unwrap_err().to_string().contains("`rotary`"));
    Ok(())
}
