//! Products of groups with narrow weights: run on every kernel that can compute them, and compared with their reference.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tilewright::ops::{DeviceWeights, GroupRows, GroupedDequantGemm};
use tilewright::quant::{Format, Group, Order, QuantizedWeights, Zeros};
use tilewright::{Device, Stream, Tensor, TensorView, TensorViewMut};
use tilewright_support::groups;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Activations, weights};

/// Kernels that ran.
pub static SEEN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Products of groups of so many rows each.
#[derive(Clone, Debug)]
pub struct Case {
    pub rows: Vec<usize>,
    /// Rows of A that no group has: behind all groups, or in each of their matrices.
    pub more: usize,
    /// Each group has a matrix of A.
    pub apart: bool,
    pub n: usize,
    pub k: usize,
    pub scheme: (Format, Group, Zeros),
}

impl Case {
    pub fn new(rows: &[usize], n: usize, k: usize) -> Self {
        let scheme = (Format::U4, Group::K128, Zeros::None);
        Case { rows: rows.to_vec(), more: 3, apart: false, n, k, scheme }
    }

    /// Matrices of A and C, and rows of each.
    pub fn matrices(&self) -> [usize; 2] {
        groups::matrices(&self.rows, self.more, self.apart)
    }

    /// What groups' rows are told by.
    pub fn numbers(&self) -> Vec<i32> {
        groups::numbers(&self.rows, self.apart)
    }

    /// Where A and C lie, whose rows begin at multiples of 16 bytes.
    pub fn places(&self) -> [Place; 2] {
        let [matrices, rows] = self.matrices();
        let pitch = |line: usize| line.next_multiple_of(8) + 8;
        let of = |columns| Place::by_rows([matrices, rows, columns], pitch(columns));
        [of(self.k), of(self.n)]
    }

    /// The weights of all groups.
    pub fn weights<T: Activations>(&self) -> tilewright::Result<QuantizedWeights> {
        weights::<T>([self.rows.len() * self.n, self.k], self.scheme)
    }

    /// On normal values.
    pub fn check<T: Activations>(&self, device: &Device) -> Outcome {
        self.check_at::<T>(device, self.places())
    }

    pub fn check_at<T: Activations>(&self, device: &Device, places: [Place; 2]) -> Outcome {
        self.check_with::<T>(device, places, &normal::<T>(1, places[0].count()), &self.weights::<T>()?)
    }

    /// On every kernel.
    pub fn check_with<T: Activations>(
        &self,
        device: &Device,
        places: [Place; 2],
        a: &[T],
        w: &QuantizedWeights,
    ) -> Outcome {
        let exact = self.reference(a, w);
        let on_a = Guarded::with(device, places[0], a)?;
        let w = DeviceWeights::upload(device, &w.pack(Order::B16)?)?;
        let numbers = self.numbers();
        let numbers = Tensor::from_slice(device, &numbers, &[numbers.len()])?;
        let rows = self.group_rows(&numbers);
        let mut c = Guarded::<T>::at(device, places[1])?;
        let all = GroupedDequantGemm::new().candidates(
            &self.side(on_a.view()?)?,
            &w,
            &rows,
            &self.side_mut(c.view_mut()?)?,
        )?;
        let possible: Vec<_> = all.iter().filter(|kernel| kernel.rejection().is_none()).collect();
        assert!(!possible.is_empty(), "{self:?}");
        for name in possible.iter().map(|kernel| kernel.name()) {
            let (stream, mut c) = (Stream::new(device)?, Guarded::<T>::at(device, places[1])?);
            let gemm = GroupedDequantGemm::new().kernel(name);
            gemm.run(&stream, &self.side(on_a.view()?)?, &w, &rows, &mut self.side_mut(c.view_mut()?)?)?;
            stream.synchronize()?;
            let (out, outside) = c.read()?;
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            assert!(outside == 0, "{name}: {outside} elements outside of C; {self:?}");
            let wrong = self.compare(&out, &exact);
            assert!(wrong.is_none(), "{name}: {}; {self:?}", wrong.unwrap_or_default());
        }
        Ok(())
    }

    pub fn group_rows<'a>(&self, numbers: &'a Tensor<i32>) -> GroupRows<'a> {
        if self.apart { GroupRows::counts(numbers.view()) } else { GroupRows::offsets(numbers.view()) }
    }

    /// As the operator takes it.
    fn side<'a, T: Activations>(&self, view: TensorView<'a, T>) -> tilewright::Result<TensorView<'a, T>> {
        if self.apart { Ok(view) } else { view.select(0, 0) }
    }

    fn side_mut<'a, T: Activations>(
        &self,
        view: TensorViewMut<'a, T>,
    ) -> tilewright::Result<TensorViewMut<'a, T>> {
        if self.apart { Ok(view) } else { view.select(0, 0) }
    }

    /// Each element with the sum of its products' magnitudes; none where it is no group's.
    pub fn reference<T: Activations>(&self, a: &[T], w: &QuantizedWeights) -> Vec<Option<[f64; 2]>> {
        let (a, w, &Case { n, k, .. }) = (T::widen(a), w.dequantize(), self);
        let groups = groups::of_rows(&self.rows, self.more, self.apart);
        let of_row = |(row, group): (usize, Option<usize>)| {
            let (a, w) = (&a[row * k..][..k], &w);
            (0..n).map(move |column| {
                let w = &w[(group? * n + column) * k..][..k];
                let terms = || a.iter().zip(w).map(|(&a, &w)| f64::from(a) * w);
                Some([terms().sum(), terms().map(f64::abs).sum()])
            })
        };
        groups.into_iter().enumerate().flat_map(of_row).collect()
    }

    /// What is wrong with the elements of C, if anything is.
    pub fn compare<T: Activations>(&self, out: &[T], exact: &[Option<[f64; 2]>]) -> Option<String> {
        let wrong = |(out, exact): (&f32, &Option<[f64; 2]>)| match *exact {
            None => !out.is_nan(),
            Some([exact, _]) if exact.is_nan() => !out.is_nan(),
            // Weights and the result are rounded.
            Some([exact, magnitude]) => {
                let error = (f64::from(*out) - exact).abs();
                error.is_nan() || error > T::ROUNDING * (exact.abs() + 3.0 * magnitude) + 1e-6
            }
        };
        let out = T::widen(out);
        assert_eq!(out.len(), exact.len());
        let at = out.iter().zip(exact).position(wrong)?;
        Some(format!("row {}, column {}: {} and not {:?}", at / self.n, at % self.n, out[at], exact[at]))
    }
}
