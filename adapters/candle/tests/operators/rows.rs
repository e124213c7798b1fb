use candle_core::{D, DType, Device, Result, Tensor};
use tilewright_candle::{
    Rotary, append_to_cache, layer_norm, log_softmax, rms_norm, rms_norm_residual, rope, rope_i, rope_thd,
    softmax, softmax_last_dim, swiglu, swiglu_packed,
};

use crate::support::{BF16, F16, close, device, random, wide};

#[test]
fn norms() -> Result<()> {
    let (x, residual) = (random(&[3, 5, 96], 1, DType::BF16)?, random(&[3, 5, 96], 2, DType::BF16)?);
    let (weight, bias) = (random(&[96], 3, DType::BF16)?, random(&[96], 4, DType::BF16)?);
    let (w, b) = (wide(&weight)?, wide(&bias)?);
    let expected = candle_nn::ops::rms_norm(&wide(&x)?, &w, 1e-5)?;
    close(&rms_norm(&x, &weight, 1e-5)?, &expected, BF16);
    let (y, sum) = rms_norm_residual(&x, &residual, &weight, 1e-5)?;
    let added = (wide(&x)? + wide(&residual)?)?;
    close(&sum, &added, BF16);
    close(&y, &candle_nn::ops::rms_norm(&added, &w, 1e-5)?, BF16);
    let expected = candle_nn::ops::layer_norm(&wide(&x)?, &w, &b, 1e-5)?;
    close(&layer_norm(&x, &weight, &bias, 1e-5)?, &expected, BF16);
    // Rows that do not follow each other.
    let turned = random(&[96, 7], 5, DType::F32)?.t()?;
    let expected = candle_nn::ops::rms_norm(&wide(&turned)?.contiguous()?, &w, 1e-5)?;
    close(&rms_norm(&turned, &w.to_device(&device())?, 1e-5)?, &expected, 1e-5);
    Ok(())
}

#[test]
fn softmaxes() -> Result<()> {
    let x = random(&[2, 6, 40], 6, DType::F16)?;
    let x32 = wide(&x)?;
    close(&softmax_last_dim(&x)?, &candle_nn::ops::softmax_last_dim(&x32)?, F16);
    for dim in [0, 1, 2] {
        close(&softmax(&x, dim)?, &candle_nn::ops::softmax(&x32, dim)?, F16);
    }
    close(&log_softmax(&x, D::Minus2)?, &candle_nn::ops::log_softmax(&x32, D::Minus2)?, F16);
    Ok(())
}

#[test]
fn gated_units() -> Result<()> {
    let both = random(&[4, 3, 64], 7, DType::BF16)?;
    let (gate, up) = (both.narrow(2, 0, 32)?, both.narrow(2, 32, 32)?);
    let expected = (wide(&gate)?.silu()? * wide(&up)?)?;
    close(&swiglu(&gate, &up)?, &expected, BF16);
    close(&swiglu_packed(&both)?, &expected, BF16);
    let error = swiglu_packed(&both.narrow(2, 0, 31)?).unwrap_err().to_string();
    assert!(error.contains("even number of columns"), "{error}");
    Ok(())
}

/// Cosines and sines of positions.
fn angles(positions: &[u32], half: usize, theta: f64) -> Result<[Tensor; 2]> {
    let angle = |i: usize| f64::from(positions[i / half]) * theta.powf(-((i % half) as f64) / half as f64);
    let table = |f: fn(f64) -> f64| {
        let values: Vec<f32> = (0..positions.len() * half).map(|i| f(angle(i)) as f32).collect();
        Tensor::from_vec(values, (positions.len(), half), &Device::Cpu)
    };
    Ok([table(f64::cos)?, table(f64::sin)?])
}

#[test]
fn rotations() -> Result<()> {
    let positions: Vec<u32> = (0..9).collect();
    let [cos, sin] = angles(&positions, 32, 10_000.0)?;
    let [on_cos, on_sin] = [cos.to_device(&device())?, sin.to_device(&device())?];
    let x = random(&[2, 3, 9, 64], 8, DType::F16)?;
    close(&rope(&x, &on_cos, &on_sin)?, &candle_nn::rotary_emb::rope(&wide(&x)?, &cos, &sin)?, F16);
    close(&rope_i(&x, &on_cos, &on_sin)?, &candle_nn::rotary_emb::rope_i(&wide(&x)?, &cos, &sin)?, F16);
    let x = x.transpose(1, 2)?.contiguous()?;
    close(&rope_thd(&x, &on_cos, &on_sin)?, &candle_nn::rotary_emb::rope_thd(&wide(&x)?, &cos, &sin)?, F16);
    Ok(())
}

#[test]
fn rotations_at_positions() -> Result<()> {
    let positions = [7u32, 0, 300, 4];
    let [cos, sin] = angles(&positions, 32, 500_000.0)?;
    let joint = random(&[4, 5, 64], 9, DType::BF16)?;
    let (q, k) = (joint.narrow(1, 0, 4)?, joint.narrow(1, 4, 1)?);
    let expected = |x: &Tensor| {
        candle_nn::rotary_emb::rope_thd(&wide(x)?.contiguous()?.unsqueeze(0)?, &cos, &sin)?.squeeze(0)
    };
    let at = Tensor::new(&positions, &device())?;
    let (rotated_q, rotated_k) = Rotary::new(500_000.0).forward(&q, &k, &at)?;
    close(&rotated_q, &expected(&q)?, BF16);
    close(&rotated_k, &expected(&k)?, BF16);
    // The same by a table of all positions.
    let all: Vec<u32> = (0..301).collect();
    let [all_cos, all_sin] = angles(&all, 32, 500_000.0)?;
    let (on_cos, on_sin) = (all_cos.to_device(&device())?, all_sin.to_device(&device())?);
    let (rotated_q, _) = Rotary::new(1e4).table(on_cos, on_sin).forward(
        &q,
        &k,
        &Tensor::new(&positions.map(u32::cast_signed), &device())?,
    )?;
    close(&rotated_q, &expected(&q)?, BF16);
    Ok(())
}

#[test]
fn rotations_into_a_cache() -> Result<()> {
    let (positions, slots) = ([7u32, 0, 300, 4], [9u32, 31, 0, 32]);
    let joint = random(&[4, 8, 64], 9, DType::BF16)?;
    let part = |first, count| joint.narrow(1, first, count);
    let (q, k, v) = (part(0, 4)?, part(4, 2)?, part(6, 2)?);
    let (at, to) = (Tensor::new(&positions, &device())?, Tensor::new(&slots, &device())?);
    let caches = || {
        Ok::<_, candle_core::Error>([
            random(&[2, 16, 2, 64], 3, DType::BF16)?,
            random(&[2, 16, 2, 64], 4, DType::BF16)?,
        ])
    };
    let ([k_cache, v_cache], [k_wanted, v_wanted]) = (caches()?, caches()?);
    let rotary = Rotary::new(500_000.0);
    let rotated = rotary.append([&q, &k, &v], &at, [&k_cache, &v_cache], &to)?;
    let (wanted, turned) = rotary.forward(&q, &k, &at)?;
    append_to_cache(&turned, &v, &k_wanted, &v_wanted, &to)?;
    close(&rotated, &wide(&wanted)?, 0.0);
    close(&k_cache, &wide(&k_wanted)?, 0.0);
    close(&v_cache, &wide(&v_wanted)?, 0.0);
    let error = rotary.append([&q, &k, &v], &at, [&k_cache, &k_cache], &to).unwrap_err().to_string();
    assert!(error.contains("`v_cache` was in one storage with `k_cache`"), "{error}");
    Ok(())
}
