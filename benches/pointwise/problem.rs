//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{Activation, Embedding, Gated, Pairs, PointwisePlan, Rope, RowsElement};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::timing::sets;
use tilewright_support::{Real, rows};

use crate::case::{Case, HEAD, Op};
use crate::copies::{Problem, Random};
use crate::exact::{angle, by_gate, gated, rotated};

/// Rows of the embedding's table, if it has room for them.
const TABLE: usize = 32_000;

/// A case, ready to be computed.
pub fn problem<'d>(device: &'d Device, case: Case) -> Result<Box<dyn Problem + 'd>> {
    Ok(match case.dtype {
        DType::F16 => Box::new(Sets::<f16>::new(device, case)?),
        DType::BF16 => Box::new(Sets::<bf16>::new(device, case)?),
        _ => Box::new(Sets::<f32>::new(device, case)?),
    })
}

/// What is read, and what is written: as long each that a copy of half of the call's bytes has room.
struct Set<T> {
    from: Tensor<T>,
    to: RefCell<Tensor<T>>,
}

struct Sets<T> {
    case: Case,
    indices: Tensor<i32>,
    cos: Tensor<f32>,
    sin: Tensor<f32>,
    sets: Vec<Set<T>>,
}

impl<T: Real + RowsElement> Sets<T> {
    fn new(device: &Device, case: Case) -> Result<Self> {
        let [read, written] = case.tensors();
        let count = sets(device, case.bytes());
        let room = read.max(written).max((read + written).div_ceil(2)) * case.elements();
        let (data, stream) = (Random::<T>::new(device, room)?, device.default_stream());
        let set = |_| -> Result<_> {
            let to = RefCell::new(Tensor::uninit(device, &[room])?);
            Ok(Set { from: data.tensor(&stream, &[room])?, to })
        };
        let sets = (0..count).map(set).collect::<Result<Vec<_>>>()?;
        stream.synchronize()?;
        let indices: Vec<i32> = (0..case.rows).map(|row| index(&case, row) as i32).collect();
        let positions = if case.op == Op::RopeTable { case.rows } else { 0 };
        let angles = (0..positions).flat_map(|at| (0..HEAD / 2).map(move |pair| angle(at, pair)));
        let (sin, cos): (Vec<f32>, Vec<f32>) =
            angles.map(f64::sin_cos).map(|(s, c)| (s as f32, c as f32)).unzip();
        let table = |data: &[f32]| Tensor::from_slice(device, data, &[positions, HEAD / 2]);
        let indices = Tensor::from_slice(device, &indices, &[case.rows])?;
        Ok(Sets { case, indices, cos: table(&cos)?, sin: table(&sin)?, sets })
    }

