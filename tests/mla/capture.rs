//! MLA in graphs, and the memory for parts.

use tilewright::ops::{Indices, Mla, MlaViews};
use tilewright::{Device, Error, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Recorded without running, replayed on the data of the moment; equal to what a run gives.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let cache = Tensor::from_slice(device, &normal::<f16>(1, 200 * 576), &[1, 200, 1, 576])?;
    let mut q = Tensor::<f16>::zeros(device, &[1, 1, 16, 576])?;
    let mut o = Tensor::<f16>::zeros(device, &[1, 1, 16, 512])?;
    let len = Mla::new().splits(3).workspace_len(&q.view(), &cache.view(), &o.view_mut())?;
    let mut memory = Tensor::<f32>::zeros(device, &[len])?;
    let mut workspace = memory.view_mut();
    let mut mla = Mla::new().splits(3).workspace(&mut workspace);
    let graph = {
        let (q, cache, mut o) = (q.view(), cache.view(), o.view_mut());
        // Neither the kernels' loading nor the plan's upload is to be recorded.
        mla.run(&stream, &q, &cache, &mut o)?;
        stream.synchronize()?;
        stream.capture(|stream| mla.run(stream, &q, &cache, &mut o))?
    };
    assert_eq!(graph.nodes(), 2);
    for seed in 10..12 {
        q.write(&normal(seed, 16 * 576))?;
        mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
        let expected = o.to_vec_on(&stream)?;
        o.write(&vec![f16::NAN; expected.len()])?;
        // SAFETY: the tensors and the operator are alive.
        unsafe { graph.launch(&stream)? };
        assert_eq!(o.to_vec_on(&stream)?, expected, "seed {seed}");
    }
    Ok(())
}

/// One plan for two layers, each with a cache and an output: the same bits as calls.
pub fn plan(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let caches =
        [1, 2].map(|seed| Tensor::from_slice(device, &normal::<f16>(seed, 300 * 576), &[2, 150, 1, 576]));
    let q = Tensor::from_slice(device, &normal::<f16>(3, 2 * 16 * 576), &[2, 1, 16, 576])?;
    let [mut planned, mut called] = [(); 2].map(|()| Tensor::<f16>::zeros(device, &[2, 1, 16, 512]));
    let (planned, called) = (planned.as_mut()?, called.as_mut()?);
    let table = Tensor::<i64>::from_slice(device, &[1, 0], &[2, 1])?;
    let mut mla = Mla::new().splits(2).lengths(&[100, 150]);
    let plan = mla.plan(&q.view(), &caches[0].as_ref().map_err(Clone::clone)?.view(), &planned.view_mut())?;
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    assert!(plan.cut() == 2 && plan.parts() == 2, "{plan}");
    for cache in caches {
        let cache = cache?;
        let mut views = MlaViews { workspace: Some(memory.view_mut()), ..MlaViews::default() };
        plan.run(&stream, &q.view(), &cache.view(), &mut planned.view_mut(), &mut views)?;
        mla.run(&stream, &q.view(), &cache.view(), &mut called.view_mut())?;
        let expected = called.to_vec_on(&stream)?;
        assert_eq!(planned.to_vec_on(&stream)?, expected);
        assert!(expected.iter().any(|x| x.to_f32() != 0.0));
        // Other lengths are another plan; the first one stays as it is.
        mla.set_lengths(&[150, 100]);
        mla.run(&stream, &q.view(), &cache.view(), &mut called.view_mut())?;
        assert_ne!(called.to_vec_on(&stream)?, expected);
        mla.set_lengths(&[100, 150]);
    }
    let cache = Tensor::from_slice(device, &normal::<f16>(1, 2 * 256 * 576), &[2, 256, 1, 576])?;
    let (table, numbers) = (table.view(), Tensor::from_slice(device, &[1, 0], &[2, 1])?);
    for numbers in [Indices::from(&table), Indices::from(numbers.view())] {
        let mut mla = Mla::new().block_table(numbers).lengths(&[100, 150]);
        mla.run(&stream, &q.view(), &cache.view(), &mut called.view_mut())?;
        let first = called.to_vec_on(&stream)?;
        std::mem::swap(planned, called);
        assert!(first.iter().any(|x| x.to_f32() != 0.0));
    }
    assert_eq!(planned.to_vec_on(&stream)?, called.to_vec_on(&stream)?);
    Ok(())
}

/// The workspace is as large as it says; a smaller or misaligned one is refused.
pub fn workspace(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let cache = Tensor::from_slice(device, &normal::<f16>(1, 300 * 576), &[1, 300, 1, 576])?;
    let q = Tensor::from_slice(device, &normal::<f16>(2, 16 * 576), &[1, 1, 16, 576])?;
    let mut o = Tensor::<f16>::zeros(device, &[1, 1, 16, 512])?;
    let len = Mla::new().splits(3).workspace_len(&q.view(), &cache.view(), &o.view_mut())?;
    assert_eq!(len, 3 * 64 * 513);
    let mut owned = Mla::new().splits(3);
    for _ in 0..2 {
        owned.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
    }
    let expected = o.to_vec_on(&stream)?;
    let mut memory = Tensor::filled(device, f32::NAN, &[len + 2])?;
    {
        let mut view = memory.view_mut();
        let mut all = view.reborrow().narrow(0, 0, len)?;
        let mut given = Mla::new().splits(3).workspace(&mut all);
        given.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
    }
    assert_eq!(o.to_vec_on(&stream)?, expected);
    assert!(memory.to_vec_on(&stream)?[len..].iter().all(|x| x.is_nan()));
    let mut view = memory.view_mut();
    for part in [0..len - 1, 1..len + 1] {
        let mut other = view.reborrow().narrow(0, part.start, part.len())?;
        let mut mla = Mla::new().splits(3).workspace(&mut other);
        match mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut()) {
            Err(Error::Argument { argument, .. }) if argument == "workspace" => {}
            other => return Err(format!("not an error about the workspace: {other:?}").into()),
        }
    }
    Ok(())
}
