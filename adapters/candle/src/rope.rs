//! Rotary position embedding.

use candle_core::{Result, Tensor};
use tilewright::ops::{Pairs, Rope};

use crate::call::{Call, Held, dims};
use crate::element::float;

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
            let positions = call.indices(&held[2])?;
            let positions = positions.view();
            let tables = held.get(3..).unwrap_or_default().iter().map(|held| call.read::<f32>(held));
            let tables = tables.collect::<std::result::Result<Vec<_>, _>>()?;
            let tables: Vec<_> = tables.iter().map(|table| table.view()).collect();
            let rope = Rope::new(self.pairs).theta(self.theta).positions(&positions);
            let rope = match &tables[..] {
                [cos, sin] => rope.table(cos, sin),
                _ => rope,
            };
            float!("q" q, T => {
                let (q, k) = (call.read::<T>(&held[0])?, call.read::<T>(&held[1])?);
                let (q, k) = (q.view(), k.view());
                let [q, k] = call.write_both::<T>([q.shape(), k.shape()], |[mut q_to, mut k_to]| {
                    Ok(rope.run_both(call.stream(), [&q, &k], [&mut q_to, &mut k_to])?)
                })?;
                Ok((q, k))
            })
        })
    }
}
