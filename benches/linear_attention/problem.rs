//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{LinearAttention, LinearAttentionGradient};
use tilewright::{Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::random::normal;
use tilewright_support::timing::sets;

use crate::case::{Case, Form};

/// A case's tensors, in as many sets as it takes to find none of them in the cache.
pub struct Problem {
    pub case: Case,
    /// Decays of heads, gates of rows, gates of channels, β.
    gates: [Tensor<f32>; 4],
    sets: Vec<Set>,
    workspace: RefCell<Tensor<f32>>,
}

struct Set {
    inputs: [Tensor<bf16>; 3],
    /// O, or the gradient by it.
    o: RefCell<Tensor<bf16>>,
    state: RefCell<Tensor<f32>>,
    /// By Q, K and V, and by gates.
    gradients: RefCell<([Tensor<bf16>; 3], Tensor<f32>)>,
}

/// Random numbers, so many of them different that caches and sums see no period: making all anew would take longer than measuring.
fn repeated<T: Copy>(seed: u64, count: usize, f: impl Fn(f32) -> T) -> Vec<T> {
    let period: Vec<T> = normal::<f32>(seed, count.min((1 << 22) - 77)).into_iter().map(f).collect();
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        all.extend_from_slice(&period[..period.len().min(count - all.len())]);
    }
    all
}

