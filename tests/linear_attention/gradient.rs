//! The gradients of one linear attention: run, and compared with those of the recurrence in f64.

use std::fmt::Display;

use tilewright::ops::LinearAttention;
use tilewright::{Device, Stream, Tensor};
use tilewright_support::random::normal;
use tilewright_support::recurrence::{Row, gradients};
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Data, Input};

/// The gradients that a call is given.
pub struct Given<T> {
    pub d_o: Vec<T>,
    /// By the last state.
    pub last: Vec<f32>,
    /// Whether gates' gradients are not asked for.
    pub no_gates: bool,
}

/// Gradients by Q, K, V, gates and the first state.
#[derive(Clone, Default)]
pub struct Gradients {
    pub q: Vec<f64>,
    pub k: Vec<f64>,
    pub v: Vec<f64>,
    pub gates: Vec<f64>,
    pub initial: Vec<f64>,
}

/// Those of a call, which are compared.
pub struct Results<T> {
    pub by: [Vec<T>; 3],
    pub gates: Vec<f32>,
    /// By decays of heads, where there are some.
    pub decay: Vec<f32>,
    pub initial: Vec<f32>,
}

impl Case {
    /// Random gradients to begin with.
    pub fn given<T: Input>(&self) -> Given<T> {
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let states = if self.states { self.sequences().len() * heads * d * dv } else { 0 };
        Given {
            d_o: T::round(&normal::<f32>(11, batch * rows * heads * dv)),
            // As large as those by the results.
            last: normal::<f32>(12, states).into_iter().map(|x| x / (d as f32).sqrt()).collect(),
            no_gates: false,
        }
    }

    /// Elements of a line of gates' gradients.
    pub fn gate_columns(&self) -> usize {
        if self.channel_gates.is_some() { self.columns[0] } else { 1 }
    }

    /// Those of the recurrence, in f64.
    pub fn exact_gradients<T: Input>(&self, data: &Data<T>, given: &Given<T>) -> Gradients {
        let Case { heads, rows, batch, columns: [d, dv], .. } = *self;
        let (lines, gate_columns) = (batch * rows * heads, self.gate_columns());
        let mut all = Gradients {
            q: vec![0.0; lines * d],
            k: vec![0.0; lines * d],
            v: vec![0.0; lines * dv],
            gates: vec![0.0; lines * gate_columns],
            initial: vec![0.0; data.initial.len()],
        };
        let [q, k, v] = [&data.q, &data.k, &data.v].map(|x| T::widen(x));
        let d_o = T::widen(&given.d_o);
        for (i, (first, count)) in self.sequences().into_iter().enumerate() {
            for head in 0..heads {
                let line = |r: usize| (first + r) * heads + head;
                let of = |x: &[f32], columns: usize, r: usize| x[line(r) * columns..][..columns].to_vec();
                let row = |r: usize| {
                    let mut gate = self.decay.as_ref().map_or(0.0, |decay| decay[head]);
                    if self.gates.is_some() {
                        gate += data.gates[line(r)];
                    }
                    let gate = match self.channel_gates {
                        Some(_) => of(&data.channel_gates, d, r),
                        None => vec![gate; d],
                    };
                    Row { q: of(&q, d, r), k: of(&k, d, r), v: of(&v, dv, r), gate, beta: None }
                };
                let at = (i * heads + head) * d * dv;
                let states = [&data.initial, &given.last].map(|x| x.get(at..at + d * dv));
                let sequence: Vec<Row> = (0..count).map(row).collect();
                let d_o: Vec<Vec<f32>> = (0..count).map(|r| of(&d_o, dv, r)).collect();
                let scale = 1.0 / (d as f64).sqrt();
                let (rows, initial) = gradients([d, dv], &sequence, &d_o, states, scale);
                for (r, row) in rows.into_iter().enumerate() {
                    all.q[line(r) * d..][..d].copy_from_slice(&row.q);
                    all.k[line(r) * d..][..d].copy_from_slice(&row.k);
                    all.v[line(r) * dv..][..dv].copy_from_slice(&row.v);
                    let gates = &mut all.gates[line(r) * gate_columns..][..gate_columns];
                    match gate_columns {
                        1 => gates[0] = row.gate.iter().sum(),
                        _ => gates.copy_from_slice(&row.gate),
                    }
                }
                if self.states {
                    all.initial[at..at + d * dv].copy_from_slice(&initial);
                }
            }
        }
        all
    }

