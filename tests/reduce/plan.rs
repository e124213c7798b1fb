//! Plans that run many times, of views that had no memory.

use tilewright::ops::{Argmax, Reduce, Reduction};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::planned::{nowhere, nowhere_mut, packed, random, refused, value};
use tilewright_support::suite::Outcome;

/// Few results of many elements, which are divided, and many of few: the same bits as calls.
pub fn runs(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for (shape, dim) in [([2, 100_000], 1), ([60, 72], 0)] {
        let results = [shape[1 - dim]];
        let plan = {
            let (x, y) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f32>(device, &results)?);
            value(Reduce::new(Reduction::Mean).plan(&x, &[dim], &y)?)
        };
        let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len().max(1)])?;
        for seed in 1..3 {
            let x = random::<f16>(device, seed, &shape)?;
            let [mut y, mut called] =
                [Tensor::filled(device, f32::NAN, &results)?, Tensor::zeros(device, &results)?];
            plan.run(&stream, &x.view(), &mut y.view_mut(), Some(&mut memory.view_mut()))?;
            Reduce::new(Reduction::Mean).run(&stream, &x.view(), &[dim], &mut called.view_mut())?;
            assert_eq!(y.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
        }
    }
    let plan = {
        let (x, y) = (nowhere::<f16>(device, &[9, 77])?, nowhere_mut::<i64>(device, &[9])?);
        value(Argmax::new().plan(&x, &y)?)
    };
    for seed in 1..3 {
        let x = random::<f16>(device, seed, &[9, 77])?;
        let [mut y, mut called] = [Tensor::<i64>::zeros(device, &[9])?, Tensor::zeros(device, &[9])?];
        plan.run(&stream, &x.view(), &mut y.view_mut())?;
        Argmax::new().run(&stream, &x.view(), &mut called.view_mut())?;
        assert_eq!(y.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    }
    Ok(())
}

/// What runs with a plan is what it was made for; the error names what is not.
pub fn refuses(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let shape = [1, 1 << 18];
    let (nowhere, to) = (nowhere::<f16>(device, &shape)?, nowhere_mut::<f32>(device, &[1])?);
    let plan = Reduce::new(Reduction::Sum).plan(&nowhere, &[1], &to)?;
    let x = random::<f16>(device, 1, &[shape[1] + 8])?;
    let of = |at: usize| x.view().narrow(0, at, shape[1])?.reshape(&shape);
    let mut y = Tensor::filled(device, f32::NAN, &[1])?;
    let len = plan.workspace_len();
    let mut memory = Tensor::<f32>::zeros(device, &[len.max(1)])?;
    let mut run = |x: &TensorView<'_, f16>, len: usize| {
        let mut memory = memory.view_mut().narrow(0, 0, len)?;
        Ok::<_, tilewright::Error>(refused(plan.run(&stream, x, &mut y.view_mut(), Some(&mut memory))))
    };
    assert_eq!(run(&of(0)?.narrow(1, 0, 1 << 17)?, len)?, "x");
    assert_eq!(run(&of(1)?, len)?, "x");
    assert_eq!(run(&nowhere, len)?, "x");
    if len > 0 {
        assert_eq!(run(&of(0)?, len - 1)?, "workspace");
        assert_eq!(refused(plan.run(&stream, &of(0)?, &mut y.view_mut(), None)), "workspace");
    }
    let mut halves = Tensor::<f16>::zeros(device, &[1])?;
    assert_eq!(refused(plan.run(&stream, &of(0)?, &mut halves.view_mut(), None)), "y");
    // SAFETY: nothing runs.
    let inside =
        unsafe { TensorView::<f32>::from_raw_parts(device, y.address(), &[1, 1], &packed(&[1, 1]))? };
    let same = Reduce::new(Reduction::Sum).plan(&inside, &[1], &to)?;
    assert_eq!(refused(same.run(&stream, &inside, &mut y.view_mut(), None)), "y");
    assert!(y.to_vec_on(&stream)?.iter().all(|y| y.is_nan()), "something ran");
    Ok(())
}
