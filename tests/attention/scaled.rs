//! Attention of 8-bit floats.

use tilewright::ops::{HalfElement, ScaledAttention, ScaledAttentionViews};
use tilewright::{Device, Error, F8E4M3, Graph, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Rounded, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::case::Sizes;
use crate::operand::{Operand, Place};

/// Rows of each head that are compared.
const ROWS: usize = 40;

/// Half of the last place of a weight of e4m3.
const HALF_PLACE: f64 = 1.0 / 16.0;

/// Which heads have scales of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaled {
    Not,
    All,
    Heads,
    EachHead,
}

/// An attention: Q, K and V as codes, and where they lie.
struct Case {
    sizes: Sizes,
    scores: Scores,
    scaled: Scaled,
    /// Tensors are \[batch, length, heads, columns\], lines with room behind them.
    by_length: bool,
    codes: [Vec<F8E4M3>; 3],
}

impl Case {
    fn new(sizes: Sizes) -> Self {
        let shapes = sizes.shapes();
        let codes = [1, 2, 3].map(|seed| {
            let count = shapes[seed as usize - 1].iter().product();
            normal::<f32>(seed, count).into_iter().map(F8E4M3::from_f32).collect()
        });
        Case { sizes, scores: sizes.scores(), scaled: Scaled::Not, by_length: false, codes }
    }

    fn heads(&self, of: usize) -> usize {
        if of == 0 { self.sizes.heads } else { self.sizes.kv_heads }
    }

    /// What the codes of Q, K or V are multiplied by.
    fn scale(&self, of: usize, batch: usize, head: usize) -> f32 {
        let own = |number: usize| [0.5, 1.25, 0.75, 2.0][(number + of) % 4];
        match self.scaled {
            Scaled::Not => 1.0,
            Scaled::All => own(0),
            Scaled::Heads => own(head),
            Scaled::EachHead => own(batch * 3 + head),
        }
    }

    fn scales(&self, device: &Device, of: usize) -> tilewright::Result<Option<Tensor<f32>>> {
        let (batch, heads) = (self.sizes.batch, self.heads(of));
        let shape: &[usize] = match self.scaled {
            Scaled::Not => return Ok(None),
            Scaled::All => &[1],
            Scaled::Heads => &[heads],
            Scaled::EachHead => &[batch, heads],
        };
        let (count, each) =
            (shape.iter().product::<usize>(), |i: usize| self.scale(of, i / heads, i % heads));
        Tensor::from_slice(device, &(0..count).map(each).collect::<Vec<_>>(), shape).map(Some)
    }

    /// Where O lies, with lines that begin anywhere if all lie by length.
    fn place(&self) -> Place {
        let shape = self.sizes.shapes()[3];
        if self.by_length { Place::ordered(shape, [0, 2, 1, 3], 3) } else { Place::bhsd(shape) }
    }

    fn views(&self, device: &Device) -> tilewright::Result<[Codes; 3]> {
        let of = |of: usize| Codes::new(device, self.sizes.shapes()[of], &self.codes[of], self.by_length);
        Ok([of(0)?, of(1)?, of(2)?])
    }

