//! Rotary embedding whose keys and values go to a cache.

use std::collections::BTreeSet;

use tilewright::ops::{CacheElement, HalfElement, Indices, Pairs, Rope};
use tilewright::{Device, Element, Error, F8E4M3, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Number, by_each, done, runnable};

/// The same bits as by a rotation of its own and copies; rows of other tokens stay as they are, and a token whose row there is not goes nowhere.
pub fn every_kernel(device: &Device) -> Outcome {
    every_kernel_of::<f16>(device)?;
    every_kernel_of::<bf16>(device)
}

fn every_kernel_of<T: Number + HalfElement>(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ends = [format!("_{}", T::DTYPE), format!("_{}_any", T::DTYPE)];
    let all = runnable(device, |name| {
        name.starts_with("rope_append_") && ends.iter().any(|end| name.ends_with(end))
    });
    let mut seen = BTreeSet::new();
    let (pages, rows) = (3, 8);
    for (slots, [heads, kv_heads], cols, part, pairs) in [
        (&[5][..], [4, 1], 128, 128, Pairs::Halves),
        (&[23, 0, 24, 9, -1], [9, 5], 64, 64, Pairs::Halves),
        (&[16, 2], [2, 2], 96, 32, Pairs::Interleaved),
        (&[1, 8, 7], [1, 3], 33, 16, Pairs::Halves),
    ] {
        let tokens = slots.len();
        let joint = heads + 2 * kv_heads;
        let x = Tensor::from_slice(device, &normal::<T>(3, tokens * joint * cols), &[tokens, joint, cols])?;
        let part_of = |first, count| x.view().narrow(1, first, count);
        let (q, k, v) = (part_of(0, heads)?, part_of(heads, kv_heads)?, part_of(heads + kv_heads, kv_heads)?);
        let positions: Vec<i32> = slots.iter().map(|slot| 3 * slot + 4).collect();
        let positions = Tensor::from_slice(device, &positions, &[tokens])?;
        let rope = Rope::new(pairs).columns(part).theta(5e5).positions(positions.view());
        let zeros = |heads| Tensor::<T>::zeros(device, &[tokens, heads, cols]);
        let (mut q_to, mut k_to) = (zeros(heads)?, zeros(kv_heads)?);
        rope.run_both(&stream, [&q, &k], [&mut q_to.view_mut(), &mut k_to.view_mut()])?;
        let (wanted_q, turned, values) = (q_to.to_vec()?, k_to.to_vec()?, v.to_vec()?);
        let old = normal::<T>(4, pages * rows * kv_heads * cols);
        let at = Tensor::from_slice(device, slots, &[tokens])?;
        let long: Vec<i64> = slots.iter().map(|&slot| slot.into()).collect();
        let long = Tensor::from_slice(device, &long, &[tokens])?;
        seen.append(&mut by_each(&all, |name| {
            let cache = || Tensor::from_slice(device, &old, &[pages, rows, kv_heads, cols]);
            let (mut k_cache, mut v_cache, mut q_to) = (cache()?, cache()?, zeros(heads)?);
            let ran = done(rope.clone().kernel(name).run_append(
                &stream,
                [&q, &k, &v],
                &mut q_to.view_mut(),
                [&mut k_cache.view_mut(), &mut v_cache.view_mut()],
                if cols == 64 { Indices::from(long.view()) } else { at.view().into() },
            ))?;
            if ran {
                assert_eq!(T::widen(&q_to.to_vec()?), T::widen(&wanted_q), "{name}");
                for (cache, new) in [(&k_cache, &turned), (&v_cache, &values)] {
                    let (mut wanted, line) = (old.clone(), kv_heads * cols);
                    for (token, &slot) in slots.iter().enumerate() {
                        if let Some(row) = wanted.chunks_mut(line).nth(slot as usize) {
                            row.copy_from_slice(&new[token * line..][..line]);
                        }
                    }
                    assert_eq!(T::widen(&cache.to_vec()?), T::widen(&wanted), "{name}, {tokens} tokens");
                }
            }
            Ok(ran)
        })?);
    }
    assert_eq!(seen, all);
    Ok(())
}

