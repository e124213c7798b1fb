//! The model on the emulator: kernels agree, batches agree with sequences alone, a checkpoint's folder is read.

use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::cache::Cache;
use crate::generate::prefill;

/// A model whose weights are the same for all kernels.
struct Folder(PathBuf);

impl Folder {
    /// A checkpoint of a tiny model, with a tokenizer of words.
    fn new(name: &str) -> Result<Self> {
        let path =
            std::env::temp_dir().join(format!("tilewright-candle-llama-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        let c = Config::tiny();
        let mut tensors = HashMap::new();
        let mut random = StdRng::seed_from_u64(1);
        let mut add = |name: String, shape: &[usize]| -> Result<()> {
            let mut next = || random.random_range(-1.0..1.0f32);
            let norm = shape.len() == 1;
            let values = (0..shape.iter().product()).map(|_| if norm { 1.0 } else { next() * 0.1 });
            let tensor = Tensor::from_vec(values.collect::<Vec<f32>>(), shape, &Device::Cpu)?;
            tensors.insert(name, tensor.to_dtype(DType::BF16)?);
            Ok(())
        };
        add("model.embed_tokens.weight".into(), &[c.vocabulary, c.hidden])?;
        add("lm_head.weight".into(), &[c.vocabulary, c.hidden])?;
        add("model.norm.weight".into(), &[c.hidden])?;
        let (queries, keys) = (c.heads * c.head_size, c.kv_heads * c.head_size);
        for i in 0..c.layers {
            for (part, rows, columns) in [
                ("self_attn.q_proj", queries, c.hidden),
                ("self_attn.k_proj", keys, c.hidden),
                ("self_attn.v_proj", keys, c.hidden),
                ("self_attn.o_proj", c.hidden, queries),
                ("mlp.gate_proj", c.intermediate, c.hidden),
                ("mlp.up_proj", c.intermediate, c.hidden),
                ("mlp.down_proj", c.hidden, c.intermediate),
            ] {
                add(format!("model.layers.{i}.{part}.weight"), &[rows, columns])?;
            }
            for part in ["input_layernorm", "post_attention_layernorm"] {
                add(format!("model.layers.{i}.{part}.weight"), &[c.hidden])?;
            }
        }
        // Two files, as large checkpoints have.
        let (first, second): (HashMap<_, _>, HashMap<_, _>) =
            tensors.into_iter().partition(|(name, _)| name.contains("layers.0"));
        candle_core::safetensors::save(&first, path.join("model-00001-of-00002.safetensors"))?;
        candle_core::safetensors::save(&second, path.join("model-00002-of-00002.safetensors"))?;
        let config = serde_json::json!({
            "model_type": "llama", "hidden_size": c.hidden, "intermediate_size": c.intermediate,
            "num_hidden_layers": c.layers, "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads,
            "head_dim": c.head_size, "vocab_size": c.vocabulary, "rope_theta": c.theta, "rms_norm_eps": 1e-5,
            "rope_scaling": null, "eos_token_id": 300, "tie_word_embeddings": false,
        });
        std::fs::write(path.join("config.json"), config.to_string())?;
        let words: HashMap<String, u32> = (0..c.vocabulary as u32).map(|i| (format!("w{i}"), i)).collect();
        let tokenizer = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
            "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
            "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"},
        });
        std::fs::write(path.join("tokenizer.json"), tokenizer.to_string())?;
        Ok(Folder(path))
    }

    /// On a GPU, where there is one.
    fn model(&self, kernels: Kernels) -> Result<Model> {
        let device = Options::parse(std::iter::empty())?.device()?;
        Model::new(
            Config::read(&self.0.join("config.json"))?,
            kernels,
            &Weights::open(&self.0)?,
            256,
            &device,
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn prompts() -> Vec<Vec<u32>> {
    [5, 70, 1].map(|length| (0..length).map(|i| (i * 31 % 256) as u32).collect()).to_vec()
}

fn rows(logits: &Tensor) -> Result<Vec<Vec<f32>>> {
    Ok(logits.to_vec2()?)
}

/// The largest difference, of the largest logit.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let largest = b.iter().fold(0f32, |most, x| most.max(x.abs()));
    a.iter().zip(b).fold(0f32, |most, (a, b)| most.max((a - b).abs())) / largest
}

#[test]
fn kernels_agree_on_prompts_and_on_steps() -> Result<()> {
    let folder = Folder::new("agree")?;
    let mut results = Vec::new();
    for kernels in Kernels::ALL {
        let model = folder.model(kernels)?;
        let prompts = prompts();
        let cache = Cache::new(&model.config, 3, 80, kernels == Kernels::Candle, &model.device)?;
        let first = rows(&prefill(&model, &prompts, &cache)?)?;
        let mut decode = decode::Decode::new(&model, &cache, 3, 80)?;
        decode.set(&[7, 8, 9], &[5, 70, 1])?;
        let step = rows(&decode.step()?)?;
        // A step gives what reading the longer prompt gives.
        let longer: Vec<Vec<u32>> =
            prompts.iter().zip([7, 8, 9]).map(|(prompt, token)| [&prompt[..], &[token]].concat()).collect();
        let other = Cache::new(&model.config, 3, 80, kernels == Kernels::Candle, &model.device)?;
        for (step, read) in step.iter().zip(rows(&prefill(&model, &longer, &other)?)?) {
            assert!(apart(step, &read) < 0.05, "{}: {}", kernels.name(), apart(step, &read));
        }
        results.push([first, step]);
    }
    let [candle, bf16, u4] = &results[..] else { bail!("three kernels") };
    for (of_candle, of_ours) in candle.iter().flatten().zip(bf16.iter().flatten()) {
        assert!(apart(of_ours, of_candle) < 0.05, "{}", apart(of_ours, of_candle));
    }
    // Rounding weights to 4 bits moves logits by some percent, and not by half.
    for (of_bf16, of_u4) in bf16.iter().flatten().zip(u4.iter().flatten()) {
        assert!((0.001..0.5).contains(&apart(of_u4, of_bf16)), "{}", apart(of_u4, of_bf16));
    }
    Ok(())
}

#[test]
fn a_checkpoint_is_read_and_goes_on() -> Result<()> {
    let folder = Folder::new("read")?;
    let model = folder.model(Kernels::Bf16)?;
    assert_eq!(model.config, Config { end: vec![300], epsilon: 1e-5, ..Config::tiny() });
    let tokenizer = tokenizer(&folder.0)?;
    let encoding = tokenizer.encode("w3 w200 w17", true).map_err(|error| anyhow!("{error}"))?;
    assert_eq!(encoding.get_ids(), [3, 200, 17]);
    let prompts = [encoding.get_ids().to_vec(), vec![9]];
    let greedy =
        |prompts: &[Vec<u32>]| generate(&model, prompts, 3, &mut Sampler::new(0.0, 1.0, 0), |_, _| ());
    let texts = greedy(&prompts)?;
    assert!(texts.iter().all(|text| text.len() == 3), "{texts:?}");
    let text = tokenizer.decode(&texts[0], true).map_err(|error| anyhow!("{error}"))?;
    assert_eq!(text.split_whitespace().count(), 3);
    // Each goes on as it does alone.
    assert_eq!(greedy(&prompts[..1])?, texts[..1]);
    // A token that ends a text ends it.
    let mut model = folder.model(Kernels::Bf16)?;
    model.config.end = vec![texts[0][0]];
    let ended = generate(&model, &prompts[..1], 3, &mut Sampler::new(0.0, 1.0, 0), |_, _| ())?;
    assert_eq!(ended, [texts[0][..1].to_vec()]);
    Ok(())
}

#[test]
fn what_a_folder_lacks_is_said() -> Result<()> {
    let folder = Folder::new("lacks")?;
    std::fs::remove_file(folder.0.join("model-00001-of-00002.safetensors"))?;
    let text = format!("{:#}", folder.model(Kernels::Bf16).err().context("a model without its first layer")?);
    assert!(text.contains("`model.layers.0."), "{text}");
    std::fs::write(folder.0.join("config.json"), r#"{"model_type": "gpt2"}"#)?;
    let text = format!("{:#}", folder.model(Kernels::Bf16).err().context("another model")?);
    assert!(text.contains("`model_type` was gpt2"), "{text}");
    Ok(())
}

#[test]
fn samplers_draw_the_likely() {
    let logits = [0.0, 3.0, 1.0, f32::NEG_INFINITY];
    assert_eq!(Sampler::new(0.0, 1.0, 5).draw(&logits), 1);
    let mut sampler = Sampler::new(1.0, 1.0, 5);
    let mut counts = [0; 4];
    (0..4000).for_each(|_| counts[sampler.draw(&logits) as usize] += 1);
    // exp(3) : exp(1) : exp(0) are 84%, 11% and 4%.
    assert!((3200..3550).contains(&counts[1]) && counts[0] > 80 && counts[3] == 0, "{counts:?}");
    let mut narrow = Sampler::new(1.0, 0.5, 5);
    assert!((0..100).all(|_| narrow.draw(&logits) == 1));
}

#[test]
fn angles_of_low_frequencies_are_stretched() {
    let scaling = config::Scaling { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
    let plain = Config { theta: 500_000.0, ..Config::llama3_8b() }.frequencies();
    let scaled = Config { scaling: Some(scaling), ..Config::llama3_8b() }.frequencies();
    assert_eq!((plain[0], plain.len()), (scaled[0], 64));
    assert!((plain[63] / scaled[63] - 8.0).abs() < 1e-9);
    assert!(plain.iter().zip(&scaled).all(|(plain, scaled)| scaled <= plain));
}
