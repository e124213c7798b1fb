//! Packed sequences of a log-normal law of lengths: with a queue of tiles, without one, and flash-attention 3.

use std::cell::RefCell;

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::common::options;
use crate::peer::Peer;

/// Sequences, and about as many queries in all.
const SEQUENCES: usize = 64;
const QUERIES: f64 = 65536.0;
/// The standard deviation of a length's logarithm, and for comparison lengths that are equal.
const DEVIATIONS: [f64; 2] = [1.0, 0.0];
/// Heads, heads of keys and values, and columns.
const HEADS: [[usize; 3]; 3] = [[16, 16, 128], [32, 8, 128], [16, 16, 64]];

/// Lengths of a log-normal law: the quantiles of as many equal shares, in a shuffled order, scaled to so many queries in all.
pub fn lengths(deviation: f64) -> Vec<usize> {
    // The sum of twelve even shares is nearly normal, and its order is random.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut share = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut law = || (deviation * ((0..12).map(|_| share()).sum::<f64>() - 6.0)).exp();
    let raw: Vec<f64> = (0..SEQUENCES).map(|_| law()).collect();
    let scale = QUERIES / raw.iter().sum::<f64>();
    raw.into_iter().map(|length| (length * scale).round().max(1.0) as usize).collect()
}

/// Prints the table.
pub fn table(device: &Device, peer: Option<&Peer>) -> Result<()> {
    println!("\n| packed bf16 | ms | TFLOP/s | in turn | FA3 | of in turn | of FA3 |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for deviation in DEVIATIONS {
        let lengths = lengths(deviation);
        for [heads, kv_heads, d] in HEADS {
            for causal in [false, true] {
                let [queued, in_turn, third] = measure(device, peer, &lengths, [heads, kv_heads, d], causal)?;
                let all: f64 = lengths.iter().map(|&length| (length * length) as f64).sum();
                let flops = 4.0 * all * (heads * d) as f64 / if causal { 2.0 } else { 1.0 };
                let rate = |ms: f64| flops / ms / 1e9;
                let [ms, turn] =
                    [&queued, &in_turn].map(|timing| timing.as_ref().map_or(0.0, Timing::median));
                let of = if kv_heads == heads { String::new() } else { format!("/{kv_heads}") };
                let mask = if causal { "causal" } else { "full" };
                print!(
                    "| {SEQUENCES} sequences, deviation {deviation}, to {} h{heads}{of} d{d} {mask} ",
                    lengths.iter().max().unwrap_or(&0)
                );
                print!("| {ms:.4} | **{:.0}** | {:.0} |", rate(ms), rate(turn));
                match third.as_ref().map(Timing::median) {
                    Some(third) => {
                        println!(" {:.0} | {:.3} | **{:.3}** |", rate(third), turn / ms, third / ms)
                    }
                    None => println!(" | {:.3} | |", turn / ms),
                }
            }
        }
    }
    Ok(())
}

/// With a queue, without, and flash-attention 3 if it is there.
fn measure(
    device: &Device,
    peer: Option<&Peer>,
    lengths: &[usize],
    [heads, kv_heads, d]: [usize; 3],
    causal: bool,
) -> Result<[Option<Timing>; 3]> {
    let mut offsets = vec![0i32];
    for &length in lengths {
        offsets.push(offsets[offsets.len() - 1] + length as i32);
    }
    let (rows, longest) = (lengths.iter().sum(), lengths.iter().copied().max().unwrap_or(0));
    let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
    // [rows, heads, columns], as models have them.
    let of = |seed, heads: usize| {
        Tensor::from_slice(device, &normal::<bf16>(seed, rows * heads * d), &[1, rows, heads, d])
    };
    let (q, k, v) = (of(1, heads)?, of(2, kv_heads)?, of(3, kv_heads)?);
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[1, rows, heads, d])?);
    let attention = || {
        let attention = Attention::new().packed(offsets.view(), offsets.view(), longest);
        if causal { attention.causal() } else { attention }
    };
    let [q, k, v] = [&q, &k, &v].map(|x| x.view().transpose(1, 2));
    let (q, k, v) = (q?, k?, v?);
    let len = attention().workspace_len(&q, &k, &v, &o.borrow_mut().view_mut().transpose(1, 2)?)?;
    let memory = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
    let in_turn = |stream: &Stream, _| {
        attention().run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut().transpose(1, 2)?)
    };
    let queued = |stream: &Stream, _| {
        let (mut memory, mut o) = (memory.borrow_mut(), o.borrow_mut());
        let mut memory = memory.view_mut();
        attention().workspace(&mut memory).run(stream, &q, &k, &v, &mut o.view_mut().transpose(1, 2)?)
    };
    let stream = Stream::new(device)?;
    in_turn(&stream, 0)?;
    let expected = o.borrow().to_vec_on(&stream)?;
    queued(&stream, 0)?;
    if o.borrow().to_vec_on(&stream)? != expected {
        return Err("a queue gives other results".into());
    }
    let mut variants = vec![Variant::new("queued", queued), Variant::new("in turn", in_turn)];
    if let Some(peer) = peer {
        for name in peer.prepare_packed(lengths, [heads, kv_heads, d], causal)? {
            variants.push(Variant::elsewhere(name.clone(), move || peer.turn(&name)));
        }
    }
    let mut timings = compare(device, &variants, &options(1))?.into_iter();
    Ok([(); 3].map(|()| timings.next()))
}
