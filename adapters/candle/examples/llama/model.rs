//! Llama: embedding, layers of attention and gated units, logits.

use anyhow::Result;
use candle_core::{Device, Tensor};
use tilewright_candle::Workspace;

use crate::cache::Cache;
use crate::config::Config;
use crate::operators::{Gate, Kernels, Paged, Projection, Rope, Sequences};
use crate::weights::Weights;

pub struct Model {
    pub config: Config,
    pub kernels: Kernels,
    pub device: Device,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    rope: Rope,
    workspace: Workspace,
}

struct Layer {
    attention_norm: Tensor,
    /// Of queries, keys and values.
    qkv: Projection,
    output: Projection,
    norm: Tensor,
    gate_up: Gate,
    down: Projection,
}

/// The tokens of a step, one row each.
pub struct Tokens {
    /// u32, (tokens).
    pub ids: Tensor,
    /// u32, (tokens).
    pub positions: Tensor,
    /// Rows of the caches, u32, (tokens).
    pub slots: Tensor,
}

/// Whom tokens attend to.
pub enum Attended<'a> {
    /// Prompts: each to itself. Logits are those of the tokens that `last` names, u32.
    Prompts(&'a Sequences, &'a Tensor),
    /// One token of each sequence: to all that came before.
    Pages(&'a Paged),
}

impl Model {
    pub fn new(
        config: Config,
        kernels: Kernels,
        weights: &Weights,
        longest: usize,
        device: &Device,
    ) -> Result<Self> {
        let c = &config;
        let get = |name: &str, shape: &[usize]| weights.get(name, shape, device);
        let together = |names: &[(&str, usize)], prefix: &str, columns: usize| -> Result<Projection> {
            if let (Kernels::U4, &Weights::Random(deviation)) = (kernels, weights) {
                let rows = names.iter().map(|(_, rows)| rows).sum();
                return Projection::random_u4(prefix, [rows, columns], deviation, device);
            }
            let parts =
                names.iter().map(|(name, rows)| get(&format!("{prefix}.{name}.weight"), &[*rows, columns]));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let weight = if let [one] = &parts[..] { one.clone() } else { Tensor::cat(&parts, 0)? };
            Ok(Projection::new(kernels, prefix, weight)?)
        };
        let gate_up = |prefix: &str| -> Result<Gate> {
            if let (Kernels::U4, &Weights::Random(deviation)) = (kernels, weights) {
                return Gate::random_u4(prefix, [2 * c.intermediate, c.hidden], deviation, device);
            }
            let part = |name: &str| get(&format!("{prefix}.{name}.weight"), &[c.intermediate, c.hidden]);
            Ok(Gate::new(kernels, prefix, [part("gate_proj")?, part("up_proj")?])?)
        };
        let (queries, keys) = (c.heads * c.head_size, c.kv_heads * c.head_size);
        let layer = |i: usize| -> Result<Layer> {
            let of = |part: &str| format!("model.layers.{i}.{part}");
            let norm = |part: &str| get(&of(&format!("{part}.weight")), &[c.hidden]);
            let (attention, mlp) = (of("self_attn"), of("mlp"));
            let qkv = [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)];
            Ok(Layer {
                attention_norm: norm("input_layernorm")?,
                qkv: together(&qkv, &attention, c.hidden)?,
                output: together(&[("o_proj", c.hidden)], &attention, queries)?,
                norm: norm("post_attention_layernorm")?,
                gate_up: gate_up(&mlp)?,
                down: together(&[("down_proj", c.hidden)], &mlp, c.intermediate)?,
            })
        };
        let vocabulary = [c.vocabulary, c.hidden];
        let embedding = get("model.embed_tokens.weight", &vocabulary)?;
        let head = if c.tied { embedding.clone() } else { get("lm_head.weight", &vocabulary)? };
        let model = Model {
            kernels,
            device: device.clone(),
            embedding,
            layers: (0..c.layers).map(layer).collect::<Result<_>>()?,
            norm: get("model.norm.weight", &[c.hidden])?,
            head,
            rope: Rope::new(kernels, c, longest, device)?,
            workspace: Workspace::new(),
            config,
        };
        // Kernels read weights early.
        device.synchronize()?;
        Ok(model)
    }

    /// Logits in f32, a row for each sequence; keys and values go to the cache.
    pub fn forward(&self, tokens: &Tokens, attended: &Attended<'_>, cache: &Cache) -> Result<Tensor> {
        let Config { heads, kv_heads, head_size, epsilon, .. } = self.config;
        let count = tokens.ids.dim(0)?;
        let mut residual = self.embedding.index_select(&tokens.ids, 0)?;
        let mut x: Option<Tensor> = None;
        for (layer, caches) in self.layers.iter().zip(&cache.layers) {
            let (normed, sum) = self.normed(x, residual, &layer.attention_norm)?;
            let qkv = layer.qkv.forward(&normed, &self.workspace)?;
            let qkv = qkv.reshape((count, heads + 2 * kv_heads, head_size))?;
            let (q, k) = (qkv.narrow(1, 0, heads)?, qkv.narrow(1, heads, kv_heads)?);
            let v = qkv.narrow(1, heads + kv_heads, kv_heads)?;
            let o = match attended {
                Attended::Prompts(sequences, _) => {
                    let (q, k) = self.rope.forward(&q, &k, &tokens.positions)?;
                    self.kernels.append([&k, &v], caches, &tokens.slots)?;
                    self.kernels.prefill([&q, &k, &v], sequences)?
                }
                Attended::Pages(sequences) => {
                    let q = self.rope.append([&q, &k, &v], &tokens.positions, caches, &tokens.slots)?;
                    self.kernels.decode(&q, caches, sequences)?
                }
            };
            let attention = layer.output.forward(&o.flatten(1, 2)?, &self.workspace)?;
            let (normed, sum) = self.kernels.norm_added(&attention, &sum, &layer.norm, epsilon)?;
            let gated = layer.gate_up.forward(&normed, &self.workspace)?;
            x = Some(layer.down.forward(&gated, &self.workspace)?);
            residual = sum;
        }
        let (normed, _) = self.normed(x, residual, &self.norm)?;
        let rows = match attended {
            Attended::Prompts(_, last) => normed.index_select(last, 0)?,
            Attended::Pages(_) => normed,
        };
        Ok(self.kernels.logits(&rows, &self.head)?)
    }

    /// The norm of x + residual, or of the first layer's input, and the sum.
    fn normed(&self, x: Option<Tensor>, residual: Tensor, weight: &Tensor) -> Result<(Tensor, Tensor)> {
        let epsilon = self.config.epsilon;
        Ok(match x {
            None => (self.kernels.norm(&residual, weight, epsilon)?, residual),
            Some(x) => self.kernels.norm_added(&x, &residual, weight, epsilon)?,
        })
    }

    /// Bytes of weights that a token reads: all but the embedding, of which it reads a row.
    pub fn bytes(&self) -> usize {
        let layer = |layer: &Layer| {
            let parts = [&layer.qkv, &layer.output, &layer.down];
            parts.map(Projection::bytes).iter().sum::<usize>() + layer.gate_up.bytes()
        };
        self.layers.iter().map(layer).sum::<usize>() + 2 * self.head.elem_count()
    }

    /// Floating-point operations of the products for so many tokens, but for the logits.
    pub fn flops(&self, tokens: usize) -> f64 {
        let c = &self.config;
        let layer = c.hidden * (2 * c.heads + 2 * c.kv_heads) * c.head_size + 3 * c.hidden * c.intermediate;
        2.0 * (c.layers * layer) as f64 * tokens as f64
    }
}