    /// Runs it on the kernel that is chosen for it.
    pub fn check_gradient<T: Input>(&self, device: &Device) -> Outcome {
        let (data, given) = (self.data::<T>(), self.given::<T>());
        let exact = self.exact_gradients(&data, &given);
        Ok(self.compare(&self.run_gradient(device, None, &data, &given)?, &exact)?)
    }

    /// The same, and the gradients by decays of heads.
    pub fn check_decay_gradient<T: Input>(&self, device: &Device) -> Outcome {
        let (data, given) = (self.data::<T>(), self.given::<T>());
        let exact = self.exact_gradients(&data, &given);
        for no_gates in [false, true] {
            let given = Given { no_gates, d_o: given.d_o.clone(), last: given.last.clone() };
            let results = self.run_gradient(device, None, &data, &given)?;
            self.compare(&results, &exact)?;
            for (head, &ours) in results.decay.iter().enumerate() {
                let rows = || exact.gates.iter().skip(head).step_by(self.heads);
                let (right, allowed) =
                    (rows().sum::<f64>(), 3.0 * T::ROUNDING * rows().map(|x| x.abs()).sum::<f64>());
                assert!((f64::from(ours) - right).abs() <= allowed, "{ours} for {right}: {self:?}");
            }
        }
        Ok(())
    }

