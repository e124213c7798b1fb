//! The tensors of a case, and its launch.

use std::cell::RefCell;

use tilewright::ops::{Attention, AttentionGradient, AttentionGradientCandidate};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::timing::sets;

use crate::case::Case;

/// Which of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The operator's choice.
    Chosen,
    /// The choice among those that give the same bits, run by run.
    Deterministic,
    /// The kernel of keys of this name.
    Kernel(&'static str),
}

/// A case that can be computed, on one of several sets of tensors.
pub struct Problem {
    case: Case,
    sets: Vec<Set>,
}

/// The tensors of a call.
struct Set {
    /// Q, K and V, then O and dO.
    inputs: [Tensor<bf16>; 5],
    lse: Tensor<f32>,
    outputs: [RefCell<Tensor<bf16>>; 3],
    workspace: RefCell<Tensor<f32>>,
}

/// Random numbers, repeated as often as a tensor needs.
fn random(device: &Device, seed: u64, shape: &[usize]) -> tilewright::Result<Tensor<bf16>> {
    let (all, period) = (shape.iter().product::<usize>(), (1 << 22) - 77);
    let values = normal::<bf16>(seed, all.min(period));
    let repeated: Vec<_> = values.iter().copied().cycle().take(all).collect();
    Tensor::from_slice(device, &repeated, shape)
}

/// A case's tensors: as many sets as it takes to find none in the cache when it is used again.
pub fn problem(device: &Device, case: Case) -> tilewright::Result<Problem> {
    let [of_q, of_k] = case.shapes();
    let set = |i: usize| {
        let at = |seed: u64, shape: &[usize]| random(device, seed + 10 * i as u64, shape);
        let (q, k, v, d_o) = (at(1, &of_q)?, at(2, &of_k)?, at(3, &of_k)?, at(4, &of_q)?);
        let mut o = Tensor::uninit(device, &of_q)?;
        let mut lse = Tensor::uninit(device, &of_q[..3])?;
        let mut lse_view = lse.view_mut();
        let mut attention = attention(&case).lse(&mut lse_view);
        let stream = device.default_stream();
        attention.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut())?;
        drop(attention);
        let to = |shape: &[usize]| Ok::<_, tilewright::Error>(RefCell::new(Tensor::uninit(device, shape)?));
        Ok::<_, tilewright::Error>(Set {
            inputs: [q, k, v, o, d_o],
            lse,
            outputs: [to(&of_q)?, to(&of_k)?, to(&of_k)?],
            workspace: RefCell::new(Tensor::zeros(device, &[0])?),
        })
    };
    let sets = (0..sets(device, case.bytes())).map(set).collect::<tilewright::Result<Vec<_>>>()?;
    let problem = Problem { case, sets };
    for set in &problem.sets {
        let ways = problem.kernels()?.into_iter().map(Way::Kernel).chain([Way::Deterministic]);
        let lens: tilewright::Result<Vec<usize>> = ways.map(|way| Ok(problem.plan(set, way)?.1)).collect();
        *set.workspace.borrow_mut() = Tensor::uninit(device, &[lens?.into_iter().max().unwrap_or(0)])?;
    }
    Ok(problem)
}

fn attention(case: &Case) -> Attention<'static> {
    if case.causal { Attention::new().causal() } else { Attention::new() }
}

