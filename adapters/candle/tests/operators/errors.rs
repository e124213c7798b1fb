use candle_core::{DType, Result, Tensor, Var};
use tilewright_candle::{Error, flash_attn, flash_attn_alibi, matmul, rms_norm, softmax_last_dim};

use crate::support::{device, random};

/// tilewright's words, and candle's tensors as the caller knows them.
#[test]
fn errors_name_the_argument_and_all_tensors() -> Result<()> {
    let q = random(&[1, 8, 4, 64], 1, DType::BF16)?;
    let k = random(&[1, 8, 3, 64], 2, DType::BF16)?;
    let error = flash_attn(&q, &k, &k, 1.0, false).unwrap_err();
    let ours = Error::of(&error).expect("an error of this crate");
    assert_eq!(ours.op(), "flash_attn");
    assert!(matches!(ours.cause(), tilewright_candle::tilewright::Error::Argument { .. }), "{error}");
    let text = error.to_string();
    let place = if device().is_cpu() { "the CPU" } else { "cuda:0" };
    for tensor in ["`q` is bf16 [1, 8, 4, 64]", "`k` is bf16 [1, 8, 3, 64]"] {
        assert!(text.contains(&format!("{tensor} on {place}")), "{text}");
    }

    let part = random(&[1, 8, 2, 64], 2, DType::F16)?;
    let text = flash_attn(&q, &part, &part, 1.0, false).unwrap_err().to_string();
    assert!(text.contains("`k` was of f16; it must be of bf16"), "{text}");
    let text = matmul(&random(&[1, 8, 4, 64], 1, DType::F64)?, &q).unwrap_err().to_string();
    assert!(text.contains("`a` was of f64; it must be of f16, bf16 or f32"), "{text}");
    let strided = random(&[8, 6], 3, DType::F16)?.t()?.narrow(0, 2, 4)?;
    let text = matmul(&strided, &random(&[5, 3], 4, DType::F16)?).unwrap_err().to_string();
    assert!(text.contains("`a` is f16 [4, 8], strides [1, 6], offset 2, on "), "{text}");
    let text = rms_norm(&q, &random(&[32], 5, DType::BF16)?, 1e-5).unwrap_err().to_string();
    assert!(text.starts_with("rms_norm: `w"), "{text}");
    Ok(())
}

#[test]
fn what_there_is_not_is_said() -> Result<()> {
    let q = random(&[1, 8, 4, 64], 6, DType::BF16)?;
    let slopes = Tensor::zeros(3, DType::F32, &device())?;
    let text = flash_attn_alibi(&q, &q, &q, &slopes, 1.0, true).unwrap_err().to_string();
    assert!(text.contains("`alibi_slopes` was of shape [3]; it must be of shape [4]"), "{text}");
    let large = random(&[1, 2, 1, 520], 7, DType::BF16)?;
    let text = flash_attn(&large, &large, &large, 1.0, false).unwrap_err().to_string();
    assert!(text.contains("520"), "{text}");
    Ok(())
}

/// A gradient never silently stops.
#[test]
fn going_backward_is_an_error() -> Result<()> {
    let x = Var::from_tensor(&random(&[2, 32], 8, DType::F32)?)?;
    let y = softmax_last_dim(&x)?;
    assert!(y.track_op());
    let Err(error) = y.sum_all()?.backward() else { panic!("there are gradients") };
    assert!(error.to_string().contains("softmax_last_dim"), "{error}");
    Ok(())
}

#[test]
fn nothing_to_compute() -> Result<()> {
    let (none, weight) = (Tensor::zeros((0, 32), DType::BF16, &device())?, random(&[32, 8], 9, DType::BF16)?);
    assert_eq!(matmul(&none, &weight)?.dims(), [0, 8]);
    let inner = matmul(
        &Tensor::zeros((3, 0), DType::BF16, &device())?,
        &Tensor::zeros((0, 4), DType::BF16, &device())?,
    )?;
    assert_eq!(inner.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?, [0.0; 12]);
    Ok(())
}
