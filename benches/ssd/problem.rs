//! The tensors of a case, and its launch.

use std::cell::RefCell;

use tilewright::ops::{CausalConv1d, CausalConv1dGradient, Ssd, SsdGradient, SsdStep};
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
    /// Of gradients: by dt, B and C, or by w and the bias.
    others: [RefCell<Tensor<bf16>>; 3],
    /// By A.
    d_a: RefCell<Tensor<f32>>,
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
            Op::Conv | Op::ConvGradient => vec![batch, length, case.channels()],
            _ => vec![batch, length, heads, P],
        };
        let others = match case.op {
            Op::Gradient => {
                [vec![batch, length, heads], vec![batch, length, 1, N], vec![batch, length, 1, N]]
            }
            Op::ConvGradient => [vec![case.channels(), WIDTH], vec![case.channels()], vec![0]],
            _ => [vec![0], vec![0], vec![0]],
        };
        let other = |i: usize| Ok::<_, tilewright::Error>(RefCell::new(Tensor::zeros(device, &others[i])?));
        let bc = |seed| at(seed, &[batch, length, 1, N], 0.3);
        Ok::<_, tilewright::Error>(Set {
            y: RefCell::new(Tensor::filled(device, bf16::NAN, &x)?),
            x: at(1, &x, 1.0)?,
            dt: at(2, &[batch, length, heads], 1.0)?,
            bc: [bc(3)?, bc(4)?],
            state: RefCell::new(Tensor::zeros(device, &[batch, heads, P, N])?),
            others: [other(0)?, other(1)?, other(2)?],
            d_a: RefCell::new(Tensor::zeros(device, &[heads])?),
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

    fn workspace_len(&self, set: &Set) -> tilewright::Result<usize> {
        let Set { x, dt, bc: [b, c], y, .. } = set;
        let bc = [&b.view(), &c.view()];
        match self.case.op {
            Op::Step | Op::Conv => return Ok(0),
            Op::ConvGradient => {
                return CausalConv1dGradient::new().workspace_len(&x.view(), &self.w.view(), &x.view());
            }
            Op::Gradient => {
                return self.gradient(set, |of| {
                    of.workspace_len(&x.view(), &dt.view(), &self.a.view(), bc, &x.view())
                });
            }
            Op::Scan | Op::Chunks(_) => {}
        }
        self.scan().workspace_len(&x.view(), &dt.view(), &self.a.view(), bc, &y.borrow_mut().view_mut())
    }

    /// The gradients by x, dt, A, B and C.
    fn gradient<R>(
        &self,
        set: &Set,
        each: impl FnOnce(SsdGradient<'_, bf16>) -> tilewright::Result<R>,
    ) -> tilewright::Result<R> {
        let [d_dt, d_b, d_c] = &set.others;
        let (mut dx, mut d_a) = (set.y.borrow_mut(), set.d_a.borrow_mut());
        let (mut d_dt, mut d_b, mut d_c) = (d_dt.borrow_mut(), d_b.borrow_mut(), d_c.borrow_mut());
        let (mut dx, mut d_a) = (dx.view_mut(), d_a.view_mut());
        let (mut d_dt, mut d_b, mut d_c) = (d_dt.view_mut(), d_b.view_mut(), d_c.view_mut());
        let gradient = SsdGradient::new().softplus().dx(&mut dx).d_dt(&mut d_dt).d_a(&mut d_a);
        each(gradient.d_b(&mut d_b).d_c(&mut d_c))
    }

    /// The kernel that is chosen.
    pub fn kernel(&self) -> tilewright::Result<&'static str> {
        let Some(set) = self.sets.first() else { return Ok("") };
        let Set { x, dt, bc: [b, c], y, state, .. } = set;
        let (x, dt, a, bc) = (x.view(), dt.view(), self.a.view(), [&b.view(), &c.view()]);
        match self.case.op {
            Op::Scan | Op::Chunks(_) => {
                Ok(self.scan().plan(&x, &dt, &a, bc, &y.borrow_mut().view_mut())?.kernel().name())
            }
            Op::Gradient => self.gradient(set, |of| Ok(of.plan(&x, &dt, &a, bc, &x)?.kernel().name())),
            Op::Conv => {
                let plan = CausalConv1d::new().plan(&x, &self.w.view(), &y.borrow_mut().view_mut())?;
                Ok(plan.kernel().name())
            }
            // There is one for the element type and the width.
            Op::ConvGradient => Ok("causal_conv1d_gradient_sm_80_bf16_w4"),
            Op::Step => {
                let (x, dt, b, c) = (one(&x)?, one(&dt)?, one(bc[0])?, one(bc[1])?);
                let (mut y, mut state) = (y.borrow_mut(), state.borrow_mut());
                let y = y.view_mut().select(1, 0)?;
                Ok(SsdStep::new().plan(&x, &dt, &a, [&b, &c], &y, &state.view_mut())?.kernel().name())
            }
        }
    }

    /// Queues it.
    pub fn launch(&self, stream: &Stream, set: usize) -> tilewright::Result<()> {
        let set = &self.sets[set];
        let Set { x, dt, bc: [b, c], y, state, workspace, .. } = set;
        let (x, dt, a, b, c) = (x.view(), dt.view(), self.a.view(), b.view(), c.view());
        let (mut workspace, bias) = (workspace.borrow_mut(), self.bias.view());
        let mut workspace = workspace.view_mut();
        match self.case.op {
            Op::Scan | Op::Chunks(_) => {
                let (scan, mut y) = (self.scan(), y.borrow_mut());
                scan.workspace(&mut workspace).run(stream, &x, &dt, &a, [&b, &c], &mut y.view_mut())
            }
            // dy is x.
            Op::Gradient => {
                self.gradient(set, |of| of.workspace(&mut workspace).run(stream, &x, &dt, &a, [&b, &c], &x))
            }
            Op::Conv => {
                let mut y = y.borrow_mut();
                CausalConv1d::new().bias(&bias).silu().run(stream, &x, &self.w.view(), &mut y.view_mut())
            }
            Op::ConvGradient => {
                let [d_w, d_bias, _] = &set.others;
                let (mut dx, mut d_w, mut d_bias) = (y.borrow_mut(), d_w.borrow_mut(), d_bias.borrow_mut());
                let (mut dx, mut d_w, mut d_bias) = (dx.view_mut(), d_w.view_mut(), d_bias.view_mut());
                let gradient = CausalConv1dGradient::new().bias(&bias).silu().dx(&mut dx).d_w(&mut d_w);
                let mut gradient = gradient.d_bias(&mut d_bias).workspace(&mut workspace);
                gradient.run(stream, &x, &self.w.view(), &x)
            }
            Op::Step => {
                let (mut y, mut state) = (y.borrow_mut(), state.borrow_mut());
                let (x, dt, b, c, mut y) =
                    (one(&x)?, one(&dt)?, one(&b)?, one(&c)?, y.view_mut().select(1, 0)?);
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
