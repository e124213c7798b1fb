//! Caches of codes of 8 bits, against the values that they stand for.

use std::fmt::Debug;

use tilewright::ops::{Attention, AttentionViews, CacheElement, HalfElement};
use tilewright::{Device, Element, Error, F8E4M3, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::case::Sizes;

/// A code, and its value.
trait Code: Element + Debug {
    fn nearest(x: f32) -> Self;
    fn value(self) -> f32;
    /// A code that is nobody's: the largest value.
    const LARGE: Self;
}

impl Code for F8E4M3 {
    fn nearest(x: f32) -> Self {
        F8E4M3::from_f32(x)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
    const LARGE: Self = F8E4M3::from_bits(0x7e);
}

impl Code for i8 {
    fn nearest(x: f32) -> Self {
        x.round_ties_even() as i8
    }
    fn value(self) -> f32 {
        self.into()
    }
    const LARGE: Self = i8::MIN;
}

/// What a code stands for times this is of deviation 1.
const SPREAD: f32 = 1.0 / 40.0;
const PAGE: usize = 16;

#[derive(Clone)]
struct Case {
    sizes: Sizes,
    scores: Scores,
    lengths: Vec<usize>,
    paged: bool,
    splits: usize,
    /// A scale for each head, or one for all of them, or none.
    scales: Option<bool>,
}

impl Case {
    fn new(sizes: Sizes) -> Self {
        let lengths = vec![sizes.keys; sizes.batch];
        Case { sizes, scores: sizes.scores(), lengths, paged: false, splits: 1, scales: Some(true) }
    }

    /// The scales of K and V of a head.
    fn scales_of(&self, head: usize) -> [f32; 2] {
        match self.scales {
            None => [1.0; 2],
            Some(false) => [SPREAD, 1.5 * SPREAD],
            Some(true) => [SPREAD * (1.0 + head as f32), SPREAD / (1.0 + head as f32)],
        }
    }

    fn run<T: Real + HalfElement, C: Code + CacheElement<T>>(&self, device: &Device) -> Outcome {
        let Sizes { batch, heads, kv_heads, queries, keys, columns: [d, dv] } = self.sizes;
        let stream = Stream::new(device)?;
        // Without scales values are codes: queries are that much smaller.
        let q = normal::<f32>(1, batch * heads * queries * d);
        let q = T::round(
            &q.iter().map(|x| if self.scales.is_none() { x * SPREAD } else { *x }).collect::<Vec<_>>(),
        );
        let code = |x: &f32| C::nearest(x / SPREAD);
        let [k, v] = [(2, d), (3, dv)].map(|(seed, columns)| {
            normal::<f32>(seed, batch * kv_heads * keys * columns).iter().map(code).collect::<Vec<C>>()
        });
        let entries = keys.div_ceil(PAGE);
        let page =
            |sequence: usize, key: usize| (sequence * entries + key / PAGE) * 3 % (batch * entries + 1);
        assert!((batch * entries + 1) % 3 != 0, "all pages are different");
        let place = |elements: &[C], columns: usize| {
            // Caches have the heads of a row side by side.
            let [first, rows] = if self.paged { [batch * entries + 1, PAGE] } else { [batch, keys] };
            let mut cache = vec![C::LARGE; first * rows * kv_heads * columns];
            for (line, elements) in elements.chunks(columns).enumerate() {
                let (b, head, key) = (line / keys / kv_heads, line / keys % kv_heads, line % keys);
                if key < self.lengths[b] {
                    let row = if self.paged { page(b, key) * PAGE + key % PAGE } else { b * keys + key };
                    cache[(row * kv_heads + head) * columns..][..columns].copy_from_slice(elements);
                }
            }
            Tensor::from_slice(device, &cache, &[first, rows, kv_heads, columns])
        };
        let (k_cache, v_cache) = (place(&k, d)?, place(&v, dv)?);
        let (k_view, v_view) = (k_cache.view().transpose(1, 2)?, v_cache.view().transpose(1, 2)?);
        let table: Vec<i32> =
            (0..batch * entries).map(|i| page(i / entries, i % entries * PAGE) as i32).collect();
        let table = Tensor::from_slice(device, &table, &[batch, entries])?;
        let lengths: Vec<i32> = self.lengths.iter().map(|&length| length as i32).collect();
        let lengths = Tensor::from_slice(device, &lengths, &[batch])?;
        let count = if self.scales == Some(true) { kv_heads } else { 1 };
        let scale = |which: usize| {
            let scales: Vec<f32> = (0..count).map(|head| self.scales_of(head)[which]).collect();
            Tensor::from_slice(device, &scales, &[count])
        };
        let (k_scale, v_scale) = (scale(0)?, scale(1)?);
        let (k_scale, v_scale) = (k_scale.view(), v_scale.view());
        let Scores { scale, softcap, causal, window, sink, slope, .. } = self.scores;
        let sinks = Tensor::filled(device, sink.unwrap_or(f32::NAN), &[heads])?;
        let slopes = Tensor::filled(device, slope, &[heads])?;
        let (sinks, slopes) = (sinks.view(), slopes.view());
        let attention = || {
            let attention = Attention::new().scale(scale).splits(self.splits).lengths(lengths.view());
            let attention = if self.paged { attention.block_table(table.view()) } else { attention };
            let attention = if causal { attention.causal() } else { attention };
            let attention = softcap.into_iter().fold(attention, Attention::softcap);
            let attention = if sink.is_some() { attention.sinks(&sinks) } else { attention };
            let attention = if slope != 0.0 { attention.alibi_slopes(&slopes) } else { attention };
            let attention =
                window.into_iter().fold(attention, |attention, [left, right]| attention.window(left, right));
            if self.scales.is_some() { attention.cache_scales(&k_scale, &v_scale) } else { attention }
        };
        let q_on = Tensor::from_slice(device, &q, &[batch, heads, queries, d])?;
        let mut o = Tensor::filled(device, T::POISON, &[batch, heads, queries, dv])?;
        let all = attention().candidates(&q_on.view(), &k_view, &v_view, &o.view_mut())?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "{all:?}");
        let of = format!("{:?} {:?} {:?}", C::DTYPE, self.sizes, self.scores);
        for name in names.into_iter().filter(|name| watched::runs(name) && picked(device, (name, &of), 3)) {
            let mut o = Tensor::filled(device, T::POISON, &[batch, heads, queries, dv])?;
            let mut lse = Tensor::filled(device, f32::NAN, &[batch, heads, queries])?;
            let mut lse_view = lse.view_mut();
            let mut attention = attention().kernel(name).lse(&mut lse_view);
            attention.run(&stream, &q_on.view(), &k_view, &v_view, &mut o.view_mut())?;
            drop(attention);
            let (out, lse) = (T::widen(&o.to_vec_on(&stream)?), lse.to_vec_on(&stream)?);
            for b in 0..batch {
                for h in 0..heads {
                    let kv = b * kv_heads + h / (heads / kv_heads);
                    let length = self.lengths[b];
                    let values = |codes: &[C], columns: usize, which: usize| {
                        let scale = self.scales_of(h / (heads / kv_heads))[which];
                        let codes = &codes[kv * keys * columns..][..length * columns];
                        codes.iter().map(|code| code.value() * scale).collect::<Vec<f32>>()
                    };
                    let at = (b * heads + h) * queries;
                    let q = T::widen(&q[at * d..][..queries * d]);
                    let head =
                        Head::new([&q, &values(&k, d, 0), &values(&v, dv, 1)], queries, length, [d, dv]);
                    let rows: Vec<_> = (0..queries).collect();
                    let cap = self.scores.softcap.map_or(0.0, f64::from);
                    for (i, row) in head.rows(&rows, &self.scores).iter().enumerate() {
                        row.agrees::<T>(d, cap, &out[(at + i) * dv..][..dv], Some(lse[at + i])).map_err(
                            |what| format!("{name}, {of}, batch {b}, head {h}, query {i}: {what}"),
                        )?;
                    }
                }
            }
        }
        Ok(())
    }

    fn run_all(&self, device: &Device) -> Outcome {
        self.run::<f16, F8E4M3>(device)?;
        self.run::<bf16, F8E4M3>(device)?;
        self.run::<f16, i8>(device)?;
        self.run::<bf16, i8>(device)
    }
}

/// Both formats for both types of queries, contiguous and in pages, with scales of all kinds.
pub fn values(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 3, heads: 4, kv_heads: 2, ..Sizes::new(1, 304, [128, 128]) };
    for (paged, scales) in [(false, Some(true)), (true, Some(false)), (true, None)] {
        let case = Case { lengths: vec![304, 0, 131], paged, scales, splits: 2, ..Case::new(sizes) };
        case.run_all(device)?;
    }
    Ok(())
}

