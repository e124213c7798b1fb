//! What scores and their softmax have beside Q and K: sinks, slopes of ALiBi, a bias.

use tilewright::ops::{Attention, AttentionViews};
use tilewright::{Device, Result, Stream, Tensor, bf16, f16};
use tilewright_support::attention::{Bias, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Input, Sizes};

/// Which of them heads have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    pub sinks: bool,
    /// Of each sequence's heads, or of heads alone.
    pub slopes: Option<bool>,
    /// In which dimensions a bias differs: batch, heads, queries, keys.
    pub bias: Option<[bool; 4]>,
}

impl Terms {
    /// Sinks like scores: some below most of them, some above all.
    fn sink(head: usize) -> f32 {
        [0.5, -2.0, 6.0, 1.5, -30.0][head % 5]
    }
    /// Slopes of all sizes, one of them negative: 1 hides all keys but a few.
    fn slope(sequence: usize, head: usize) -> f32 {
        [0.25, 0.004, 1.0, -0.002, 0.0][(head + 2 * sequence) % 5]
    }

    /// The sinks and the slopes.
    pub fn tensors(
        &self,
        device: &Device,
        Sizes { batch, heads, .. }: Sizes,
    ) -> Result<[Option<Tensor<f32>>; 2]> {
        let tensor = |data: Vec<f32>, shape: &[usize]| Tensor::from_slice(device, &data, shape);
        let sinks = self.sinks.then(|| tensor((0..heads).map(Self::sink).collect(), &[heads]));
        let slopes = self.slopes.map(|of_sequences| match of_sequences {
            true => {
                let all = (0..batch * heads).map(|i| Self::slope(i / heads, i % heads));
                tensor(all.collect(), &[batch, heads])
            }
            false => tensor((0..heads).map(|head| Self::slope(0, head)).collect(), &[heads]),
        });
        Ok([sinks.transpose()?, slopes.transpose()?])
    }

    /// The bias, in the order of its dimensions or transposed: then no line is contiguous.
    pub fn bias<T: Input>(
        &self,
        device: &Device,
        sizes: Sizes,
        transposed: bool,
    ) -> Result<Option<Tensor<T>>> {
        let Some(differs) = self.bias else { return Ok(None) };
        let Sizes { batch, heads, queries, keys, .. } = sizes;
        let sizes = [batch, heads, queries, keys];
        let mut shape = [0, 1, 2, 3].map(|dim| if differs[dim] { sizes[dim] } else { 1 });
        let [_, many, rows, columns] = shape;
        let of = |i: usize| {
            let (row, column) = match transposed {
                false => (i / columns % rows, i % columns),
                true => (i % rows, i / rows % columns),
            };
            let matrix = i / columns / rows;
            Self::biases(differs, (matrix / many, matrix % many)).at(row, column)
        };
        let data = T::round(&(0..shape.iter().product()).map(of).collect::<Vec<f32>>());
        if transposed {
            shape.swap(2, 3);
        }
        Tensor::from_slice(device, &data, &shape).map(Some)
    }

    fn biases([batch, heads, queries, keys]: [bool; 4], (sequence, head): (usize, usize)) -> Bias {
        let number = |differs, i| if differs { i } else { 0 };
        Bias { head: number(batch, sequence) * 1000 + number(heads, head), along: [queries, keys] }
    }

    /// The scores of a sequence's head.
    pub fn scores(&self, scores: Scores, (sequence, head): (usize, usize), heads: usize) -> Scores {
        debug_assert!(head < heads, "a head");
        let sink = self.sinks.then(|| Self::sink(head));
        let slope = self.slopes.map_or(0.0, |of| Self::slope(if of { sequence } else { 0 }, head));
        let bias = self.bias.map(|differs| Self::biases(differs, (sequence, head)));
        Scores { sink, slope, bias, ..scores }
    }
}

const SINKS: Terms = Terms { sinks: true, slopes: None, bias: None };
const SLOPES: Terms = Terms { sinks: false, slopes: Some(false), bias: None };
const BOTH: Terms = Terms { sinks: true, slopes: Some(true), bias: None };

/// Of all kernels: tiles of queries, and parts of keys in caches, one of which takes the sink.
pub fn sinks(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [192, 128], [256, 256]] {
        let sizes = Sizes { heads: 4, kv_heads: 2, ..Sizes::new(70, 130, columns) };
        let case = Case::<f16>::new(sizes).terms(SINKS);
        let scores = Scores { causal: true, ..case.scores };
        case.scores(scores).check_all(device)?;
        let sizes = Sizes { batch: 3, heads: 4, kv_heads: 2, ..Sizes::new(2, 256, columns) };
        for splits in [1, 3] {
            let case = Case::<bf16>::new(sizes).cache(Some(vec![200, 0, 33]), Some(16)).terms(SINKS);
            case.splits(splits).check_all(device)?;
        }
    }
    let case = Case::<bf16>::new(Sizes::new(70, 130, [128, 128])).terms(SINKS);
    let scores = Scores { softcap: Some(2.0), window: Some([30, 0]), ..case.scores };
    case.scores(scores).check_all(device)
}

