//! Attention by heads, with a mask that is added: the function of candle-nn.

use candle_core::{Result, Tensor};

use tilewright::Error;
use tilewright::ops::AttentionViews;

use super::{Form, Scores, attend};
use crate::call::{Call, Held};
use crate::element::half;
use crate::memory::Trouble;

/// softmax(`scale` Q Kᵀ + `mask`) V, for each head: the arguments of `candle_nn::ops::sdpa`.
///
/// - `q` (batch, heads, seq, head_size), `k` and `v` (batch, kv_heads, kv_seq, head_size), of f16 or bf16, with any strides; V's head size may be
///   another. Head sizes are 1 to 512. kv_heads divides heads.
/// - `mask`, of the type of `q`, broadcasts to (batch, heads, seq, kv_seq), with any strides, and is added to the scaled scores; -inf hides a key.
/// - With `do_causal` query i sees the keys up to i + kv_seq - seq, whatever the mask says.
/// - Unless `softcapping` is 1, scaled scores s become `softcapping` tanh(s / `softcapping`) before the mask.
///
/// The result is (batch, heads, seq, head size of `v`). A query that sees no key has zeros.
///
/// # Errors
/// As [`flash_attn`](crate::flash_attn); and a mask of another type or shape.
pub fn sdpa(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    do_causal: bool,
    scale: f32,
    softcapping: f32,
) -> Result<Tensor> {
    let scores = Scores::new(scale).causal_if(do_causal);
    let attention =
        if softcapping == 1.0 { scores.attention() } else { scores.attention().softcap(softcapping) };
    let tensors = [("q", q), ("k", k), ("v", v)].into_iter().chain(mask.map(|mask| (MASK, mask)));
    Call::run("sdpa", &tensors.collect::<Vec<_>>(), |call| {
        let held = [Held::new("q", q), Held::new("k", k), Held::new("v", v)];
        let mask = mask.map(|mask| Held::new(MASK, mask));
        half!("q" q, T => {
            let [q, k, v] = held.each_ref().map(|held| call.read::<T>(held));
            let (q, k, v) = (q?, k?, v?);
            let mask = mask.as_ref().map(|held| call.read::<T>(held)).transpose()?;
            let mask = mask.as_ref().map(|mask| mask.view());
            let attention = match &mask {
                Some(mask) => attention.bias(mask),
                None => attention,
            };
            let others = AttentionViews { bias: mask.as_ref().map(Into::into), ..AttentionViews::default() };
            let views = [q.view(), k.view(), v.view()];
            attend(call, [Form::Heads; 2], views, &attention, others).map_err(of_mask)
        })
    })
}

/// What is wrong with the bias is so with the mask.
fn of_mask(trouble: Trouble) -> Trouble {
    match trouble {
        Trouble::Ours(Error::Argument { argument, was, allowed }) if argument == "bias" => {
            Trouble::Ours(Error::argument(MASK, was, allowed))
        }
        other => other,
    }
}

/// The name of the mask.
const MASK: &str = "mask";
