//! `ops::k_grouped_gemm`: products whose depth is a group's rows, on every kernel that can compute them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use tilewright::ops::{FloatElement, GroupRows, HalfElement, KGroupedGemm, k_grouped_gemm, kernels};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::planned::{nowhere, nowhere_mut};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use crate::case::Case;
use crate::errors::expect;

/// Kernels that ran.
static SEEN: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

/// Products over the rows of a [`Case`], whose `n` and `k` are C's columns and rows.
struct Products {
    case: Case,
    accumulate: bool,
}

/// Of A, B and C.
type Places = [Place; 3];

impl Products {
    fn new(rows: &[usize], [m, n]: [usize; 2]) -> Self {
        Products { case: Case::new(rows, n, m), accumulate: false }
    }

    fn apart(self) -> Self {
        Products { case: Case { apart: true, ..self.case }, ..self }
    }

    /// With `padded` elements between lines beyond the next multiple of 8.
    fn places(&self, padded: usize) -> Places {
        let ([matrices, rows], &Case { n, k: m, .. }) = (self.case.matrices(), &self.case);
        let by_rows = |shape: [usize; 3]| Place::by_rows(shape, shape[2].next_multiple_of(8) + padded);
        [[matrices, rows, m], [matrices, rows, n], [self.case.rows.len(), m, n]].map(by_rows)
    }

    /// Normal values, and NaN in all rows that no group has.
    fn values<T: Real>(&self, columns: usize, seed: u64) -> Vec<T> {
        let groups = self.case.groups();
        let mut all = normal::<T>(seed, groups.len() * columns);
        for (row, group) in groups.iter().enumerate() {
            if group.is_none() {
                all[row * columns..][..columns].fill(T::POISON);
            }
        }
        all
    }

    /// Each element with the sum of its products' magnitudes.
    fn reference<T: Real>(&self, a: &[T], b: &[T], before: &[f32]) -> Vec<[f64; 2]> {
        let (a, b, Case { n, k: m, .. }) = (T::widen(a), T::widen(b), &self.case);
        let mut sums: Vec<_> = before
            .iter()
            .map(|&c| if self.accumulate { [f64::from(c), f64::from(c.abs())] } else { [0.0; 2] })
            .collect();
        for (row, group) in self.case.groups().into_iter().enumerate() {
            let Some(group) = group else { continue };
            for (i, &x) in a[row * m..][..*m].iter().enumerate() {
                let line = &mut sums[(group * m + i) * n..][..*n];
                for ([sum, magnitude], &y) in line.iter_mut().zip(&b[row * n..][..*n]) {
                    let product = f64::from(x) * f64::from(y);
                    (*sum, *magnitude) = (*sum + product, *magnitude + product.abs());
                }
            }
        }
        sums
    }

    fn check<T: Real + HalfElement, U: Real + FloatElement>(&self, device: &Device) -> Outcome {
        self.check_at::<T, U>(device, self.places(8))
    }

    fn check_at<T: Real + HalfElement, U: Real + FloatElement>(
        &self,
        device: &Device,
        places: Places,
    ) -> Outcome {
        let Case { n, k: m, apart, .. } = self.case;
        let (a, b) = (self.values::<T>(m, 1), self.values::<T>(n, 2));
        let before = normal::<f32>(3, places[2].count());
        let exact = self.reference(&a, &b, &before);
        let (on_a, on_b) = (Guarded::with(device, places[0], &a)?, Guarded::with(device, places[1], &b)?);
        let numbers = self.case.numbers();
        let numbers = Tensor::from_slice(device, &numbers, &[numbers.len()])?;
        let rows = if apart { GroupRows::counts(numbers.view()) } else { GroupRows::offsets(numbers.view()) };
        let (mut a, mut b) = (on_a.view()?, on_b.view()?);
        if !apart {
            (a, b) = (a.select(0, 0)?, b.select(0, 0)?);
        }
        let gemm = KGroupedGemm::new().accumulate(self.accumulate);
        let fresh = || match self.accumulate {
            true => Guarded::<U>::with(device, places[2], &U::round(&before)),
            false => Guarded::<U>::at(device, places[2]),
        };
        let all = gemm.candidates(&a, &b, &rows, &fresh()?.view_mut()?)?;
        let names: Vec<_> =
            all.iter().filter(|one| one.rejection().is_none()).map(|one| one.name()).collect();
        assert!(!names.is_empty(), "no kernel for {:?}", self.case);
        for name in names {
            let (mut c, stream) = (fresh()?, Stream::new(device)?);
            gemm.kernel(name).run(&stream, &a, &b, &rows, &mut c.view_mut()?)?;
            stream.synchronize()?;
            let (out, outside) = c.read()?;
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
            assert_eq!(outside, 0, "{name}: elements outside of C; {:?}", self.case);
            for (i, (&out, &[exact, magnitude])) in U::widen(&out).iter().zip(&exact).enumerate() {
                let bound = U::ROUNDING * exact.abs() + U::LEAST + 1e-6 * magnitude;
                let near = (f64::from(out) - exact).abs() <= bound;
                assert!(near, "{name}: element {i} is {out} and not {exact}; {:?}", self.case);
            }
        }
        Ok(())
    }
}

