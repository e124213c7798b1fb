//! Decoding of multi-head latent attention.

use candle_core::{Result, Tensor};
use tilewright::ops::Mla;

use crate::call::{Call, Held, dims};
use crate::element::half;

/// A decoding step of multi-head latent attention over a paged latent cache (DeepSeek-AI 2024), for all layers of a model.
///
/// The first layer of a step, whose lengths or pages are others than the last one's, waits for the GPU and copies its plan there; all other layers only
/// queue work. What sequences that are cut into parts need, tilewright allocates once and keeps.
pub struct MlaDecode {
    mla: Mla<'static>,
}

impl MlaDecode {
    /// With this factor of Q Kᵀ.
    pub fn new(scale: f32) -> Self {
        MlaDecode { mla: Mla::new().scale(scale) }
    }
    /// Of several positions of a sequence each sees the keys up to its own.
    pub fn causal(self) -> Self {
        MlaDecode { mla: self.mla.causal() }
    }

    /// Begins a step: the keys of each sequence, and the numbers of its pages in the order of its keys, (batch, pages of a sequence) row-major; entries
    /// behind the sequence's length are not used.
    pub fn step(&mut self, lengths: &[u32], block_table: &[i32]) {
        self.mla.set_lengths(lengths);
        self.mla.set_host_block_table(block_table);
    }

    /// O (batch, positions, heads, 512) of `q` (batch, positions, heads, 576) and `cache` (pages, rows of a page, 576), of f16 or bf16, for one layer; 256
    /// and 320 columns are the other pair. Positions are the last ones of each sequence.
    pub fn forward(&mut self, q: &Tensor, cache: &Tensor) -> Result<Tensor> {
        Call::run("MlaDecode", &[("q", q), ("cache", cache)], |call| {
            let [batch, positions, heads, columns] =
                dims("q", q, "of 4 dimensions: batch, positions, heads, columns")?;
            let [_, _, _] = dims("cache", cache, "of 3 dimensions: pages, rows of a page, columns")?;
            let values = if columns == 320 { 256 } else { 512 };
            let held = [Held::new("q", q), Held::new("cache", cache)];
            half!("q" q, T => {
                let [q, cache] = held.each_ref().map(|held| call.read::<T>(held));
                let (q, cache) = (q?, cache?);
                let (q, cache) = (q.view(), cache.view().insert_dim(2)?);
                call.write::<T>(&[batch, positions, heads, values], |mut o| {
                    Ok(self.mla.run(call.stream(), &q, &cache, &mut o)?)
                })
            })
        })
    }
}
