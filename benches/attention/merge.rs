//! Sequences that begin alike: attention over each one's keys, and over the shared ones once, merged (cascade).

use std::cell::RefCell;

use tilewright::ops::{Attention, AttentionMerge};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::{Variant, compare};

use crate::common::options;
use crate::shapes;

/// Sequences, queries of each, shared keys, keys of each one's own, heads, KV heads and columns.
const SHAPES: [[usize; 7]; 4] = [
    [16, 1, 4096, 512, 32, 8, 128],
    [64, 1, 8192, 512, 32, 8, 128],
    [64, 1, 1024, 1024, 32, 8, 128],
    [32, 128, 8192, 128, 32, 8, 128],
];

/// Prints the table, of the shapes that `words` name or of all.
pub fn table(device: &Device, words: &[String]) -> Result<()> {
    println!("\n| bf16 | each alone ms | cascade ms | of each alone | merge ms | GB/s |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let others = shapes::unlisted(words, &SHAPES);
    for shape in if others.is_empty() { &SHAPES[..] } else { &others } {
        let [sequences, queries, shared, own, heads, kv_heads, d] = *shape;
        let [alone, cascade, merge] = measure(device, *shape)?;
        // Three O, and the log-sum-exps of two.
        let bytes = sequences * queries * heads * (3 * 2 * d + 2 * 4);
        println!(
            "| {sequences} sequences of {queries}, {shared} shared and {own} own keys, h{heads}/{kv_heads} d{d} | {alone:.4} | {cascade:.4} | **{:.2}** | {merge:.4} | {:.0} |",
            alone / cascade,
            bytes as f64 / merge / 1e6,
        );
    }
    Ok(())
}

/// The times of all keys for each sequence, of the cascade, and of its merge.
fn measure(
    device: &Device,
    [sequences, queries, shared, own, heads, kv_heads, d]: [usize; 7],
) -> Result<[f64; 3]> {
    let random = |seed, shape: [usize; 4]| {
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), &shape)
    };
    let all = [sequences, kv_heads, shared + own, d];
    // Heads first: the queries of all sequences are those of one, too.
    let (q, k, v) = (random(1, [heads, sequences, queries, d])?, random(2, all)?, random(3, all)?);
    let (k, v) = (k.view(), v.view());
    let [shared_k, shared_v] = [&k, &v].map(|of| of.clone().narrow(0, 0, 1)?.narrow(2, 0, shared));
    let [own_k, own_v] = [&k, &v].map(|of| of.clone().narrow(2, shared, own));
    let (shared_k, shared_v, own_k, own_v) = (shared_k?, shared_v?, own_k?, own_v?);
    let out = || Tensor::<bf16>::zeros(device, &[heads, sequences, queries, d]).map(RefCell::new);
    let (prefix, suffix, o) = (out()?, out()?, out()?);
    let log = || Tensor::<f32>::zeros(device, &[heads, sequences, queries]).map(RefCell::new);
    let (prefix_log, suffix_log) = (log()?, log()?);
    let shape = [1, heads, sequences * queries, d];
    let (q, q_together) = (q.view().transpose(0, 1)?, q.view().reshape(&shape)?);
    let memory = |len| Tensor::<f32>::zeros(device, &[len]).map(RefCell::new);
    let alone_len =
        Attention::new().workspace_len(&q, &k, &v, &o.borrow_mut().view_mut().transpose(0, 1)?)?;
    let own_len =
        Attention::new().workspace_len(&q, &own_k, &own_v, &o.borrow_mut().view_mut().transpose(0, 1)?)?;
    let shared_len = Attention::new().workspace_len(
        &q_together,
        &shared_k,
        &shared_v,
        &prefix.borrow_mut().view_mut().reshape(&shape)?,
    )?;
    let (alone_room, own_room, shared_room) = (memory(alone_len)?, memory(own_len)?, memory(shared_len)?);
    let alone = |stream: &Stream| {
        let (mut room, mut o) = (alone_room.borrow_mut(), o.borrow_mut());
        let mut room = room.view_mut();
        Attention::new().workspace(&mut room).run(stream, &q, &k, &v, &mut o.view_mut().transpose(0, 1)?)
    };
    let merge = |stream: &Stream| {
        let (prefix, suffix) = (prefix.borrow(), suffix.borrow());
        let (prefix_log, suffix_log) = (prefix_log.borrow(), suffix_log.borrow());
        let [prefix, suffix] = [prefix.view().transpose(0, 1)?, suffix.view().transpose(0, 1)?];
        let [prefix_log, suffix_log] =
            [prefix_log.view().transpose(0, 1)?, suffix_log.view().transpose(0, 1)?];
        let states = [(&prefix, &prefix_log), (&suffix, &suffix_log)];
        AttentionMerge::new().run(stream, states, &mut o.borrow_mut().view_mut().transpose(0, 1)?)
    };
    let cascade = |stream: &Stream| {
        {
            let (mut room, mut to, mut log) =
                (shared_room.borrow_mut(), prefix.borrow_mut(), prefix_log.borrow_mut());
            let (mut room, mut log) = (room.view_mut(), log.view_mut().reshape(&shape[..3])?);
            let mut to = to.view_mut().reshape(&shape)?;
            let mut attention = Attention::new().workspace(&mut room).lse(&mut log);
            attention.run(stream, &q_together, &shared_k, &shared_v, &mut to)?;
        }
        {
            let (mut room, mut to, mut log) =
                (own_room.borrow_mut(), suffix.borrow_mut(), suffix_log.borrow_mut());
            let (mut room, mut log) = (room.view_mut(), log.view_mut().transpose(0, 1)?);
            let mut attention = Attention::new().workspace(&mut room).lse(&mut log);
            attention.run(stream, &q, &own_k, &own_v, &mut to.view_mut().transpose(0, 1)?)?;
        }
        merge(stream)
    };
    let variants = [
        Variant::new("alone", |stream: &Stream, _| alone(stream)),
        Variant::new("cascade", |stream: &Stream, _| cascade(stream)),
        Variant::new("merge", |stream: &Stream, _| merge(stream)),
    ];
    let timings = compare(device, &variants, &options(1))?;
    let [alone, cascade, merge] = &timings[..] else { return Err("three times".into()) };
    Ok([alone.median(), cascade.median(), merge.median()])
}
