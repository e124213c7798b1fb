//! Rotary position embedding.

use candle_core::{Result, Tensor};
use tilewright::TensorViewMut;
use tilewright::ops::{Pairs, Rope};

use crate::call::{Call, Held, Outcome, dims, refuse};
use crate::element::{float, half};
use crate::write::write_in_place;

/// Rotates `xs` (batch, heads, length, head size) in halves, as Llama's checkpoints for Hugging Face have it: candle_nn's `rotary_emb::rope`.
///
/// `xs` is of f16, bf16 or f32, with any strides; `cos` and `sin` (length, head size / 2) are of f32, whatever the type of `xs`.
pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    by_table("rope", xs, [cos, sin], (Pairs::Halves, 1))
}

/// The same for neighbouring columns: candle_nn's `rotary_emb::rope_i`.
pub fn rope_i(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    by_table("rope_i", xs, [cos, sin], (Pairs::Interleaved, 1))
}

/// [`rope`] of `xs` (batch, length, heads, head size): candle_nn's `rotary_emb::rope_thd`.
pub fn rope_thd(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    by_table("rope_thd", xs, [cos, sin], (Pairs::Halves, 2))
}

/// `heads` is the dimension of the heads.
fn by_table(
    op: &'static str,
    xs: &Tensor,
    [cos, sin]: [&Tensor; 2],
    (pairs, heads): (Pairs, usize),
) -> Result<Tensor> {
    let tensors = [("xs", xs), ("cos", cos), ("sin", sin)];
    Call::run(op, &tensors, |call| {
        let [_, _, _, _] = dims("xs", xs, "of 4 dimensions: batch, heads, length, head size")?;
        let held = tensors.map(|(name, tensor)| Held::new(name, tensor));
        let (cos, sin) = (call.read::<f32>(&held[1])?, call.read::<f32>(&held[2])?);
        let (cos, sin) = (cos.view(), sin.view());
        float!("xs" xs, T => {
            let x = call.read::<T>(&held[0])?;
            let x = x.view();
            let shape = x.shape().to_vec();
            // tilewright has the heads behind the length.
            let x = x.transpose(heads, 2)?;
            call.write::<T>(&shape, |y| {
                let mut y = y.transpose(heads, 2)?;
                Ok(Rope::new(pairs).table(&cos, &sin).run(call.stream(), &x, &mut y)?)
            })
        })
    })
}

/// Rotary embedding of queries and keys in one launch, at positions of their own.
///
/// Angles are those of theta, in fractions of a turn that lose nothing at large positions, or of tables (NTK, YaRN, Llama 3.1's scaling).
#[derive(Clone, Debug)]
pub struct Rotary {
    pairs: Pairs,
    theta: f64,
    table: Option<[Tensor; 2]>,
}

impl Rotary {
    /// Of theta, in halves, as Llama's checkpoints for Hugging Face have it.
    pub fn new(theta: f64) -> Self {
        Rotary { pairs: Pairs::Halves, theta, table: None }
    }
    /// Of neighbouring columns.
    pub fn interleaved(self) -> Self {
        Rotary { pairs: Pairs::Interleaved, ..self }
    }
    /// Cosines and sines (positions, head size / 2) of f32 in place of theta's.
    pub fn table(self, cos: Tensor, sin: Tensor) -> Self {
        Rotary { table: Some([cos, sin]), ..self }
    }

    /// q and k rotated: (batch, length, heads, head size) or (tokens, heads, head size), with any strides, at `positions` (batch, length) or (tokens),
    /// of u32 or i32, which are read when the kernel runs.
    pub fn forward(&self, q: &Tensor, k: &Tensor, positions: &Tensor) -> Result<(Tensor, Tensor)> {
        let mut tensors = vec![("q", q), ("k", k), ("positions", positions)];
        if let Some([cos, sin]) = &self.table {
            tensors.extend([("cos", cos), ("sin", sin)]);
        }
        Call::run("Rotary", &tensors, |call| {
            let held: Vec<_> = tensors.iter().map(|&(name, tensor)| Held::new(name, tensor)).collect();
            self.with(call, &held[2..], |rope| {
                float!("q" q, T => {
                    let (q, k) = (call.read::<T>(&held[0])?, call.read::<T>(&held[1])?);
                    let (q, k) = (q.view(), k.view());
                    let [q, k] = call.write_both::<T>([q.shape(), k.shape()], |[mut q_to, mut k_to]| {
                        Ok(rope.run_both(call.stream(), [&q, &k], [&mut q_to, &mut k_to])?)
                    })?;
                    Ok((q, k))
                })
            })
        })
    }

