//! What a model is computed with: candle's own operators, or tilewright's, with wide weights or with weights of 4 bits.

use candle_core::{D, DType, Device, Module, Result, Tensor};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tilewright_candle::quant::{
    Format, Group, HalfType, Halves, Order, PackedHeader, PackedWeights, Scheme, Zeros,
};
use tilewright_candle::{GatedLinear, Linear, Matmul, QuantizedLinear, Rotary, Scores, Workspace};

use crate::cache::PAGE;
use crate::config::Config;

/// Whose operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// candle's own, in bf16.
    Candle,
    /// tilewright's, in bf16.
    Bf16,
    /// tilewright's, with linear layers of u4 in groups of 128.
    U4,
}

impl Kernels {
    pub const ALL: [Kernels; 3] = [Kernels::Candle, Kernels::Bf16, Kernels::U4];

    pub fn name(self) -> &'static str {
        match self {
            Kernels::Candle => "candle",
            Kernels::Bf16 => "bf16",
            Kernels::U4 => "u4",
        }
    }
}

/// Weights of 4 bits.
const U4: Scheme =
    Scheme { format: Format::U4, group: Group::K128, zeros: Zeros::Original, scales: HalfType::BF16 };

/// A linear layer.
pub enum Projection {
    Candle(Tensor),
    Wide(Linear),
    Narrow(Box<QuantizedLinear>),
}

impl Projection {
    pub fn new(kernels: Kernels, name: &str, weight: Tensor) -> Result<Self> {
        Ok(match kernels {
            Kernels::Candle => Projection::Candle(weight),
            // SAFETY: a model's weights are there, and waited for, before it is used.
            Kernels::Bf16 => Projection::Wide(unsafe { Linear::new(weight, None).constant() }),
            Kernels::U4 => Projection::Narrow(Box::new(QuantizedLinear::quantize(name, &weight, U4)?)),
        })
    }

    /// Of random codes of 4 bits, (out features, in features): rounding wide weights takes the host minutes for billions of them.
    pub fn random_u4(name: &str, shape: [usize; 2], deviation: f64, device: &Device) -> anyhow::Result<Self> {
        Ok(Projection::Narrow(Box::new(random_u4(name, shape, deviation, device)?)))
    }

    pub fn forward(&self, x: &Tensor, workspace: &Workspace) -> Result<Tensor> {
        match self {
            Projection::Candle(weight) => x.matmul(&weight.t()?),
            Projection::Wide(linear) => linear.forward(x),
            Projection::Narrow(linear) => linear.forward_with(x, workspace),
        }
    }

    /// Bytes of the weight: what a token reads.
    pub fn bytes(&self) -> usize {
        let wide = |weight: &Tensor| weight.elem_count() * weight.dtype().size_in_bytes();
        match self {
            Projection::Candle(weight) => wide(weight),
            Projection::Wide(linear) => wide(linear.weight()),
            Projection::Narrow(linear) => linear.weights().bytes(),
        }
    }
}

/// Gate and up of a layer, and the gated unit of their products.
pub enum Gate {
    /// Both weights, one behind the other.
    Candle(Tensor),
    Ours(GatedLinear),
}

impl Gate {
    pub fn new(kernels: Kernels, name: &str, [gate, up]: [Tensor; 2]) -> Result<Self> {
        Ok(match kernels {
            Kernels::Candle => Gate::Candle(Tensor::cat(&[gate, up], 0)?),
            // SAFETY: as those of `Projection::new`.
            Kernels::Bf16 => Gate::Ours(unsafe { GatedLinear::new(&gate, &up)?.constant() }),
            Kernels::U4 => {
                let weight = GatedLinear::interleave(&gate, &up)?;
                Gate::Ours(GatedLinear::quantized(QuantizedLinear::quantize(name, &weight, U4)?))
            }
        })
    }

    /// Of random codes of 4 bits: see [`Projection::random_u4`].
    pub fn random_u4(name: &str, shape: [usize; 2], deviation: f64, device: &Device) -> anyhow::Result<Self> {
        Ok(Gate::Ours(GatedLinear::quantized(random_u4(name, shape, deviation, device)?)))
    }

    /// silu(x Gᵀ) (x Uᵀ).
    pub fn forward(&self, x: &Tensor, workspace: &Workspace) -> Result<Tensor> {
        match self {
            Gate::Candle(weight) => candle_nn::ops::swiglu(&x.matmul(&weight.t()?)?),
            Gate::Ours(linear) => linear.forward_with(x, workspace),
        }
    }

    /// Bytes of the weights.
    pub fn bytes(&self) -> usize {
        match self {
            Gate::Candle(weight) => weight.elem_count() * weight.dtype().size_in_bytes(),
            Gate::Ours(linear) => linear.bytes(),
        }
    }
}

