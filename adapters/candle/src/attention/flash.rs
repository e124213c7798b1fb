//! Sequences of one length: the functions of candle-flash-attn.

use candle_core::{Result, Tensor};

use tilewright::ops::AttentionViews;

use super::{Form, SLOPES, Scores, attend, with_slopes};
use crate::call::{Call, Held};
use crate::element::half;

/// softmax(`softmax_scale` Q Kᵀ) V, for each head.
///
/// - `q` (batch, seq_len_q, num_heads_q, head_size), `k` and `v` (batch, seq_len_kv, num_heads_kv, head_size), of f16 or bf16, with any strides; V's
///   head size may be another. Head sizes are 1 to 512. num_heads_kv divides num_heads_q.
/// - With `causal` query i sees the keys up to i + seq_len_kv - seq_len_q.
///
/// The result is (batch, seq_len_q, num_heads_q, head size of `v`).
///
/// # Errors
/// Tensors that do not fit together, of other types, or on a device that this crate is not built for: the message has the argument's name and all tensors.
pub fn flash_attn(q: &Tensor, k: &Tensor, v: &Tensor, softmax_scale: f32, causal: bool) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).causal_if(causal);
    flash("flash_attn", [q, k, v], None, scores)
}

/// As [`flash_attn`], for queries that see `window_size_left` keys before and `window_size_right` behind their own; `None`, or more than there are
/// keys, is no limit. `None` and `Some(0)` are the causal mask.
pub fn flash_attn_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right);
    flash("flash_attn_windowed", [q, k, v], None, scores)
}

/// As [`flash_attn`], with ALiBi: `alibi_slopes` (num_heads_q) or (batch, num_heads_q), of f32, contiguous; a score has
/// slope |i + seq_len_kv - seq_len_q - j| taken off for query i and key j.
pub fn flash_attn_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).causal_if(causal);
    flash("flash_attn_alibi", [q, k, v], Some(alibi_slopes), scores)
}

/// As [`flash_attn_windowed`], with slopes as in [`flash_attn_alibi`].
pub fn flash_attn_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right);
    flash("flash_attn_alibi_windowed", [q, k, v], Some(alibi_slopes), scores)
}

/// As [`flash_attn_windowed`], with scores s that become `softcap` tanh(s / `softcap`); 0 is none; then slopes take off as in
/// [`flash_attn_alibi`], if there are any.
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right).softcap(softcap);
    flash("flash_attn_alibi_windowed_softcap", [q, k, v], alibi_slopes, scores)
}

fn flash(
    op: &'static str,
    [q, k, v]: [&Tensor; 3],
    slopes: Option<&Tensor>,
    scores: Scores,
) -> Result<Tensor> {
    let tensors = [("q", q), ("k", k), ("v", v)].into_iter().chain(slopes.map(|slopes| (SLOPES, slopes)));
    Call::run(op, &tensors.collect::<Vec<_>>(), |call| {
        let held = [Held::new("q", q), Held::new("k", k), Held::new("v", v)];
        let slopes = slopes.map(|slopes| Held::new(SLOPES, slopes));
        let slopes = slopes.as_ref().map(|held| call.read::<f32>(held)).transpose()?;
        let alibi_slopes = slopes.as_ref().map(|slopes| slopes.view());
        let attention = with_slopes(scores.attention(), alibi_slopes.as_ref());
        half!("q" q, T => {
            let [q, k, v] = held.each_ref().map(|held| call.read::<T>(held));
            let (q, k, v) = (q?, k?, v?);
            let views = [q.view(), k.view(), v.view()];
            let others = AttentionViews { alibi_slopes: alibi_slopes.clone(), ..AttentionViews::default() };
            attend(call, [Form::Batched; 2], views, &attention, others)
        })
    })
}