/// Masks, caps, slopes and sinks, several queries, other head dimensions, one head of keys for all.
pub fn options(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 1, heads: 8, kv_heads: 1, ..Sizes::new(3, 208, [64, 96]) };
    let case = Case::new(sizes);
    let scores = Scores { causal: true, softcap: Some(2.0), ..case.scores };
    Case { scores, ..case.clone() }.run_all(device)?;
    // Slopes are of scores, whose scale the keys' goes with.
    for softcap in [None, Some(2.0)] {
        let scores = Scores { sink: Some(0.5), slope: 0.02, softcap, ..case.scores };
        Case { scores, splits: 2, ..case.clone() }.run::<f16, i8>(device)?;
    }
    let scores = Scores { window: Some([70, 5]), ..case.scores };
    Case { scores, splits: 3, paged: true, ..case }.run::<bf16, F8E4M3>(device)?;
    Ok(())
}

/// Wide heads.
pub fn wide(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 1, heads: 8, kv_heads: 1, ..Sizes::new(3, 208, [64, 96]) };
    for columns in [[192, 128], [256, 256]] {
        let case = Case::new(Sizes { columns, ..sizes });
        case.run::<f16, i8>(device)?;
        case.run::<bf16, F8E4M3>(device)?;
    }
    Ok(())
}

