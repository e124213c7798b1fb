//! Gradients, against references in f64.

use tilewright::ops::{Attention, AttentionGradient};
use tilewright::{Arch, Device, Error, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::Scores;
use tilewright_support::attention_gradient::{Gradients, Head, Sized, agrees};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::case::Input;
use crate::operand::{Operand, Place};

/// Queries and keys of each sequence: alike, unless they are packed.
#[derive(Clone, Debug)]
struct Case<T> {
    lengths: Vec<[usize; 2]>,
    packed: bool,
    heads: usize,
    kv_heads: usize,
    columns: [usize; 2],
    scores: Scores,
    place: fn([usize; 4]) -> Place,
    /// Q, K, V and dO, row-major.
    inputs: [Vec<T>; 4],
}

/// What a kernel gave.
type Results<T> = [Vec<T>; 3];

impl<T: Input> Case<T> {
    /// Two heads that share keys and values.
    fn new(lengths: &[[usize; 2]], packed: bool, columns: [usize; 2]) -> Self {
        Self::of_heads(lengths, packed, columns, [2, 1])
    }

    fn of_heads(
        lengths: &[[usize; 2]],
        packed: bool,
        columns: [usize; 2],
        [heads, kv_heads]: [usize; 2],
    ) -> Self {
        let [rows_q, rows_k] = [0, 1].map(|i| lengths.iter().map(|of| of[i]).sum::<usize>());
        let [d, dv] = columns;
        let inputs = [
            normal(1, heads * rows_q * d),
            normal(2, kv_heads * rows_k * d),
            normal(3, kv_heads * rows_k * dv),
            normal(4, heads * rows_q * dv),
        ];
        let (lengths, scores) = (lengths.to_vec(), Scores::new(d));
        Case { lengths, packed, heads, kv_heads, columns, scores, place: Place::bhsd, inputs }
    }

    fn scores(self, scores: impl Fn(Scores) -> Scores) -> Self {
        Case { scores: scores(self.scores), ..self }
    }

    /// The shapes of tensors of queries and of keys with so many columns.
    fn shape(&self, side: usize, columns: usize) -> [usize; 4] {
        let heads = [self.heads, self.kv_heads][side];
        let rows = |of: &[[usize; 2]]| of.iter().map(|of| of[side]).sum();
        match self.packed {
            true => [1, heads, rows(&self.lengths), columns],
            false => [self.lengths.len(), heads, rows(&self.lengths[..1]), columns],
        }
    }

    /// Where the rows of a head of a sequence begin in a row-major tensor of queries or keys.
    fn first_row(&self, side: usize, sequence: usize, head: usize) -> usize {
        let [_, heads, rows, _] = self.shape(side, 1);
        match self.packed {
            true => head * rows + self.lengths[..sequence].iter().map(|of| of[side]).sum::<usize>(),
            false => (sequence * heads + head) * rows,
        }
    }

    /// O, the log-sum-exps, the gradients by Q, K and V, and how far scores reach.
    fn exact(&self) -> Gradients {
        let [d, dv] = self.columns;
        let [rows_q, rows_k] = [0, 1].map(|side| self.shape(side, 1).iter().product::<usize>());
        let zeros = |len: usize| vec![[0.0; 2]; len];
        let mut all = Gradients {
            o: vec![0.0; rows_q * dv],
            lse: vec![f64::NEG_INFINITY; rows_q],
            q: zeros(rows_q * d),
            k: zeros(rows_k * d),
            v: zeros(rows_k * dv),
            reach: 0.0,
        };
        for (s, &[queries, keys]) in self.lengths.iter().enumerate() {
            for h in 0..self.heads {
                let (q, k) =
                    (self.first_row(0, s, h), self.first_row(1, s, h / (self.heads / self.kv_heads)));
                let part = |i: usize, first: usize, rows: usize, columns: usize| {
                    &self.inputs[i][first * columns..][..rows * columns]
                };
                let parts = [
                    part(0, q, queries, d),
                    part(1, k, keys, d),
                    part(2, k, keys, dv),
                    part(3, q, queries, dv),
                ];
                let of = Head::new(parts, queries, keys, self.columns).gradients(&self.scores);
                all.o[q * dv..][..queries * dv].copy_from_slice(&of.o);
                all.lse[q..][..queries].copy_from_slice(&of.lse);
                all.q[q * d..][..queries * d].copy_from_slice(&of.q);
                let add = |to: &mut [Sized], of: &[Sized]| {
                    to.iter_mut().zip(of).for_each(|(to, of)| *to = [to[0] + of[0], to[1] + of[1]]);
                };
                add(&mut all.k[k * d..], &of.k);
                add(&mut all.v[k * dv..], &of.v);
                all.reach = all.reach.max(of.reach);
            }
        }
        all
    }

    fn attention(&self) -> Attention<'static> {
        let Scores { scale, softcap, causal, window, .. } = self.scores;
        let attention = Attention::new().scale(scale);
        let attention = if causal { attention.causal() } else { attention };
        let attention = softcap.into_iter().fold(attention, Attention::softcap);
        window.into_iter().fold(attention, |attention, [left, right]| attention.window(left, right))
    }

    /// Calls `with` with a gradient of the case, and its tensors.
    fn with<R>(
        &self,
        device: &Device,
        exact: &Gradients,
        with: impl FnOnce(
            &Stream,
            AttentionGradient<'_>,
            [&TensorView<'_, T>; 5],
            &TensorView<'_, f32>,
            &mut [Operand<T>; 3],
        ) -> tilewright::Result<R>,
    ) -> tilewright::Result<(R, [Operand<T>; 3])> {
        let ([d, dv], stream) = (self.columns, Stream::new(device)?);
        let place = |side, columns| (self.place)(self.shape(side, columns));
        let places = [place(0, d), place(1, d), place(1, dv), place(0, dv)];
        let of = |i: usize| Operand::new(device, places[i], &self.inputs[i]);
        let (q, k, v, d_o) = (of(0)?, of(1)?, of(2)?, of(3)?);
        let o: Vec<f32> = exact.o.iter().map(|&x| x as f32).collect();
        let o = Operand::new(device, places[3], &T::round(&o))?;
        let lse: Vec<f32> = exact.lse.iter().map(|&x| x as f32).collect();
        let lse = Operand::new(device, Place::bhsd(self.shape(0, 1)), &lse)?;
        let to = |i: usize| Operand::<T>::poisoned(device, places[i]);
        let mut outputs = [to(0)?, to(1)?, to(2)?];
        let ends = |side: usize| {
            let ends = self.lengths.iter().scan(0, |end, of| {
                *end += of[side] as i32;
                Some(*end)
            });
            let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
            Tensor::from_slice(device, &offsets, &[offsets.len()])
        };
        let offsets = [ends(0)?, ends(1)?];
        let longest = |side: usize| self.lengths.iter().map(|of| of[side]).max().unwrap_or(0);
        let gradient = match self.packed {
            false => self.attention().gradient(),
            true => {
                let [queries, keys] = &offsets;
                let packed = self.attention().packed(queries.view(), keys.view(), longest(0));
                packed.gradient().longest_keys(longest(1))
            }
        };
        let lse = lse.view()?.select(3, 0)?;
        let views = [&q.view()?, &k.view()?, &v.view()?, &o.view()?, &d_o.view()?];
        let result = with(&stream, gradient, views, &lse, &mut outputs)?;
        stream.synchronize()?;
        Ok((result, outputs))
    }

    fn run(
        &self,
        device: &Device,
        exact: &Gradients,
        kernel: Option<&str>,
    ) -> tilewright::Result<Results<T>> {
        let (_, outputs) =
            self.with(device, exact, |stream, gradient, [q, k, v, o, d_o], lse, outputs| {
                let mut gradient = kernel.into_iter().fold(gradient, AttentionGradient::kernel);
                let [d_q, d_k, d_v] = outputs;
                let outputs = [&mut d_q.view_mut()?, &mut d_k.view_mut()?, &mut d_v.view_mut()?];
                gradient.run(stream, [q, k, v], (o, lse), d_o, outputs)
            })?;
        let read = |i: usize| {
            let (data, outside) = outputs[i].read()?;
            assert_eq!(outside, 0, "elements outside of a gradient were written");
            Ok::<_, Error>(data)
        };
        Ok([read(0)?, read(1)?, read(2)?])
    }

    /// The kernels that can compute it.
    fn kernels(&self, device: &Device, exact: &Gradients) -> tilewright::Result<Vec<String>> {
        let (names, _) = self.with(device, exact, |_, gradient, [q, k, v, o, d_o], lse, outputs| {
            let [d_q, d_k, d_v] = outputs;
            let outputs = [&d_q.view_mut()?, &d_k.view_mut()?, &d_v.view_mut()?];
            let all = gradient.candidates([q, k, v], (o, lse), d_o, outputs)?;
            let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
            Ok(possible.map(|kernel| kernel.name().to_owned()).collect())
        })?;
        Ok(names)
    }

    fn compare(&self, results: &Results<T>, exact: &Gradients) -> Result<(), String> {
        let cap = self.scores.softcap.map_or(0.0, f64::from);
        for (name, (of, exact_of)) in
            ["dQ", "dK", "dV"].into_iter().zip(results.iter().zip([&exact.q, &exact.k, &exact.v]))
        {
            agrees::<T>(&T::widen(of), exact_of, exact.reach, self.columns[0], cap)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(())
    }

    /// On the kernels that can compute it: on the emulator on a quarter of them.
    fn check(&self, device: &Device) -> Outcome {
        let exact = self.exact();
        let kernels = self.kernels(device, &exact)?;
        assert!(!kernels.is_empty(), "no kernel computes {self:?}");
        let Case { lengths, packed, columns, scores, .. } = self;
        let of = format!("{:?} {lengths:?} {packed} {columns:?} {scores:?}", T::DTYPE);
        let kernels = kernels.iter().filter(|name| watched::runs(name) && picked(device, (name, &of), 4));
        for kernel in kernels {
            let results = self.run(device, &exact, Some(kernel))?;
            self.compare(&results, &exact).map_err(|error| {
                format!("{kernel}: {error}\n{lengths:?}, packed: {packed}, {columns:?}\n{scores:?}")
            })?;
        }
        Ok(())
    }
}

/// Of every kernel: partial and whole tiles, unequal lengths, masks, capped scores.
pub fn kernels(device: &Device) -> Outcome {
    kernels_of::<f16>(device)?;
    kernels_of::<bf16>(device)
}

fn kernels_of<T: Input>(device: &Device) -> Outcome {
    for columns in [[64, 64], [128, 128], [200, 256]] {
        Case::<T>::new(&[[130, 200]], false, columns).check(device)?;
        let causal = |scores| Scores { causal: true, ..scores };
        Case::<T>::new(&[[150, 140]], false, columns).scores(causal).check(device)?;
        let capped = |scores| Scores { softcap: Some(1.5), causal: true, ..scores };
        Case::<T>::new(&[[70, 129]], false, columns).scores(capped).check(device)?;
    }
    Ok(())
}

/// Head dimensions that kernels are not made for, unequal ones; batches; heads that share keys; windows.
pub fn sizes(device: &Device) -> Outcome {
    for columns in [[1, 1], [8, 64], [80, 96], [136, 40], [192, 128]] {
        Case::<f16>::new(&[[65, 33]; 2], false, columns).check(device)?;
    }
    for heads in [[1, 1], [6, 2], [4, 4]] {
        Case::<bf16>::of_heads(&[[70, 80]; 2], false, [64, 64], heads).check(device)?;
    }
    for window in [[0, 0], [10, 0], [usize::MAX, 3], [70, 100]] {
        let scores = |scores| Scores { window: Some(window), ..scores };
        Case::<f16>::new(&[[150, 200]], false, [64, 64]).scores(scores).check(device)?;
    }
    Ok(())
}

/// Sequences of many lengths one after the other, empty ones among them, and queries that see no key.
pub fn packed(device: &Device) -> Outcome {
    let lengths = [[70, 70], [0, 0], [1, 129], [200, 30], [0, 5], [9, 0], [128, 128], [65, 257], [1, 1]];
    for columns in [[64, 64], [192, 128]] {
        Case::<f16>::new(&lengths, true, columns).check(device)?;
        let causal = |scores| Scores { causal: true, ..scores };
        Case::<bf16>::new(&lengths, true, columns).scores(causal).check(device)?;
    }
    let window = |scores| Scores { window: Some([40, 3]), softcap: Some(3.0), ..scores };
    Case::<f16>::new(&lengths, true, [128, 128]).scores(window).check(device)
}

/// Without queries, or without keys, gradients are zeros.
pub fn none(device: &Device) -> Outcome {
    for lengths in [[0, 70], [70, 0], [0, 0]] {
        Case::<f16>::new(&[lengths; 2], false, [64, 64]).check(device)?;
    }
    Case::<f16>::new(&[], true, [64, 64]).check(device)
}

/// Tensors lie anywhere: \[batch, length, heads, columns\], with gaps, unaligned.
pub fn places(device: &Device) -> Outcome {
    let places: [fn([usize; 4]) -> Place; 4] = [
        Place::bshd,
        |shape| Place::ordered(shape, [0, 2, 1, 3], 8),
        |shape| Place::ordered(shape, [0, 1, 2, 3], 3),
        |shape| Place::bhsd(shape).shifted(1),
    ];
    for place in places {
        Case { place, ..Case::<f16>::new(&[[70, 90]; 2], false, [64, 64]) }.check(device)?;
    }
    Ok(())
}

/// Scores far from 0, and far apart: weights of 1 and of 0.
pub fn large(device: &Device) -> Outcome {
    let mut case = Case::<bf16>::new(&[[130, 130]], false, [64, 64]);
    case.scores.scale = 10.0;
    case.check(device)?;
    case.scores.causal = true;
    case.scores.softcap = Some(50.0);
    case.check(device)
}

/// Scores next to 0, by whose scale nothing may be divided and by whose scale something may.
pub fn small(device: &Device) -> Outcome {
    for scale in [1e-30, 1e-15] {
        let mut case = Case::<bf16>::new(&[[70, 130]], false, [128, 128]);
        case.scores.scale = scale;
        case.check(device)?;
    }
    Ok(())
}

/// NaN in a sequence's tensors does not reach its neighbours.
pub fn not_numbers(device: &Device) -> Outcome {
    let lengths = [[70, 70], [30, 30], [65, 65]];
    let exact = Case::<f16>::new(&lengths, true, [64, 64]).exact();
    for input in 0..4 {
        let mut case = Case::<f16>::new(&lengths, true, [64, 64]);
        let side = usize::from(input == 1 || input == 2);
        // The first row of the middle sequence, which lies behind the first one's last.
        let first = case.first_row(side, 1, 0) * 64;
        case.inputs[input][first..first + 64].fill(f16::NAN);
        for kernel in case.kernels(device, &exact)? {
            let results = case.run(device, &exact, Some(&kernel))?;
            for (of, (result, exact_of)) in results.iter().zip([&exact.q, &exact.k, &exact.v]).enumerate() {
                let side = usize::from(of > 0);
                for s in [0, 2] {
                    let rows =
                        case.first_row(side, s, 0) * 64..(case.first_row(side, s, 0) + lengths[s][side]) * 64;
                    let out = &f16::widen(result)[rows.clone()];
                    agrees::<f16>(out, &exact_of[rows], exact.reach, 64, 0.0)
                        .map_err(|error| format!("{kernel}, NaN in input {input}, gradient {of}: {error}"))?;
                }
            }
        }
    }
    Ok(())
}

/// The same bits, run by run; and kernels that add in no order are not chosen.
pub fn deterministic(device: &Device) -> Outcome {
    let case = Case::<bf16>::new(&[[300, 300]; 2], false, [128, 128]);
    let exact = case.exact();
    let run = || {
        let (name, outputs) =
            case.with(device, &exact, |stream, gradient, [q, k, v, o, d_o], lse, outputs| {
                let mut gradient = gradient.deterministic();
                let [d_q, d_k, d_v] = outputs;
                let (mut d_q, mut d_k, mut d_v) = (d_q.view_mut()?, d_k.view_mut()?, d_v.view_mut()?);
                let plan = gradient.plan([q, k, v], (o, lse), d_o, [&d_q, &d_k, &d_v])?;
                gradient.run(stream, [q, k, v], (o, lse), d_o, [&mut d_q, &mut d_k, &mut d_v])?;
                Ok(plan.kernel().name())
            })?;
        assert!(!name.contains("_all_"), "{name}");
        let bits = |i: usize| Ok::<_, Error>(outputs[i].read()?.0.iter().map(|x| x.to_bits()).collect());
        Ok::<[Vec<u16>; 3], Error>([bits(0)?, bits(1)?, bits(2)?])
    };
    let first = run()?;
    for _ in 0..if device.is_emulator() { 1 } else { 5 } {
        assert_eq!(first, run()?, "another run gives other bits");
    }
    if device.runs(Arch::Sm90a) {
        let names = case.kernels(device, &exact)?;
        assert!(names.iter().any(|name| name.contains("_all_")), "{names:?}");
    }
    Ok(())
}

/// What does not fit is refused, by name.
pub fn errors(device: &Device) -> Outcome {
    let case = Case::<f16>::new(&[[8, 8]], false, [64, 64]);
    let exact = case.exact();
    let mut lse = Tensor::<f32>::zeros(device, &[1, 2, 8])?;
    let short = Tensor::<f16>::zeros(device, &[1, 2, 7, 64])?;
    let (_, outputs) = case.with(device, &exact, |stream, gradient, [q, k, v, o, d_o], given, outputs| {
        let [d_q, d_k, d_v] = outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.view_mut()?, d_k.view_mut()?, d_v.view_mut()?);
        let mut refused = |name: &str, mut of: AttentionGradient<'_>, d_o: &TensorView<'_, f16>| {
            let outputs = [&mut d_q, &mut d_k, &mut d_v];
            match of.run(stream, [q, k, v], (o, given), d_o, outputs) {
                Err(Error::Argument { argument, .. }) if argument == name => {}
                other => panic!("not an error about `{name}`: {other:?}"),
            }
        };
        refused("d_o", gradient, &short.view());
        refused("kernel", Attention::new().gradient().kernel("none such"), d_o);
        refused("longest_keys", Attention::new().gradient().longest_keys(3), d_o);
        refused("splits", Attention::new().splits(2).gradient(), d_o);
        refused("lse", Attention::new().lse(&mut lse.view_mut()).gradient(), d_o);
        Ok(())
    })?;
    for output in outputs {
        assert!(output.read()?.0.iter().all(|x| x.is_nan()), "a refused call wrote something");
    }
    Ok(())
}
