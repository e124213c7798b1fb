//! Gradients of a case, by kernels and in f64.

use tilewright::ops::{Attention, AttentionGradient};
use tilewright::{Device, Stream, Tensor, TensorView};
use tilewright_support::Real;
use tilewright_support::attention::Scores;
use tilewright_support::attention_gradient::{Gradients, Head, Sized, agrees};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, one_of};
use tilewright_support::watched;

use crate::case::{Input, Sizes};
use crate::operand::{Operand, Place};
use crate::terms::Terms;

/// Queries and keys of each sequence: alike, unless they are packed.
#[derive(Clone, Debug)]
pub struct Case<T> {
    pub lengths: Vec<[usize; 2]>,
    pub packed: bool,
    pub heads: usize,
    pub kv_heads: usize,
    pub columns: [usize; 2],
    pub scores: Scores,
    pub terms: Terms,
    pub deterministic: bool,
    pub splits: Option<usize>,
    pub place: fn([usize; 4]) -> Place,
    /// Q, K, V and dO, row-major.
    pub inputs: [Vec<T>; 4],
}

/// The tensors that a gradient is written to: dQ, dK and dV, and by the bias and the sinks where there are any.
pub struct Outputs<T> {
    pub of_inputs: [Operand<T>; 3],
    d_bias: Option<Operand<T>>,
    d_sinks: Option<Operand<f32>>,
}

/// What a kernel gave.
pub struct Results<T> {
    pub of_inputs: [Vec<T>; 3],
    bias: Vec<T>,
    sinks: Vec<f32>,
}

impl<T: Input> Results<T> {
    /// The same to the bit.
    fn has_bits_of(&self, other: &Self) -> bool {
        let bits = |of: &Self| {
            let inputs = of.of_inputs.iter().chain([&of.bias]);
            let all: Vec<_> =
                inputs.map(|data| T::widen(data).iter().map(|x| x.to_bits()).collect()).collect();
            let sinks: Vec<u32> = of.sinks.iter().map(|x| x.to_bits()).collect();
            (all, sinks)
        };
        let (one, another): ((Vec<Vec<_>>, _), _) = (bits(self), bits(other));
        one == another
    }
}

impl<T: Input> Case<T> {
    /// Two heads that share keys and values.
    pub fn new(lengths: &[[usize; 2]], packed: bool, columns: [usize; 2]) -> Self {
        Self::of_heads(lengths, packed, columns, [2, 1])
    }

    pub fn of_heads(
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
        Case {
            lengths,
            packed,
            heads,
            kv_heads,
            columns,
            scores,
            terms: Terms::default(),
            deterministic: false,
            splits: None,
            place: Place::bhsd,
            inputs,
        }
    }

    pub fn scores(self, scores: impl Fn(Scores) -> Scores) -> Self {
        Case { scores: scores(self.scores), ..self }
    }

    pub fn terms(self, terms: Terms) -> Self {
        Case { terms, ..self }
    }

    /// As terms count them; of packed sequences the longest.
    fn sizes(&self) -> Sizes {
        let longest = |side: usize| self.lengths.iter().map(|of| of[side]).max().unwrap_or(0);
        let &Case { heads, kv_heads, columns, .. } = self;
        Sizes { batch: self.lengths.len(), heads, kv_heads, ..Sizes::new(longest(0), longest(1), columns) }
    }

    /// Where the gradient by the bias is computed, its shape: queries and keys do not share one.
    fn bias_shape(&self) -> Option<[usize; 4]> {
        let Sizes { batch, heads, queries, keys, .. } = self.sizes();
        let differs =
            self.terms.bias.filter(|[.., along_queries, along_keys]| *along_queries && *along_keys)?;
        Some([if differs[0] { batch } else { 1 }, if differs[1] { heads } else { 1 }, queries, keys])
    }

    /// The shapes of tensors of queries and of keys with so many columns.
    pub fn shape(&self, side: usize, columns: usize) -> [usize; 4] {
        let heads = [self.heads, self.kv_heads][side];
        let rows = |of: &[[usize; 2]]| of.iter().map(|of| of[side]).sum();
        match self.packed {
            true => [1, heads, rows(&self.lengths), columns],
            false => [self.lengths.len(), heads, rows(&self.lengths[..1]), columns],
        }
    }

