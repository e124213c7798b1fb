//! Products of groups: run on every kernel that can compute them, and compared with their reference.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tilewright::ops::{Activation, GroupRows, GroupedGemm, HalfElement};
use tilewright::{Device, Stream, Tensor};
use tilewright_support::Real;
use tilewright_support::activation::{STEEPEST, exact};
use tilewright_support::groups;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Kernels that ran.
pub static SEEN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// How B's matrices lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// As \[K, N\].
    Rows,
    /// As \[N, K\].
    Columns,
}

/// Products of groups of so many rows each.
#[derive(Clone, Debug)]
pub struct Case {
    pub rows: Vec<usize>,
    /// Rows of A that no group has: behind all groups, or in each of their matrices.
    pub more: usize,
    /// Each group has a matrix of A.
    pub apart: bool,
    /// Columns of C.
    pub n: usize,
    pub k: usize,
    pub b: Lies,
    /// Rows of C have scales.
    pub scaled: bool,
    /// C has gated units, with this activation.
    pub gated: Option<Activation>,
}

impl Case {
    pub fn new(rows: &[usize], n: usize, k: usize) -> Self {
        Case {
            rows: rows.to_vec(),
            more: 3,
            apart: false,
            n,
            k,
            b: Lies::Columns,
            scaled: false,
            gated: None,
        }
    }

    /// Matrices of A and C, and rows of each.
    pub fn matrices(&self) -> [usize; 2] {
        groups::matrices(&self.rows, self.more, self.apart)
    }

    /// The group of each row, of all matrices.
    pub fn groups(&self) -> Vec<Option<usize>> {
        groups::of_rows(&self.rows, self.more, self.apart)
    }

    /// What groups' rows are told by.
    pub fn numbers(&self) -> Vec<i32> {
        groups::numbers(&self.rows, self.apart)
    }

    /// Columns of B: gates and ups of gated units.
    pub fn columns(&self) -> usize {
        if self.gated.is_some() { 2 * self.n } else { self.n }
    }

    /// The operator, without scales.
    pub fn gemm<'a>(&self) -> GroupedGemm<'a> {
        self.gated.map_or(GroupedGemm::new(), |activation| GroupedGemm::new().gated(activation))
    }

    pub fn places(&self, padded: usize) -> [Place; 3] {
        let ([matrices, rows], groups) = (self.matrices(), self.rows.len());
        let pitch = |line: usize| line.next_multiple_of(8) + padded;
        let b = [groups, self.k, self.columns()];
        [
            Place::by_rows([matrices, rows, self.k], pitch(self.k)),
            match self.b {
                Lies::Rows => Place::by_rows(b, pitch(self.columns())),
                Lies::Columns => Place::by_columns(b, pitch(self.k)),
            },
            Place::by_rows([matrices, rows, self.n], pitch(self.n)),
        ]
    }

    /// On normal values.
    pub fn check<T: Real + HalfElement>(&self, device: &Device) -> Outcome {
        self.check_at::<T>(device, self.places(8))
    }

    pub fn check_at<T: Real + HalfElement>(&self, device: &Device, places: [Place; 3]) -> Outcome {
        let [a, b] = [1, 2].map(|i| normal::<T>(i, places[i as usize - 1].count()));
        self.check_with(device, places, &a, &b)
    }

    /// On every kernel.
    pub fn check_with<T: Real + HalfElement>(
        &self,
        device: &Device,
        places: [Place; 3],
        a: &[T],
        b: &[T],
    ) -> Outcome {
        let exact = self.reference(a, b);
        let on_a = Guarded::with(device, places[0], a)?;
        let on_b = Guarded::with(device, places[1], b)?;
        let numbers = self.numbers();
        let numbers = Tensor::from_slice(device, &numbers, &[numbers.len()])?;
        let rows =
            if self.apart { GroupRows::counts(numbers.view()) } else { GroupRows::offsets(numbers.view()) };
        let mut c = Guarded::<T>::at(device, places[2])?;
        for name in self.kernels(&on_a, &on_b, &rows, &mut c)? {
            let mut c = Guarded::<T>::at(device, places[2])?;
            self.run(&Stream::new(device)?, name, [&on_a, &on_b], &rows, &mut c)?;
            let (out, outside) = c.read()?;
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            let wrong = self.compare(&out, &exact);
            assert!(outside == 0, "{name}: {outside} elements outside of C; {self:?}");
            assert!(wrong.is_none(), "{name}: {}; {self:?}", wrong.unwrap_or_default());
        }
        Ok(())
    }