/// Slopes alone, with a cap and with sinks.
pub fn slopes(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [256, 256]] {
        for (terms, softcap, causal) in [(SLOPES, None, false), (BOTH, Some(3.0), true)] {
            let sizes = Sizes { batch: 2, heads: 5, kv_heads: 5, ..Sizes::new(70, 200, columns) };
            let case = Case::<f16>::new(sizes).terms(terms);
            let scores = Scores { causal, softcap, ..case.scores };
            case.scores(scores).check_all(device)?;
            let sizes = Sizes { batch: 3, heads: 10, kv_heads: 2, ..Sizes::new(2, 256, columns) };
            let case =
                Case::<bf16>::new(sizes).cache(Some(vec![200, 0, 33]), Some(64)).terms(terms).splits(2);
            let scores = Scores { causal, softcap, ..case.scores };
            case.scores(scores).check_all(device)?;
        }
    }
    let case = Case::<bf16>::new(Sizes::new(200, 70, [128, 128])).terms(BOTH);
    let scores = Scores { window: Some([20, 5]), ..case.scores };
    case.scores(scores).check_all(device)
}

/// A bias of every score, and stretched in every way; of lines that are aligned, begin at odd elements or are not contiguous; beside all else.
pub fn bias(device: &Device) -> Outcome {
    let all = [true; 4];
    for (columns, keys) in [([64, 64], 130), ([128, 128], 77), ([256, 256], 200), ([40, 72], 65)] {
        for (bias, heads) in [(all, 2), ([false, true, true, true], 3), ([true, false, false, true], 2)] {
            let sizes = Sizes { batch: 2, heads, kv_heads: 1, ..Sizes::new(70, keys, columns) };
            let case = Case::<f16>::new(sizes).terms(Terms { bias: Some(bias), ..Terms::default() });
            case.check_all(device)?;
            let sizes = Sizes { batch: 3, heads: 4, kv_heads: 2, ..Sizes::new(2, keys, columns) };
            let case = Case::<bf16>::new(sizes).terms(Terms { bias: Some(bias), ..BOTH });
            let scores = Scores { causal: true, softcap: Some(3.0), ..case.scores };
            case.scores(scores).check_all(device)?;
        }
    }
    for bias in [all, [false, false, true, false], [false; 4]] {
        let terms = Terms { bias: Some(bias), ..Terms::default() };
        for transposed in [false, true] {
            let case = Case::<bf16>::new(Sizes::new(130, 300, [128, 128])).terms(terms);
            let scores = Scores { window: Some([200, 5]), ..case.scores };
            Case { transposed, ..case.scores(scores) }.check_all(device)?;
        }
    }
    Ok(())
}

/// Without keys, with sinks that are -inf or far above all scores; the plan reads other sinks and slopes than those it was made with.
pub fn extremes(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let case = Case::<f16>::new(Sizes::new(3, 0, [64, 64])).terms(BOTH);
    case.check_all(device)?;
    let x = Tensor::from_slice(device, &normal::<f16>(1, 3 * 20 * 64), &[1, 3, 20, 64])?;
    let x = x.view();
    let mut o = Tensor::filled(device, f16::NAN, &[1, 3, 20, 64])?;
    let mut plain = Tensor::filled(device, f16::NAN, &[1, 3, 20, 64])?;
    Attention::new().run(&stream, &x, &x, &x, &mut plain.view_mut())?;
    let mut lse = Tensor::filled(device, f32::NAN, &[1, 3, 20])?;
    let sinks = Tensor::from_slice(device, &[0.0; 3], &[3])?;
    let plan =
        Attention::new().sinks(&sinks.view()).lse(&mut lse.view_mut()).plan(&x, &x, &x, &o.view_mut())?;
    let sinks = Tensor::from_slice(device, &[f32::NEG_INFINITY, 1e30, 80.0], &[3])?;
    let mut rows = lse.view_mut();
    let mut views = AttentionViews { lse: Some(rows.reborrow()), ..AttentionViews::default() };
    let missing = plan.run(&stream, &x, &x, &x, &mut o.view_mut(), &mut views);
    assert!(missing.is_err_and(|error| error.to_string().contains("`sinks`")), "sinks are missing");
    views.sinks = Some(sinks.view());
    plan.run(&stream, &x, &x, &x, &mut o.view_mut(), &mut views)?;
    let (o, plain, lse) = (o.to_vec_on(&stream)?, plain.to_vec_on(&stream)?, lse.to_vec_on(&stream)?);
    let [none, all, much] = [0, 1, 2].map(|head| &o[head * 20 * 64..][..20 * 64]);
    assert!(none == &plain[..20 * 64], "a sink of -inf is none");
    assert!(all.iter().all(|x| x.to_f32() == 0.0), "a sink that takes all");
    assert!(much.iter().all(|x| x.to_f32().abs() < 1e-6), "a sink that takes almost all");
    assert!(
        lse[20..40].iter().all(|&lse| lse == 1e30) && lse[40..].iter().all(|lse| (lse - 80.0).abs() < 1e-3)
    );
    Ok(())
}
