//! The shape of a model.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Llama's shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub hidden: usize,
    pub intermediate: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_size: usize,
    pub vocabulary: usize,
    pub theta: f64,
    pub scaling: Option<Scaling>,
    pub epsilon: f32,
    /// The token that ends a text.
    pub end: Vec<u32>,
    /// Whether the embedding is the last layer's weight too.
    pub tied: bool,
}

/// How Llama 3.1 stretches the angles of low frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaling {
    pub factor: f64,
    pub low: f64,
    pub high: f64,
    pub original: f64,
}

impl Config {
    /// Llama 3 with 8 billion weights.
    pub fn llama3_8b() -> Self {
        Config {
            hidden: 4096,
            intermediate: 14336,
            layers: 32,
            heads: 32,
            kv_heads: 8,
            head_size: 128,
            vocabulary: 128_256,
            theta: 500_000.0,
            scaling: None,
            epsilon: 1e-5,
            end: Vec::new(),
            tied: false,
        }
    }

    /// One that the emulator runs in seconds.
    pub fn tiny() -> Self {
        Config {
            hidden: 128,
            intermediate: 256,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            head_size: 64,
            vocabulary: 256,
            theta: 10_000.0,
            ..Self::llama3_8b()
        }
    }

    /// What the `config.json` of a checkpoint says.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let json: Value = serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
        Self::parse(&json).with_context(|| format!("{}", file.display()))
    }

    fn parse(json: &Value) -> Result<Self> {
        let model = json["model_type"].as_str().unwrap_or("none");
        if model != "llama" && model != "mistral" {
            bail!("`model_type` was {model}; it must be llama or mistral");
        }
        let number = |name: &str| {
            json[name].as_u64().map(|number| number as usize).with_context(|| format!("`{name}` is missing"))
        };
        let real =
            |from: &Value, name: &str| from[name].as_f64().with_context(|| format!("`{name}` is missing"));
        let (hidden, heads) = (number("hidden_size")?, number("num_attention_heads")?);
        let scaling = match &json["rope_scaling"] {
            Value::Null => None,
            scaling if scaling["rope_type"] == "llama3" => Some(Scaling {
                factor: real(scaling, "factor")?,
                low: real(scaling, "low_freq_factor")?,
                high: real(scaling, "high_freq_factor")?,
                original: real(scaling, "original_max_position_embeddings")?,
            }),
            other => bail!("`rope_scaling` was {other}; it must be null or of the type llama3"),
        };
        let end = match &json["eos_token_id"] {
            Value::Array(all) => all.iter().filter_map(Value::as_u64).collect(),
            one => one.as_u64().into_iter().collect::<Vec<_>>(),
        };
        Ok(Config {
            hidden,
            heads,
            intermediate: number("intermediate_size")?,
            layers: number("num_hidden_layers")?,
            kv_heads: number("num_key_value_heads").unwrap_or(heads),
            head_size: number("head_dim").unwrap_or(hidden / heads.max(1)),
            vocabulary: number("vocab_size")?,
            theta: real(json, "rope_theta").unwrap_or(10_000.0),
            scaling,
            epsilon: real(json, "rms_norm_eps").unwrap_or(1e-5) as f32,
            end: end.into_iter().map(|token| token as u32).collect(),
            tied: json["tie_word_embeddings"].as_bool().unwrap_or(false),
        })
    }

    /// Angles per position of each pair of columns.
    pub fn frequencies(&self) -> Vec<f64> {
        let half = self.head_size / 2;
        let plain = (0..half).map(|i| self.theta.powf(-(i as f64) / half as f64));
        let Some(Scaling { factor, low, high, original }) = self.scaling else { return plain.collect() };
        let scaled = plain.map(|frequency| {
            let turns = original * frequency / std::f64::consts::TAU;
            // 1 for what turns often, 0 for what hardly turns.
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            frequency * (kept + (1.0 - kept) / factor)
        });
        scaled.collect()
    }
}