/// A layer of random codes of 4 bits, (out features, in features).
fn random_u4(
    name: &str,
    [n, k]: [usize; 2],
    deviation: f64,
    device: &Device,
) -> anyhow::Result<QuantizedLinear> {
    let version = PackedWeights::VERSION;
    let header = PackedHeader { version, scheme: U4, order: Order::B16, n, k };
    let mut codes = vec![0; header.code_bytes()];
    StdRng::seed_from_u64((n * k) as u64).fill(&mut codes[..]);
    // Codes from 0 to 15 about 8 have a deviation of 4.6.
    let count = header.groups() * header.padded_n();
    let halves = |value: f64| Halves::BF16(vec![half::bf16::from_f64(value); count]);
    let packed = PackedWeights::new(name, header, codes, halves(deviation / 4.6), Some(halves(8.0)))?;
    Ok(QuantizedLinear::new(&packed, device)?)
}

/// Rotary embedding by tables of cosines and sines of all positions.
pub struct Rope {
    kernels: Kernels,
    rotary: Rotary,
    tables: [Tensor; 2],
}

impl Rope {
    pub fn new(kernels: Kernels, config: &Config, longest: usize, device: &Device) -> Result<Self> {
        let frequencies = config.frequencies();
        let table = |f: fn(f64) -> f64| {
            let angles = (0..longest).flat_map(|at| frequencies.iter().map(move |by| at as f64 * by));
            let values: Vec<f32> = angles.map(|angle| f(angle) as f32).collect();
            Tensor::from_vec(values, (longest, frequencies.len()), device)
        };
        let tables = [table(f64::cos)?, table(f64::sin)?];
        let rotary = match config.scaling {
            None => Rotary::new(config.theta),
            Some(_) => Rotary::new(config.theta).table(tables[0].clone(), tables[1].clone()),
        };
        Ok(Rope { kernels, rotary, tables })
    }

    /// q and k, (tokens, heads, head size).
    pub fn forward(&self, q: &Tensor, k: &Tensor, positions: &Tensor) -> Result<(Tensor, Tensor)> {
        if self.kernels != Kernels::Candle {
            return self.rotary.forward(q, k, positions);
        }
        let [cos, sin] = &self.tables;
        let (cos, sin) = (cos.index_select(positions, 0)?, sin.index_select(positions, 0)?);
        let (cos, sin) = (cos.to_dtype(q.dtype())?, sin.to_dtype(q.dtype())?);
        let turn = |x: &Tensor| {
            candle_nn::rotary_emb::rope_thd(&x.contiguous()?.unsqueeze(0)?, &cos, &sin)?.squeeze(0)
        };
        Ok((turn(q)?, turn(k)?))
    }
}

impl Rope {
    /// q rotated; k, rotated too, and v go to their rows of the caches.
    pub fn append(
        &self,
        [q, k, v]: [&Tensor; 3],
        positions: &Tensor,
        caches: &[Tensor; 2],
        slots: &Tensor,
    ) -> Result<Tensor> {
        if self.kernels != Kernels::Candle {
            let [k_cache, v_cache] = caches;
            return self.rotary.append([q, k, v], positions, [k_cache, v_cache], slots);
        }
        let (q, k) = self.forward(q, k, positions)?;
        self.kernels.append([&k, v], caches, slots)?;
        Ok(q)
    }
}

impl Kernels {
    /// RMSNorm.
    pub fn norm(self, x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
        match self {
            Kernels::Candle => candle_nn::ops::rms_norm(x, weight, epsilon),
            _ => tilewright_candle::rms_norm(x, weight, epsilon),
        }
    }

    /// RMSNorm of x + residual, and that sum.
    pub fn norm_added(
        self,
        x: &Tensor,
        residual: &Tensor,
        weight: &Tensor,
        epsilon: f32,
    ) -> Result<(Tensor, Tensor)> {
        match self {
            Kernels::Candle => {
                let sum = (x + residual)?;
                Ok((candle_nn::ops::rms_norm(&sum, weight, epsilon)?, sum))
            }
            _ => tilewright_candle::rms_norm_residual(x, residual, weight, epsilon),
        }
    }

    /// x Wᵀ in f32.
    pub fn logits(self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        match self {
            Kernels::Candle => x.matmul(&weight.t()?)?.to_dtype(DType::F32),
            _ => Matmul::new().dtype(DType::F32).forward(x, &weight.t()?),
        }
    }

    /// Writes keys and values (tokens, KV heads, head size) to their rows of the caches.
    pub fn append(self, [k, v]: [&Tensor; 2], caches: &[Tensor; 2], slots: &Tensor) -> Result<()> {
        let [k_cache, v_cache] = caches;
        if self != Kernels::Candle {
            return tilewright_candle::append_to_cache(k, v, k_cache, v_cache, slots);
        }
        for (cache, new) in [(k_cache, k), (v_cache, v)] {
            let new = new.flatten(1, 2)?.contiguous()?;
            // The row for every column is what candle's scatter takes.
            let slots = slots.unsqueeze(1)?.broadcast_as(new.shape())?.contiguous()?;
            cache.flatten(0, 1)?.flatten(1, 2)?.scatter_set(&slots, &new, 0)?;
        }
        Ok(())
    }