    /// Where the rows of a head of a sequence begin in a row-major tensor of queries or keys.
    pub fn first_row(&self, side: usize, sequence: usize, head: usize) -> usize {
        let [_, heads, rows, _] = self.shape(side, 1);
        match self.packed {
            true => head * rows + self.lengths[..sequence].iter().map(|of| of[side]).sum::<usize>(),
            false => (sequence * heads + head) * rows,
        }
    }

    /// O, the log-sum-exps, the gradients by Q, K and V, by the bias and by sinks, and how far scores reach.
    pub fn exact(&self) -> Gradients {
        let [d, dv] = self.columns;
        let [rows_q, rows_k] = [0, 1].map(|side| self.shape(side, 1).iter().product::<usize>());
        let zeros = |len: usize| vec![[0.0; 2]; len];
        let mut all = Gradients {
            o: vec![0.0; rows_q * dv],
            lse: vec![f64::NEG_INFINITY; rows_q],
            q: zeros(rows_q * d),
            k: zeros(rows_k * d),
            v: zeros(rows_k * dv),
            bias: zeros(self.bias_shape().map_or(0, |shape| shape.iter().product())),
            sinks: zeros(self.heads),
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
                let of = Head::new(parts, queries, keys, self.columns).gradients(&self.terms.scores(
                    self.scores,
                    (s, h),
                    self.heads,
                ));
                all.o[q * dv..][..queries * dv].copy_from_slice(&of.o);
                all.lse[q..][..queries].copy_from_slice(&of.lse);
                all.q[q * d..][..queries * d].copy_from_slice(&of.q);
                let add = |to: &mut [Sized], of: &[Sized]| {
                    to.iter_mut().zip(of).for_each(|(to, of)| *to = [to[0] + of[0], to[1] + of[1]]);
                };
                add(&mut all.k[k * d..], &of.k);
                add(&mut all.v[k * dv..], &of.v);
                add(&mut all.sinks[h..], &of.sinks);
                if let Some([batch, heads, ..]) = self.bias_shape() {
                    let matrix = (if batch == 1 { 0 } else { s }) * heads + if heads == 1 { 0 } else { h };
                    add(&mut all.bias[matrix * queries * keys..], &of.bias);
                }
                all.reach = all.reach.max(of.reach);
            }
        }
        all
    }

    pub fn attention(&self) -> Attention<'static> {
        let Scores { scale, softcap, causal, window, .. } = self.scores;
        let attention = Attention::new().scale(scale);
        let attention = if causal { attention.causal() } else { attention };
        let attention = softcap.into_iter().fold(attention, Attention::softcap);
        window.into_iter().fold(attention, |attention, [left, right]| attention.window(left, right))
    }

    /// Calls `with` with a gradient of the case, and its tensors.
    pub fn with<R>(
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
    ) -> tilewright::Result<(R, Outputs<T>)> {
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
        let mut outputs = Outputs {
            of_inputs: [to(0)?, to(1)?, to(2)?],
            d_bias: self
                .bias_shape()
                .map(|shape| Operand::poisoned(device, (self.place)(shape)))
                .transpose()?,
            d_sinks: match self.terms.sinks {
                true => {
                    Some(Operand::poisoned(device, Place::ordered([1, 1, self.heads, 1], [0, 1, 2, 3], 2))?)
                }
                false => None,
            },
        };
        let [sinks, slopes] = self.terms.tensors(device, self.sizes())?;
        let bias = self.terms.bias::<T>(device, self.sizes(), false)?;
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
        let attention: Attention<'_> = self.attention();
        let attention = sinks.iter().fold(attention, |attention, of| attention.sinks(&of.view()));
        let attention = slopes.iter().fold(attention, |attention, of| attention.alibi_slopes(&of.view()));
        let attention = bias.iter().fold(attention, |attention, of| attention.bias(of.view()));
        let gradient = match self.packed {
            false => attention.gradient(),
            true => {
                let [queries, keys] = &offsets;
                let packed = attention.packed(queries.view(), keys.view(), longest(0));
                packed.gradient().longest_keys(longest(1))
            }
        };
        let gradient = if self.deterministic { gradient.deterministic() } else { gradient };
        let gradient = self.splits.into_iter().fold(gradient, AttentionGradient::splits);
        let Outputs { of_inputs, d_bias, d_sinks } = &mut outputs;
        let d_bias = d_bias.as_mut().map(Operand::view_mut).transpose()?;
        let gradient = d_bias.into_iter().fold(gradient, AttentionGradient::d_bias);
        let mut d_sinks = match d_sinks {
            Some(of) => Some(of.view_mut()?.select(3, 0)?.select(0, 0)?.select(0, 0)?),
            None => None,
        };
        let gradient = d_sinks.iter_mut().fold(gradient, AttentionGradient::d_sinks);
        let lse = lse.view()?.select(3, 0)?;
        let views = [&q.view()?, &k.view()?, &v.view()?, &o.view()?, &d_o.view()?];
        let result = with(&stream, gradient, views, &lse, of_inputs)?;
        stream.synchronize()?;
        Ok((result, outputs))
    }

    pub fn run(
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
        fn read<T: Real>(of: &Operand<T>) -> tilewright::Result<Vec<T>> {
            let (data, outside) = of.read()?;
            assert_eq!(outside, 0, "elements outside of a gradient were written");
            Ok(data)
        }
        let Outputs { of_inputs: [d_q, d_k, d_v], d_bias, d_sinks } = &outputs;
        Ok(Results {
            of_inputs: [read(d_q)?, read(d_k)?, read(d_v)?],
            bias: d_bias.as_ref().map(read).transpose()?.unwrap_or_default(),
            sinks: d_sinks.as_ref().map(read).transpose()?.unwrap_or_default(),
        })
    }

    /// The kernels that can compute it.
    pub fn kernels(&self, device: &Device, exact: &Gradients) -> tilewright::Result<Vec<String>> {
        let (names, _) = self.with(device, exact, |_, gradient, [q, k, v, o, d_o], lse, outputs| {
            let [d_q, d_k, d_v] = outputs;
            let outputs = [&d_q.view_mut()?, &d_k.view_mut()?, &d_v.view_mut()?];
            let all = gradient.candidates([q, k, v], (o, lse), d_o, outputs)?;
            let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
            Ok(possible.map(|kernel| kernel.name().to_owned()).collect())
        })?;
        Ok(names)
    }

    pub fn compare(&self, results: &Results<T>, exact: &Gradients) -> Result<(), String> {
        let (cap, depth) = (self.scores.softcap.map_or(0.0, f64::from), self.columns[0]);
        let of_inputs = results.of_inputs.iter().zip([&exact.q, &exact.k, &exact.v]);
        let others = [(&results.bias, &exact.bias)];
        for (name, (of, exact_of)) in ["dQ", "dK", "dV", "d_bias"].into_iter().zip(of_inputs.chain(others)) {
            assert_eq!(of.len(), exact_of.len(), "elements of {name}");
            agrees::<T>(&T::widen(of), exact_of, exact.reach, depth, cap)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        // O is rounded to the element type.
        agrees::<T>(&results.sinks, &exact.sinks[..results.sinks.len()], exact.reach, depth, cap)
            .map_err(|error| format!("d_sinks: {error}"))
    }

    /// On the kernels that can compute it: on the emulator on one of them.
    pub fn check(&self, device: &Device) -> Outcome {
        let exact = self.exact();
        let kernels = self.kernels(device, &exact)?;
        assert!(!kernels.is_empty(), "no kernel computes {self:?}");
        let Case { lengths, packed, columns, scores, terms, deterministic, .. } = self;
        let of = format!("{:?} {lengths:?} {packed} {columns:?} {scores:?} {terms:?}", T::DTYPE);
        let mut kernels: Vec<_> = kernels.into_iter().filter(|name| watched::runs(name)).collect();
        // On the emulator too those that add in turn, where there are some.
        if *deterministic && device.is_emulator() && kernels.iter().any(|name| name.contains("_all_")) {
            kernels.retain(|name| name.contains("_all_"));
        }
        for kernel in one_of(device, kernels, of) {
            let results = self.run(device, &exact, Some(&kernel))?;
            self.compare(&results, &exact).map_err(|error| {
                format!(
                    "{kernel}: {error}\n{lengths:?}, packed: {packed}, {columns:?}\n{scores:?}, {terms:?}"
                )
            })?;
            for _ in 0..if !deterministic {
                0
            } else if device.is_emulator() {
                1
            } else {
                5
            } {
                let again = self.run(device, &exact, Some(&kernel))?;
                assert!(results.has_bits_of(&again), "{kernel}: another run of {self:?} gives other bits");
            }
        }
        Ok(())
    }
}
