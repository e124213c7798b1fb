//! The numbers that say which rows are whose, and numbers in the matrices.

use tilewright::ops::{GroupRows, GroupedGemm, Indices};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Case, Lies};

/// Rows of `case` on its default kernel, by these numbers; what it wrote to C, which was NaN.
fn out(
    device: &Device,
    case: &Case,
    numbers: Indices<'_>,
    a: &[bf16],
    b: &[bf16],
) -> tilewright::Result<Vec<bf16>> {
    let (stream, [_, rows], groups) = (Stream::new(device)?, case.matrices(), case.rows.len());
    let a = Tensor::from_slice(device, a, &[rows, case.k])?;
    let b = Tensor::from_slice(device, b, &[groups, case.k, case.n])?;
    let mut c = Tensor::filled(device, bf16::NAN, &[rows, case.n])?;
    let by = GroupRows::offsets(numbers);
    GroupedGemm::new().run(&stream, &a.view(), &b.view(), &by, &mut c.view_mut())?;
    c.to_vec_on(&stream)
}

pub fn types(device: &Device) -> Outcome {
    let case = Case { b: Lies::Rows, ..Case::new(&[9, 0, 40], 64, 64) };
    let (a, b) = (normal::<bf16>(1, 52 * 64), normal::<bf16>(2, 3 * 64 * 64));
    let (exact, numbers) = (case.reference(&a, &b), case.numbers());
    let len = &[numbers.len()];
    let narrow = Tensor::<i32>::from_slice(device, &numbers, len)?;
    let positive: Vec<_> = numbers.iter().map(|x| x.cast_unsigned()).collect();
    let positive = Tensor::<u32>::from_slice(device, &positive, len)?;
    let wide: Vec<_> = numbers.iter().map(|&x| i64::from(x)).collect();
    let wide = Tensor::<i64>::from_slice(device, &wide, len)?;
    for numbers in [Indices::from(narrow.view()), positive.view().into(), wide.view().into()] {
        let out = out(device, &case, numbers, &a, &b)?;
        assert_eq!(case.compare(&out, &exact), None);
    }
    Ok(())
}

/// Offsets outside of A, and such that decrease: no row is wrong that one group alone has.
pub fn wrong(device: &Device) -> Outcome {
    const ROWS: usize = 150;
    let case = Case { more: ROWS - 3, b: Lies::Rows, ..Case::new(&[1, 1, 1], 72, 64) };
    let (a, b) = (normal::<bf16>(1, ROWS * 64), normal::<bf16>(2, 3 * 64 * 72));
    for offsets in [[0, 100, 130, 170], [-5, 60, 1 << 30, i32::MAX], [40, 120, 60, 60], [i32::MIN, -1, -1, 0]]
    {
        let numbers = Tensor::from_slice(device, &offsets, &[4])?;
        let out = out(device, &case, numbers.view().into(), &a, &b)?;
        let ends: Vec<_> = offsets.iter().map(|&at| (at.max(0) as usize).min(ROWS)).collect();
        for (row, out) in bf16::widen(&out).chunks(case.n).enumerate() {
            let group = (0..3).find(|&group| (ends[group]..ends[group + 1]).contains(&row));
            let is_written = out.iter().all(|x| !x.is_nan());
            let is_left = out.iter().all(|x| x.is_nan());
            assert!(if group.is_some() { is_written } else { is_left }, "row {row} of {offsets:?}");
        }
    }
    // Counts that are more than there are rows, or less than none.
    let case = Case { apart: true, more: 0, b: Lies::Rows, ..Case::new(&[40, 0, 40], 72, 64) };
    let (a, b) = (normal::<bf16>(1, 3 * 40 * 64), normal::<bf16>(2, 3 * 64 * 72));
    let (stream, exact) = (Stream::new(device)?, case.reference(&a, &b));
    let a = Tensor::from_slice(device, &a, &[3, 40, 64])?;
    let b = Tensor::from_slice(device, &b, &[3, 64, 72])?;
    let counts = Tensor::<i64>::from_slice(device, &[41, -7, 1 << 30], &[3])?;
    let mut c = Tensor::filled(device, bf16::NAN, &[3, 40, 72])?;
    let rows = GroupRows::counts(counts.view());
    GroupedGemm::new().run(&stream, &a.view(), &b.view(), &rows, &mut c.view_mut())?;
    assert_eq!(case.compare(&c.to_vec_on(&stream)?, &exact), None);
    Ok(())
}

/// Small integers: any order of sums gives the same.
pub fn exact(device: &Device) -> Outcome {
    let case = Case { b: Lies::Columns, ..Case::new(&[70, 0, 3, 129], 136, 192) };
    let places = case.places(0);
    let integers = |i: usize, of: u64| -> Vec<f16> {
        let values: Vec<f32> =
            (0..places[i].count() as u64).map(|x| (x * 7919 % of) as f32 - (of / 2) as f32).collect();
        f16::round(&values)
    };
    let (a, b) = (integers(0, 7), integers(1, 5));
    let sums = case.reference(&a, &b);
    assert!(sums.iter().flatten().all(|[sum, _]| sum.abs() <= 2048.0));
    // The bound allows nothing but rounding, and integers up to 2048 are not rounded.
    let exact: Vec<_> = sums.into_iter().map(|sum| sum.map(|[sum, _]| [sum, 0.0])).collect();
    let a = Tensor::from_slice(device, &a, &[case.matrices()[1], 192])?;
    let columns: Vec<f16> =
        (0..4 * 136 * 192).map(|i| b[i / (136 * 192) * 136 * 192 + i % 192 * 136 + i / 192 % 136]).collect();
    let b = Tensor::from_slice(device, &columns, &[4, 136, 192])?;
    let numbers = Tensor::from_slice(device, &case.numbers(), &[5])?;
    let rows = GroupRows::offsets(numbers.view());
    let (stream, b) = (Stream::new(device)?, b.view().transpose(1, 2)?);
    let mut c = Tensor::filled(device, f16::NAN, &[case.matrices()[1], 136])?;
    let all = GroupedGemm::new().candidates(&a.view(), &b, &rows, &c.view_mut())?;
    for kernel in all.iter().filter(|kernel| kernel.rejection().is_none()) {
        GroupedGemm::new().kernel(kernel.name()).run(&stream, &a.view(), &b, &rows, &mut c.view_mut())?;
        for (out, exact) in c.to_vec_on(&stream)?.iter().zip(&exact) {
            assert!(exact.is_none_or(|[exact, _]| f64::from(out.to_f32()) == exact), "{}", kernel.name());
        }
    }
    Ok(())
}

/// A NaN in A is its row's; one in B is its group's column's.
pub fn not_a_number(device: &Device) -> Outcome {
    for b in [Lies::Rows, Lies::Columns] {
        let case = Case { b, ..Case::new(&[20, 0, 30, 1, 40], 80, 64) };
        let places = case.places(8);
        let (mut a, mut b) = (normal::<f16>(1, places[0].count()), normal::<f16>(2, places[1].count()));
        // The last row of the first group, and one that no group has; an element of the third group's matrix, and of one without rows.
        (a[19 * 64 + 5], a[92 * 64]) = (f16::NAN, f16::NAN);
        (b[2 * 64 * 80 + 3 * 80 + 7], b[64 * 80]) = (f16::NAN, f16::NAN);
        case.check_with(device, places, &a, &b)?;
    }
    Ok(())
}