    /// Runs it on all kernels that can, of which the emulator runs some, and compares with f64 by `agrees`.
    fn check<T: HalfElement + Real>(&self, device: &Device, rounded: Rounded) -> Outcome {
        let [q, k, v] = self.views(device)?;
        let (q, k, v) = (q.view()?, k.view()?, v.view()?);
        let scales = [self.scales(device, 0)?, self.scales(device, 1)?, self.scales(device, 2)?];
        let scales = scales.each_ref().map(|of| of.as_ref().map(Tensor::view));
        let Sizes { batch, heads, queries, .. } = self.sizes;
        let stream = Stream::new(device)?;
        let attention = || {
            let attention = ScaledAttention::new().scale(self.scores.scale);
            let attention = if self.scores.causal { attention.causal() } else { attention };
            let attention =
                self.scores.window.into_iter().fold(attention, |attention, [l, r]| attention.window(l, r));
            let [of_q, of_k, of_v] = &scales;
            let attention = of_q.iter().fold(attention, ScaledAttention::scale_q);
            let attention = of_k.iter().fold(attention, ScaledAttention::scale_k);
            of_v.iter().fold(attention, ScaledAttention::scale_v)
        };
        let mut o = Operand::<T>::poisoned(device, self.place())?;
        let all = attention().candidates(&q, &k, &v, &o.view_mut()?)?;
        let able = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
        let of = format!("{:?} {:?} {:?} {:?}", T::DTYPE, self.sizes, self.scores, self.scaled);
        for kernel in able.filter(|name| watched::runs(name) && picked(device, (name, &of), 2)) {
            let wrong = |what: String| {
                format!("{kernel}: {what}\n{:?}\n{:?}, {:?}", self.sizes, self.scores, self.scaled)
            };
            let mut o = Operand::<T>::poisoned(device, self.place())?;
            let mut lse = Operand::<f32>::poisoned(device, Place::bhsd([batch, heads, queries, 1]))?;
            let mut rows = lse.view_mut()?.select(3, 0)?;
            attention().kernel(kernel).lse(&mut rows).run(&stream, &q, &k, &v, &mut o.view_mut()?)?;
            let ((o, outside), (lse, outside_lse)) = (o.read()?, lse.read()?);
            if outside + outside_lse > 0 {
                return Err(wrong(format!("{outside} elements outside of O were written")).into());
            }
            self.compare::<T>(&T::widen(&o), &lse, rounded).map_err(wrong)?;
        }
        Ok(())
    }

    fn compare<T: Real>(&self, o: &[f32], lse: &[f32], rounded: Rounded) -> Result<(), String> {
        let Sizes { batch, heads, kv_heads, queries, keys, columns: [d, dv] } = self.sizes;
        let rows = sample(queries, ROWS);
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let kv = h / (heads / kv_heads);
            let values = |of: usize, head: usize, length: usize, columns: usize| -> Vec<f32> {
                let (all, each) = (self.heads(of), length * columns);
                let codes = &self.codes[of][(b * all + head) * each..][..each];
                codes.iter().map(|code| code.to_f32() * self.scale(of, b, head)).collect()
            };
            let (q, k, v) = (values(0, h, queries, d), values(1, kv, keys, d), values(2, kv, keys, dv));
            let exact = Head::new::<f32>([&q, &k, &v], queries, keys, [d, dv]).rows(&rows, &self.scores);
            for (row, &i) in exact.iter().zip(&rows) {
                let at = (b * heads + h) * queries + i;
                row.agrees_rounded::<T>(rounded, 0.0, &o[at * dv..][..dv], Some(lse[at]))
                    .map_err(|what| format!("batch {b}, head {h}, query {i}: {what}"))?;
            }
        }
        match o.iter().position(|x| x.is_nan()) {
            Some(at) => Err(format!("O's element {at} is NaN or was not written")),
            None => Ok(()),
        }
    }
}

/// Bytes behind each line of codes that lie by length: of NaNs.
const GAP: usize = 16;

/// Codes in device memory, \[batch, heads, length, columns\] or \[batch, length, heads, columns and a gap\].
struct Codes {
    memory: Tensor<F8E4M3>,
    columns: usize,
    by_length: bool,
}

impl Codes {
    fn new(
        device: &Device,
        [batch, heads, length, columns]: [usize; 4],
        codes: &[F8E4M3],
        by_length: bool,
    ) -> tilewright::Result<Self> {
        if !by_length {
            let memory = Tensor::from_slice(device, codes, &[batch, heads, length, columns])?;
            return Ok(Codes { memory, columns, by_length });
        }
        let line = columns + GAP;
        let mut all = vec![F8E4M3::from_bits(0x7f); batch * length * heads * line];
        for (i, codes) in codes.chunks(columns).enumerate() {
            let (b, h, l) = (i / length / heads, i / length % heads, i % length);
            all[((b * length + l) * heads + h) * line..][..columns].copy_from_slice(codes);
        }
        Ok(Codes {
            memory: Tensor::from_slice(device, &all, &[batch, length, heads, line])?,
            columns,
            by_length,
        })
    }

