//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{
    Activation, Binary, Cast, CastElement, Elementwise, Embedding, FloatElement, Gated, Pairs, PointwisePlan,
    Rope, Transpose, Unary,
};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::timing::sets;
use tilewright_support::{Real, rows};

use crate::case::{Case, HEAD, Op};
use crate::copies::{Problem, Random};
use crate::exact::{angle, by_gate, gated, rotated};

/// Rows of the embedding's table, if it has room for them.
const TABLE: usize = 32_000;

/// Elements from one tensor to the next in the same memory: each begins at a multiple of 16 bytes, as an allocation does.
fn apart(case: &Case) -> usize {
    case.elements().next_multiple_of(16)
}

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

impl<T: Real + FloatElement + CastElement> Sets<T> {
    fn new(device: &Device, case: Case) -> Result<Self> {
        let [read, written] = case.tensors();
        let count = sets(device, case.bytes());
        let room = read.max(written).max((read + written).div_ceil(2)) * apart(&case);
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
        set.from.view().narrow(0, i * apart(&self.case), rows * cols)?.reshape(&[rows, cols])
    }

    /// A tensor that is written, at the beginning of this memory.
    fn written<'t>(&self, to: TensorViewMut<'t, T>) -> Result<TensorViewMut<'t, T>> {
        let Case { rows, cols, .. } = self.case;
        to.narrow(0, 0, rows * cols)?.reshape(&[rows, cols])
    }

    /// Queues the case, or only says by which kernel.
    fn call(&self, stream: Option<&Stream>, set: &Set<T>) -> Result<Option<PointwisePlan>> {
        let Case { op, rows, cols, .. } = self.case;
        let mut to = set.to.borrow_mut();
        let (address, whole) = (to.address(), to.view_mut());
        let swiglu = Gated::new(Activation::Silu);
        match op {
            Op::Exp => {
                let (x, mut y) = (self.read(set, 0)?, self.written(whole)?);
                self.elementwise(stream, Elementwise::new(Unary::Exp), [&x], &mut y)
            }
            Op::Add | Op::Scale => {
                let (a, mut y) = (self.read(set, 0)?, self.written(whole)?);
                let (b, f) = match op {
                    Op::Add => (self.read(set, 1)?, Binary::Add),
                    _ => (set.from.view().narrow(0, 0, cols)?, Binary::Mul),
                };
                self.elementwise(stream, Elementwise::new(f), [&a, &b], &mut y)
            }
            Op::Cast => {
                let x = self.read(set, 0)?;
                match T::DTYPE {
                    DType::F32 => self.cast::<f16>(stream, &x, address),
                    _ => self.cast::<f32>(stream, &x, address),
                }
            }
            Op::Transpose => {
                let x = self.read(set, 0)?.reshape(&[cols, rows])?;
                let (dims, mut y) = ([1, 0], self.written(whole)?);
                match stream {
                    Some(stream) => Transpose::new(&dims).run(stream, &x, &mut y).map(|()| None),
                    None => Transpose::new(&dims).plan(&x, &y).map(Some),
                }
            }
            Op::Gated => {
                let ([gate, up], mut y) = ([self.read(set, 0)?, self.read(set, 1)?], self.written(whole)?);
                match stream {
                    Some(stream) => swiglu.run(stream, &gate, &up, &mut y).map(|()| None),
                    None => swiglu.plan(&gate, &up, &y).map(|plan| Some(*plan)),
                }
            }
            Op::GatedPacked => {
                let x = set.from.view().narrow(0, 0, 2 * rows * cols)?.reshape(&[rows, 2 * cols])?;
                let mut y = self.written(whole)?;
                match stream {
                    Some(stream) => swiglu.run_packed(stream, &x, &mut y).map(|()| None),
                    None => swiglu.plan_packed(&x, &y).map(|plan| Some(*plan)),
                }
            }
            Op::GatedGradient => {
                let [gate, up, dy] = [self.read(set, 0)?, self.read(set, 1)?, self.read(set, 2)?];
                let (d_gate, d_up) = whole.split_at(0, apart(&self.case))?;
                let (mut d_gate, mut d_up) = (self.written(d_gate)?, self.written(d_up)?);
                match stream {
                    Some(stream) => {
                        swiglu.run_gradient(stream, &gate, &up, &dy, &mut d_gate, &mut d_up).map(|()| None)
                    }
                    None => swiglu.plan_gradient(&gate, &up, &dy, &d_gate, &d_up).map(|plan| Some(*plan)),
                }
            }
            Op::Embedding => {
                let (table, mut y) =
                    (self.read(set, 0)?.narrow(0, 0, rows.min(TABLE))?, self.written(whole)?);
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
                let y = self.written(whole)?.reshape(&[rows, heads, HEAD])?;
                let (cos, sin) = (self.cos.view(), self.sin.view());
                let rope = match op {
                    Op::Rope => Rope::new(Pairs::Halves),
                    _ => Rope::new(Pairs::Interleaved).table(&cos, &sin),
                };
                self.rotate(stream, rope, x, y)
            }
        }
    }

    fn elementwise<const N: usize>(
        &self,
        stream: Option<&Stream>,
        f: Elementwise<'_, N>,
        inputs: [&TensorView<'_, T>; N],
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<Option<PointwisePlan>> {
        match stream {
            Some(stream) => f.run(stream, inputs, y).map(|()| None),
            None => f.plan(inputs, y).map(Some),
        }
    }

    /// To memory of another type.
    fn cast<U: CastElement>(
        &self,
        stream: Option<&Stream>,
        x: &TensorView<'_, T>,
        to: u64,
    ) -> Result<Option<PointwisePlan>> {
        let Case { rows, cols, .. } = self.case;
        // SAFETY: the results' memory has room for it, and is borrowed.
        let mut y = unsafe { TensorViewMut::<U>::from_raw_parts(x.device(), to, &[rows, cols], &[cols, 1])? };
        match stream {
            Some(stream) => Cast::new().run(stream, x, &mut y).map(|()| None),
            None => Cast::new().plan(x, &y).map(Some),
        }
    }

    /// A row of the results, of type U, beside what it must be.
    fn error<U: Real>(&self, stream: &Stream, row: usize) -> Result<[f64; 2]> {
        let (to, Case { rows, cols, .. }) = (self.sets[0].to.borrow(), self.case);
        // SAFETY: the results' memory has as much, and is borrowed.
        let all =
            unsafe { TensorView::<U>::from_raw_parts(to.device(), to.address(), &[rows, cols], &[cols, 1])? };
        Ok(rows::error(&all.select(0, row)?.to_vec_on(stream)?, &self.exact(row)?))
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
            return rope.plan(&x, &y).map(|plan| Some(*plan));
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
            Op::Exp => of(0, row)?.into_iter().map(f64::exp).collect(),
            Op::Add => of(0, row)?.into_iter().zip(of(1, row)?).map(|(a, b)| a + b).collect(),
            Op::Scale => of(0, row)?.into_iter().zip(of(0, 0)?).map(|(a, b)| a * b).collect(),
            Op::Cast => of(0, row)?,
            Op::Transpose => {
                let Case { rows, cols, .. } = self.case;
                wide(self.read(set, 0)?.reshape(&[cols, rows])?.select(1, row)?)?
            }
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

impl<T: Real + FloatElement + CastElement> Problem for Sets<T> {
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
            let [error, allowed] = match (self.case.op, T::DTYPE) {
                (Op::Cast, DType::F32) => self.error::<f16>(stream, row)?,
                (Op::Cast, _) => self.error::<f32>(stream, row)?,
                _ => self.error::<T>(stream, row)?,
            };
            if error.is_nan() || error > allowed {
                return Err(format!("{}: the error of row {row} is {error:.1e}", self.case).into());
            }
        }
        Ok(())
    }
}
