use tilewright::ops::attention;
use tilewright::{Device, Result, Tensor, f16};

/// O = softmax(Q Kᵀ / sqrt(D)) V of one head.
pub fn check(device: &Device) -> Result<()> {
    let [rows, d] = [40, 64];
    let shape = [1, 1, rows, d];
    let values = |of: usize| -> Vec<f16> {
        (0..rows * d).map(|i| f16::from_f32(((i * of) % 17) as f32 / 8.0 - 1.0)).collect()
    };
    let [q, k, v] = [values(3), values(5), values(11)];
    let there = |values: &[f16]| Tensor::from_slice(device, values, &shape);
    let mut o = Tensor::<f16>::zeros(device, &shape)?;
    let stream = device.default_stream();
    attention(&stream, &there(&q)?.view(), &there(&k)?.view(), &there(&v)?.view(), &mut o.view_mut())?;
    let o = o.to_vec()?;
    let value = |of: &[f16], row: usize, column: usize| f64::from(of[row * d + column].to_f32());
    for row in 0..rows {
        let score = |key| (0..d).map(|i| value(&q, row, i) * value(&k, key, i)).sum::<f64>() / (d as f64).sqrt();
        let weights: Vec<f64> = (0..rows).map(|key| score(key).exp()).collect();
        let sum: f64 = weights.iter().sum();
        for column in 0..d {
            let products = weights.iter().enumerate().map(|(key, weight)| weight * value(&v, key, column));
            let (expected, was) = (products.sum::<f64>() / sum, value(&o, row, column));
            assert!((was - expected).abs() < 4e-3, "O[{row}, {column}] is {was}, and should be {expected}");
        }
    }
    println!("attention: {rows} rows of {d} are right");
    Ok(())
}