    fn view(&self) -> tilewright::Result<TensorView<'_, F8E4M3>> {
        let view = self.memory.view();
        if self.by_length { view.narrow(3, 0, self.columns)?.transpose(1, 2) } else { Ok(view) }
    }
}

/// What sums of products of 8-bit floats of so many columns are off by: tensor cores add up 32 products with 13 bits behind the largest's first.
fn rounded(columns: usize) -> Rounded {
    Rounded { scores: (columns.div_ceil(32) as f64) / 8192.0, weights: HALF_PLACE + 1.0 / 512.0 }
}

/// Lengths, columns, heads and masks; every kernel.
pub fn sizes(device: &Device) -> Outcome {
    let plain = |queries, keys, columns| Case::new(Sizes::new(queries, keys, columns));
    let shared = Sizes { batch: 2, heads: 4, kv_heads: 2, ..Sizes::new(130, 259, [64, 64]) };
    let cases = [
        plain(1, 1, [16, 16]),
        plain(200, 129, [64, 64]),
        plain(65, 300, [128, 128]),
        plain(130, 64, [80, 48]),
        plain(64, 31, [128, 64]),
        plain(140, 200, [192, 128]),
        plain(129, 257, [256, 256]),
        plain(33, 130, [160, 240]),
        Case { scaled: Scaled::All, ..plain(17, 16, [96, 112]) },
        Case { scaled: Scaled::Heads, by_length: true, ..Case::new(shared) },
        Case { scaled: Scaled::EachHead, by_length: true, ..Case::new(Sizes { queries: 300, ..shared }) },
    ];
    for case in cases {
        let columns = case.sizes.columns[0];
        let causal = Scores { causal: true, ..case.scores };
        let window = Scores { window: Some([40, 70]), ..case.scores };
        case.check::<bf16>(device, rounded(columns))?;
        let case = Case { scores: causal, ..case };
        case.check::<f16>(device, rounded(columns))?;
        Case { scores: window, ..case }.check::<bf16>(device, rounded(columns))?;
    }
    Ok(())
}

/// Where all scores are equal, all weights are exactly those of e4m3: a key too many or too few shows, and one whose values lie elsewhere.
pub fn means(device: &Device) -> Outcome {
    for (queries, keys, columns) in [(150, 150, [64, 64]), (70, 333, [128, 128]), (200, 97, [256, 256])] {
        for (causal, window) in [(false, None), (true, None), (false, Some([20, 9]))] {
            let mut case = Case::new(Sizes::new(queries, keys, columns));
            case.codes[0].fill(F8E4M3::from_f32(0.0));
            case.scores = Scores { causal, window, ..case.scores };
            let exact = Rounded { scores: 0.0, weights: 1.0 / 4096.0 };
            case.check::<f16>(device, exact)?;
        }
    }
    Ok(())
}

/// Rows of scores that lie apart: weights down to those that e4m3 has no number for.
pub fn weights(device: &Device) -> Outcome {
    let mut case = Case::new(Sizes::new(64, 280, [64, 64]));
    case.scores.scale = 1.0;
    case.check::<f16>(device, Rounded { weights: HALF_PLACE + 1.0 / 64.0, ..rounded(64) })
}

