use tilewright::ops::FloatElement;
use tilewright::parallel::Communicator;
use tilewright::{Device, Result, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::suite::Outcome;

use crate::ranks::{groups, on_ranks};

/// What rank r has at i: small, so that all sums are exact in every type.
fn value(rank: usize, i: usize) -> f32 {
    ((7 * rank + i) % 13) as f32 - 6.0
}

fn of<T: FloatElement + Real>(rank: usize, len: usize) -> Vec<T> {
    T::round(&(0..len).map(|i| value(rank, i)).collect::<Vec<_>>())
}

fn sums_and_parts<T: FloatElement + Real>(rank: &mut Communicator, part: usize) -> Result<()> {
    let (device, ranks, own) = (rank.device().clone(), rank.ranks(), rank.rank());
    let (stream, all) = (Stream::new(&device)?, part * rank.ranks());
    let sums = |first: usize, len: usize| -> Vec<T> {
        let sum = |i: usize| (0..ranks).map(|rank| value(rank, i)).sum();
        T::round(&(first..first + len).map(sum).collect::<Vec<f32>>())
    };

    let mut x = Tensor::from_slice(&device, &of::<T>(own, all), &[all])?;
    let mut y = Tensor::<T>::zeros(&device, &[part])?;
    rank.reduce_scatter(&stream, &x.view(), &mut y.view_mut())?;
    assert_eq!(y.to_vec_on(&stream)?, sums(own * part, part), "reduce_scatter, rank {own} of {ranks}");

    rank.all_reduce(&stream, &mut x.view_mut())?;
    assert_eq!(x.to_vec_on(&stream)?, sums(0, all), "all_reduce, rank {own} of {ranks}");

    let part_of = Tensor::from_slice(&device, &of::<T>(own, part), &[part])?;
    let mut gathered = Tensor::<T>::zeros(&device, &[all])?;
    rank.all_gather(&stream, &part_of.view(), &mut gathered.view_mut())?;
    let expected: Vec<T> = (0..ranks).flat_map(|rank| of(rank, part)).collect();
    assert_eq!(gathered.to_vec_on(&stream)?, expected, "all_gather, rank {own} of {ranks}");
    Ok(())
}

pub fn integers(device: &Device) -> Outcome {
    for group in groups(device)? {
        on_ranks(&group, |rank| {
            [1, 8, 33, 4096].into_iter().try_for_each(|part| {
                sums_and_parts::<f16>(rank, part)?;
                sums_and_parts::<bf16>(rank, part)?;
                sums_and_parts::<f32>(rank, part)
            })
        })?;
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    for group in groups(device)? {
        on_ranks(&group, |rank| sums_and_parts::<f32>(rank, 0))?;
    }
    Ok(())
}
