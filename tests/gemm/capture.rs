//! GEMMs in graphs, and what a call takes.

use tilewright::ops::{Activation, Gemm};
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::guarded::Guarded;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, product, relative_error};
use tilewright_support::suite::Outcome;

const M: usize = 300;
const N: usize = 200;
const K: usize = 136;

/// Recorded without running, replayed on the data of the moment. A capture fails where something is allocated or waited
/// for.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut a = Tensor::<f16>::zeros(device, &[M, K])?;
    let data = normal::<f16>(2, K * N);
    let b = Tensor::from_slice(device, &data, &[K, N])?;
    let bias = Tensor::<f16>::zeros(device, &[N])?;
    let mut c = Guarded::<f16>::new(device, [1, M, N], N + 8)?;
    let right = Matrix::new(&data, K, N);

    let graph = {
        let (a, b, bias) = (a.view(), b.view(), bias.view());
        let mut c = c.view_mut()?.select(0, 0)?;
        // The kernel's loading is not to be recorded.
        Gemm::new().bias(&bias).run(&stream, &a, &b, &mut c)?;
        stream.synchronize()?;
        stream.capture(|stream| Gemm::new().bias(&bias).run(stream, &a, &b, &mut c))?
    };
    assert_eq!(graph.nodes(), 1);
    for seed in 10..14 {
        let data = normal::<f16>(seed, M * K);
        a.write(&data)?;
        c.write(&vec![f16::NAN; M * N])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let (out, outside) = c.read()?;
        let error =
            relative_error(&out, &product(&Matrix::new(&data, M, K), &right, &(0..M).collect::<Vec<_>>()));
        assert!(error < 3e-4 && outside == 0, "seed {seed}: {error}, {outside} outside");
    }
    Ok(())
}

/// Recorded calls leave C alone until the graph is launched.
pub fn recording_runs_nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::filled(device, f16::ONE, &[64, 64])?;
    let mut c = Tensor::filled(device, 5.0f32, &[64, 64])?;
    let graph = stream.capture(|stream| {
        for _ in 0..3 {
            Gemm::new().beta(1.0).run(stream, &x.view(), &x.view(), &mut c.view_mut())?;
        }
        Ok(())
    })?;
    assert_eq!(graph.nodes(), 3);
    stream.synchronize()?;
    assert_eq!(c.to_vec()?, [5.0; 64 * 64]);
    // SAFETY: the tensors are alive.
    unsafe { graph.launch(&stream)? };
    assert_eq!(c.to_vec_on(&stream)?, [5.0 + 3.0 * 64.0; 64 * 64]);
    Ok(())
}

/// Calls take no device memory.
pub fn memory(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::<f16>::zeros(device, &[128, 128])?;
    let mut c = Tensor::<f16>::zeros(device, &[128, 128])?;
    let silu = Gemm::new().activation(Activation::Silu);
    let mut call = || silu.run(&stream, &x.view(), &x.view(), &mut c.view_mut());
    for _ in 0..100 {
        call()?;
    }
    stream.synchronize()?;
    let free = device.free_memory()?;
    for _ in 0..100 {
        call()?;
    }
    stream.synchronize()?;
    assert_eq!(device.free_memory()?, free);
    Ok(())
}
