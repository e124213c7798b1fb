//! One linear attention: run, and compared with the recurrence in f64.

use std::fmt::Display;

use tilewright::ops::{HalfElement, LinearAttention};
use tilewright::{Device, Stream, Tensor};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::recurrence::{Row, State};
use tilewright_support::reference::relative_error;
use tilewright_support::suite::{Outcome, picked};

/// Element types.
pub trait Input: Real + HalfElement {}
impl<T: Real + HalfElement> Input for T {}

/// Sizes and options.
#[derive(Clone, Debug)]
pub struct Case {
    pub batch: usize,
    pub heads: usize,
    /// Rows of each sequence; of packed ones, of each of them.
    pub rows: usize,
    pub packed: Option<Vec<usize>>,
    /// Columns of Q and K, and of V and O.
    pub columns: [usize; 2],
    /// Decays of heads.
    pub decay: Option<Vec<f32>>,
    /// The mean logarithm of rows' gates.
    pub gates: Option<f32>,
    /// The mean logarithm of channels' gates.
    pub channel_gates: Option<f32>,
    /// By the delta rule, with corrections of up to so much.
    pub delta: Option<f32>,
    pub states: bool,
    pub segments: Option<usize>,
}

/// What a call reads, as the host has it.
pub struct Data<T> {
    pub q: Vec<T>,
    pub k: Vec<T>,
    pub v: Vec<T>,
    pub decay: Vec<f32>,
    pub gates: Vec<f32>,
    pub channel_gates: Vec<f32>,
    pub beta: Vec<f32>,
    pub initial: Vec<f32>,
}

/// What a call writes.
pub struct Results {
    pub o: Vec<f64>,
    pub states: Vec<f64>,
}

impl Case {
    /// A sequence of so many rows, two heads of so many columns, with states.
    pub fn new(rows: usize, columns: [usize; 2]) -> Self {
        Case {
            batch: 1,
            heads: 2,
            rows,
            packed: None,
            columns,
            decay: None,
            gates: None,
            channel_gates: None,
            delta: None,
            states: true,
            segments: None,
        }
    }
    /// With decays of heads.
    pub fn decay(self, decay: &[f32]) -> Self {
        Case { heads: decay.len(), decay: Some(decay.to_vec()), ..self }
    }
    /// With gates of rows.
    pub fn gates(self, mean: f32) -> Self {
        Case { gates: Some(mean), ..self }
    }
    /// With gates of channels.
    pub fn channels(self, mean: f32) -> Self {
        Case { channel_gates: Some(mean), ..self }
    }
    /// By the delta rule.
    pub fn delta(self, most: f32) -> Self {
        Case { delta: Some(most), ..self }
    }
    /// In so many segments.
    pub fn segments(self, segments: usize) -> Self {
        Case { segments: Some(segments), ..self }
    }
    /// Sequences of these lengths, one after the other.
    pub fn packed(self, lengths: &[usize]) -> Self {
        Case { rows: lengths.iter().sum(), packed: Some(lengths.to_vec()), ..self }
    }

    /// Where each sequence's rows begin among all rows, and how many they are.
    pub fn sequences(&self) -> Vec<(usize, usize)> {
        match &self.packed {
            None => (0..self.batch).map(|i| (i * self.rows, self.rows)).collect(),
            Some(lengths) => {
                let begin = |i: usize| lengths[..i].iter().sum();
                lengths.iter().enumerate().map(|(i, &length)| (begin(i), length)).collect()
            }
        }
    }

