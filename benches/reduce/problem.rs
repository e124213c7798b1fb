//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{Argmax, FloatElement, Reduce, ReducedFrom, Reduction, TopK};
use tilewright::{DType, Device, Result, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::timing::sets;

use crate::case::{Case, Op};
use crate::copies::{Problem, Random};

/// A case, ready to be computed.
pub fn problem<'d>(device: &'d Device, case: Case) -> Result<Box<dyn Problem + 'd>> {
    Ok(match case.dtype {
        DType::F16 => Box::new(Sets::<f16>::new(device, case)?),
        DType::BF16 => Box::new(Sets::<bf16>::new(device, case)?),
        _ => Box::new(Sets::<f32>::new(device, case)?),
    })
}

struct Sets<T> {
    case: Case,
    /// Matrices, and room for copies of half of each.
    sets: Vec<(Tensor<T>, RefCell<Tensor<T>>)>,
    results: RefCell<Tensor<f32>>,
    places: RefCell<Tensor<i32>>,
    found: RefCell<(Tensor<T>, Tensor<u32>)>,
    workspace: RefCell<Tensor<f32>>,
}

impl<T: Real + FloatElement> Sets<T>
where
    f32: ReducedFrom<T>,
{
    fn new(device: &Device, case: Case) -> Result<Self> {
        let (data, stream) = (Random::<T>::new(device, case.elements())?, device.default_stream());
        let set = |_| -> Result<_> {
            let x = data.tensor(&stream, &[case.rows, case.cols])?;
            Ok((x, RefCell::new(Tensor::uninit(device, &[case.elements() / 2])?)))
        };
        let sets = (0..sets(device, case.bytes())).map(set).collect::<Result<Vec<_>>>()?;
        stream.synchronize()?;
        let results: &[usize] = match case.op {
            Op::Columns(_) => &[case.cols],
            Op::All(_) => &[],
            _ => &[case.rows],
        };
        let found = if let Op::TopK(found) = case.op { found } else { 0 };
        let mut new = Sets {
            case,
            sets,
            results: RefCell::new(Tensor::uninit(device, results)?),
            places: RefCell::new(Tensor::uninit(device, &[case.rows])?),
            found: RefCell::new((
                Tensor::uninit(device, &[case.rows, found])?,
                Tensor::uninit(device, &[case.rows, found])?,
            )),
            workspace: RefCell::new(Tensor::uninit(device, &[0])?),
        };
        if let Some((reduction, dims)) = new.reduction() {
            let (x, mut y) = (new.sets[0].0.view(), new.results.borrow_mut());
            let len = Reduce::new(reduction).workspace_len(&x, dims, &y.view_mut())?;
            drop(y);
            new.workspace = RefCell::new(Tensor::uninit(device, &[len])?);
        }
        Ok(new)
    }

    /// The reduction and its dimensions, if it is one.
    fn reduction(&self) -> Option<(Reduction, &'static [usize])> {
        match self.case.op {
            Op::Rows(reduction) => Some((reduction, &[1])),
            Op::Columns(reduction) => Some((reduction, &[0])),
            Op::All(reduction) => Some((reduction, &[0, 1])),
            _ => None,
        }
    }

    /// The elements of the first result and of the last one.
    fn ends(&self) -> Result<[Vec<f32>; 2]> {
        let x = self.sets[0].0.view();
        let of = |view: TensorView<'_, T>| Ok::<_, tilewright::Error>(T::widen(&view.to_vec()?));
        Ok(match self.case.op {
            Op::All(_) => [of(x.clone())?, of(x)?],
            Op::Columns(_) => [of(x.clone().select(1, 0)?)?, of(x.select(1, self.case.cols - 1)?)?],
            _ => [of(x.clone().select(0, 0)?)?, of(x.select(0, self.case.rows - 1)?)?],
        })
    }
}