    /// The tensors that are read.
    fn read<'t>(&self, set: &'t Set<T>, i: usize) -> Result<TensorView<'t, T>> {
        let Case { rows, cols, .. } = self.case;
        set.from.view().narrow(0, i * rows * cols, rows * cols)?.reshape(&[rows, cols])
    }

    /// Queues the case, or only says by which kernel.
    fn call(&self, stream: Option<&Stream>, set: &Set<T>) -> Result<Option<PointwisePlan>> {
        let Case { op, rows, cols, .. } = self.case;
        let mut to = set.to.borrow_mut();
        let whole = to.view_mut();
        let part = |count: usize| whole.narrow(0, 0, count * rows * cols)?.reshape(&[count, rows, cols]);
        let swiglu = Gated::new(Activation::Silu);
        match op {
            Op::Gated => {
                let ([gate, up], mut y) = ([self.read(set, 0)?, self.read(set, 1)?], part(1)?.select(0, 0)?);
                match stream {
                    Some(stream) => swiglu.run(stream, &gate, &up, &mut y).map(|()| None),
                    None => swiglu.plan(&gate, &up, &y).map(Some),
                }
            }
            Op::GatedPacked => {
                let x = set.from.view().narrow(0, 0, 2 * rows * cols)?.reshape(&[rows, 2 * cols])?;
                let mut y = part(1)?.select(0, 0)?;
                match stream {
                    Some(stream) => swiglu.run_packed(stream, &x, &mut y).map(|()| None),
                    None => {
                        let halves = [0, cols].map(|first| x.clone().narrow(1, first, cols));
                        let [gate, up] = halves;
                        swiglu.plan(&gate?, &up?, &y).map(Some)
                    }
                }
            }
            Op::GatedGradient => {
                let [gate, up, dy] = [self.read(set, 0)?, self.read(set, 1)?, self.read(set, 2)?];
                let (d_gate, d_up) = part(2)?.split_at(0, 1)?;
                let (mut d_gate, mut d_up) = (d_gate.select(0, 0)?, d_up.select(0, 0)?);
                match stream {
                    Some(stream) => {
                        swiglu.run_gradient(stream, &gate, &up, &dy, &mut d_gate, &mut d_up).map(|()| None)
                    }
                    None => swiglu.plan_gradient(&gate, &up, &dy, &d_gate, &d_up).map(Some),
                }
            }
            Op::Embedding => {
                let (table, mut y) =
                    (self.read(set, 0)?.narrow(0, 0, rows.min(TABLE))?, part(1)?.select(0, 0)?);
                match stream {
                    Some(stream) => {
                        Embedding::new().run(stream, &table, &self.indices.view(), &mut y).map(|()| None)
                    }
                    None => Embedding::new().plan(&table, &self.indices.view(), &y).map(Some),
                }
            }
            Op::Rope | Op::RopeTable => {
                let heads = cols / HEAD;
                let x = self.read(set, 0)?.reshape(&[rows, heads, HEAD])?;
                let y = part(1)?.reshape(&[rows, heads, HEAD])?;
                let (cos, sin) = (self.cos.view(), self.sin.view());
                let rope = match op {
                    Op::Rope => Rope::new(Pairs::Halves),
                    _ => Rope::new(Pairs::Interleaved).table(&cos, &sin),
                };
                self.rotate(stream, rope, x, y)
            }
        }
    }

    /// q is four fifths of the heads, k the others.
    fn rotate(
        &self,
        stream: Option<&Stream>,
        rope: Rope<'_>,
        x: TensorView<'_, T>,
        y: TensorViewMut<'_, T>,
    ) -> Result<Option<PointwisePlan>> {
        let Some(stream) = stream else {
            return rope.plan(&x, &y).map(Some);
        };
        let (heads, q_heads) = (x.shape()[1], x.shape()[1] * 4 / 5);
        let (q, k) = (x.clone().narrow(1, 0, q_heads)?, x.narrow(1, q_heads, heads - q_heads)?);
        let (mut q_to, mut k_to) = y.split_at(1, q_heads)?;
        rope.run_both(stream, [&q, &k], [&mut q_to, &mut k_to]).map(|()| None)
    }

    /// A row of the result, exactly.
    fn exact(&self, row: usize) -> Result<Vec<f64>> {
        let (set, op) = (&self.sets[0], self.case.op);
        let wide = |view: TensorView<'_, T>| -> Result<Vec<f64>> {
            Ok(T::widen(&view.to_vec()?).into_iter().map(f64::from).collect())
        };
        let of = |i: usize, row: usize| wide(self.read(set, i)?.select(0, row)?);
        Ok(match op {
            Op::Gated => gated(&of(0, row)?, &of(1, row)?),
            Op::GatedPacked => {
                let cols = self.case.cols;
                let part = |half: usize| wide(set.from.view().narrow(0, (2 * row + half) * cols, cols)?);
                gated(&part(0)?, &part(1)?)
            }
            Op::GatedGradient => by_gate(&of(0, row)?, &of(1, row)?, &of(2, row)?),
            Op::Embedding => of(0, index(&self.case, row))?,
            Op::Rope | Op::RopeTable => rotated(&of(0, row)?, row, op == Op::RopeTable),
        })
    }
}

/// The row of the table that a row of the result is.
fn index(case: &Case, row: usize) -> usize {
    row * 7919 % case.rows.min(TABLE)
}

impl<T: Real + RowsElement> Problem for Sets<T> {
    fn case(&self) -> String {
        self.case.to_string()
    }

    fn bytes(&self) -> usize {
        self.case.bytes()
    }

    fn sets(&self) -> usize {
        self.sets.len()
    }

    fn kernel(&self) -> Result<&'static str> {
        let plan = self.call(None, &self.sets[0])?;
        Ok(plan.map_or("none", |plan| plan.kernel().name()))
    }

    fn launch(&self, stream: &Stream, set: usize) -> Result<()> {
        self.call(Some(stream), &self.sets[set]).map(|_| ())
    }

    fn copy(&self, stream: &Stream, set: usize) -> Result<()> {
        let (Set { from, to }, bytes) = (&self.sets[set], self.case.bytes() / 2);
        let count = bytes / self.case.dtype.bytes();
        let mut to = to.borrow_mut();
        to.view_mut().narrow(0, 0, count)?.copy_from(stream, &from.view().narrow(0, 0, count)?)
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.sets[0].to.borrow_mut().fill(stream, T::POISON)?;
        self.launch(stream, 0)?;
        for row in [0, self.case.rows - 1] {
            let to = self.sets[0].to.borrow();
            let is = to.view().narrow(0, row * self.case.cols, self.case.cols)?.to_vec_on(stream)?;
            let [error, allowed] = rows::error(&is, &self.exact(row)?);
            if error.is_nan() || error > allowed {
                return Err(format!("{}: the error of row {row} is {error:.1e}", self.case).into());
            }
        }
        Ok(())
    }
}