    /// Random data; keys as long as 1.
    pub fn data<T: Input>(&self) -> Data<T> {
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let lines = batch * rows * heads;
        let scaled = |seed, count, by: f32| -> Vec<T> {
            let values: Vec<f32> = normal(seed, count);
            T::round(&values.into_iter().map(|x| x * by).collect::<Vec<_>>())
        };
        let key = 1.0 / (d as f32).sqrt();
        let gates: Vec<f32> = normal(4, lines);
        let mean = self.gates.unwrap_or(0.0);
        Data {
            q: scaled(1, lines * d, 1.0),
            k: scaled(2, lines * d, key),
            v: scaled(3, lines * dv, 1.0),
            decay: self.decay.clone().unwrap_or_default(),
            gates: gates.into_iter().map(|x| mean * x.abs()).collect(),
            channel_gates: {
                let mean = self.channel_gates.unwrap_or(0.0);
                let count = if self.channel_gates.is_some() { lines * d } else { 0 };
                normal::<f32>(6, count).into_iter().map(|x| mean * x.abs()).collect()
            },
            // From 0 to the most that they may be.
            beta: normal::<f32>(7, if self.delta.is_some() { lines } else { 0 })
                .into_iter()
                .map(|x| self.delta.unwrap_or(0.0) / (1.0 + (-2.0 * x).exp()))
                .collect(),
            initial: normal(5, if self.states { self.sequences().len() * heads * d * dv } else { 0 }),
        }
    }

    /// The recurrence, in f64.
    pub fn exact<T: Input>(&self, data: &Data<T>) -> Results {
        let Case { heads, rows, batch, columns: [d, dv], .. } = *self;
        let mut results =
            Results { o: vec![0.0; batch * rows * heads * dv], states: vec![0.0; data.initial.len()] };
        let wide = [&data.q, &data.k, &data.v].map(|x| T::widen(x));
        for (i, (first, count)) in self.sequences().into_iter().enumerate() {
            for head in 0..heads {
                let line = |r: usize| (first + r) * heads + head;
                let of = |x: &[f32], columns: usize, r: usize| x[line(r) * columns..][..columns].to_vec();
                let at = (i * heads + head) * d * dv;
                let mut state = State::new([d, dv], data.initial.get(at..at + d * dv));
                for r in 0..count {
                    let mut gate = self.decay.as_ref().map_or(0.0, |decay| decay[head]);
                    if self.gates.is_some() {
                        gate += data.gates[line(r)];
                    }
                    let row = Row {
                        q: of(&wide[0], d, r),
                        k: of(&wide[1], d, r),
                        v: of(&wide[2], dv, r),
                        gate: match self.channel_gates {
                            Some(_) => of(&data.channel_gates, d, r),
                            None => vec![gate; d],
                        },
                        beta: self.delta.map(|_| data.beta[line(r)]),
                    };
                    let o = state.step(&row, 1.0 / (d as f64).sqrt());
                    results.o[line(r) * dv..][..dv].copy_from_slice(&o);
                }
                if self.states {
                    results.states[at..][..d * dv].copy_from_slice(&state.state);
                }
            }
        }
        results
    }

    /// Runs it on the kernel that is chosen for it.
    pub fn check<T: Input>(&self, device: &Device) -> Outcome {
        let data = self.data::<T>();
        self.run(device, None, &data, &self.exact(&data))
    }

    /// Runs it on the kernels that can compute it: on the emulator on a quarter of them.
    pub fn check_all<T: Input>(&self, device: &Device) -> Outcome {
        let data = self.data::<T>();
        let exact = self.exact(&data);
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let x = Tensor::<T>::zeros(device, &[batch, rows, heads, d])?;
        let mut y = Tensor::<T>::zeros(device, &[batch, rows, heads, dv])?;
        let v = Tensor::<T>::zeros(device, &[batch, rows, heads, dv])?;
        let gates = Tensor::<f32>::zeros(device, &[batch, rows, heads, d])?;
        let beta = Tensor::<f32>::zeros(device, &[batch, rows, heads])?;
        let mut operator = LinearAttention::new();
        if self.channel_gates.is_some() {
            operator = operator.channel_gates(&gates.view());
        }
        if self.delta.is_some() {
            operator = operator.delta(&beta.view());
        }
        let all = operator.candidates(&x.view(), &x.view(), &v.view(), &y.view_mut())?;
        let of = format!("{:?} {self:?}", T::DTYPE);
        let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
        for kernel in possible.filter(|kernel| picked(device, (kernel.name(), &of), 4)) {
            self.run(device, Some(kernel.name()), &data, &exact)?;
        }
        Ok(())
    }

