//! Keys and values to a paged cache.

use candle_core::{Result, Tensor};
use half::{bf16, f16};
use tilewright::Launch;
use tilewright_candle_kernels::{KERNELS, PIECE, THREADS, append};

use crate::call::{Call, Held, Operand, Outcome, dims, refuse};
use crate::element::{Native, half};
use crate::write::write_in_place;

/// Element types of caches.
trait Half: Native {}
impl Half for f16 {}
impl Half for bf16 {}

/// Writes the keys and values of tokens to their rows of a paged cache, in place.
///
/// - `k` and `v` (tokens, num_heads_kv, head_size), of f16 or bf16: heads of multiples of 8 elements that are aligned to 16 bytes; tokens and heads may lie with gaps between them.
/// - `k_cache` and `v_cache` (pages, rows of a page, num_heads_kv, head_size), contiguous.
/// - `slots` (tokens), of u32 or i32, contiguous: page times rows of a page, plus the row, of each token. No two are the same; a token whose slot there
///   is not goes nowhere. They are read when the kernel runs.
///
/// # Errors
/// Tensors that do not fit together, or do not lie so; caches that share their storage with each other or with what is read.
pub fn append_to_cache(
    k: &Tensor,
    v: &Tensor,
    k_cache: &Tensor,
    v_cache: &Tensor,
    slots: &Tensor,
) -> Result<()> {
    let tensors = [("k", k), ("v", v), ("k_cache", k_cache), ("v_cache", v_cache), ("slots", slots)];
    Call::run("append_to_cache", &tensors, |call| {
        let held = [Held::new("k", k), Held::new("v", v), Held::new("slots", slots)];
        let slots = call.indices(&held[2])?;
        half!("k" k, T => {
            let (k, v) = (call.read::<T>(&held[0])?, call.read::<T>(&held[1])?);
            queue::<T>(call, &held, [&k, &v], &slots, [k_cache, v_cache])
        })
    })
}

fn queue<T: Half>(
    call: &Call<'_>,
    held: &[Held<'_>],
    [k, v]: [&Operand<'_, T>; 2],
    slots: &Operand<'_, i32>,
    [k_cache, v_cache]: [&Tensor; 2],
) -> Outcome<()> {
    let (k, v, slots) = (k.view(), v.view(), slots.view());
    let &[tokens, heads, size] = k.shape() else {
        return refuse("k", format!("of shape {:?}", k.shape()), "of 3 dimensions: tokens, heads, head size");
    };
    if v.shape() != k.shape() {
        return refuse("v", format!("of shape {:?}", v.shape()), format!("of shape {:?}, as `k`", k.shape()));
    }
    if slots.shape() != [tokens] || !slots.is_contiguous() {
        let was = format!("of shape {:?} and strides {:?}", slots.shape(), slots.strides());
        return refuse("slots", was, format!("contiguous, of shape [{tokens}]"));
    }
    let piece = PIECE as usize / size_of::<T>();
    for (name, view) in [("k", &k), ("v", &v)] {
        let strides = view.strides();
        let even = strides[..2].iter().all(|stride| stride.is_multiple_of(piece)) && strides[2] == 1;
        if !size.is_multiple_of(piece) || !even || !view.address().is_multiple_of(PIECE.into()) {
            let was =
                format!("of shape {:?} with strides {strides:?} at {:#x}", view.shape(), view.address());
            return refuse(
                name,
                was,
                "of heads of multiples of 8 elements that begin at multiples of 16 bytes",
            );
        }
    }
    let [pages, rows, _, _] = dims("k_cache", k_cache, "of 4 dimensions: pages, rows, heads, head size")?;
    for (name, cache) in [("k_cache", k_cache), ("v_cache", v_cache)] {
        if cache.dims() != [pages, rows, heads, size] || !cache.is_contiguous() {
            let was = format!("of shape {:?} and strides {:?}", cache.dims(), cache.stride());
            return refuse(name, was, format!("contiguous, of shape [{pages}, {rows}, {heads}, {size}]"));
        }
    }
    let pieces = heads * size / piece;
    let numbers = [tokens, pages.saturating_mul(rows), pieces, size / piece];
    let [Ok(count), Ok(rows), Ok(pieces), Ok(head_pieces)] = numbers.map(u32::try_from) else {
        return refuse("k", format!("of shape {:?}", k.shape()), "of fewer than 2^32 elements");
    };
    let Some(all) = count.checked_mul(pieces).filter(|&all| all < u32::MAX - THREADS) else {
        return refuse("k", format!("of shape {:?}", k.shape()), "of fewer than 2^32 pieces of 16 bytes");
    };
    if all == 0 {
        return Ok(());
    }
    let bytes = |stride: usize| (stride * size_of::<T>()) as u64;
    let (strides_k, strides_v) = (k.strides(), v.strides());
    write_in_place::<T>(call, held, [("k_cache", k_cache), ("v_cache", v_cache)], |[to_k, to_v]| {
        let arguments = (
            k.address(),
            v.address(),
            to_k,
            to_v,
            slots.address(),
            bytes(strides_k[0]),
            bytes(strides_k[1]),
            bytes(strides_v[0]),
            bytes(strides_v[1]),
            count,
            rows,
            pieces,
            head_pieces,
        );
        let launch = Launch::grid([all.div_ceil(THREADS), 2, 1]);
        let function = call.device().kernel::<append>(&KERNELS)?;
        // SAFETY: the addresses are those of the borrowed views, and of the caches, which are written exclusively; all lie as was checked.
        unsafe { function.launch_with(call.stream(), &launch, arguments) }.map_err(Into::into)
    })
}
