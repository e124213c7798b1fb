//! Prompts and what follows them.

use anyhow::{Result, bail};
use candle_core::Tensor;

use crate::cache::Cache;
use crate::decode::Decode;
use crate::model::{Attended, Model, Tokens};
use crate::operators::{Kernels, Sequences};
use crate::sample::Sampler;

/// Reads prompts of different lengths at once: their keys and values go to the cache. Gives the logits of each one's next token.
pub fn prefill(model: &Model, prompts: &[Vec<u32>], cache: &Cache) -> Result<Tensor> {
    if prompts.is_empty() || prompts.iter().any(Vec::is_empty) {
        bail!("a prompt has no tokens");
    }
    let ends = prompts.iter().scan(0, |end, prompt| {
        *end += prompt.len();
        Some(*end)
    });
    let ends: Vec<usize> = ends.collect();
    let offsets: Vec<u32> = [0].iter().chain(&ends).map(|&end| end as u32).collect();
    let last: Vec<u32> = ends.iter().map(|&end| end as u32 - 1).collect();
    let places =
        || prompts.iter().enumerate().flat_map(|(i, prompt)| (0..prompt.len()).map(move |at| (i, at)));
    let positions: Vec<u32> = places().map(|(_, at)| at as u32).collect();
    let slots: Vec<u32> = places().map(|(sequence, at)| cache.slot(sequence, at)).collect();
    let device = &model.device;
    let tokens = Tokens {
        ids: Tensor::new(prompts.concat(), device)?,
        positions: Tensor::new(positions, device)?,
        slots: Tensor::new(slots, device)?,
    };
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0);
    let sequences = Sequences { offsets: Tensor::new(offsets, device)?, ends, longest };
    model.forward(&tokens, &Attended::Prompts(&sequences, &Tensor::new(last, device)?), cache)
}

/// `count` tokens behind each of the prompts, fewer where one ends; `told` is told each as it comes, with the number of its prompt.
pub fn generate(
    model: &Model,
    prompts: &[Vec<u32>],
    count: usize,
    sampler: &mut Sampler,
    mut told: impl FnMut(usize, u32),
) -> Result<Vec<Vec<u32>>> {
    let longest = prompts.iter().map(Vec::len).max().unwrap_or(0) + count;
    let cache =
        Cache::new(&model.config, prompts.len(), longest, model.kernels == Kernels::Candle, &model.device)?;
    let mut lengths: Vec<usize> = prompts.iter().map(Vec::len).collect();
    let mut texts = vec![Vec::new(); prompts.len()];
    let mut logits = prefill(model, prompts, &cache)?;
    let mut decode = Decode::new(model, &cache, prompts.len(), longest)?;
    for number in 0..count {
        let rows: Vec<Vec<f32>> = logits.to_vec2()?;
        let next: Vec<u32> = rows.iter().map(|row| sampler.draw(row)).collect();
        for (i, (text, &token)) in texts.iter_mut().zip(&next).enumerate() {
            let ended = text.last().is_some_and(|last| model.config.end.contains(last));
            if !ended {
                text.push(token);
                told(i, token);
            }
        }
        let all_ended =
            texts.iter().all(|text| text.last().is_some_and(|last| model.config.end.contains(last)));
        if number + 1 == count || all_ended {
            break;
        }
        decode.set(&next, &lengths)?;
        logits = decode.step()?;
        lengths.iter_mut().for_each(|length| *length += 1);
    }
    Ok(texts)
}