    /// Runs it on every kernel of states that can compute it.
    pub fn check_gradient_all<T: Input>(&self, device: &Device) -> Outcome {
        let (data, given) = (self.data::<T>(), self.given::<T>());
        let exact = self.exact_gradients(&data, &given);
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let x = Tensor::<T>::zeros(device, &[batch, rows, heads, d])?;
        let y = Tensor::<T>::zeros(device, &[batch, rows, heads, dv])?;
        let gates = Tensor::<f32>::zeros(device, &[batch, rows, heads, d])?;
        let mut d_q = Tensor::<T>::zeros(device, &[batch, rows, heads, d])?;
        let mut d_k = Tensor::<T>::zeros(device, &[batch, rows, heads, d])?;
        let mut d_v = Tensor::<T>::zeros(device, &[batch, rows, heads, dv])?;
        let mut operator = LinearAttention::new();
        if self.channel_gates.is_some() {
            operator = operator.channel_gates(&gates.view());
        }
        let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
        let inputs = [&x.view(), &x.view(), &y.view()];
        let all = operator.gradient().candidates(inputs, &y.view(), outputs)?;
        for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
            let results = self.run_gradient(device, Some(kernel.name()), &data, &given)?;
            self.compare(&results, &exact).map_err(|error| format!("{}: {error}", kernel.name()))?;
        }
        Ok(())
    }

    /// Runs it, by the kernel of this name.
    pub fn run_gradient<T: Input>(
        &self,
        device: &Device,
        kernel: Option<&str>,
        data: &Data<T>,
        given: &Given<T>,
    ) -> tilewright_support::Result<Results<T>> {
        let Case { batch, heads, rows, columns: [d, dv], .. } = *self;
        let stream = Stream::new(device)?;
        let shape = |columns| [batch, rows, heads, columns];
        let tensor = |x: &[T], columns| Tensor::from_slice(device, x, &shape(columns));
        let (q, k, v) = (tensor(&data.q, d)?, tensor(&data.k, d)?, tensor(&data.v, dv)?);
        let d_o = tensor(&given.d_o, dv)?;
        let gates = Tensor::from_slice(device, &data.gates, &[batch, rows, heads])?;
        let channels = if data.channel_gates.is_empty() { 0 } else { rows };
        let channel_gates = Tensor::from_slice(device, &data.channel_gates, &[batch, channels, heads, d])?;
        let decay = Tensor::from_slice(device, &data.decay, &[data.decay.len()])?;
        let sequences = self.sequences();
        let offsets: Vec<u32> = sequences.iter().map(|s| s.0 as u32).chain([rows as u32]).collect();
        let offsets = Tensor::from_slice(device, &offsets, &[offsets.len()])?;
        let of_states = if self.states { [sequences.len(), heads, d, dv] } else { [0, heads, d, dv] };
        let initial = Tensor::from_slice(device, &data.initial, &of_states)?;
        let d_last = Tensor::from_slice(device, &given.last, &of_states)?;
        let mut d_initial = Tensor::filled(device, f32::NAN, &of_states)?;
        let poison = |columns| Tensor::filled(device, T::POISON, &shape(columns));
        let (mut d_q, mut d_k, mut d_v) = (poison(d)?, poison(d)?, poison(dv)?);
        let of_gates = match self.channel_gates {
            Some(_) => shape(d).to_vec(),
            None => vec![batch, rows, heads],
        };
        let mut d_gates = Tensor::filled(device, f32::NAN, &of_gates)?;
        let mut d_decay = Tensor::filled(device, f32::NAN, &[data.decay.len()])?;
        let mut d_decay_view = d_decay.view_mut();
        let (mut d_initial_view, mut d_gates_view) = (d_initial.view_mut(), d_gates.view_mut());
        let mut operator = self.segments.into_iter().fold(LinearAttention::new(), LinearAttention::segments);
        if self.decay.is_some() {
            operator = operator.decay(&decay.view());
        }
        if self.gates.is_some() {
            operator = operator.gates(&gates.view());
        }
        if self.channel_gates.is_some() {
            operator = operator.channel_gates(&channel_gates.view());
        }
        if self.states {
            operator = operator.initial_state(&initial.view());
        }
        if let Some(lengths) = &self.packed {
            operator = operator.packed(offsets.view(), lengths.iter().copied().max().unwrap_or(0));
        }
        let mut operator = operator.gradient();
        if !given.no_gates {
            operator = operator.d_gates(&mut d_gates_view);
        }
        if self.decay.is_some() {
            operator = operator.d_decay(&mut d_decay_view);
        }
        if self.states {
            operator = operator.d_final_state(&d_last.view()).d_initial_state(&mut d_initial_view);
        }
        operator = kernel.into_iter().fold(operator, |operator, name| operator.kernel(name));
        let wrong = |what: &dyn Display| format!("gradients: {what}\n{self:?}");
        operator
            .run(
                &stream,
                [&q.view(), &k.view(), &v.view()],
                &d_o.view(),
                [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()],
            )
            .map_err(|error| wrong(&error))?;
        drop(operator);
        let by = [d_q.to_vec_on(&stream), d_k.to_vec_on(&stream), d_v.to_vec_on(&stream)];
        let [d_q, d_k, d_v] = by.map(|x| x.map_err(|error| wrong(&error)));
        let initial = d_initial.to_vec_on(&stream)?;
        let gates = if given.no_gates { Vec::new() } else { d_gates.to_vec_on(&stream)? };
        Ok(Results { by: [d_q?, d_k?, d_v?], gates, decay: d_decay.to_vec_on(&stream)?, initial })
    }

    /// Compares results with the recurrence's.
    pub fn compare<T: Input>(&self, results: &Results<T>, exact: &Gradients) -> Result<(), String> {
        // Scores, states where they are multiplied, decayed rows and results are rounded.
        let allowed = 1.5 * T::ROUNDING;
        let [q, k, v] = &results.by;
        let errors = [("Q", q, &exact.q), ("K", k, &exact.k), ("V", v, &exact.v)];
        for (name, ours, exact) in errors {
            let error = relative_error(ours, exact);
            let right = error <= allowed;
            if !ours.is_empty() && !right {
                return Err(format!("the gradient by {name} is off by {error:.1e}\n{self:?}"));
            }
        }
        for (name, ours, exact) in
            [("gates", &results.gates, &exact.gates), ("the first state", &results.initial, &exact.initial)]
                .into_iter()
                // Not asked for.
                .filter(|(_, ours, _)| !ours.is_empty())
        {
            let nothing = exact.iter().all(|x| x.abs() < 1e-30);
            let error = relative_error(ours, exact);
            // Decays of channels are rounded too, and below 2^-14 to fewer bits of f16.
            let right = if nothing { ours.iter().all(|x| x.abs() < 1e-20) } else { error <= 2.0 * allowed };
            if !ours.is_empty() && !right {
                return Err(format!("the gradient by {name} is off by {error:.1e}\n{self:?}"));
            }
        }
        Ok(())
    }
}
