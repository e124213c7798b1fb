//! Decoding of multi-head latent attention.

use candle_core::{DType, Result, Tensor};
use half::bf16;
use tilewright::TensorViewMut;
use tilewright::ops::{HalfElement, LatentElement, Mla, append_latent};

use crate::call::{Call, Held, Outcome, dims, refuse};
use crate::element::{Native, half};
use crate::write::{lend, storage_of};

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
    ///
    /// With `q` of bf16 the cache may be (pages, rows of a page, 656) of u8, tokens of 8 bits that [`append_to_latent_cache`] wrote.
    pub fn forward(&mut self, q: &Tensor, cache: &Tensor) -> Result<Tensor> {
        Call::run("MlaDecode", &[("q", q), ("cache", cache)], |call| {
            let [batch, positions, heads, columns] =
                dims("q", q, "of 4 dimensions: batch, positions, heads, columns")?;
            let [_, _, _] = dims("cache", cache, "of 3 dimensions: pages, rows of a page, columns")?;
            let values = if columns == 320 { 256 } else { 512 };
            let held = [Held::new("q", q), Held::new("cache", cache)];
            let shape = [batch, positions, heads, values];
            match cache.dtype() {
                DType::U8 => self.queue::<bf16, u8>(call, &held, &shape),
                _ => half!("q" q, T => self.queue::<T, T>(call, &held, &shape)),
            }
        })
    }

    fn queue<T: Native + HalfElement, C: Native + LatentElement<T>>(
        &mut self,
        call: &Call<'_>,
        [q, cache]: &[Held<'_>; 2],
        shape: &[usize],
    ) -> Outcome<Tensor> {
        let (q, cache) = (call.read::<T>(q)?, call.read::<C>(cache)?);
        let (q, cache) = (q.view(), cache.view().insert_dim(2)?);
        call.write::<T>(shape, |mut o| Ok(self.mla.run(call.stream(), &q, &cache, &mut o)?))
    }
}

/// Writes tokens to their rows of a latent cache of 8 bits, in place: codes of e4m3 with a scale for 128 columns each, and the rotary part. GPUs before
/// Hopper have no kernel for it.
///
/// - `latent` (tokens, 512) and `rotary` (tokens, 64), of bf16, in lines aligned to 16 bytes; they may be columns of one tensor.
/// - `slots` (tokens), of u32 or i32: page times rows of a page, plus the row, of each token. A token whose slot there is not goes nowhere.
/// - `cache` (pages, rows of a page, 656), of u8, contiguous.
///
/// # Errors
/// Tensors that do not fit together, or do not lie so; a cache that shares its storage with what is read.
pub fn append_to_latent_cache(
    latent: &Tensor,
    rotary: &Tensor,
    slots: &Tensor,
    cache: &Tensor,
) -> Result<()> {
    let tensors = [("latent", latent), ("rotary", rotary), ("slots", slots), ("cache", cache)];
    Call::run("append_to_latent_cache", &tensors, |call| {
        let [pages, rows, bytes] = dims("cache", cache, "of 3 dimensions: pages, rows of a page, bytes")?;
        if !cache.is_contiguous() {
            return refuse("cache", format!("of strides {:?}", cache.stride()), "contiguous");
        }
        let held = [Held::new("latent", latent), Held::new("rotary", rotary), Held::new("slots", slots)];
        if let Some(shared) = held.iter().find(|held| held.is_of(storage_of(cache))) {
            let was = format!("in one storage with `{}`", shared.name());
            return refuse("cache", was, "in a storage of its own");
        }
        let (latent, rotary) = (call.read::<bf16>(&held[0])?, call.read::<bf16>(&held[1])?);
        let slots = call.indices(&held[2])?;
        lend::<u8, _, _>(call, ("cache", cache), |address| {
            let (shape, strides) = ([pages, rows, 1, bytes], [rows * bytes, bytes, bytes, 1]);
            // SAFETY: the memory is the contiguous cache's, locked for writing; candle's stream orders what uses it.
            let mut to = unsafe {
                TensorViewMut::<u8>::from_raw_parts_unchecked(call.device(), address, &shape, &strides)?
            };
            Ok(append_latent(call.stream(), &latent.view(), &rotary.view(), slots.view(), &mut to)?)
        })
    })
}
