//! Packed queries over a cache of keys: chunks of prompts.

use tilewright::ops::{Attention, AttentionViews};
use tilewright::{Device, Stream, Tensor, TensorViewMut, bf16, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::cache::Cache;
use crate::case::{Input, Sizes};
use crate::operand::{Operand, Place};
use crate::terms::Terms;

/// Queries and keys of each sequence.
const FEW: [[usize; 2]; 6] = [[70, 150], [0, 9], [1, 200], [9, 0], [40, 40], [130, 257]];

const HEADS: usize = 4;
const KV_HEADS: usize = 2;

/// Pages of all sizes, and matrices of the sequences' own; masks, caps, and what heads have.
pub fn pages(device: &Device) -> Outcome {
    let causal = |columns| Scores { causal: true, ..Scores::new(columns) };
    // Blocks of 96 keys begin and end within pages of 64.
    let pages = [([64, 64], 16), ([128, 128], 64), ([192, 128], 8), ([192, 128], 64), ([256, 256], 128)];
    for (columns, page) in pages {
        check::<f16>(device, columns, causal(columns[0]), Some(page), Terms::default())?;
    }
    check::<bf16>(device, [128, 128], causal(128), None, Terms { sinks: true, ..Terms::default() })?;
    let scores = Scores { window: Some([40, 3]), softcap: Some(3.0), ..Scores::new(128) };
    check::<bf16>(
        device,
        [128, 128],
        scores,
        Some(256),
        Terms { sinks: true, slopes: Some(true), ..Terms::default() },
    )?;
    // Lines that no copy of 16 bytes fits.
    check::<bf16>(device, [60, 60], causal(60), Some(32), Terms::default())
}

/// Runs it on every kernel, on the emulator on the one that is chosen and a twelfth of the others, by a plan with a workspace and without one.
pub fn check<T: Input>(
    device: &Device,
    columns: [usize; 2],
    scores: Scores,
    page: Option<usize>,
    terms: Terms,
) -> Outcome {
    let stream = Stream::new(device)?;
    let ([d, dv], batch) = (columns, FEW.len());
    let begins: Vec<usize> =
        (0..=batch).map(|i| FEW[..i].iter().map(|&[queries, _]| queries).sum()).collect();
    // More room than any sequence takes, and a table that is no whole block of keys.
    let (rows, room) = (begins[batch], 272);
    let places =
        [[1, HEADS, rows, d], [batch, KV_HEADS, room, d], [batch, KV_HEADS, room, dv], [1, HEADS, rows, dv]]
            .map(Place::bshd);
    let inputs = [1, 2, 3].map(|seed| normal::<T>(seed, places[seed as usize - 1].count()));
    let cache = Cache { lengths: Some(FEW.map(|[_, keys]| keys).to_vec()), page };
    let q = Operand::new(device, places[0], &inputs[0])?;
    // The cache's own order of elements: [sequence, head, key, column].
    let [k, v] = [1, 2].map(|i| cache.operand(device, places[i], &inputs[i]));
    let (k, v) = (k?, v?);
    let (lengths, table) = (cache.lengths(device)?, cache.table(device, places[1].shape)?);
    let offsets: Vec<i64> = begins.iter().map(|&at| at as i64).collect();
    let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
    let sizes = Sizes { batch, heads: HEADS, kv_heads: KV_HEADS, ..Sizes::new(0, 0, columns) };
    let [sinks, slopes] = terms.tensors(device, sizes)?;
    let attention = || {
        let attention = Attention::new().scale(scores.scale).packed_queries(offsets.view(), 130);
        let attention = if scores.causal { attention.causal() } else { attention };
        let attention = scores.softcap.into_iter().fold(attention, Attention::softcap);
        let attention = scores.window.into_iter().fold(attention, |a, [left, right]| a.window(left, right));
        let attention = lengths.iter().fold(attention, |a, lengths| a.lengths(lengths.view()));
        let attention = table.iter().fold(attention, |a, table| a.block_table(table.view()));
        let attention = sinks.iter().fold(attention, |a, sinks| a.sinks(&sinks.view()));
        slopes.iter().fold(attention, |a, slopes| a.alibi_slopes(&slopes.view()))
    };
    let mut o = Operand::<T>::poisoned(device, places[3])?;
    let (q, k, v) = (q.view()?, k.view()?, v.view()?);
    let all = attention().candidates(&q, &k, &v, &o.view_mut()?)?;
    let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
    let of = (columns, page, terms.sinks);
    let plan = attention().plan(&q, &k, &v, &o.view_mut()?)?;
    let chosen = plan.kernel().name();
    let runs = |name: &str| watched::runs(name) && (name == chosen || picked(device, (name, of), 12));
    for kernel in possible.filter(|kernel| runs(kernel.name())) {
        for with_queue in [false, true] {
            o = Operand::<T>::poisoned(device, places[3])?;
            let mut lse = Operand::<f32>::poisoned(device, Place::bhsd([1, HEADS, rows, 1]))?;
            let mut lse_rows: TensorViewMut<'_, f32> = lse.view_mut()?.select(3, 0)?;
            let mut attention = attention().kernel(kernel.name()).lse(&mut lse_rows);
            if with_queue {
                let plan = attention.plan(&q, &k, &v, &o.view_mut()?)?;
                drop(attention);
                let mut workspace = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
                let mut views = AttentionViews {
                    lse: Some(lse.view_mut()?.select(3, 0)?),
                    query_offsets: Some(offsets.view().into()),
                    lengths: lengths.as_ref().map(|lengths| lengths.view().into()),
                    block_table: table.as_ref().map(|table| table.view().into()),
                    sinks: sinks.as_ref().map(Tensor::view),
                    alibi_slopes: slopes.as_ref().map(Tensor::view),
                    workspace: Some(workspace.view_mut()),
                    ..AttentionViews::default()
                };
                plan.run(&stream, &q, &k, &v, &mut o.view_mut()?, &mut views)?;
            } else {
                attention.run(&stream, &q, &k, &v, &mut o.view_mut()?)?;
            }
            stream.synchronize()?;
            let ((out, outside), (lse, outside_lse)) = (o.read()?, lse.read()?);
            assert_eq!(outside + outside_lse, 0, "{}: elements outside of O", kernel.name());
            let out = T::widen(&out);
            for (i, [queries, keys]) in FEW.into_iter().enumerate() {
                for head in 0..HEADS {
                    let kv = (i * KV_HEADS + head / (HEADS / KV_HEADS)) * room;
                    let q = &inputs[0][(head * rows + begins[i]) * d..][..queries * d];
                    let k = &inputs[1][kv * d..][..keys * d];
                    let v = &inputs[2][kv * dv..][..keys * dv];
                    let numbers: Vec<_> = (0..queries).collect();
                    let scores = terms.scores(scores, (i, head), HEADS);
                    let expected = Head::new([q, k, v], queries, keys, columns).rows(&numbers, &scores);
                    for (number, row) in expected.iter().enumerate() {
                        let (at, cap) =
                            (head * rows + begins[i] + number, scores.softcap.map_or(0.0, f64::from));
                        row.agrees::<T>(d, cap, &out[at * dv..][..dv], Some(lse[at])).map_err(|what| {
                            let name = kernel.name();
                            format!("{name}: sequence {i}, head {head}, query {number}: {what}\n{columns:?} {page:?} {scores:?}")
                        })?;
                    }
                }
            }
        }
    }
    Ok(())
}
