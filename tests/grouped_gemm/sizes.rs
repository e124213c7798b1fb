//! Sizes, and where tensors lie.

use tilewright::ops::{GroupRows, grouped_gemm, kernels};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::suite::{Outcome, picked};

use crate::case::{Case, Lies, SEEN};

/// Rows of groups: none, one, a tile, a row more, several tiles.
const ROWS: [usize; 7] = [5, 0, 129, 1, 64, 0, 33];

pub fn offsets(device: &Device) -> Outcome {
    for (n, k) in [(256, 64), (264, 72), (40, 200), (129, 131)] {
        for b in [Lies::Rows, Lies::Columns] {
            let case = Case { b, scaled: n == 264, ..Case::new(&ROWS, n, k) };
            if picked(device, (n, k, b as u32), 2) {
                case.check::<f16>(device)?;
            }
            case.check::<bf16>(device)?;
        }
    }
    let seen = SEEN.lock().map_err(|_| "another test failed")?;
    let ours =
        kernels().filter(|kernel| kernel.name.starts_with("grouped_gemm_sm_") && device.runs(kernel.arch));
    let left: Vec<_> = ours.map(|kernel| kernel.name).filter(|name| !seen.contains(name)).collect();
    assert!(left.is_empty(), "not run: {left:?}");
    Ok(())
}

pub fn counts(device: &Device) -> Outcome {
    for (n, k) in [(256, 64), (264, 72), (129, 131)] {
        for b in [Lies::Rows, Lies::Columns] {
            let case = Case { b, apart: true, scaled: n == 129, ..Case::new(&[5, 0, 129, 1, 40], n, k) };
            if picked(device, (n, k, b as u32), 2) {
                case.check::<bf16>(device)?;
            }
            case.check::<f16>(device)?;
        }
    }
    Ok(())
}

pub fn groups(device: &Device) -> Outcome {
    let mut all = vec![vec![70]];
    // Nobody chose most of them.
    all.push((0..256).map(|group| usize::from(group % 9 == 4) * (group % 5 + 1)).collect());
    for of in [0, 3, 7] {
        all.push((0..8).map(|group| if group == of { 300 } else { 0 }).collect());
    }
    if !device.is_emulator() {
        all.push((0..64).map(|group| group * 37 % 411).collect());
        // More rows of tiles than are taken together.
        all.push(vec![128 * 17 + 5, 10, 128 * 33]);
    }
    for rows in all {
        for b in [Lies::Rows, Lies::Columns] {
            Case { b, ..Case::new(&rows, 272, 64) }.check::<bf16>(device)?;
        }
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (rows, groups, n, k) in [(0, 3, 40, 64), (5, 0, 40, 64), (5, 3, 0, 64)] {
        let a = Tensor::<f16>::zeros(device, &[rows, k])?;
        let b = Tensor::<f16>::zeros(device, &[groups, k, n])?;
        let offsets = Tensor::<i32>::zeros(device, &[groups + 1])?;
        let mut c = Tensor::filled(device, f16::NAN, &[rows, n])?;
        let by = GroupRows::offsets(offsets.view());
        grouped_gemm(&stream, &a.view(), &b.view(), &by, &mut c.view_mut())?;
        assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    }
    // Groups without rows, and products of zero.
    Case::new(&[0, 0, 0], 64, 64).check::<f16>(device)?;
    Case::new(&[3, 0, 40], 72, 0).check::<f16>(device)
}

/// Strides and alignments that only some kernels read, or none but the one for any.
pub fn anywhere(device: &Device) -> Outcome {
    let case = Case::new(&[9, 0, 70], 88, 80);
    let [a, b, c] = case.places(8);
    let columns = Place::by_columns(a.shape, a.shape[1].next_multiple_of(8));
    let sparse = |place: Place| {
        let [matrix, row, column] = place.strides;
        place.strided([3 * matrix, 3 * row, 3 * column])
    };
    for places in [
        [a.shifted(1), b, c],
        [a, b.shifted(8), c.shifted(8)],
        [a, b, c.shifted(1)],
        [columns, b, c],
        [a, sparse(b), c],
        [sparse(a), b, sparse(c)],
        [a, b, Place::by_columns(c.shape, c.shape[1] + 4)],
    ] {
        case.check_at::<f16>(device, places)?;
    }
    // One matrix for all groups.
    let [_, row, column] = b.strides;
    let case = Case { b: Lies::Rows, ..case };
    let shared = b.strided([0, row, column]);
    let (a_data, b_data) = (tilewright_support::random::normal(1, a.count()), {
        let one: Vec<f16> = tilewright_support::random::normal(2, b.count() / 3);
        one.repeat(3)
    });
    case.check_with(device, [a, shared, c], &a_data, &b_data)
}
