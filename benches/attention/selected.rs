//! Queries each of which sees the blocks of 64 keys of its own list, as in native sparse attention, beside causal attention over all keys.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;
use crate::shapes;

/// Sequences, queries, heads, KV heads, keys, blocks of a list, and columns.
const SHAPES: [[usize; 7]; 7] = [
    [1, 8192, 64, 4, 8192, 16, 128],
    [1, 32768, 64, 4, 32768, 16, 128],
    [1, 65536, 64, 4, 65536, 16, 128],
    [1, 8192, 32, 8, 8192, 16, 128],
    [1, 8192, 64, 4, 8192, 16, 64],
    [1, 1, 64, 4, 65536, 16, 128],
    [64, 1, 64, 4, 32768, 16, 128],
];
/// Keys of a block.
const BLOCK: usize = 64;

/// Prints the table, of the shapes that `words` name or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    println!("\n| bf16 | ms | TFLOP/s | GB/s of keys and values | causal ms | of it |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let others = shapes::unlisted(words, &SHAPES);
    for shape in if others.is_empty() { &SHAPES[..] } else { &others } {
        let [batch, queries, heads, kv_heads, keys, blocks, d] = *shape;
        let lists = Lists::new(*shape);
        let [ms, causal] = measure(device, *shape, &lists)?;
        let flops = 4.0 * (lists.seen * batch * heads * d) as f64;
        let bytes = (lists.read * batch * kv_heads * d * 4) as f64;
        println!(
            "| b{batch} q{queries} h{heads}/{kv_heads} kv{keys} {blocks} blocks d{d} | {ms:.4} | **{:.0}** | {:.0} | {causal:.4} | **{:.2}** |",
            flops / ms / 1e9,
            bytes / ms / 1e6,
            causal / ms,
        );
    }
    Ok(())
}

/// Lists of each query, which all sequences and heads share.
struct Lists {
    shape: [usize; 2],
    numbers: Vec<i32>,
    /// Keys that a head's queries see, and those of the blocks that they are in, for all queries.
    seen: usize,
    read: usize,
}

impl Lists {
    /// The first block, a query's own, and others before it at random, each once.
    fn new([_, queries, _, _, keys, blocks, _]: [usize; 7]) -> Self {
        let (mut numbers, mut seen, mut read) = (vec![-1; queries * blocks], 0, 0);
        for (i, list) in numbers.chunks_mut(blocks.max(1)).enumerate() {
            let Some(position) = (i + keys).checked_sub(queries) else { continue };
            let own = position / BLOCK;
            let mut chosen = vec![own];
            let mut draw = 0;
            while chosen.len() < blocks.min(own + 1) {
                let mut hasher = DefaultHasher::new();
                (i, draw).hash(&mut hasher);
                let j = if draw == 0 { 0 } else { (hasher.finish() >> 8) as usize % (own + 1) };
                if !chosen.contains(&j) {
                    chosen.push(j);
                }
                draw += 1;
            }
            list.iter_mut().zip(&chosen).for_each(|(number, &j)| *number = j as i32);
            seen += (chosen.len() - 1) * BLOCK + position % BLOCK + 1;
            read += chosen.len() * BLOCK;
        }
        Lists { shape: [queries, blocks], numbers, seen, read }
    }
}

/// The times of the lists and of all keys.
fn measure(
    device: &Device,
    [batch, queries, heads, kv_heads, keys, _, d]: [usize; 7],
    lists: &Lists,
) -> Result<[f64; 2]> {
    let random = |seed, heads, rows| {
        let shape = [batch, heads, rows, d];
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), &shape)
    };
    let (q, k, v) = (random(1, heads, queries)?, random(2, kv_heads, keys)?, random(3, kv_heads, keys)?);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &[batch, heads, queries, d])?);
    let lists = Tensor::from_slice(device, &lists.numbers, &lists.shape)?;
    let (lists, mut variants) = (&lists, Vec::new());
    for selects in [true, false] {
        let attention = move || {
            let attention = Attention::new().causal();
            if selects { attention.selected_blocks(lists.view(), BLOCK) } else { attention }
        };
        let len = attention().workspace_len(&q, &k, &v, &o.borrow_mut().view_mut())?;
        let memory = RefCell::new(Tensor::<f32>::zeros(device, &[len])?);
        let (q, k, v, o) = (&q, &k, &v, &o);
        variants.push(Variant::new(if selects { "selected" } else { "causal" }, {
            move |stream: &Stream, _| {
                let mut memory = memory.borrow_mut();
                let mut memory = memory.view_mut();
                attention().workspace(&mut memory).run(stream, q, k, v, &mut o.borrow_mut().view_mut())
            }
        }));
    }
    let timings = compare(device, &variants, &options(1))?;
    let ms = |i: usize| timings.get(i).map_or(f64::NAN, |timing| timing.median());
    Ok([ms(0), ms(1)])
}