    /// Causal attention of sequences to themselves, one after the other in q, k and v (tokens, heads, head size).
    pub fn prefill(self, [q, k, v]: [&Tensor; 3], sequences: &Sequences) -> Result<Tensor> {
        let scale = (q.dim(D::Minus1)? as f32).powf(-0.5);
        let Sequences { offsets, ends, longest } = sequences;
        if self != Kernels::Candle {
            let (offsets, longest) = (offsets, *longest);
            return tilewright_candle::flash_attn_varlen(
                q, k, v, offsets, offsets, longest, longest, scale, true,
            );
        }
        let parts = ends.iter().scan(0, |begin, &end| Some((std::mem::replace(begin, end), end)));
        let parts = parts.map(|(begin, end)| {
            let part = |x: &Tensor| x.narrow(0, begin, end - begin)?.transpose(0, 1)?.contiguous();
            let (q, k, v) = (part(q)?, part(k)?, part(v)?);
            let length = end - begin;
            let mask: Vec<f32> = (0..length * length)
                .map(|at| if at % length > at / length { f32::NEG_INFINITY } else { 0.0 })
                .collect();
            let mask = Tensor::from_vec(mask, (length, length), q.device())?.to_dtype(q.dtype())?;
            grouped(&q, &k, &v, &mask, scale)?.transpose(0, 1)?.contiguous()
        });
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    }

    /// Attention of one query of each sequence, q (sequences, heads, head size), to its pages.
    pub fn decode(self, q: &Tensor, [k, v]: &[Tensor; 2], sequences: &Paged) -> Result<Tensor> {
        let scale = (q.dim(D::Minus1)? as f32).powf(-0.5);
        let Paged { table, lengths, places } = sequences;
        if self != Kernels::Candle {
            let o = tilewright_candle::paged_attention(
                &q.unsqueeze(1)?,
                k,
                v,
                table,
                lengths,
                Scores::new(scale),
            )?;
            return o.squeeze(1);
        }
        // The pages of a sequence follow each other here.
        let (sequences, heads, size) = q.dims3()?;
        let (_, _, kv_heads, _) = k.dims4()?;
        let (rows, shared, longest) = (table.dim(1)? * PAGE, heads / kv_heads, places.dim(0)?);
        let part = |x: &Tensor| {
            let x = x.reshape((sequences, rows, kv_heads, size))?.narrow(1, 0, longest)?;
            x.transpose(1, 2)?.contiguous()?.reshape((sequences * kv_heads, longest, size))
        };
        let seen = places.unsqueeze(0)?.broadcast_lt(&lengths.unsqueeze(1)?)?;
        let zero = Tensor::zeros(seen.shape(), q.dtype(), q.device())?;
        let hidden = Tensor::full(f32::NEG_INFINITY, seen.shape(), q.device())?.to_dtype(q.dtype())?;
        let mask = seen.where_cond(&zero, &hidden)?.unsqueeze(1)?;
        let mask = mask.broadcast_as((sequences, kv_heads * shared, longest))?;
        let mask = mask.reshape((sequences * kv_heads, shared, longest))?;
        let q = q.reshape((sequences * kv_heads, shared, size))?;
        let scores = (q.matmul(&part(k)?.transpose(1, 2)?)? * f64::from(scale))?;
        let weights = candle_nn::ops::softmax_last_dim(&(scores + mask)?)?;
        weights.matmul(&part(v)?)?.reshape((sequences, heads, size))
    }
}

/// (heads, length, size) by (KV heads, length, size), with candle's operators.
fn grouped(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor, scale: f32) -> Result<Tensor> {
    let (heads, length, size) = q.dims3()?;
    let kv_heads = k.dim(0)?;
    let repeat = |x: &Tensor| {
        let shape = (kv_heads, heads / kv_heads, length, size);
        x.unsqueeze(1)?.broadcast_as(shape)?.reshape((heads, length, size))
    };
    let scores = (q.matmul(&repeat(k)?.transpose(1, 2)?)? * f64::from(scale))?;
    candle_nn::ops::softmax_last_dim(&scores.broadcast_add(mask)?)?.matmul(&repeat(v)?)
}

/// Sequences one after the other in the rows of a tensor.
pub struct Sequences {
    /// Where each begins, and the last one ends.
    pub offsets: Tensor,
    /// Where each ends.
    pub ends: Vec<usize>,
    pub longest: usize,
}

/// Sequences in pages.
pub struct Paged {
    /// (sequences, pages of a sequence).
    pub table: Tensor,
    /// Tokens of each, (sequences).
    pub lengths: Tensor,
    /// 0, 1, 2, … for as many tokens as the longest sequence may have.
    pub places: Tensor,
}
