//! Tokens a second, beside what the memory's speed allows.

use std::time::Instant;

use anyhow::Result;
use candle_core::{DType, Device, Tensor};

use crate::cache::Cache;
use crate::config::Config;
use crate::decode::Decode;
use crate::generate::prefill;
use crate::model::Model;
use crate::operators::Kernels;
use crate::weights::Weights;

/// What is timed.
pub struct Plan {
    pub kernels: Vec<Kernels>,
    /// Tokens of the prompt that is read.
    pub prompt: usize,
    /// Sequences that are decoded at a time, and how many tokens each has.
    pub batches: Vec<usize>,
    pub context: usize,
    /// How often each is run for the median.
    pub repeats: usize,
}

pub fn bench(config: &Config, plan: &Plan, device: &Device) -> Result<()> {
    let peak = peak(device)?;
    match peak {
        Some(peak) => {
            let copies = copies(device)?;
            println!("memory of {:.0} GB/s; copies read and write {:.0} GB/s", peak / 1e9, copies / 1e9);
        }
        None => println!("on the emulator, whose times say nothing: they are left out"),
    }
    for &kernels in &plan.kernels {
        let longest = plan.prompt.max(plan.context + plan.repeats + 2);
        let model = Model::new(config.clone(), kernels, &Weights::Random(0.02), longest, device)?;
        let name = kernels.name();
        println!("{name}: {:.2} GB of weights a token", model.bytes() as f64 / 1e9);

        let prompt: Vec<u32> = (0..plan.prompt).map(|i| (i * 7 % config.vocabulary) as u32).collect();
        let cache = Cache::new(config, 1, plan.prompt, kernels == Kernels::Candle, device)?;
        let time = median(plan.repeats, device, || {
            prefill(&model, std::slice::from_ref(&prompt), &cache)?;
            Ok(())
        })?;
        let rate = plan.prompt as f64 / time;
        match peak {
            Some(_) => println!(
                "{name}: prefill of {}: {rate:.0} tokens/s, {:.0} TFLOP/s of its products",
                plan.prompt,
                model.flops(plan.prompt) / time / 1e12
            ),
            None => println!("{name}: prefill of {}", plan.prompt),
        }
        drop(cache);

        for &batch in &plan.batches {
            let cache = Cache::new(config, batch, longest, kernels == Kernels::Candle, device)?;
            let mut decode = Decode::new(&model, &cache, batch, plan.context + 1)?;
            decode.set(&vec![1; batch], &vec![plan.context; batch])?;
            let time = median(plan.repeats, device, || decode.launch())?;
            let rate = batch as f64 / time;
            let keys = 2 * config.layers * config.kv_heads * config.head_size * 2 * plan.context * batch;
            let bytes = (model.bytes() + keys) as f64;
            match peak {
                Some(peak) => println!(
                    "{name}: decode of {batch} with {} before: {rate:.0} tokens/s, {:.2} GB a step, {:.0}% of the memory's speed",
                    plan.context,
                    bytes / 1e9,
                    100.0 * bytes / peak / time
                ),
                None => println!("{name}: decode of {batch} with {} before", plan.context),
            }
        }
    }
    Ok(())
}

/// Seconds of a run: the median of some, behind two that make things ready.
fn median(repeats: usize, device: &Device, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let times = (0..repeats + 2).map(|_| {
        device.synchronize()?;
        let begin = Instant::now();
        run()?;
        device.synchronize()?;
        Ok(begin.elapsed().as_secs_f64())
    });
    let mut times = times.skip(2).collect::<Result<Vec<_>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times.get(times.len() / 2).copied().unwrap_or(f64::NAN))
}

/// Bytes a second that the memory could move at most: two transfers a clock over the width of its bus.
#[cfg(feature = "cuda")]
fn peak(device: &Device) -> Result<Option<f64>> {
    use candle_core::cuda_backend::cudarc::driver::sys::CUdevice_attribute as Attribute;

    let Device::Cuda(cuda) = device else { return Ok(None) };
    let stream = cuda.cuda_stream();
    let attribute = |attribute| stream.context().attribute(attribute).map(f64::from);
    let kilohertz = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?;
    let bits = attribute(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?;
    Ok(Some(2.0 * kilohertz * 1e3 * bits / 8.0))
}

#[cfg(not(feature = "cuda"))]
fn peak(_: &Device) -> Result<Option<f64>> {
    Ok(None)
}

/// Bytes a second that copies of 2 GiB read and write.
fn copies(device: &Device) -> Result<f64> {
    const COPIES: usize = 20;
    let from = Tensor::zeros(1 << 30, DType::BF16, device)?;
    let time = median(3, device, || {
        (0..COPIES).try_for_each(|_| from.copy().map(drop))?;
        Ok(())
    })?;
    Ok((COPIES << 32) as f64 / time)
}
