//! Attention, with the functions of candle-flash-attn and over paged caches.

mod flash;
mod paged;
mod scores;
mod sdpa;
mod varlen;

use candle_core::Tensor;
use half::{bf16, f16};
use tilewright::ops::{Attention, AttentionViews, HalfElement};
use tilewright::{TensorView, TensorViewMut};

pub use flash::{
    flash_attn, flash_attn_alibi, flash_attn_alibi_windowed, flash_attn_alibi_windowed_softcap,
    flash_attn_windowed,
};
pub use paged::paged_attention;
pub use scores::Scores;
pub use sdpa::sdpa;
pub use varlen::{
    flash_attn_varlen, flash_attn_varlen_alibi, flash_attn_varlen_alibi_windowed,
    flash_attn_varlen_alibi_windowed_softcap, flash_attn_varlen_paged_windowed, flash_attn_varlen_windowed,
};

use crate::call::{Call, Outcome, refuse};
use crate::element::Native;

/// Element types of attention.
trait Half: Native + HalfElement {}
impl Half for f16 {}
impl Half for bf16 {}

/// How the tensors lie, where tilewright takes them as \[batch, heads, length, columns\].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// \[batch, length, heads, columns\], or \[pages, rows, heads, columns\].
    Batched,
    /// \[batch, heads, length, columns\].
    Heads,
    /// \[length, heads, columns\] of sequences that lie one after the other.
    Packed,
}

impl Form {
    fn read<'v, T: Half>(self, name: &'static str, view: TensorView<'v, T>) -> Outcome<TensorView<'v, T>> {
        let (rank, allowed) = match self {
            Form::Batched => (4, "of 4 dimensions: batch, length, heads, head dimension"),
            Form::Heads => (4, "of 4 dimensions: batch, heads, length, head dimension"),
            Form::Packed => (3, "of 3 dimensions: length, heads, head dimension"),
        };
        if view.rank() != rank {
            return refuse(name, format!("of shape {:?}", view.shape()), allowed);
        }
        Ok(match self {
            Form::Batched => view.transpose(1, 2)?,
            Form::Heads => view,
            Form::Packed => view.transpose(0, 1)?.insert_dim(0)?,
        })
    }

    fn write<T: Half>(self, view: TensorViewMut<'_, T>) -> tilewright::Result<TensorViewMut<'_, T>> {
        match self {
            Form::Batched => view.transpose(1, 2),
            Form::Heads => Ok(view),
            Form::Packed => view.transpose(0, 1)?.insert_dim(0),
        }
    }
}

/// Makes O, of Q's shape but for V's columns, in the order of Q. The forms are those of Q, and of K and V. `views` are those that `attention` has.
fn attend<T: Half>(
    call: &Call<'_>,
    [form, of_keys]: [Form; 2],
    [q, k, v]: [TensorView<'_, T>; 3],
    attention: &Attention<'_>,
    views: AttentionViews<'_>,
) -> Outcome<Tensor> {
    let mut shape = q.shape().to_vec();
    let (q, k, v) = (form.read("q", q)?, of_keys.read("k", k)?, of_keys.read("v", v)?);
    if let (Some(last), Some(&columns)) = (shape.last_mut(), v.shape().last()) {
        *last = columns;
    }
    call.write::<T>(&shape, |o| {
        let mut o = form.write(o)?;
        let plan = attention.plan(&q, &k, &v, &o)?;
        let run = |workspace: Option<TensorViewMut<'_, f32>>| {
            Ok(plan.run(call.stream(), &q, &k, &v, &mut o, &mut AttentionViews { workspace, ..views })?)
        };
        match plan.workspace_len() {
            0 => run(None),
            len => call.scratch(len)?.lend(call, |room| run(Some(room))),
        }
    })
}

/// The name of ALiBi's slopes.
const SLOPES: &str = "alibi_slopes";

/// With slopes of ALiBi, if there are any.
fn with_slopes<'a>(attention: Attention<'a>, slopes: Option<&TensorView<'a, f32>>) -> Attention<'a> {
    match slopes {
        None => attention,
        Some(slopes) => attention.alibi_slopes(slopes),
    }
}