/// Every code is the value that it should be: keys that differ in one code's place alone.
pub fn every_code(device: &Device) -> Outcome {
    every_code_of::<f16, F8E4M3>(device, F8E4M3::from_bits)?;
    every_code_of::<bf16, F8E4M3>(device, F8E4M3::from_bits)?;
    every_code_of::<f16, i8>(device, |code| code as i8)?;
    every_code_of::<bf16, i8>(device, |code| code as i8)
}

fn every_code_of<T: Real + HalfElement, C: Code + CacheElement<T>>(
    device: &Device,
    of: impl Fn(u8) -> C,
) -> Outcome {
    // One key: O is its value.
    let (heads, d) = (2, 128);
    let stream = Stream::new(device)?;
    let q = Tensor::<T>::zeros(device, &[1, heads, 1, d])?;
    let codes: Vec<C> = (0..=255).map(&of).collect();
    let kv = Tensor::from_slice(device, &codes, &[1, heads, 1, d])?;
    let mut o = Tensor::filled(device, T::POISON, &[1, heads, 1, d])?;
    Attention::new().splits(1).run(&stream, &q.view(), &kv.view(), &kv.view(), &mut o.view_mut())?;
    for (code, (x, of)) in T::widen(&o.to_vec_on(&stream)?).into_iter().zip(codes).enumerate() {
        let value = of.value();
        let value = if value.is_nan() { if code < 128 { 480.0 } else { -480.0 } } else { value };
        assert_eq!(x, value, "code {code} of {:?} as {:?}", C::DTYPE, T::DTYPE);
    }
    Ok(())
}

/// What caches of 8 bits cannot be, each by its argument; and a plan that runs with other scales.
pub fn errors(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (d, kv_heads) = (128, 2);
    let q = Tensor::filled(device, f16::ONE, &[1, 4, 1, d])?;
    let kv = Tensor::filled(device, 1i8, &[1, kv_heads, 20, d])?;
    let half = Tensor::filled(device, f16::ONE, &[1, kv_heads, 20, d])?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 4, 1, d])?;
    let scale = |scales: &[f32]| Tensor::from_slice(device, scales, &[scales.len()]);
    let (one, three, two) = (scale(&[0.5])?, scale(&[1.0; 3])?, scale(&[2.0, 4.0])?);
    let (one, three, two) = (one.view(), three.view(), two.view());
    let named = |run: Result<(), Error>, name: &str| match run {
        Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
        other => Err(format!("not an error about `{name}`: {other:?}")),
    };
    let (q, kv, half) = (q.view(), kv.view(), half.view());
    let wrong = [(&three, &one, "k_scale"), (&one, &three, "v_scale")];
    for (k_scale, v_scale, name) in wrong {
        let run =
            Attention::new().cache_scales(k_scale, v_scale).run(&stream, &q, &kv, &kv, &mut o.view_mut());
        named(run, name)?;
    }
    let run = Attention::new().cache_scales(&one, &one).run(&stream, &q, &half, &half, &mut o.view_mut());
    named(run, "k_scale")?;
    let offsets = Tensor::from_slice(device, &[0, 1], &[2])?;
    let packed = Attention::new().packed(offsets.view(), offsets.view(), 1);
    named({ packed }.run(&stream, &q, &kv, &kv, &mut o.view_mut()), "k")?;
    // Lines that no kernel reads.
    let lines = Tensor::filled(device, 1i8, &[1, kv_heads, 20, 24])?;
    let (narrow, of) = (lines.view(), q.clone().narrow(3, 0, 24)?);
    let refused = Attention::new().run(&stream, &of, &narrow, &narrow, &mut o.view_mut().narrow(3, 0, 24)?);
    assert!(matches!(refused, Err(Error::UnsupportedGpu { .. })), "{refused:?}");
    assert!(o.to_vec_on(&stream)?.iter().all(|x| x.is_nan()), "refused calls leave O alone");

    let planned = Attention::new().cache_scales(&one, &two).plan(&q, &kv, &kv, &o.view_mut())?;
    let mut workspace = Tensor::<f32>::zeros(device, &[planned.workspace_len()])?;
    let mut run = |scales: Option<[TensorView<'_, f32>; 2]>| {
        let workspace = (planned.workspace_len() > 0).then(|| workspace.view_mut());
        let mut views = AttentionViews { cache_scales: scales, workspace, ..AttentionViews::default() };
        planned.run(&stream, &q, &kv, &kv, &mut o.view_mut(), &mut views)
    };
    named(run(None), "k_scale")?;
    run(Some([one.clone(), two.clone()]))?;
    let out = o.to_vec_on(&stream)?;
    let [first, second] = [&out[..2 * d], &out[2 * d..]];
    assert!(first.iter().all(|x| x.to_f32() == 2.0) && second.iter().all(|x| x.to_f32() == 4.0));
    Ok(())
}