    /// q rotated, as by [`forward`](Self::forward), where k goes to a paged cache once it is rotated, and v as it is: one launch for all, as when decoding.
    ///
    /// - `k` and `v` (tokens, heads, head size) of one shape, with any strides, of f16 or bf16.
    /// - `caches` of keys and of values (pages, rows of a page, heads, head size), contiguous, and `slots` (tokens) as for
    ///   [`append_to_cache`](crate::append_to_cache).
    ///
    /// # Errors
    /// As those of [`append_to_cache`](crate::append_to_cache).
    pub fn append(
        &self,
        [q, k, v]: [&Tensor; 3],
        positions: &Tensor,
        [k_cache, v_cache]: [&Tensor; 2],
        slots: &Tensor,
    ) -> Result<Tensor> {
        let mut tensors = vec![("q", q), ("k", k), ("v", v), ("slots", slots), ("positions", positions)];
        if let Some([cos, sin]) = &self.table {
            tensors.extend([("cos", cos), ("sin", sin)]);
        }
        tensors.extend([("k_cache", k_cache), ("v_cache", v_cache)]);
        Call::run("Rotary", &tensors, |call| {
            let read = tensors.iter().filter(|(name, _)| !["k_cache", "v_cache"].contains(name));
            let held: Vec<_> = read.map(|&(name, tensor)| Held::new(name, tensor)).collect();
            let slots = call.indices(&held[3])?;
            let caches = [("k_cache", k_cache), ("v_cache", v_cache)];
            for (name, cache) in caches {
                if !cache.is_contiguous() {
                    return refuse(name, format!("of strides {:?}", cache.stride()), "contiguous");
                }
            }
            self.with(call, &held[4..], |rope| {
                half!("q" q, T => {
                    let [q, k, v] = [&held[0], &held[1], &held[2]].map(|held| call.read::<T>(held));
                    let (q, k, v) = (q?, k?, v?);
                    let (q, k, v) = (q.view(), k.view(), v.view());
                    call.write::<T>(q.shape(), |mut q_to| {
                        write_in_place::<T>(call, &held, caches, |addresses| {
                            let view = |address, cache: &Tensor| {
                                // SAFETY: the addresses are those of the caches, contiguous tensors that are lent for writing.
                                unsafe {
                                    TensorViewMut::<T>::from_raw_parts_unchecked(
                                        call.device(), address, cache.dims(), cache.stride(),
                                    )
                                }
                            };
                            let mut k_cache = view(addresses[0], k_cache)?;
                            let mut v_cache = view(addresses[1], v_cache)?;
                            let caches = [&mut k_cache, &mut v_cache];
                            Ok(rope.run_append(call.stream(), [&q, &k, &v], &mut q_to, caches, slots.view())?)
                        })
                    })
                })
            })
        })
    }

    /// Calls `f` with tilewright's operator, at positions and with tables that are held.
    fn with<R>(
        &self,
        call: &Call<'_>,
        held: &[Held<'_>],
        f: impl FnOnce(Rope<'_>) -> Outcome<R>,
    ) -> Outcome<R> {
        let positions = call.indices(&held[0])?;
        let tables = held[1..].iter().map(|held| call.read::<f32>(held));
        let tables = tables.collect::<std::result::Result<Vec<_>, _>>()?;
        let tables: Vec<_> = tables.iter().map(|table| table.view()).collect();
        let rope = Rope::new(self.pairs).theta(self.theta).positions(positions.view());
        f(match &tables[..] {
            [cos, sin] => rope.table(cos, sin),
            _ => rope,
        })
    }
}
