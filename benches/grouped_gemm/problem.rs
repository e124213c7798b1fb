//! Cases with their tensors on a device.

use std::cell::RefCell;

use tilewright::ops::{GroupRows, GroupedGemm, KGroupedGemm};
use tilewright::{Device, Result, Stream, Tensor, bf16};
use tilewright_support::random::normal;
use tilewright_support::timing::sets;

use crate::case::Case;

/// A case that can be computed on a device, on one of several sets of inputs.
pub struct Problem {
    pub case: Case,
    /// It takes all of them to find none in the cache when it is used again.
    pub sets: usize,
    a: Tensor<bf16>,
    b: Tensor<bf16>,
    c: RefCell<Tensor<bf16>>,
    offsets: Tensor<i32>,
}

/// Random data that repeats: an odd period keeps matrices from being equal.
fn random(device: &Device, shape: &[usize]) -> Result<Tensor<bf16>> {
    let len = shape.iter().product::<usize>();
    let period = normal::<bf16>(1, len.min((1 << 24) - 77));
    let period = Tensor::from_slice(device, &period, &[period.len()])?;
    let mut all = Tensor::uninit(device, &[len])?;
    let stream = device.default_stream();
    for start in (0..len).step_by(period.len()) {
        let count = period.len().min(len - start);
        let mut part = all.view_mut().narrow(0, start, count)?;
        part.copy_from(&stream, &period.view().narrow(0, 0, count)?)?;
    }
    stream.synchronize()?;
    all.reshape(shape)
}

impl Problem {
    pub fn new(device: &Device, case: Case) -> Result<Self> {
        let Case { experts, n, k, gradient, .. } = case;
        let (sets, entries) = (sets(device, case.bytes()), case.entries());
        let mut offsets = vec![0];
        for count in case.counts() {
            offsets.push(offsets[offsets.len() - 1] + count as i32);
        }
        let (x, w, y): (&[usize], &[usize], &[usize]) =
            (&[sets, entries, k], &[sets, experts, n, k], &[sets, entries, n]);
        let [a, b, c] = if gradient { [y, x, w] } else { [x, w, y] };
        Ok(Problem {
            case,
            sets,
            a: random(device, a)?,
            b: random(device, b)?,
            c: RefCell::new(Tensor::uninit(device, c)?),
            offsets: Tensor::from_slice(device, &offsets, &[offsets.len()])?,
        })
    }

    /// Every kernel that can compute this case, with the operator's estimate, the best first.
    pub fn candidates(&self) -> Result<Vec<(&'static str, Option<u64>)>> {
        let (a, b, mut c) = (self.a.view().select(0, 0)?, self.b.view().select(0, 0)?, self.c.borrow_mut());
        let (rows, c) = (GroupRows::offsets(self.offsets.view()), c.view_mut().select(0, 0)?);
        Ok(if self.case.gradient {
            let all = KGroupedGemm::new().candidates(&a, &b, &rows, &c)?;
            all.iter().map(|one| (one.name(), one.cycles())).collect()
        } else {
            let all = GroupedGemm::new().candidates(&a, &b.transpose(1, 2)?, &rows, &c)?;
            all.iter().map(|one| (one.name(), one.cycles())).collect()
        })
    }

    /// Queues the products, by the kernel of this name or the operator's choice.
    pub fn launch(&self, stream: &Stream, set: usize, kernel: Option<&str>) -> Result<()> {
        let (a, b, mut c) =
            (self.a.view().select(0, set)?, self.b.view().select(0, set)?, self.c.borrow_mut());
        let (rows, mut c) = (GroupRows::offsets(self.offsets.view()), c.view_mut().select(0, set)?);
        if self.case.gradient {
            let gemm = KGroupedGemm::new();
            let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
            return gemm.run(stream, &a, &b, &rows, &mut c);
        }
        let gemm = GroupedGemm::new();
        let gemm = kernel.map_or(gemm, |name| gemm.kernel(name));
        gemm.run(stream, &a, &b.transpose(1, 2)?, &rows, &mut c)
    }
}
