//! Keys and values in pages.

use candle_core::{Result, Tensor};
use tilewright::ops::AttentionViews;

use super::{Form, Scores, attend};
use crate::call::{Call, Held, Outcome};
use crate::element::half;

/// softmax(Q Kᵀ) V over a paged cache (Kwon et al. 2023): decoding, by flash-decoding where that fills the GPU, or chunks of prompts of one length.
///
/// - `q` (batch, queries, num_heads_q, head_size), of f16 or bf16.
/// - `k_cache` and `v_cache` (pages, rows of a page, num_heads_kv, head_size): the rows of a page are a power of two from 8 on.
/// - `block_table` (batch, pages of a sequence), of u32 or i32, whose rows are contiguous: row i names the pages of sequence i in the order of its
///   keys. Entries behind its length are not used.
/// - `lengths` (batch), of u32 or i32, contiguous: the keys of each sequence, those of the queries among them. The last query is aligned with the last key.
///
/// Table and lengths are read when the kernel runs, so a graph that was captured may be launched with others in the same memory. The result is
/// (batch, queries, num_heads_q, head size of `v_cache`).
///
/// # Errors
/// As [`flash_attn`](crate::flash_attn).
pub fn paged_attention(
    q: &Tensor,
    k_cache: &Tensor,
    v_cache: &Tensor,
    block_table: &Tensor,
    lengths: &Tensor,
    scores: Scores,
) -> Result<Tensor> {
    let tensors = [
        ("q", q),
        ("k_cache", k_cache),
        ("v_cache", v_cache),
        ("block_table", block_table),
        ("lengths", lengths),
    ];
    Call::run("paged_attention", &tensors, |call| {
        attend_paged(call, [q, k_cache, v_cache], [block_table, lengths], None, scores)
    })
}

/// `packed` are where the queries of sequences begin, if they lie one after the other, and the most of one.
pub(super) fn attend_paged(
    call: &Call<'_>,
    [q, k, v]: [&Tensor; 3],
    [table, lengths]: [&Tensor; 2],
    packed: Option<(&Tensor, usize)>,
    scores: Scores,
) -> Outcome<Tensor> {
    let held = [Held::new("q", q), Held::new("k", k), Held::new("v", v)];
    let [table, lengths] = [Held::new("block_table", table), Held::new("lengths", lengths)];
    let (table, lengths) = (call.indices(&table)?, call.indices(&lengths)?);
    let (table, lengths) = (table.view(), lengths.view());
    let offsets = packed.map(|(offsets, _)| Held::new("seqlens_q", offsets));
    let offsets = offsets.as_ref().map(|held| call.indices(held)).transpose()?;
    let offsets = offsets.as_ref().map(|offsets| offsets.view());
    let form = if packed.is_some() { Form::Packed } else { Form::Batched };
    half!("q" q, T => {
        let [q, k, v] = held.each_ref().map(|held| call.read::<T>(held));
        let (q, k, v) = (q?, k?, v?);
        let views = [q.view(), k.view(), v.view()];
        let attention = scores.attention().block_table(&table).lengths(&lengths);
        let attention = match (&offsets, packed) {
            (Some(offsets), Some((_, longest))) => attention.packed_queries(offsets, longest),
            _ => attention,
        };
        let others = AttentionViews {
            block_table: Some((&table).into()),
            lengths: Some((&lengths).into()),
            query_offsets: offsets.as_ref().map(Into::into),
            ..AttentionViews::default()
        };
        attend(call, [form, Form::Batched], views, &attention, others)
    })
}
