//! Rotary embedding whose keys and values go to a cache.

use std::collections::BTreeSet;

use tilewright::ops::{HalfElement, Indices, Pairs, Rope};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
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
