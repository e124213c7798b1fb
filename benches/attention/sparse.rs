//! Block-sparse attention by random lists of blocks, beside the dense one, and beside PyTorch's `flex_attention` with a mask of such blocks.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::common::options;
use crate::peer::Peer;
use crate::shapes;

/// Sequences, heads, KV heads, queries as well as keys, columns, and those of a block.
const SHAPES: [[usize; 6]; 6] = [
    [1, 32, 8, 8192, 128, 128],
    [1, 32, 8, 16384, 128, 128],
    [1, 32, 8, 32768, 128, 128],
    [1, 32, 8, 16384, 64, 128],
    [1, 32, 8, 8192, 128, 64],
    [1, 32, 8, 16384, 128, 64],
];
/// How many of a hundred blocks are listed, beside those of the diagonal.
const DENSITIES: [usize; 3] = [10, 25, 50];

/// Prints the table, of the shapes that `words` name or of all.
pub fn table(device: &Device, peer: Option<&Peer>, words: &[String]) -> Result<()> {
    println!(
        "\n| bf16 | blocks | listed | ms | TFLOP/s | of dense / listed | of in turn | flex ms | of it |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let others = shapes::unlisted(words, &SHAPES);
    for shape in if others.is_empty() { &SHAPES[..] } else { &others } {
        for causal in [false, true] {
            let [batch, heads, kv_heads, length, d, block] = *shape;
            let all: Vec<_> =
                DENSITIES.iter().map(|&hundredths| Lists::new(*shape, causal, hundredths)).collect();
            let timings = measure(device, peer, *shape, causal, &all)?;
            let dense = timings[0].median();
            let flops = 4.0 * (batch * heads * length * length * d) as f64;
            let whole = if causal { 0.5 } else { 1.0 };
            println!(
                "| b{batch} s{length} h{heads}/{kv_heads} d{d}{} | | all | {dense:.4} | {:.0} | | | | |",
                if causal { " causal" } else { "" },
                flops * whole / dense / 1e9,
            );
            for (i, lists) in all.iter().enumerate() {
                let (ms, in_turn) = (timings[1 + 2 * i].median(), timings[2 + 2 * i].median());
                print!(
                    "| | {block} | {:.3} | {ms:.4} | **{:.0}** | **{:.3}** | {:.3} |",
                    lists.share / whole,
                    flops * lists.share / ms / 1e9,
                    dense * lists.share / whole / ms,
                    in_turn / ms,
                );
                match timings.iter().find(|timing| timing.name == flex(DENSITIES[i])) {
                    Some(flex) => println!(" {:.4} | **{:.2}** |", flex.median(), flex.median() / ms),
                    None => println!(" - | - |"),
                }
            }
        }
    }
    Ok(())
}

/// What the peer is called for a density.
fn flex(hundredths: usize) -> String {
    format!("flex{hundredths}")
}

/// Lists of each head's blocks of queries, which all sequences share.
struct Lists {
    shape: [usize; 4],
    numbers: Vec<i32>,
    counts: Vec<i32>,
    /// Of all pairs of queries and keys, how many are in listed blocks; of causal ones of the diagonal half.
    share: f64,
}

impl Lists {
    fn new([_, heads, _, length, _, block]: [usize; 6], causal: bool, hundredths: usize) -> Self {
        let along = length.div_ceil(block);
        let listed = |head: usize, i: usize, j: usize| {
            let mut hasher = DefaultHasher::new();
            (head, i, j, hundredths).hash(&mut hasher);
            i == j || (hasher.finish() >> 8) % 100 < hundredths as u64
        };
        let (mut numbers, mut counts, mut pairs) = (vec![0; heads * along * along], Vec::new(), 0.0);
        for (row, numbers) in numbers.chunks_mut(along).enumerate() {
            let (head, i) = (row / along, row % along);
            let seen = (0..if causal { i + 1 } else { along }).filter(|&j| listed(head, i, j));
            let count = numbers.iter_mut().zip(seen).map(|(number, j)| *number = j as i32).count();
            counts.push(count as i32);
            pairs += count as f64 - if causal { 0.5 } else { 0.0 };
        }
        let share = pairs / (heads * along * along) as f64;
        Lists { shape: [1, heads, along, along], numbers, counts, share }
    }
}

/// All keys, the lists, and the peer's of the same densities where it can.
fn measure(
    device: &Device,
    peer: Option<&Peer>,
    shape: [usize; 6],
    causal: bool,
    lists: &[Lists],
) -> Result<Vec<Timing>> {
    let [batch, heads, kv_heads, length, d, block] = shape;
    let of = |seed, heads| {
        let shape = [batch, heads, length, d];
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), &shape)
    };
    let (q, k, v) = (of(1, heads)?, of(2, kv_heads)?, of(3, kv_heads)?);
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[batch, heads, length, d])?);
    let tensors = lists.iter().map(|of| {
        let lists = Tensor::from_slice(device, &of.numbers, &of.shape)?;
        Ok((lists, Tensor::from_slice(device, &of.counts, &of.shape[..3])?))
    });
    let tensors: Vec<_> = tensors.collect::<Result<_>>()?;
    let (q, k, v) = (q.view(), k.view(), v.view());
    // Of a queue: a counter.
    let room = RefCell::new(Tensor::<f32>::zeros(device, &[4])?);
    let run = |stream: &Stream, lists: Option<&(Tensor<i32>, Tensor<i32>)>, queued: bool| {
        let attention = if causal { Attention::new().causal() } else { Attention::new() };
        let attention = lists.into_iter().fold(attention, |attention, (lists, counts)| {
            attention.block_lists(lists.view(), counts.view(), [block; 2])
        });
        let mut room = room.borrow_mut();
        let mut room = room.view_mut();
        let mut attention = if queued { attention.workspace(&mut room) } else { attention };
        attention.run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut())
    };
    let run = &run;
    let mut variants = vec![Variant::new("dense", move |stream: &Stream, _| run(stream, None, false))];
    for lists in &tensors {
        variants.push(Variant::new("queued", move |stream: &Stream, _| run(stream, Some(lists), true)));
        variants.push(Variant::new("in turn", move |stream: &Stream, _| run(stream, Some(lists), false)));
    }
    if let Some(peer) = peer {
        for name in peer.prepare_sparse(shape, causal, &DENSITIES)? {
            variants.push(Variant::elsewhere(name.clone(), move || peer.turn(&name)));
        }
    }
    compare(device, &variants, &options(1))
}