/// Rows of groups: none, one, a step, a row more, several steps.
const ROWS: [usize; 8] = [5, 0, 129, 1, 64, 0, 33, 16];

pub fn sizes(device: &Device) -> Outcome {
    for size in [[136, 264], [40, 72], [129, 31]] {
        let products = Products::new(&ROWS, size);
        products.check::<f16, f32>(device)?;
        products.check::<bf16, bf16>(device)?;
        let products = products.apart();
        products.check::<f16, f16>(device)?;
        products.check::<bf16, f32>(device)?;
    }
    let seen = SEEN.lock().map_err(|_| "another test failed")?;
    let ours =
        kernels().filter(|kernel| kernel.name.starts_with("k_grouped_gemm_") && device.runs(kernel.arch));
    let left: Vec<_> = ours.map(|kernel| kernel.name).filter(|name| !seen.contains(name)).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

/// The emulator takes warps in another order for each seed.
pub fn seeds(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    for seed in 1..4 {
        Products::new(&[40, 0, 1, 130], [136, 264]).check::<bf16, f32>(&Device::emulator_with_seed(seed))?;
    }
    Ok(())
}

/// Groups without rows keep what C has.
pub fn added(device: &Device) -> Outcome {
    for products in [Products::new(&ROWS, [72, 136]), Products::new(&[3, 0, 70], [129, 31]).apart()] {
        let products = Products { accumulate: true, ..products };
        products.check::<f16, f32>(device)?;
        products.check::<bf16, f32>(device)?;
    }
    Ok(())
}

pub fn groups(device: &Device) -> Outcome {
    let mut all =
        vec![vec![70], (0..256).map(|group| usize::from(group % 9 == 4) * (group % 5 + 1)).collect()];
    for of in [0, 7] {
        all.push((0..8).map(|group| if group == of { 300 } else { 0 }).collect());
    }
    for rows in all {
        if picked(device, &rows, 2) {
            Products::new(&rows, [40, 48]).check::<bf16, f32>(device)?;
        }
    }
    if !device.is_emulator() {
        let rows: Vec<_> = (0..64).map(|group| group * 37 % 411).collect();
        Products::new(&rows, [520, 776]).check::<f16, f16>(device)?;
        // More rows of tiles than are taken together.
        Products::new(&[300, 5], [128 * 17 + 8, 264]).check::<bf16, bf16>(device)?;
    }
    Ok(())
}

/// Strides and alignments that only some kernels read, or none but the one for any.
pub fn anywhere(device: &Device) -> Outcome {
    let products = Products::new(&[9, 0, 70], [88, 80]);
    let [a, b, c] = products.places(8);
    let columns = |place: Place| Place::by_columns(place.shape, place.shape[1].next_multiple_of(8));
    let sparse = |place: Place| {
        let [matrix, row, column] = place.strides;
        place.strided([3 * matrix, 3 * row, 3 * column])
    };
    for places in [
        [a.shifted(1), b, c],
        [a, b.shifted(8), c.shifted(1)],
        [columns(a), b, c],
        [a, columns(b), columns(c)],
        [sparse(a), b, sparse(c)],
    ] {
        products.check_at::<f16, f32>(device, places)?;
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    Products::new(&[0, 0, 0], [64, 40]).check::<f16, f16>(device)?;
    let none = Products::new(&[0, 0], [64, 40]);
    Products { case: Case { more: 0, ..none.case }, ..none }.check::<bf16, f32>(device)?;
    let stream = Stream::new(device)?;
    for [groups, m, n] in [[0, 40, 64], [3, 0, 64], [3, 40, 0]] {
        let (a, b) = (Tensor::<f16>::zeros(device, &[5, m])?, Tensor::<f16>::zeros(device, &[5, n])?);
        let offsets = Tensor::<i32>::zeros(device, &[groups + 1])?;
        let mut c = Tensor::<f32>::zeros(device, &[groups, m, n])?;
        let rows = GroupRows::offsets(offsets.view());
        k_grouped_gemm(&stream, &a.view(), &b.view(), &rows, &mut c.view_mut())?;
    }
    Ok(())
}

/// A NaN is its group's alone, in its row or column of C.
pub fn not_a_number(device: &Device) -> Outcome {
    let (rows, m, n) = ([20, 30, 1], 64, 72);
    let (stream, offsets) =
        (Stream::new(device)?, Tensor::<i32>::from_slice(device, &[0, 20, 50, 51], &[4])?);
    let (mut a, mut b) = (normal::<bf16>(1, 51 * m), normal::<bf16>(2, 51 * n));
    // Of the second group's first row, and of the third one's.
    (a[20 * m + 3], b[50 * n + 7]) = (bf16::NAN, bf16::INFINITY);
    let (a, b) = (Tensor::from_slice(device, &a, &[51, m])?, Tensor::from_slice(device, &b, &[51, n])?);
    let mut c = Tensor::<f32>::zeros(device, &[3, m, n])?;
    let by = GroupRows::offsets(offsets.view());
    for kernel in KGroupedGemm::new().candidates(&a.view(), &b.view(), &by, &c.view_mut())? {
        if kernel.rejection().is_some() {
            continue;
        }
        KGroupedGemm::new().kernel(kernel.name()).run(
            &stream,
            &a.view(),
            &b.view(),
            &by,
            &mut c.view_mut(),
        )?;
        for (i, x) in c.to_vec_on(&stream)?.into_iter().enumerate() {
            let (group, row, column) = (i / (m * n), i / n % m, i % n);
            let finite = !((group == 1 && row == 3) || (group == 2 && column == 7));
            assert_eq!(
                x.is_finite(),
                finite,
                "{}: {x} of {rows:?} at {group}, {row}, {column}",
                kernel.name()
            );
        }
    }
    Ok(())
}

pub fn replayed(device: &Device) -> Outcome {
    const ROWS: usize = 100;
    let (stream, [m, n]) = (Stream::new(device)?, [72, 64]);
    let of = |rows: &[usize]| {
        let products = Products::new(rows, [m, n]);
        Products { case: Case { more: ROWS - rows.iter().sum::<usize>(), ..products.case }, ..products }
    };
    let (a, b) = (normal::<bf16>(1, ROWS * m), normal::<bf16>(2, ROWS * n));
    let (on_a, on_b) =
        (Tensor::from_slice(device, &a, &[ROWS, m])?, Tensor::from_slice(device, &b, &[ROWS, n])?);
    let mut offsets = Tensor::<i32>::zeros(device, &[5])?;
    let mut c = Tensor::<f32>::zeros(device, &[4, m, n])?;
    let plan = KGroupedGemm::new().plan(
        &nowhere::<bf16>(device, &[ROWS, m])?,
        &nowhere::<bf16>(device, &[ROWS, n])?,
        &GroupRows::offsets(nowhere::<i32>(device, &[5])?),
        &nowhere_mut::<f32>(device, &[4, m, n])?,
    )?;
    let graph = {
        let rows = GroupRows::offsets(offsets.view());
        stream.capture(|stream| plan.run(stream, &on_a.view(), &on_b.view(), &rows, &mut c.view_mut()))?
    };
    assert_eq!(graph.nodes(), 1);
    for rows in [[25; 4], [0, 100, 0, 0], [1, 0, 98, 1], [0; 4]] {
        let products = of(&rows);
        offsets.write(&products.case.numbers())?;
        c.write(&vec![f32::NAN; 4 * m * n])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let exact = products.reference(&a, &b, &vec![0.0; 4 * m * n]);
        for (out, [exact, magnitude]) in c.to_vec_on(&stream)?.into_iter().zip(exact) {
            assert!((f64::from(out) - exact).abs() <= 1e-6 * magnitude, "{out} and not {exact}: {rows:?}");
        }
    }
    Ok(())
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (a, b, apart) = (tensor(&[24, 64])?, tensor(&[24, 40])?, tensor(&[3, 24, 64])?);
    let (mut c, mut flat) =
        (Tensor::filled(device, f32::NAN, &[3, 64, 40])?, Tensor::<f32>::zeros(device, &[64, 40])?);
    let mut other = Tensor::<bf16>::zeros(device, &[3, 64, 40])?;
    let mut half = tensor(&[3, 64, 40])?;
    let numbers = Tensor::<i32>::zeros(device, &[4])?;
    let (offsets, counts) =
        (GroupRows::offsets(numbers.view()), GroupRows::counts(numbers.view().narrow(0, 0, 3)?));
    let short = GroupRows::offsets(numbers.view().narrow(0, 0, 3)?);
    let new = KGroupedGemm::new;
    let (av, bv) = (a.view(), b.view());
    expect("c", new().run(&stream, &av, &bv, &offsets, &mut flat.view_mut()))?;
    expect("c", new().run(&stream, &av, &bv, &offsets, &mut other.view_mut()))?;
    expect("c", new().accumulate(true).run(&stream, &av, &bv, &offsets, &mut half.view_mut()))?;
    for (name, gemm, a, b, rows) in [
        ("a", new(), av.clone().narrow(1, 0, 56)?, bv.clone(), &offsets),
        ("a", new(), apart.view(), bv.clone(), &offsets),
        ("a", new(), av.clone(), bv.clone(), &counts),
        ("b", new(), av.clone(), bv.clone().narrow(0, 0, 23)?, &offsets),
        ("b", new(), apart.view(), bv.clone(), &counts),
        ("offsets", new(), av.clone(), bv.clone(), &short),
        ("kernel", new().kernel("none such"), av.clone(), bv.clone(), &offsets),
    ] {
        expect(name, gemm.run(&stream, &a, &b, rows, &mut c.view_mut()))?;
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    let error = new().run(&stream, &av, &bv, &offsets, &mut other.view_mut()).expect_err("C of bf16");
    assert_eq!(error.to_string(), "`c` was of bf16; it must be of f16, as `a` and `b`, or of f32");
    Ok(())
}
