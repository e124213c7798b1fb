use tilewright::ops::gemm;
use tilewright::{Device, Result, Tensor, f16};

/// C = A B of whole numbers, which f16 holds exactly.
pub fn check(device: &Device) -> Result<()> {
    let [m, n, k] = [64, 48, 40];
    let a: Vec<f16> = (0..m * k).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
    let b: Vec<f16> = (0..k * n).map(|i| f16::from_f32((i % 5) as f32 - 2.0)).collect();
    let mut c = Tensor::<f16>::zeros(device, &[m, n])?;
    let [a_there, b_there] = [Tensor::from_slice(device, &a, &[m, k])?, Tensor::from_slice(device, &b, &[k, n])?];
    gemm(&device.default_stream(), &a_there.view(), &b_there.view(), &mut c.view_mut())?;
    for (at, c) in c.to_vec()?.into_iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let expected: f32 = (0..k).map(|i| a[row * k + i].to_f32() * b[i * n + column].to_f32()).sum();
        assert_eq!(c.to_f32(), expected, "C[{row}, {column}]");
    }
    println!("gemm: {m} x {n} x {k} is right");
    Ok(())
}
