//! Few results of very many elements: parts in memory.

use tilewright::ops::{Reduce, Reduction};
use tilewright::{Device, Stream, Tensor, bf16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

use crate::case::{Elements, assert_results};

/// Shapes whose results are divided, and over what.
const DIVIDED: [([usize; 2], usize); 6] = [
    ([1, 1 << 18], 1),
    ([2, 100_001], 1),
    ([20_000, 8], 0),
    ([10_000, 5], 0),
    ([1003, 33], 0),
    ([1000, 36], 0),
];

/// Sums, norms and means of divided results, in memory that is given or not.
pub fn few_results(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut divided = 0;
    for (shape, dim) in DIVIDED {
        let x = normal::<bf16>(3, shape.iter().product());
        let values = bf16::widen(&x);
        let elements = Elements { shape: &shape, values: &values }.of_results(&[dim]);
        let x = Tensor::from_slice(device, &x, &shape)?;
        let mut y = Tensor::<f32>::zeros(device, &[elements.len()])?;
        for reduction in [Reduction::Mean, Reduction::Norm] {
            let candidates = Reduce::new(reduction).candidates(&x.view(), &[dim], &y.view_mut())?;
            for name in candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()) {
                let what = format!("{name}, {shape:?} over {dim}");
                let mut own = Reduce::new(reduction).kernel(name);
                let len = own.workspace_len(&x.view(), &[dim], &y.view_mut())?;
                if len == 0 {
                    continue;
                }
                divided += 1;
                y.fill(&stream, f32::NAN)?;
                own.run(&stream, &x.view(), &[dim], &mut y.view_mut())?;
                let first = y.to_vec_on(&stream)?;
                assert_results(&what, reduction, &first, &elements);
                let mut memory = Tensor::filled(device, f32::NAN, &[len])?;
                let mut memory = memory.view_mut();
                let mut given = Reduce::new(reduction).kernel(name).workspace(&mut memory);
                given.run(&stream, &x.view(), &[dim], &mut y.view_mut())?;
                assert_eq!(y.to_vec_on(&stream)?, first, "{what}, in memory that is given");
            }
        }
    }
    assert!(device.sm_count() > 500 || divided > 0, "no result was divided");
    Ok(())
}

/// Every kernel gives the same bits again.
pub fn the_same_bits(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape, dim) in
        [([5, 20_001], 1), ([3000, 24], 0), ([1, 1 << 18], 1), ([20_000, 8], 0), ([1003, 33], 0)]
    {
        let x = Tensor::from_slice(device, &normal::<f32>(8, shape[0] * shape[1]), &shape)?;
        let mut y = Tensor::<f32>::zeros(device, &[shape[1 - dim]])?;
        let candidates = Reduce::new(Reduction::Sum).candidates(&x.view(), &[dim], &y.view_mut())?;
        for name in candidates.iter().filter(|k| k.rejection().is_none()).map(|k| k.name()) {
            let mut bits = || -> tilewright_support::Result<Vec<u32>> {
                Reduce::new(Reduction::Sum).kernel(name).run(
                    &stream,
                    &x.view(),
                    &[dim],
                    &mut y.view_mut(),
                )?;
                Ok(y.to_vec_on(&stream)?.into_iter().map(f32::to_bits).collect())
            };
            let first = bits()?;
            assert_eq!(bits()?, first, "{name}, {shape:?}");
        }
    }
    Ok(())
}

pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut x = Tensor::filled(device, 1.0f32, &[1 << 18])?;
    let mut y = Tensor::<f32>::zeros(device, &[])?;
    let len = Reduce::new(Reduction::Sum).workspace_len(&x.view(), &[0], &y.view_mut())?;
    let mut memory = Tensor::<f32>::zeros(device, &[len])?;
    let graph = stream.capture(|stream| {
        let mut memory = memory.view_mut();
        let mut sum = Reduce::new(Reduction::Sum).workspace(&mut memory);
        sum.run(stream, &x.view(), &[0], &mut y.view_mut())
    })?;
    for value in [1.0, 0.5] {
        x.fill(&stream, value)?;
        // SAFETY: the tensors live.
        unsafe { graph.launch(&stream)? };
        assert_eq!(y.to_vec_on(&stream)?, [value * (1 << 18) as f32]);
    }
    if len > 0 {
        let error = stream
            .capture(|stream| Reduce::new(Reduction::Sum).run(stream, &x.view(), &[0], &mut y.view_mut()));
        let error = error.expect_err("memory of its own").to_string();
        assert!(
            error.starts_with("`workspace` was not given; it must be given to a call that is captured"),
            "{error}"
        );
    }
    Ok(())
}
