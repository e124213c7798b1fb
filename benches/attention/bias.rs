//! A bias of scores, stretched in several ways, beside the same attention without one and PyTorch's attention with a mask of that shape.

use std::cell::RefCell;

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Timing, Variant, compare};

use crate::common::options;
use crate::peer::Peer;
use crate::shapes::unlisted;

/// Sequences, heads, queries as well as keys, columns.
const SIZES: [[usize; 4]; 5] =
    [[4, 16, 2048, 128], [4, 16, 2048, 64], [2, 12, 4096, 128], [8, 32, 577, 64], [4, 8, 2048, 256]];
/// What differs: of the batch, heads, queries and keys.
const BIASES: [(&str, [bool; 4]); 3] =
    [("of heads", [false, true, true, true]), ("of keys", [true, false, false, true]), ("of all", [true; 4])];

/// Prints the table, of the sizes `BxHxSxD` that words name if they name any.
pub fn table(device: &Device, peer: Option<&Peer>, words: &[String]) -> Result<()> {
    let named = unlisted(words, &[]);
    if named.len() != words.iter().flat_map(|word| word.split(',')).count() {
        return Err(
            format!("{words:?}: sizes are BxHxSxD, with commas between: 4x16x2048x128,1x8x577x64").into()
        );
    }
    let sizes = if named.is_empty() { SIZES.to_vec() } else { named };
    println!("\n| bf16 | bias | ms | TFLOP/s | of no bias | PyTorch's best | of it |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for size in sizes {
        for (what, differs) in BIASES {
            let timings = measure(device, peer, size, differs)?;
            let [batch, heads, length, d] = size;
            let flops = 4.0 * (batch * heads * length * length * d) as f64;
            let [with, without] = [0, 1].map(|i| timings[i].median());
            print!(
                "| b{batch} s{length} h{heads} d{d} | {what} | {with:.4} | **{:.0}** ",
                flops / with / 1e9
            );
            print!("| {:.3} |", without / with);
            match timings[2..].iter().map(Timing::median).min_by(f64::total_cmp) {
                Some(best) => println!(" {:.0} | **{:.3}** |", flops / best / 1e9, best / with),
                None => println!(" | |"),
            }
        }
    }
    Ok(())
}

/// With the bias, without, and PyTorch's ways that can.
fn measure(
    device: &Device,
    peer: Option<&Peer>,
    [batch, heads, length, d]: [usize; 4],
    differs: [bool; 4],
) -> Result<Vec<Timing>> {
    let of = |seed, shape: [usize; 4]| {
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), &shape)
    };
    let shape = [batch, heads, length, d];
    let (q, k, v) = (of(1, shape)?, of(2, shape)?, of(3, shape)?);
    let sizes = [batch, heads, length, length];
    let shape_of_bias = [0, 1, 2, 3].map(|dim| if differs[dim] { sizes[dim] } else { 1 });
    let bias = of(4, shape_of_bias)?;
    let o = RefCell::new(Tensor::<bf16>::zeros(device, &shape)?);
    let (q, k, v, bias) = (q.view(), k.view(), v.view(), bias.view());
    let mut variants = vec![
        Variant::new("with", |stream: &Stream, _| {
            Attention::new().bias(&bias).run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut())
        }),
        Variant::new("without", |stream: &Stream, _| {
            Attention::new().run(stream, &q, &k, &v, &mut o.borrow_mut().view_mut())
        }),
    ];
    if let Some(peer) = peer {
        for name in peer.prepare_biased(shape, shape_of_bias)? {
            variants.push(Variant::elsewhere(name.clone(), move || peer.turn(&name)));
        }
    }
    compare(device, &variants, &options(1))
}