    /// Runs it on the kernel of this name.
    pub fn run<T: Input>(
        &self,
        device: &Device,
        kernel: Option<&str>,
        data: &Data<T>,
        exact: &Results,
    ) -> Outcome {
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let stream = Stream::new(device)?;
        let shape = |columns| [batch, rows, heads, columns];
        let q = Tensor::from_slice(device, &data.q, &shape(d))?;
        let k = Tensor::from_slice(device, &data.k, &shape(d))?;
        let v = Tensor::from_slice(device, &data.v, &shape(dv))?;
        let mut o = Tensor::filled(device, T::POISON, &shape(dv))?;
        let gates = Tensor::from_slice(device, &data.gates, &[batch, rows, heads])?;
        let channels = if data.channel_gates.is_empty() { 0 } else { rows };
        let channel_gates = Tensor::from_slice(device, &data.channel_gates, &[batch, channels, heads, d])?;
        let corrected = if data.beta.is_empty() { 0 } else { rows };
        let beta = Tensor::from_slice(device, &data.beta, &[batch, corrected, heads])?;
        let decay = Tensor::from_slice(device, &data.decay, &[data.decay.len()])?;
        let sequences = self.sequences();
        let offsets: Vec<i64> = sequences.iter().map(|s| s.0 as i64).chain([rows as i64]).collect();
        let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let of_states = if self.states { [sequences.len(), heads, d, dv] } else { [0, heads, d, dv] };
        let initial = Tensor::from_slice(device, &data.initial, &of_states)?;
        let mut last = Tensor::filled(device, f32::NAN, &of_states)?;
        let mut last_view = last.view_mut();
        let mut operator = kernel.into_iter().fold(LinearAttention::new(), LinearAttention::kernel);
        operator = self.segments.into_iter().fold(operator, LinearAttention::segments);
        if self.decay.is_some() {
            operator = operator.decay(&decay.view());
        }
        if self.gates.is_some() {
            operator = operator.gates(&gates.view());
        }
        if self.channel_gates.is_some() {
            operator = operator.channel_gates(&channel_gates.view());
        }
        if self.delta.is_some() {
            operator = operator.delta(&beta.view());
        }
        if self.states {
            operator = operator.initial_state(&initial.view()).final_state(&mut last_view);
        }
        if let Some(lengths) = &self.packed {
            operator = operator.packed(offsets.view(), lengths.iter().copied().max().unwrap_or(0));
        }
        let plan = operator.plan(&q.view(), &k.view(), &v.view(), &o.view_mut())?;
        let wrong = |what: &dyn Display| format!("{plan}: {what}\n{self:?}");
        operator.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut()).map_err(|e| wrong(&e))?;
        drop(operator);
        let o = o.to_vec_on(&stream).map_err(|error| wrong(&error))?;
        let error = relative_error(&o, &exact.o);
        // Scores, the state where Q multiplies it, and the result are rounded.
        let right = |error: f64| error <= self.allowed() * T::ROUNDING;
        if !o.is_empty() && !right(error) {
            return Err(wrong(&format!("O is off by {error:.1e}")).into());
        }
        let last = last.to_vec_on(&stream)?;
        let error = relative_error(&last, &exact.states);
        if self.states && !right(error) {
            return Err(wrong(&format!("the state is off by {error:.1e}")).into());
        }
        Ok(())
    }

    /// How many roundings results may be off by: what corrects is itself of rounded results.
    fn allowed(&self) -> f64 {
        if self.delta.is_some() { 3.0 } else { 1.5 }
    }
}
