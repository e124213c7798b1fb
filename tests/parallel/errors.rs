use tilewright::ops::{Activation, Gemm};
use tilewright::parallel::{Chunks, ColumnParallel, Communicator, CommunicatorOptions, RowParallel};
use tilewright::{Device, Result, Tensor, f16};
use tilewright_support::suite::Outcome;

use crate::ranks::{on_ranks, pair};

fn said<R>(result: Result<R>, text: &str) -> Outcome {
    match result.map(drop) {
        Err(error) if error.to_string() == text => Ok(()),
        other => Err(format!("{other:?}, not {text}").into()),
    }
}

pub fn named(device: &Device) -> Outcome {
    let all =
        |devices: &[Device], ctas| Communicator::all(devices, CommunicatorOptions::default().ctas(ctas));
    said(all(&[], 16), "`devices` was none; it must be one or more")?;
    let one = [Device::emulator()];
    for ctas in [0, 33] {
        said(all(&one, ctas), &format!("`ctas` was {ctas}; it must be from 1 to 32"))?;
    }
    if !device.is_emulator() {
        let (gpu, label) = (device.clone(), device.label());
        let mixed = format!("`devices` was {label} and emulator; it must be GPUs alone or emulators alone");
        said(all(&[gpu.clone(), Device::emulator()], 16), &mixed)?;
        let twice = format!("`devices` was {label} twice; it must be different GPUs");
        said(all(&[gpu.clone(), gpu.clone()], 16), &twice)?;
        if !cfg!(feature = "nccl") {
            let text = "`devices` was 1 GPUs; it must be emulators: this build is without the feature `nccl` of tilewright";
            said(all(&[gpu], 16), text)?;
        }
    }

    let mut rank = all(&one, 16)?.remove(0);
    let (device, stream) = (rank.device().clone(), rank.device().default_stream());
    let mut x = Tensor::<f16>::zeros(&device, &[4, 8])?;
    let text = "`x` was of shape [8, 4] with strides [1, 8]; it must be contiguous";
    said(rank.all_reduce(&stream, &mut x.view_mut().transpose(0, 1)?), text)?;
    let mut y = Tensor::<f16>::zeros(&device, &[31])?;
    let text = "`x` was of 32 elements; it must be of 1 for each of the 31 of `y`";
    said(rank.reduce_scatter(&stream, &x.view(), &mut y.view_mut()), text)?;
    let text = "`y` was of 31 elements; it must be of 1 for each of the 32 of `x`";
    said(rank.all_gather(&stream, &x.view(), &mut y.view_mut()), text)?;

    let (w, mut y) = (Tensor::<f16>::zeros(&device, &[8, 16])?, Tensor::<f16>::zeros(&device, &[4, 16])?);
    let (x, w, mut y) = (x.view(), w.view(), y.view_mut());
    let chunks = Chunks::one(4);
    let layer = RowParallel::new(Gemm::new().activation(Activation::Relu));
    let text = "`activation` was relu; it must be left out where products are added up";
    said(layer.run(&mut rank, &stream, &chunks, &x, &w, &mut y), text)?;
    let layer = RowParallel::new(Gemm::new().beta(1.0));
    let text = "`beta` was 1; it must be left out where products are added up";
    said(layer.run(&mut rank, &stream, &chunks, &x, &w, &mut y), text)?;
    let (layer, other) = (RowParallel::new(Gemm::new()), Chunks::one(5));
    let text = "`x` was of shape [4, 8]; it must be of shape [5, 8], by the chunks and the other matrices";
    said(layer.run(&mut rank, &stream, &other, &x, &w, &mut y), text)?;
    let mut gathered = Tensor::<f16>::zeros(&device, &[3, 8])?;
    let text = "`x` was of shape [3, 8]; it must be of shape [4, 8], by the chunks and the other matrices";
    let layer = ColumnParallel::new(Gemm::new());
    said(layer.run_gathered(&mut rank, &stream, &chunks, &x, &mut gathered.view_mut(), &w, &mut y), text)?;
    let (layer, part) = (RowParallel::new(Gemm::new()), x.clone().narrow(1, 0, 7)?);
    let text = "`w` was of shape [8, 16]; it must be of shape [7, 16], by the chunks and the other matrices";
    said(layer.run(&mut rank, &stream, &chunks, &part, &w, &mut y), text)?;
    let (half, mut wide) = (w.clone().narrow(1, 0, 8)?, Tensor::<f16>::zeros(&device, &[4, 16])?);
    let text = "`y` was of shape [4, 8] with strides [16, 1]; it must be contiguous";
    let mut gaps = wide.view_mut().narrow(1, 0, 8)?;
    said(layer.run(&mut rank, &stream, &chunks, &x, &half, &mut gaps), text)?;
    let text = "`sms` was 0; it must be 1 or more";
    said(Gemm::new().sms(0).run(&stream, &x, &w, &mut y), text)
}

/// Rank 1 calls another collective than rank 0: one of them is told at once, and both when they call again.
pub fn disagreement(device: &Device) -> Outcome {
    let outcomes = on_ranks(&pair(device)?, |rank| {
        let (device, len) = (rank.device().clone(), 8 + rank.rank());
        let mut x = Tensor::<f16>::zeros(&device, &[len])?;
        let stream = device.default_stream();
        let first = rank.all_reduce(&stream, &mut x.view_mut());
        // Where it was queued it ends, with an error or without.
        let _ = stream.synchronize();
        Ok((first, rank.all_reduce(&stream, &mut x.view_mut())))
    })?;
    let named = outcomes.iter().filter_map(|(first, _)| first.as_ref().err()).map(ToString::to_string);
    let named: Vec<_> = named.filter(|text| text.starts_with("`collective` was all_reduce of ")).collect();
    assert_eq!(named.len(), 1, "{outcomes:?}");
    for (_, second) in &outcomes {
        let text = second.as_ref().expect_err("the group is broken").to_string();
        assert!(text.starts_with("`communicator` was broken: ranks called different collectives"), "{text}");
    }
    Ok(())
}

/// Rank 1 goes without the collective that rank 0 calls.
pub fn gone(device: &Device) -> Outcome {
    let outcomes = on_ranks(&pair(device)?, |rank| {
        if rank.rank() == 1 {
            return Ok(None);
        }
        let device = rank.device().clone();
        let mut x = Tensor::<f16>::zeros(&device, &[8])?;
        let stream = device.default_stream();
        let first = rank.all_reduce(&stream, &mut x.view_mut());
        let _ = stream.synchronize();
        Ok(Some((first, rank.all_reduce(&stream, &mut x.view_mut()))))
    })?;
    let (_, second) = outcomes.into_iter().flatten().next().expect("rank 0 has called");
    let text = second.expect_err("the group is broken").to_string();
    assert!(text.starts_with("`communicator` was broken: rank 1 was dropped"), "{text}");
    Ok(())
}
