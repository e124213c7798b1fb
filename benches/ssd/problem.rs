//! The tensors of a case, and its launch.

use std::cell::RefCell;

use tilewright::ops::{CausalConv1d, Ssd, SsdStep};
use tilewright::{Device, Stream, Tensor, TensorView, bf16};
use tilewright_support::Result;
use tilewright_support::random::normal;
use tilewright_support::timing::sets;

use crate::case::{Case, N, Op, P, WIDTH};

/// A case that can be computed, on one of several sets of tensors.
pub struct Problem {
    case: Case,
    sets: Vec<Set>,
    a: Tensor<f32>,
    w: Tensor<bf16>,
    bias: Tensor<bf16>,
}

/// The tensors of a call: of a scan or a step, or x and y of a convolution.
struct Set {
    x: Tensor<bf16>,
    dt: Tensor<bf16>,
    bc: [Tensor<bf16>; 2],
    y: RefCell<Tensor<bf16>>,
    state: RefCell<Tensor<f32>>,
    workspace: RefCell<Tensor<f32>>,
}

/// Random numbers, repeated as often as a tensor needs.
fn random(device: &Device, seed: u64, shape: &[usize], by: f32) -> tilewright::Result<Tensor<bf16>> {
    let (all, period) = (shape.iter().product::<usize>(), (1 << 22) - 77);
    let values: Vec<_> =
        normal::<f32>(seed, all.min(period)).iter().map(|x| bf16::from_f32(x * by)).collect();
    let repeated: Vec<_> = values.iter().copied().cycle().take(all).collect();
    Tensor::from_slice(device, &repeated, shape)
}

/// A case's tensors: as many sets as it takes to find none in the cache when it is used again.
pub fn problem(device: &Device, case: Case) -> tilewright::Result<Problem> {
    let Case { batch, length, heads, .. } = case;
    let set = |i: usize| {
        let at = |seed: u64, shape: &[usize], by| random(device, seed + 10 * i as u64, shape, by);
        let x = match case.op {
            Op::Conv => vec![batch, length, case.channels()],
            _ => vec![batch, length, heads, P],
        };
        let bc = |seed| at(seed, &[batch, length, 1, N], 0.3);
        Ok::<_, tilewright::Error>(Set {
            y: RefCell::new(Tensor::filled(device, bf16::NAN, &x)?),
            x: at(1, &x, 1.0)?,
            dt: at(2, &[batch, length, heads], 1.0)?,
            bc: [bc(3)?, bc(4)?],
            state: RefCell::new(Tensor::zeros(device, &[batch, heads, P, N])?),
            workspace: RefCell::new(Tensor::zeros(device, &[0])?),
        })
    };
    let problem = Problem {
        case,
        sets: (0..sets(device, case.bytes())).map(set).collect::<tilewright::Result<_>>()?,
        a: Tensor::filled(device, -1.0, &[heads])?,
        w: random(device, 5, &[case.channels(), WIDTH], 0.5)?,
        bias: random(device, 6, &[case.channels()], 1.0)?,
    };
    for set in &problem.sets {
        let len = problem.workspace_len(set)?;
        *set.workspace.borrow_mut() = Tensor::zeros(device, &[len])?;
    }
    Ok(problem)
}

impl Problem {
    /// Number of sets.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    fn scan(&self) -> Ssd<'static, bf16> {
        match self.case.op {
            Op::Chunks(tokens) => Ssd::new().softplus().chunk(tokens),
            _ => Ssd::new().softplus(),
        }
    }

    fn workspace_len(&self, Set { x, dt, bc: [b, c], y, .. }: &Set) -> tilewright::Result<usize> {
        if matches!(self.case.op, Op::Step | Op::Conv) {
            return Ok(0);
        }
        let bc = [&b.view(), &c.view()];
        self.scan().workspace_len(&x.view(), &dt.view(), &self.a.view(), bc, &y.borrow_mut().view_mut())
    }

    /// The kernel that is chosen.
    pub fn kernel(&self) -> tilewright::Result<&'static str> {
        let Some(Set { x, dt, bc: [b, c], y, state, .. }) = self.sets.first() else { return Ok("") };
        let (x, dt, a, bc) = (x.view(), dt.view(), self.a.view(), [&b.view(), &c.view()]);
        let (mut y, mut state) = (y.borrow_mut(), state.borrow_mut());
        let y = y.view_mut();
        Ok(match self.case.op {
            Op::Scan | Op::Chunks(_) => self.scan().plan(&x, &dt, &a, bc, &y)?.kernel().name(),
            Op::Conv => CausalConv1d::new().plan(&x, &self.w.view(), &y)?.kernel().name(),
            Op::Step => {
                let (x, dt, b, c) = (one(&x)?, one(&dt)?, one(bc[0])?, one(bc[1])?);
                let y = y.select(1, 0)?;
                SsdStep::new().plan(&x, &dt, &a, [&b, &c], &y, &state.view_mut())?.kernel().name()
            }
        })
    }

    /// Queues it.
    pub fn launch(&self, stream: &Stream, set: usize) -> tilewright::Result<()> {
        let Set { x, dt, bc: [b, c], y, state, workspace } = &self.sets[set];
        let (x, dt, a, b, c) = (x.view(), dt.view(), self.a.view(), b.view(), c.view());
        let (mut y, mut state, mut workspace) = (y.borrow_mut(), state.borrow_mut(), workspace.borrow_mut());
        let mut y = y.view_mut();
        match self.case.op {
            Op::Scan | Op::Chunks(_) => {
                let mut workspace = workspace.view_mut();
                let scan = self.scan();
                scan.workspace(&mut workspace).run(stream, &x, &dt, &a, [&b, &c], &mut y)
            }
            Op::Conv => {
                let bias = self.bias.view();
                CausalConv1d::new().bias(&bias).silu().run(stream, &x, &self.w.view(), &mut y)
            }
            Op::Step => {
                let (x, dt, b, c, mut y) = (one(&x)?, one(&dt)?, one(&b)?, one(&c)?, y.select(1, 0)?);
                SsdStep::new().softplus().run(stream, &x, &dt, &a, [&b, &c], &mut y, &mut state.view_mut())
            }
        }
    }

    /// Computes it into an output that was not a number: none is left. What numbers they are, the tests ask.
    pub fn check(&self, stream: &Stream) -> Result<()> {
        self.launch(stream, 0)?;
        let y = self.sets[0].y.borrow().to_vec_on(stream)?;
        if y.iter().any(|y| !y.is_finite()) {
            return Err(format!("{}: results are not finite", self.case).into());
        }
        Ok(())
    }
}

/// The only token of each sequence.
fn one<'v>(of: &TensorView<'v, bf16>) -> tilewright::Result<TensorView<'v, bf16>> {
    of.clone().select(1, 0)
}