    /// The kernels that can compute it.
    fn kernels<T: Real + HalfElement>(
        &self,
        a: &Guarded<T>,
        b: &Guarded<T>,
        rows: &GroupRows<'_>,
        c: &mut Guarded<T>,
    ) -> tilewright::Result<Vec<&'static str>> {
        let (a, mut c) = (a.view()?, c.view_mut()?);
        let all = if self.apart {
            self.gemm().candidates(&a, &b.view()?, rows, &c)?
        } else {
            c = c.select(0, 0)?;
            self.gemm().candidates(&a.select(0, 0)?, &b.view()?, rows, &c)?
        };
        let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
        let names: Vec<_> = possible.map(|kernel| kernel.name()).collect();
        assert!(!names.is_empty(), "{self:?}");
        Ok(names)
    }

    pub fn run<T: Real + HalfElement>(
        &self,
        stream: &Stream,
        kernel: &str,
        [a, b]: [&Guarded<T>; 2],
        rows: &GroupRows<'_>,
        c: &mut Guarded<T>,
    ) -> tilewright::Result<()> {
        let scales = self.scales();
        let shape = self.matrices();
        let scales = Tensor::from_slice(stream.device(), &scales, &shape[usize::from(!self.apart)..])?;
        let scales = scales.view();
        let gemm = self.gemm().kernel(kernel);
        let gemm = if self.scaled { gemm.scales(&scales) } else { gemm };
        let (a, mut c) = (a.view()?, c.view_mut()?);
        if self.apart {
            gemm.run(stream, &a, &b.view()?, rows, &mut c)?;
        } else {
            gemm.run(stream, &a.select(0, 0)?, &b.view()?, rows, &mut c.select(0, 0)?)?;
        }
        stream.synchronize()
    }

    /// Those of all rows.
    fn scales(&self) -> Vec<f32> {
        normal(3, self.matrices().iter().product())
    }

    /// Each element with the sum of its products' magnitudes, or how far theirs move a unit; none where it is no group's.
    pub fn reference<T: Real>(&self, a: &[T], b: &[T]) -> Vec<Option<[f64; 2]>> {
        let (a, b, Case { n, k, gated, .. }) = (T::widen(a), T::widen(b), self);
        let columns = self.columns();
        let scales = self.scales();
        let row = |(row, group): (usize, Option<usize>)| {
            let scale = if self.scaled { f64::from(scales[row]) } else { 1.0 };
            let mut sums = vec![[0.0; 2]; columns];
            for (inner, &x) in a[row * k..(row + 1) * k].iter().enumerate() {
                let line = group.map_or(&[][..], |group| &b[(group * k + inner) * columns..][..columns]);
                for ([sum, magnitude], &y) in sums.iter_mut().zip(line) {
                    let product = f64::from(x) * f64::from(y);
                    (*sum, *magnitude) = (*sum + product, *magnitude + product.abs());
                }
            }
            if let Some(activation) = *gated {
                let ups = sums.split_off(*n);
                sums = sums.into_iter().zip(ups).map(|(gate, up)| unit(activation, gate, up)).collect();
            }
            sums.into_iter().map(move |sum| group.map(|_| [sum[0] * scale, sum[1] * scale.abs()]))
        };
        self.groups().into_iter().enumerate().flat_map(row).collect()
    }

    /// What is wrong with the elements of C, if anything is.
    pub fn compare<T: Real>(&self, out: &[T], exact: &[Option<[f64; 2]>]) -> Option<String> {
        let wrong = |(out, exact): (&f32, &Option<[f64; 2]>)| match *exact {
            None => !out.is_nan(),
            Some([exact, _]) if exact.is_nan() => !out.is_nan(),
            Some([exact, magnitude]) => {
                let bound = T::ROUNDING * exact.abs() + T::LEAST + 1e-6 * magnitude;
                let error = (f64::from(*out) - exact).abs();
                error.is_nan() || error > bound
            }
        };
        let out = T::widen(out);
        assert_eq!(out.len(), exact.len());
        let at = out.iter().zip(exact).position(wrong)?;
        Some(format!("row {}, column {}: {} and not {:?}", at / self.n, at % self.n, out[at], exact[at]))
    }
}

/// The unit of a gate and an up, which come with the sums of their products' magnitudes, and how far those move it: the activation's own error is the gate's.
fn unit(activation: Activation, [gate, gates]: [f64; 2], [up, ups]: [f64; 2]) -> [f64; 2] {
    let activated = exact(activation, gate);
    [activated * up, (STEEPEST + 1.0) * gates * up.abs() + 2.0 * activated.abs() * ups]
}