/// A NaN in Q or K makes rows of NaNs of those that see it.
pub fn not_numbers(device: &Device) -> Outcome {
    let sizes = Sizes::new(70, 140, [64, 64]);
    let nan = F8E4M3::from_bits(0x7f);
    for (of, row) in [(0, 5), (1, 100)] {
        let mut case = Case::new(sizes);
        case.codes[of][row * 64 + 3] = nan;
        let [q, k, v] = case.views(device)?;
        let mut o = Tensor::<f16>::zeros(device, &sizes.shapes()[3])?;
        let stream = Stream::new(device)?;
        ScaledAttention::new().causal().run(
            &stream,
            &q.view()?,
            &k.view()?,
            &v.view()?,
            &mut o.view_mut(),
        )?;
        stream.synchronize()?;
        for (at, x) in o.to_vec()?.into_iter().enumerate() {
            let (head, query) = (at / 64 / 70, at / 64 % 70);
            // K's only head is both heads'; query i sees the keys up to i + 70.
            let sees = if of == 0 { head == 0 && query == row } else { query + 70 >= row };
            assert_eq!(x.is_nan(), sees, "{of}: head {head}, query {query}");
        }
    }
    Ok(())
}

/// Keys and values that all sequences share, without a copy for each.
pub fn repeated(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 2, ..Sizes::new(70, 150, [64, 64]) };
    let mut case = Case::new(sizes);
    for codes in &mut case.codes[1..] {
        let half = codes.len() / 2;
        codes.copy_within(..half, half);
    }
    let [q, k, v] = case.views(device)?;
    let (q, k, v) = (q.view()?, k.view()?, v.view()?);
    let run = |k: &TensorView<'_, F8E4M3>, v: &TensorView<'_, F8E4M3>| -> tilewright::Result<Vec<u16>> {
        let mut o = Tensor::filled(device, f16::NAN, &sizes.shapes()[3])?;
        let stream = Stream::new(device)?;
        ScaledAttention::new().causal().run(&stream, &q, k, v, &mut o.view_mut())?;
        Ok(o.to_vec_on(&stream)?.into_iter().map(f16::to_bits).collect())
    };
    let (one_k, one_v) = (k.clone().narrow(0, 0, 1)?, v.clone().narrow(0, 0, 1)?);
    assert_eq!(run(&k, &v)?, run(&one_k.broadcast(k.shape())?, &one_v.broadcast(v.shape())?)?);
    Ok(())
}

/// No keys: zeros, and logarithms of nothing. No queries: nothing.
pub fn nothing(device: &Device) -> Outcome {
    let none = Rounded { scores: 0.0, weights: 0.0 };
    Case::new(Sizes::new(50, 0, [64, 64])).check::<f16>(device, none)?;
    Case::new(Sizes::new(0, 50, [64, 64])).check::<f16>(device, none)?;
    Case::new(Sizes { batch: 0, ..Sizes::new(20, 50, [64, 64]) }).check::<bf16>(device, none)?;
    // More queries than keys: the first see none.
    let mut case = Case::new(Sizes::new(90, 20, [64, 64]));
    case.scores.causal = true;
    case.check::<bf16>(device, rounded(64))
}

/// A plan runs on other tensors, and in a graph with other codes.
pub fn planned(device: &Device) -> Outcome {
    let sizes = Sizes { batch: 2, heads: 2, kv_heads: 1, ..Sizes::new(100, 150, [64, 64]) };
    let [q_shape, k_shape, v_shape, o_shape] = sizes.shapes();
    let stream = Stream::new(device)?;
    let codes = |seed: u64, shape: &[usize]| -> tilewright::Result<Tensor<F8E4M3>> {
        let codes: Vec<_> =
            normal::<f32>(seed, shape.iter().product()).into_iter().map(F8E4M3::from_f32).collect();
        Tensor::from_slice(device, &codes, shape)
    };
    let scale = Tensor::from_slice(device, &[0.5f32], &[1])?;
    let (mut q, k, v) = (codes(1, &q_shape)?, codes(2, &k_shape)?, codes(3, &v_shape)?);
    let mut o = Tensor::filled(device, bf16::NAN, &o_shape)?;
    let plan =
        ScaledAttention::new().scale_v(&scale.view()).plan(&q.view(), &k.view(), &v.view(), &o.view_mut())?;
    // 192 keys of 64 columns, of two heads in all.
    assert_eq!(plan.workspace_len(), 2 * 64 * 192 / 4);
    let mut workspace = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    let graph: Graph = stream.capture(|stream| {
        let mut views = ScaledAttentionViews {
            scales: [None, None, Some(scale.view())],
            workspace: Some(workspace.view_mut()),
            ..ScaledAttentionViews::default()
        };
        plan.run(stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut(), &mut views)
    })?;
    let other: Vec<_> = codes(4, &q_shape)?.to_vec()?;
    for codes in [q.to_vec()?, other] {
        q.write(&codes)?;
        // SAFETY: all tensors of the capture are alive, and nothing else uses them.
        unsafe { graph.launch(&stream)? };
        stream.synchronize()?;
        let mut expected = Tensor::filled(device, bf16::NAN, &o_shape)?;
        let mut own = ScaledAttention::new().scale_v(&scale.view());
        own.run(&stream, &q.view(), &k.view(), &v.view(), &mut expected.view_mut())?;
        stream.synchronize()?;
        let bits =
            |of: &Tensor<bf16>| Ok::<_, Error>(of.to_vec()?.iter().map(|x| x.to_bits()).collect::<Vec<_>>());
        assert_eq!(bits(&o)?, bits(&expected)?);
    }
    Ok(())
}