/// A sum, maximum or norm, exactly, and how far off a result in f32 may be.
fn exact(reduction: Reduction, x: &[f32]) -> [f64; 2] {
    let x = x.iter().map(|&x| f64::from(x));
    let sums = 4e-6 * x.clone().map(f64::abs).sum::<f64>();
    match reduction {
        Reduction::Max => [x.fold(f64::NEG_INFINITY, f64::max), 0.0],
        Reduction::Norm => {
            let norm = x.map(|x| x * x).sum::<f64>().sqrt();
            [norm, norm * 1e-5]
        }
        _ => [x.sum(), sums],
    }
}

impl<T: Real + FloatElement> Problem for Sets<T>
where
    f32: ReducedFrom<T>,
{
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
        let x = self.sets[0].0.view();
        if let Some((reduction, dims)) = self.reduction() {
            let mut y = self.results.borrow_mut();
            return Ok(Reduce::new(reduction).plan(&x, dims, &y.view_mut())?.kernel().name());
        }
        if self.case.op == Op::Argmax {
            return Ok(Argmax::new().plan(&x, &self.places.borrow_mut().view_mut())?.kernel().name());
        }
        let (values, indices) = &mut *self.found.borrow_mut();
        Ok(TopK::new().plan(&x, &values.view_mut(), &indices.view_mut())?.kernel().name())
    }

    fn launch(&self, stream: &Stream, set: usize) -> Result<()> {
        let x = self.sets[set].0.view();
        if let Some((reduction, dims)) = self.reduction() {
            let (mut y, mut workspace) = (self.results.borrow_mut(), self.workspace.borrow_mut());
            let mut workspace = workspace.view_mut();
            let mut reduce = Reduce::new(reduction).workspace(&mut workspace);
            return reduce.run(stream, &x, dims, &mut y.view_mut());
        }
        if self.case.op == Op::Argmax {
            return Argmax::new().run(stream, &x, &mut self.places.borrow_mut().view_mut());
        }
        let (values, indices) = &mut *self.found.borrow_mut();
        TopK::new().run(stream, &x, &mut values.view_mut(), &mut indices.view_mut())
    }

    /// Half of the matrix is read, and as much written.
    fn copy(&self, stream: &Stream, set: usize) -> Result<()> {
        let (x, y) = &self.sets[set];
        let (all, mut y) = (self.case.elements(), y.borrow_mut());
        let half = x.view().reshape(&[all])?.narrow(0, 0, all / 2)?;
        y.view_mut().copy_from(stream, &half)
    }

    fn check(&self, stream: &Stream) -> tilewright_support::Result<()> {
        self.results.borrow_mut().fill(stream, f32::NAN)?;
        self.launch(stream, 0)?;
        stream.synchronize()?;
        let ends = self.ends()?;
        let wrong = |i: usize, what: String| Err(format!("{}: result {i} is {what}", self.case).into());
        if let Some((reduction, _)) = self.reduction() {
            let y = self.results.borrow().to_vec()?;
            for (i, x) in [0, y.len() - 1].into_iter().zip(&ends) {
                let [exact, allowed] = exact(reduction, x);
                let off = (f64::from(y[i]) - exact).abs();
                if off.is_nan() || off > allowed {
                    return wrong(i, format!("{}, not {exact}", y[i]));
                }
            }
            return Ok(());
        }
        let (places, found) = (self.places.borrow().to_vec()?, self.found.borrow().1.to_vec()?);
        for (row, x) in [0, self.case.rows - 1].into_iter().zip(&ends) {
            let mut order: Vec<usize> = (0..x.len()).collect();
            order.sort_by(|&a, &b| x[b].total_cmp(&x[a]));
            let right = match self.case.op {
                Op::TopK(count) => {
                    let own = &found[row * count..][..count];
                    own.iter().zip(&order).all(|(&place, &exact)| x[place as usize] == x[exact])
                }
                _ => usize::try_from(places[row]).is_ok_and(|place| x[place] == x[order[0]]),
            };
            if !right {
                return wrong(row, "another place".to_owned());
            }
        }
        Ok(())
    }
}