/// Errors name their arguments.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let zeros = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (q, k) = (zeros(&[2, 4, 64])?, zeros(&[2, 1, 64])?);
    for (name, v, q_to, k_cache, v_cache, slots) in [
        ("v", &[2, 2, 64][..], &[2, 4, 64][..], &[3, 8, 1, 64][..], &[3, 8, 1, 64][..], 2),
        ("q_to", &[2, 1, 64], &[2, 3, 64], &[3, 8, 1, 64], &[3, 8, 1, 64], 2),
        ("k_cache", &[2, 1, 64], &[2, 4, 64], &[3, 8, 2, 64], &[3, 8, 1, 64], 2),
        ("v_cache", &[2, 1, 64], &[2, 4, 64], &[3, 8, 1, 64], &[2, 8, 1, 64], 2),
        ("slots", &[2, 1, 64], &[2, 4, 64], &[3, 8, 1, 64], &[3, 8, 1, 64], 3),
    ] {
        let (v, mut q_to, mut k_cache, mut v_cache) =
            (zeros(v)?, zeros(q_to)?, zeros(k_cache)?, zeros(v_cache)?);
        let slots = Tensor::<i32>::zeros(device, &[slots])?;
        let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
        let tensors = [&q.view(), &k.view(), &v.view()];
        let rope = Rope::new(Pairs::Halves);
        match rope.run_append(&stream, tensors, &mut q_to.view_mut(), caches, slots.view()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    Ok(())
}

/// Caches of 8 bits get the nearest codes of what caches of 16 bits get, on every kernel.
pub fn codes(device: &Device) -> Outcome {
    // Saturated: -128 and 127, as casts of Rust have it.
    let int8 = |x: f32| x.round_ties_even() as i8;
    codes_of::<f16, F8E4M3>(device, F8E4M3::from_f32, |x| x.to_bits())?;
    codes_of::<bf16, F8E4M3>(device, F8E4M3::from_f32, |x| x.to_bits())?;
    codes_of::<f16, i8>(device, int8, i8::cast_unsigned)?;
    codes_of::<bf16, i8>(device, int8, i8::cast_unsigned)
}

fn codes_of<T: Number + HalfElement, C: CacheElement<T> + Element>(
    device: &Device,
    nearest: impl Fn(f32) -> C,
    bits: impl Fn(C) -> u8,
) -> Outcome {
    let stream = Stream::new(device)?;
    let ends = [format!("_{}", T::DTYPE), format!("_{}_any", T::DTYPE)];
    let all = runnable(device, |name| {
        name.starts_with("rope_append_") && ends.iter().any(|end| name.ends_with(end))
    });
    let mut seen = BTreeSet::new();
    let (pages, rows, heads, kv_heads) = (2, 8, 2, 5);
    // Scales for each head, so small that some values are beyond, or one, or none.
    for (slots, cols, scales) in [(&[9, 0, -1][..], 64, kv_heads), (&[3], 128, 1), (&[15, 16], 48, 0)] {
        let tokens = slots.len();
        let of = |seed, heads: usize| {
            Tensor::from_slice(device, &normal::<T>(seed, tokens * heads * cols), &[tokens, heads, cols])
        };
        let (q, k, v) = (of(1, heads)?, of(2, kv_heads)?, of(3, kv_heads)?);
        let tensors = [&q.view(), &k.view(), &v.view()];
        let at = Tensor::from_slice(device, slots, &[tokens])?;
        let shape = [pages, rows, kv_heads, cols];
        let scale_of = |which: usize, head: usize| match scales {
            0 => 1.0,
            1 => [0.02f32, 0.003][which],
            _ => [0.02, 0.003][which] * (1.0 + head as f32 / 3.0),
        };
        let scale = |which| {
            let scales: Vec<f32> = (0..scales.max(1)).map(|head| scale_of(which, head)).collect();
            Tensor::from_slice(device, &scales, &[scales.len()])
        };
        let (k_scale, v_scale) = (scale(0)?, scale(1)?);
        let (k_scale, v_scale) = (k_scale.view(), v_scale.view());
        let rope = Rope::new(Pairs::Halves).offset(7);
        let (mut q_wide, mut q_to) = (of(4, heads)?, of(5, heads)?);
        let wide = || Tensor::from_slice(device, &normal::<T>(6, shape.iter().product()), &shape);
        let mut wide = [wide()?, wide()?];
        {
            let [k_cache, v_cache] = &mut wide;
            let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
            rope.run_append(&stream, tensors, &mut q_wide.view_mut(), caches, at.view())?;
        }
        seen.append(&mut by_each(&all, |name| {
            let old = nearest(77.0);
            let cache = || Tensor::filled(device, old, &shape);
            let (mut k_cache, mut v_cache) = (cache()?, cache()?);
            let rope = rope.clone().kernel(name);
            let rope = if scales > 0 { rope.cache_scales(&k_scale, &v_scale) } else { rope };
            let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
            let ran = done(rope.run_append(&stream, tensors, &mut q_to.view_mut(), caches, at.view()))?;
            if ran {
                assert_eq!(T::widen(&q_to.to_vec()?), T::widen(&q_wide.to_vec()?), "{name}");
                for (which, (cache, wide)) in [&k_cache, &v_cache].into_iter().zip(&wide).enumerate() {
                    let wide = T::widen(&wide.to_vec()?);
                    for (i, (code, x)) in cache.to_vec()?.into_iter().zip(wide).enumerate() {
                        let (row, head) = (i / (kv_heads * cols), i / cols % kv_heads);
                        let written = slots.contains(&(row as i32));
                        let wanted = if written { nearest(x * (1.0 / scale_of(which, head))) } else { old };
                        assert_eq!(bits(code), bits(wanted), "{name}, row {row}, head {head}: {x}");
                    }
                }
            }
            Ok(ran)
        })?);
    }
    assert_eq!(seen, all);

    // Errors name their arguments.
    let of = |heads: usize| Tensor::<T>::zeros(device, &[1, heads, 16]);
    let (q, k, mut q_to) = (of(2)?, of(2)?, of(2)?);
    let tensors = [&q.view(), &k.view(), &k.view()];
    let slots = Tensor::<i32>::zeros(device, &[1])?;
    let scale = |len| Tensor::filled(device, 1f32, &[len]);
    let (one, three) = (scale(1)?, scale(3)?);
    let (one, three) = (one.view(), three.view());
    for (name, [k_scale, v_scale]) in [("k_scale", [&three, &one]), ("v_scale", [&one, &three])] {
        let caches = || Tensor::<C>::zeros(device, &[1, 8, 2, 16]);
        let (mut k_cache, mut v_cache) = (caches()?, caches()?);
        let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
        let rope = Rope::new(Pairs::Halves).cache_scales(k_scale, v_scale);
        match rope.run_append(&stream, tensors, &mut q_to.view_mut(), caches, slots.view()) {
            Err(Error::Argument { argument, .. }) if argument == name => {}
            other => return Err(format!("not an error about `{name}`: {other:?}").into()),
        }
    }
    let wide = || Tensor::<T>::zeros(device, &[1, 8, 2, 16]);
    let (mut k_cache, mut v_cache) = (wide()?, wide()?);
    let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
    let rope = Rope::new(Pairs::Halves).cache_scales(&one, &one);
    match rope.run_append(&stream, tensors, &mut q_to.view_mut(), caches, slots.view()) {
        Err(Error::Argument { argument, .. }) if argument == "k_scale" => Ok(()),
        other => Err(format!("not an error about `k_scale`: {other:?}").into()),
    }
}