/// What is refused, and by which name.
pub fn errors(device: &Device) -> Outcome {
    let codes = |shape: &[usize]| Tensor::<F8E4M3>::zeros(device, shape);
    let (q, k) = (codes(&[1, 2, 40, 64])?, codes(&[1, 1, 50, 64])?);
    let mut o = Tensor::<f16>::zeros(device, &[1, 2, 40, 64])?;
    let stream = Stream::new(device)?;
    let named = |error: tilewright::Result<()>, name: &str| match error {
        Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
        other => Err(format!("{other:?} where `{name}` is wrong")),
    };
    let three = Tensor::<f32>::zeros(device, &[3])?;
    let (one, mut short) = (three.view().narrow(0, 0, 1)?, Tensor::<f32>::zeros(device, &[10])?);
    let run = |mut attention: ScaledAttention<'_>,
               q: &TensorView<'_, F8E4M3>,
               k: &TensorView<'_, F8E4M3>,
               o: &mut Tensor<f16>| { attention.run(&stream, q, k, k, &mut o.view_mut()) };
    let narrow = codes(&[1, 1, 50, 72])?;
    let unaligned = narrow.view().narrow(3, 8, 64)?;
    named(run(ScaledAttention::new(), &q.view(), &codes(&[1, 1, 50, 32])?.view(), &mut o), "k")?;
    named(run(ScaledAttention::new(), &q.view(), &unaligned, &mut o), "k")?;
    named(
        run(ScaledAttention::new(), &q.view().narrow(3, 0, 40)?, &k.view().narrow(3, 0, 40)?, &mut o),
        "o",
    )?;
    named(run(ScaledAttention::new().scale_q(&three.view()), &q.view(), &k.view(), &mut o), "scale_q")?;
    named(run(ScaledAttention::new().scale_k(&three.view()), &q.view(), &k.view(), &mut o), "scale_k")?;
    named(run(ScaledAttention::new().scale_v(&three.view()), &q.view(), &k.view(), &mut o), "scale_v")?;
    named(run(ScaledAttention::new().scale(0.0), &q.view(), &k.view(), &mut o), "scale")?;
    named(run(ScaledAttention::new().kernel("none"), &q.view(), &k.view(), &mut o), "kernel")?;
    named(
        run(ScaledAttention::new().workspace(&mut short.view_mut()), &q.view(), &k.view(), &mut o),
        "workspace",
    )?;
    let mut lse = Tensor::<f32>::zeros(device, &[1, 2, 41])?;
    named(run(ScaledAttention::new().lse(&mut lse.view_mut()), &q.view(), &k.view(), &mut o), "lse")?;
    run(ScaledAttention::new().scale_q(&one), &q.view(), &k.view(), &mut o)?;
    Ok(())
}
