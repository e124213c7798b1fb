use candle_core::{DType, Module, Result, Tensor};
use tilewright_candle::{Activation, GatedLinear, Linear, Matmul, Workspace, matmul};

use crate::support::{BF16, F16, close, random, wide};

#[test]
fn products() -> Result<()> {
    let (a, b) = (random(&[37, 72], 1, DType::BF16)?, random(&[72, 40], 2, DType::BF16)?);
    let expected = wide(&a)?.matmul(&wide(&b)?)?;
    close(&matmul(&a, &b)?, &expected, BF16);
    let product = Matmul::new().dtype(DType::F32).alpha(0.5).forward(&a, &b)?;
    assert_eq!(product.dtype(), DType::F32);
    close(&product, &(expected * 0.5)?, 1e-4);
    // Transposed, and from the middle of a tensor.
    let wider = random(&[50, 80], 3, DType::F16)?;
    let (a, b) = (wider.narrow(0, 3, 40)?.narrow(1, 8, 64)?, random(&[24, 64], 4, DType::F16)?);
    let expected = wide(&a)?.contiguous()?.matmul(&wide(&b)?.t()?)?;
    close(&matmul(&a, &b.t()?)?, &expected, F16 * 4.0);
    Ok(())
}

#[test]
fn batches_broadcast() -> Result<()> {
    let (a, b) = (random(&[2, 3, 17, 32], 5, DType::BF16)?, random(&[3, 32, 24], 6, DType::BF16)?);
    close(&matmul(&a, &b)?, &wide(&a)?.broadcast_matmul(&wide(&b)?)?, BF16);
    let one = random(&[32, 24], 7, DType::BF16)?;
    close(&matmul(&a, &one)?, &wide(&a)?.broadcast_matmul(&wide(&one)?)?, BF16);
    let vector = random(&[32], 8, DType::BF16)?;
    let expected = wide(&vector)?.unsqueeze(0)?.matmul(&wide(&one)?)?.squeeze(0)?;
    close(&matmul(&vector, &one)?, &expected, BF16);
    // In full precision.
    let (a, b) = (random(&[3, 40, 70], 8, DType::F32)?, random(&[50, 70], 9, DType::F32)?);
    let expected = a.broadcast_matmul(&b.t()?)?;
    close(&matmul(&a, &b.t()?)?, &expected, 1e-5);
    Ok(())
}

#[test]
fn linear_layers_have_bias_and_activation() -> Result<()> {
    let (weight, bias) = (random(&[48, 64], 9, DType::BF16)?, random(&[48], 10, DType::BF16)?);
    let x = random(&[2, 5, 64], 11, DType::BF16)?;
    let product = wide(&x)?.broadcast_matmul(&wide(&weight)?.t()?)?;
    close(&Linear::new(weight.clone(), None).forward(&x)?, &product, BF16);
    let added = product.broadcast_add(&wide(&bias)?)?;
    let layer = Linear::new(weight, Some(bias));
    close(&layer.forward(&x)?, &added, BF16);
    let silu: Tensor = added.silu()?;
    close(&layer.clone().activation(Activation::Silu).forward(&x)?, &silu, BF16);
    close(&layer.activation(Activation::Relu).forward(&x)?, &added.relu()?, BF16);
    Ok(())
}

#[test]
fn gates() -> Result<()> {
    let (gate, up) = (random(&[24, 128], 1, DType::BF16)?, random(&[24, 128], 2, DType::BF16)?);
    for (rows, activation) in [(1, Activation::Silu), (3, Activation::Gelu), (40, Activation::Silu)] {
        let layer = GatedLinear::new(&gate, &up)?.activation(activation);
        let x = random(&[1, rows, 128], 3, DType::BF16)?;
        let product = |weight: &Tensor| wide(&x)?.broadcast_matmul(&wide(weight)?.t()?);
        let gates = product(&gate)?;
        let gates = if activation == Activation::Silu { gates.silu()? } else { gates.gelu_erf()? };
        let expected = (gates * product(&up)?)?;
        let tolerance = 2.0 * BF16 * expected.abs()?.max_all()?.to_scalar::<f32>()?.max(1.0);
        close(&layer.forward_with(&x, &Workspace::new())?, &expected, tolerance);
    }
    let error = GatedLinear::new(&gate, &up.narrow(0, 0, 16)?);
    assert!(error.is_err());
    Ok(())
}