impl Problem {
    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    fn gradient(&self, way: Way) -> AttentionGradient<'static> {
        let gradient = attention(&self.case).gradient();
        match way {
            Way::Chosen => gradient,
            Way::Deterministic => gradient.deterministic(),
            Way::Kernel(name) => gradient.kernel(name),
        }
    }

    /// The kernels of keys that can compute it, but for those that take four times as long as the best by estimate.
    pub fn kernels(&self) -> tilewright::Result<Vec<&'static str>> {
        let set = &self.sets[0];
        let [q, k, v, o, d_o] = set.inputs.each_ref().map(Tensor::view);
        let [d_q, d_k, d_v] = &set.outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.borrow_mut(), d_k.borrow_mut(), d_v.borrow_mut());
        let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
        let gradient = self.gradient(Way::Chosen);
        let all = gradient.candidates([&q, &k, &v], (&o, &set.lse.view()), &d_o, outputs)?;
        let cycles = |kernel: &AttentionGradientCandidate| kernel.cycles().unwrap_or(u64::MAX);
        let least = all.iter().map(cycles).min().unwrap_or(u64::MAX);
        let worth = |kernel: &&AttentionGradientCandidate| cycles(kernel) / 4 < least;
        Ok(all.iter().filter(worth).map(|kernel| kernel.name()).collect())
    }

    /// The kernel's name, and elements of the workspace.
    fn plan(&self, set: &Set, way: Way) -> tilewright::Result<(&'static str, usize)> {
        let [q, k, v, o, d_o] = set.inputs.each_ref().map(Tensor::view);
        let [d_q, d_k, d_v] = &set.outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.borrow_mut(), d_k.borrow_mut(), d_v.borrow_mut());
        let outputs = [&d_q.view_mut(), &d_k.view_mut(), &d_v.view_mut()];
        let plan = self.gradient(way).plan([&q, &k, &v], (&o, &set.lse.view()), &d_o, outputs)?;
        Ok((plan.kernel().name(), plan.workspace_len()))
    }

    /// The name of the kernel of keys.
    pub fn kernel(&self, way: Way) -> tilewright::Result<&'static str> {
        Ok(self.plan(&self.sets[0], way)?.0)
    }

    /// Queues it.
    pub fn launch(&self, stream: &Stream, set: usize, way: Way) -> tilewright::Result<()> {
        let set = &self.sets[set];
        let [q, k, v, o, d_o] = set.inputs.each_ref().map(Tensor::view);
        let [d_q, d_k, d_v] = &set.outputs;
        let (mut d_q, mut d_k, mut d_v) = (d_q.borrow_mut(), d_k.borrow_mut(), d_v.borrow_mut());
        let mut workspace = set.workspace.borrow_mut();
        let mut workspace = workspace.view_mut();
        let gradient: AttentionGradient<'_> = self.gradient(way);
        let mut gradient = gradient.workspace(&mut workspace);
        let outputs = [&mut d_q.view_mut(), &mut d_k.view_mut(), &mut d_v.view_mut()];
        gradient.run(stream, [&q, &k, &v], (&o, &set.lse.view()), &d_o, outputs)
    }

    /// Compares both ways with a kernel that neither takes, where there is one: the tests compare kernels with references, on smaller tensors.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        let results = |way| -> Result<Vec<Vec<f32>>> {
            for output in &self.sets[0].outputs {
                output.borrow_mut().view_mut().fill(stream, bf16::NAN)?;
            }
            self.launch(stream, 0, way)?;
            let read = |output: &RefCell<Tensor<bf16>>| -> Result<Vec<f32>> {
                Ok(output.borrow().to_vec_on(stream)?.iter().map(|x| x.to_f32()).collect())
            };
            self.sets[0].outputs.iter().map(read).collect()
        };
        let taken = [self.kernel(Way::Chosen)?, self.kernel(Way::Deterministic)?];
        let other = self.kernels()?.into_iter().find(|name| !taken.contains(name)).unwrap_or(taken[0]);
        let others = results(Way::Kernel(other))?;
        for way in [Way::Chosen, Way::Deterministic] {
            for (name, (one, other)) in ["dQ", "dK", "dV"].into_iter().zip(results(way)?.iter().zip(&others))
            {
                let other: Vec<f64> = other.iter().map(|&x| x.into()).collect();
                let error = relative_error(one, &other);
                if error.is_nan() || error > 1e-2 {
                    return Err(format!("{}: {way:?} differs by {error:.1e} in {name}", self.case).into());
                }
            }
        }
        Ok(())
    }
}
