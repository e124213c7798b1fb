//! The order that brings rows into groups, against a stable sort.

use tilewright::ops::{Indices, group_order};
use tilewright::{Device, Stream, Tensor};
use tilewright_support::suite::Outcome;

/// Orders entries by group, and compares.
fn check(
    device: &Device,
    groups: Indices<'_>,
    values: &[i64],
    [rows, each]: [usize; 2],
    number: usize,
) -> Outcome {
    let stream = Stream::new(device)?;
    let mut offsets = Tensor::filled(device, -7, &[number + 1])?;
    let mut order = Tensor::filled(device, -7, &[rows * each])?;
    let mut places = Tensor::filled(device, -7, &[rows, each])?;
    group_order(&stream, groups, &mut offsets.view_mut(), &mut order.view_mut(), &mut places.view_mut())?;
    let (mut at, mut ends, mut by, mut of) = (0, vec![0], vec![-1; rows * each], vec![-1; rows * each]);
    for group in 0..number as i64 {
        for (entry, _) in values.iter().enumerate().filter(|(_, its)| **its == group) {
            (by[at], of[entry]) = ((entry / each) as i32, at as i32);
            at += 1;
        }
        ends.push(at as i32);
    }
    assert_eq!(offsets.to_vec_on(&stream)?, ends, "{rows} x {each} to {number}");
    assert_eq!(order.to_vec_on(&stream)?, by, "{rows} x {each} to {number}");
    assert_eq!(places.to_vec_on(&stream)?, of, "{rows} x {each} to {number}");
    Ok(())
}

pub fn ordered(device: &Device) -> Outcome {
    let large = if device.is_emulator() { [700, 4] } else { [20000, 8] };
    for ([rows, each], number) in
        [([1, 1], 1), ([5, 2], 4), ([64, 8], 256), ([33, 3], 7), ([0, 2], 3), (large, 60)]
    {
        let group = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % number as u64;
        let values: Vec<_> = (0..(rows * each) as u64).map(|i| group(i) as i64).collect();
        let shape = &[rows, each];
        let narrow: Vec<_> = values.iter().map(|&x| x as i32).collect();
        let unsigned: Vec<_> = values.iter().map(|&x| x as u32).collect();
        let narrow = Tensor::<i32>::from_slice(device, &narrow, shape)?;
        let unsigned = Tensor::<u32>::from_slice(device, &unsigned, shape)?;
        let wide = Tensor::<i64>::from_slice(device, &values, shape)?;
        for groups in [Indices::from(narrow.view()), unsigned.view().into(), wide.view().into()] {
            check(device, groups, &values, *shape, number)?;
        }
    }
    Ok(())
}

pub fn left_out(device: &Device) -> Outcome {
    let values = [3, -1, 0, 2, 9, 2, i32::MAX, 0, i32::MIN, 1];
    let groups = Tensor::<i32>::from_slice(device, &values, &[5, 2])?;
    let values: Vec<_> = values.iter().map(|&x| i64::from(x)).collect();
    check(device, groups.view().into(), &values, [5, 2], 3)?;
    check(device, groups.view().into(), &values, [5, 2], 4)
}
