//! Two GPUs in one process, side by side and never mixed.

use candle_core::{D, DType, Device, Result, Tensor};
use tilewright_candle::{Buffers, GatedLinear, Workspace, flash_attn, matmul, rms_norm};

use crate::support::{BF16, close, random, wide};

/// The first two, or none: then it says what is missing.
fn two() -> Option<[Device; 2]> {
    if !cfg!(feature = "cuda") {
        return None;
    }
    let gpu = |number| {
        let found = Device::new_cuda(number);
        found.inspect_err(|error| println!("skipped: GPU {number}: {error}")).ok()
    };
    Some([gpu(0)?, gpu(1)?])
}

/// Tensors of one seed, and what is computed of them, by candle on the CPU.
struct Case {
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    qkv: [Tensor; 3],
    expected: [Tensor; 3],
}

impl Case {
    fn new(seed: u64) -> Result<Self> {
        let draw = |shape: &[usize], at| random(shape, seed + at, DType::BF16)?.to_device(&Device::Cpu);
        let (x, weight, scale) = (draw(&[33, 64], 0)?, draw(&[64, 48], 1)?, draw(&[64], 2)?);
        let qkv = [draw(&[2, 40, 4, 64], 3)?, draw(&[2, 40, 4, 64], 4)?, draw(&[2, 40, 4, 64], 5)?];
        let [q, k, v] = qkv.each_ref().map(|tensor| wide(tensor)?.transpose(1, 2)?.contiguous());
        let scores = (q?.matmul(&k?.transpose(2, 3)?.contiguous()?)? * 0.125)?;
        let attended = candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v?)?.transpose(1, 2)?;
        let normed = candle_nn::ops::rms_norm(&wide(&x)?, &wide(&scale)?, 1e-5)?;
        let expected = [wide(&x)?.matmul(&wide(&weight)?)?, normed, attended];
        Ok(Case { x, weight, scale, qkv, expected })
    }

    /// Computes it on a GPU, in memory that is kept, and compares.
    fn check(&self, gpu: &Device, buffers: &Buffers) -> Result<()> {
        let there = |tensor: &Tensor| tensor.to_device(gpu);
        let (x, [q, k, v]) = (there(&self.x)?, self.qkv.each_ref().map(there));
        let (weight, scale) = (there(&self.weight)?, there(&self.scale)?);
        let (q, k, v) = (q?, k?, v?);
        let results = buffers.run(|| -> Result<_> {
            Ok([matmul(&x, &weight)?, rms_norm(&x, &scale, 1e-5)?, flash_attn(&q, &k, &v, 0.125, false)?])
        })?;
        for (result, expected) in results.iter().zip(&self.expected) {
            assert!(result.device().same_device(gpu));
            close(result, expected, 2.0 * BF16);
        }
        Ok(())
    }
}

#[test]
#[cfg_attr(not(feature = "cuda"), ignore = "takes two GPUs")]
fn two_gpus_compute_in_turns_and_at_once() -> Result<()> {
    let Some(gpus) = two() else { return Ok(()) };
    let cases = [Case::new(1)?, Case::new(101)?];
    let buffers = Buffers::new();
    for turn in 0..6 {
        cases[turn / 2 % 2].check(&gpus[turn % 2], &buffers)?;
    }
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|i| {
            let (case, gpu) = (&cases[i], &gpus[i]);
            scope.spawn(move || {
                let buffers = Buffers::new();
                (0..20).try_for_each(|_| case.check(gpu, &buffers))
            })
        });
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

#[test]
#[cfg_attr(not(feature = "cuda"), ignore = "takes two GPUs")]
fn tensors_of_two_gpus_are_not_mixed() -> Result<()> {
    let Some([first, second]) = two() else { return Ok(()) };
    let x = random(&[8, 64], 1, DType::BF16)?;
    let text = matmul(&x.to_device(&first)?, &x.t()?.to_device(&second)?).unwrap_err().to_string();
    assert!(text.contains("`b` was on cuda:1; it must be on cuda:0"), "{text}");
    Ok(())
}

/// What a workspace has on one GPU is no memory of the other.
#[test]
#[cfg_attr(not(feature = "cuda"), ignore = "takes two GPUs")]
fn a_workspace_follows_the_call() -> Result<()> {
    let Some(gpus) = two() else { return Ok(()) };
    let (gate, up) = (random(&[24, 128], 1, DType::BF16)?, random(&[24, 128], 2, DType::BF16)?);
    let (x, workspace, mut results) = (random(&[2, 128], 3, DType::BF16)?, Workspace::new(), Vec::new());
    for gpu in [&gpus[0], &gpus[1], &gpus[0]] {
        let layer = GatedLinear::new(&gate.to_device(gpu)?, &up.to_device(gpu)?)?;
        results.push(wide(&layer.forward_with(&x.to_device(gpu)?, &workspace)?)?);
    }
    close(&results[1], &results[0], 1e-6);
    close(&results[2], &results[0], 1e-6);
    Ok(())
}
