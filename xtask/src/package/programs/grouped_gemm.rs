use tilewright::ops::{GroupRows, grouped_gemm};
use tilewright::{Device, Result, Tensor, f16};

/// Two groups of rows of whole numbers, which f16 holds exactly, each times its matrix.
pub fn check(device: &Device) -> Result<()> {
    let ([rows, n, k], offsets) = ([40, 48, 32], [0, 13, 40]);
    let a: Vec<f16> = (0..rows * k).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
    let b: Vec<f16> = (0..2 * k * n).map(|i| f16::from_f32((i % 5) as f32 - 2.0)).collect();
    let mut c = Tensor::<f16>::zeros(device, &[rows, n])?;
    let there = [Tensor::from_slice(device, &a, &[rows, k])?, Tensor::from_slice(device, &b, &[2, k, n])?];
    let of_groups = Tensor::from_slice(device, &offsets.map(|row| row as i32), &[3])?;
    let [a_there, b_there] = there.each_ref().map(|tensor| tensor.view());
    grouped_gemm(&device.default_stream(), &a_there, &b_there, &GroupRows::offsets(&of_groups.view()), &mut c.view_mut())?;
    for (at, c) in c.to_vec()?.into_iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let group = usize::from(row >= offsets[1]);
        let expected: f32 = (0..k).map(|i| a[row * k + i].to_f32() * b[(group * k + i) * n + column].to_f32()).sum();
        assert_eq!(c.to_f32(), expected, "C[{row}, {column}]");
    }
    println!("grouped_gemm: {rows} rows of 2 groups are right");
    Ok(())
}
