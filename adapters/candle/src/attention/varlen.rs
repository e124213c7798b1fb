//! Sequences of different lengths that lie one after the other: the functions of candle-flash-attn.

use candle_core::{DType, Result, Tensor};
use tilewright::ops::AttentionViews;

use super::{Form, SLOPES, Scores, attend, paged, with_slopes};
use crate::call::{Call, Held, Outcome, dims, refuse};
use crate::element::half;

/// softmax(`softmax_scale` Q Kᵀ) V, for each head of sequences that lie one after the other.
///
/// - `q` (total_q, num_heads_q, head_size), `k` and `v` (total_kv, num_heads_kv, head_size), as in [`flash_attn`](crate::flash_attn).
/// - `seqlens_q` and `seqlens_k`, (batch + 1), contiguous, of u32 or i32: where each sequence begins in the rows, and the last one ends. They are read
///   when the kernel runs.
/// - `max_seqlen_q`: no sequence has more queries. `max_seqlen_k` is taken for candle-flash-attn's sake: a window that is larger is no limit.
/// - With `causal` each sequence's last query is aligned with its last key.
///
/// The result is (total_q, num_heads_q, head size of `v`).
///
/// # Errors
/// As [`flash_attn`](crate::flash_attn).
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).causal_if(causal);
    let sequences = Sequences { offsets: [seqlens_q, seqlens_k], longest: [max_seqlen_q, max_seqlen_k] };
    varlen("flash_attn_varlen", [q, k, v], &sequences, None, scores)
}

/// As [`flash_attn_varlen`], with a window as in [`flash_attn_windowed`](crate::flash_attn_windowed).
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right);
    let sequences = Sequences { offsets: [seqlens_q, seqlens_k], longest: [max_seqlen_q, max_seqlen_k] };
    varlen("flash_attn_varlen_windowed", [q, k, v], &sequences, None, scores)
}

/// As [`flash_attn_varlen`], with slopes as in [`flash_attn_alibi`](crate::flash_attn_alibi).
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen_alibi(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    causal: bool,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).causal_if(causal);
    let sequences = Sequences { offsets: [seqlens_q, seqlens_k], longest: [max_seqlen_q, max_seqlen_k] };
    varlen("flash_attn_varlen_alibi", [q, k, v], &sequences, Some(alibi_slopes), scores)
}

/// As [`flash_attn_varlen_windowed`], with slopes as in [`flash_attn_alibi`](crate::flash_attn_alibi).
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen_alibi_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right);
    let sequences = Sequences { offsets: [seqlens_q, seqlens_k], longest: [max_seqlen_q, max_seqlen_k] };
    varlen("flash_attn_varlen_alibi_windowed", [q, k, v], &sequences, Some(alibi_slopes), scores)
}

/// As [`flash_attn_varlen_windowed`], with scores s that become `softcap` tanh(s / `softcap`); 0 is none; then slopes take off
/// as in [`flash_attn_alibi`](crate::flash_attn_alibi), if there are any.
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen_alibi_windowed_softcap(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    alibi_slopes: Option<&Tensor>,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    softcap: f32,
) -> Result<Tensor> {
    let scores = Scores::new(softmax_scale).window(window_size_left, window_size_right).softcap(softcap);
    let sequences = Sequences { offsets: [seqlens_q, seqlens_k], longest: [max_seqlen_q, max_seqlen_k] };
    varlen("flash_attn_varlen_alibi_windowed_softcap", [q, k, v], &sequences, alibi_slopes, scores)
}