impl Problem {
    pub fn new(device: &Device, case: Case) -> Result<Self> {
        let Case { batch, rows, heads, columns, form, backward } = case;
        let shape = [batch, rows, heads, columns];
        let count = shape.iter().product();
        let key = 1.0 / (columns as f32).sqrt();
        let random = |seed, by: f32| repeated(seed, count, |x| bf16::from_f32(x * by));
        let host = [random(1, 1.0), random(2, key), random(3, 1.0)];
        let of = |seed, shape: &[usize], f: &dyn Fn(f32) -> f32| {
            Tensor::from_slice(device, &repeated(seed, shape.iter().product(), f), shape)
        };
        let channels = if case.by_channels() { shape } else { [0; 4] };
        let gates = [
            of(4, &[heads], &|x| -0.01 * x.abs())?,
            of(5, &shape[..3], &|x| -0.1 * x.abs())?,
            of(6, &channels, &|x| -0.05 * x.abs())?,
            of(7, &shape[..3], &|x| 1.0 / (1.0 + (-x).exp()))?,
        ];
        let states = if form == Form::Step { [batch, heads, columns, columns] } else { [0; 4] };
        let of_gradients = if backward { shape } else { [0; 4] };
        let of_gates = match (backward, case.by_channels()) {
            (true, true) => shape.to_vec(),
            (true, false) => shape[..3].to_vec(),
            (false, _) => vec![0],
        };
        let make = |_| -> Result<Set> {
            let poison = || Tensor::filled(device, bf16::NAN, &of_gradients);
            let tensor = |data: &Vec<bf16>| Tensor::from_slice(device, data, &shape);
            Ok(Set {
                inputs: [tensor(&host[0])?, tensor(&host[1])?, tensor(&host[2])?],
                o: RefCell::new(tensor(&host[2])?),
                state: RefCell::new(Tensor::zeros(device, &states)?),
                gradients: RefCell::new((
                    [poison()?, poison()?, poison()?],
                    Tensor::filled(device, f32::NAN, &of_gates)?,
                )),
            })
        };
        let sets = (0..sets(device, case.bytes() as usize)).map(make).collect::<Result<Vec<_>>>()?;
        let problem = Problem { case, gates, sets, workspace: RefCell::new(Tensor::zeros(device, &[0])?) };
        let len = if form == Form::Step {
            0
        } else if backward {
            problem.backward(0, |operator, inputs, d_o, outputs| {
                operator.workspace_len(inputs, d_o, outputs.each_ref().map(|output| &**output))
            })?
        } else {
            problem.of_first(|operator, [q, k, v], o| operator.workspace_len(q, k, v, &o.view_mut()))?
        };
        problem.workspace.replace(Tensor::zeros(device, &[len])?);
        Ok(problem)
    }

    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// What is asked of the operator.
    fn operator(&self) -> LinearAttention<'_> {
        let [decay, rows, channels, beta] = self.gates.each_ref().map(|tensor| tensor.view());
        let new = LinearAttention::new();
        match self.case.form {
            Form::Plain => new,
            Form::Retention => new.decay(&decay),
            Form::Gates => new.gates(&rows),
            Form::ChannelGates => new.channel_gates(&channels),
            Form::Delta => new.delta(&beta),
            Form::GatedDelta | Form::Step => new.gates(&rows).delta(&beta),
            Form::ChannelGatedDelta => new.channel_gates(&channels).delta(&beta),
        }
    }

    /// `f` of the gradient's operator with a set's Q, K and V, the gradient by O, and those to be written.
    fn backward<R>(
        &self,
        set: usize,
        f: impl FnOnce(
            LinearAttentionGradient<'_>,
            [&TensorView<'_, bf16>; 3],
            &TensorView<'_, bf16>,
            [&mut TensorViewMut<'_, bf16>; 3],
        ) -> Result<R>,
    ) -> Result<R> {
        let Set { inputs, o, gradients, .. } = &self.sets[set];
        let [q, k, v] = inputs.each_ref().map(|input| input.view());
        let mut gradients = gradients.borrow_mut();
        let ([d_q, d_k, d_v], d_gates) = &mut *gradients;
        let mut d_gates = d_gates.view_mut();
        let operator = self.operator().gradient();
        let operator = if self.case.has_gates() { operator.d_gates(&mut d_gates) } else { operator };
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        f(operator, [&q, &k, &v], &o.borrow().view(), outputs)
    }

    /// `f` of the operator with the first set's Q, K, V and O.
    fn of_first<R>(
        &self,
        f: impl FnOnce(LinearAttention<'_>, [&TensorView<'_, bf16>; 3], &mut Tensor<bf16>) -> Result<R>,
    ) -> Result<R> {
        let Set { inputs, o, .. } = &self.sets[0];
        let [q, k, v] = inputs.each_ref().map(|input| input.view());
        f(self.operator(), [&q, &k, &v], &mut o.borrow_mut())
    }

    /// The kernels that can compute it, the one that is chosen first; a step has one alone.
    pub fn kernels(&self) -> Result<Vec<&'static str>> {
        if self.case.form == Form::Step {
            return Ok(vec!["linear_attention_step"]);
        }
        if self.case.backward {
            return self.backward(0, |operator, inputs, d_o, outputs| {
                let outputs = outputs.each_ref().map(|output| &**output);
                let all = operator.candidates(inputs, d_o, outputs)?;
                Ok(all.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()).collect())
            });
        }
        self.of_first(|operator, [q, k, v], o| {
            let all = operator.candidates(q, k, v, &o.view_mut())?;
            Ok(all.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()).collect())
        })
    }

    /// Queues it on one of the sets, by a kernel of this name or the one that is chosen.
    pub fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        if self.case.backward {
            let mut workspace = self.workspace.borrow_mut();
            let mut workspace = workspace.view_mut();
            return self.backward(set, |operator, inputs, d_o, outputs| {
                let operator = kernel.into_iter().fold(operator, |operator, name| operator.kernel(name));
                operator.workspace(&mut workspace).run(stream, inputs, d_o, outputs)
            });
        }
        let Set { inputs, o, state, .. } = &self.sets[set];
        let [q, k, v] = inputs.each_ref().map(|input| input.view());
        let mut o = o.borrow_mut();
        let mut o = o.view_mut();
        if self.case.form == Form::Step {
            return self.operator().step(stream, &mut state.borrow_mut().view_mut(), &q, &k, &v, &mut o);
        }
        let mut workspace = self.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let operator = kernel.into_iter().fold(self.operator(), |operator, name| operator.kernel(name));
        operator.workspace(&mut workspace).run(stream, &q, &k, &v, &mut o)
    }
}