/// As [`flash_attn_varlen_windowed`], of keys and values in pages (num_blocks, `page_block_size`, num_heads_kv, head_size), which row i of
/// `block_table` (batch, blocks of a sequence), of u32 or i32, names for sequence i.
///
/// Where q has batch times `max_seqlen_q` rows, every sequence has so many queries, as when decoding, and flash-decoding computes them; else kernels of packed
/// queries. A call makes the lengths of keys of
/// `seqlens_k` by a subtraction of candle's; [`paged_attention`](crate::paged_attention) takes lengths, and any number of layers one such tensor.
/// `mm_prefix_ranges` must be `None`.
#[expect(clippy::too_many_arguments, reason = "they are those of candle-flash-attn")]
pub fn flash_attn_varlen_paged_windowed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    seqlens_q: &Tensor,
    seqlens_k: &Tensor,
    block_table: &Tensor,
    mm_prefix_ranges: Option<&Tensor>,
    max_seqlen_q: usize,
    max_seqlen_k: usize,
    softmax_scale: f32,
    window_size_left: Option<usize>,
    window_size_right: Option<usize>,
    page_block_size: usize,
    softcap: Option<f32>,
) -> Result<Tensor> {
    let op = "flash_attn_varlen_paged_windowed";
    let tensors = [
        ("q", q),
        ("k", k),
        ("v", v),
        ("seqlens_q", seqlens_q),
        ("seqlens_k", seqlens_k),
        ("block_table", block_table),
    ];
    Call::run(op, &tensors, |call| {
        if mm_prefix_ranges.is_some() {
            return refuse(
                "mm_prefix_ranges",
                "given",
                "left out: tilewright's attention has no such ranges",
            );
        }
        let [rows, heads, columns] = dims("q", q, "of 3 dimensions: length, heads, head dimension")?;
        let [offsets] = dims("seqlens_q", seqlens_q, "of 1 dimension")?;
        let batch = offsets.saturating_sub(1);
        let [_, page, _, _] =
            dims("k", k, "of 4 dimensions: blocks, rows of a block, heads, head dimension")?;
        if page != page_block_size {
            return refuse("page_block_size", page_block_size.to_string(), format!("{page}, as `k` has"));
        }
        let lengths = lengths(seqlens_k, batch)?;
        let scores = Scores::new(softmax_scale)
            .window(window_size_left, window_size_right)
            .within(max_seqlen_k)
            .softcap(softcap.unwrap_or(0.0));
        let of_keys = [block_table, &lengths];
        if rows != batch * max_seqlen_q {
            let packed = Some((seqlens_q, max_seqlen_q));
            return paged::attend_paged(call, [q, k, v], of_keys, packed, scores);
        }
        let shaped = q.reshape((batch, max_seqlen_q, heads, columns))?;
        let o = paged::attend_paged(call, [&shaped, k, v], of_keys, None, scores)?;
        Ok(o.flatten(0, 1)?)
    })
}

/// Where sequences begin, and how long they are.
struct Sequences<'t> {
    offsets: [&'t Tensor; 2],
    longest: [usize; 2],
}

/// The differences of cumulative lengths.
fn lengths(offsets: &Tensor, batch: usize) -> Outcome<Tensor> {
    let [count] = dims("seqlens_k", offsets, "of 1 dimension")?;
    if count != batch + 1 {
        return refuse(
            "seqlens_k",
            format!("of {count} elements"),
            format!("of {}, as `seqlens_q`", batch + 1),
        );
    }
    let ends = offsets.narrow(0, 1, batch)?;
    let lengths = match offsets.dtype() {
        DType::U32 | DType::I32 => ends.sub(&offsets.narrow(0, 0, batch)?)?,
        other => return refuse("seqlens_k", format!("of {}", other.as_str()), "of i32 or u32"),
    };
    Ok(lengths)
}

fn varlen(
    op: &'static str,
    [q, k, v]: [&Tensor; 3],
    sequences: &Sequences<'_>,
    slopes: Option<&Tensor>,
    scores: Scores,
) -> Result<Tensor> {
    let Sequences { offsets: [seqlens_q, seqlens_k], longest: [longest, keys] } = *sequences;
    let tensors = [("q", q), ("k", k), ("v", v), ("seqlens_q", seqlens_q), ("seqlens_k", seqlens_k)];
    let tensors = tensors.into_iter().chain(slopes.map(|slopes| (SLOPES, slopes)));
    Call::run(op, &tensors.collect::<Vec<_>>(), |call| {
        let slopes = slopes.map(|slopes| Held::new(SLOPES, slopes));
        let slopes = slopes.as_ref().map(|held| call.read::<f32>(held)).transpose()?;
        let alibi_slopes = slopes.as_ref().map(|slopes| slopes.view());
        let attention = with_slopes(scores.within(keys).attention(), alibi_slopes.as_ref());
        let held = [Held::new("q", q), Held::new("k", k), Held::new("v", v)];
        let offsets = [Held::new("seqlens_q", seqlens_q), Held::new("seqlens_k", seqlens_k)];
        let [of_q, of_k] = offsets.each_ref().map(|held| call.indices(held));
        let (of_q, of_k) = (of_q?, of_k?);
        half!("q" q, T => {
            let [q, k, v] = held.each_ref().map(|held| call.read::<T>(held));
            let (q, k, v) = (q?, k?, v?);
            let (of_q, of_k) = (of_q.view(), of_k.view());
            let views = [q.view(), k.view(), v.view()];
            let attention = attention.packed(&of_q, &of_k, longest);
            let offsets = Some([(&of_q).into(), (&of_k).into()]);
            let others = AttentionViews { offsets, alibi_slopes: alibi_slopes.clone(), ..AttentionViews::default() };
            attend(call, [Form::Packed; 2], views, &attention, others)
        })
    })
}
