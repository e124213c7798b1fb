use tilewright::ops::{Reduction, reduce};
use tilewright::{Device, Result, Tensor};

/// Sums of columns of whole numbers.
pub fn check(device: &Device) -> Result<()> {
    let [rows, columns] = [300, 70];
    let x: Vec<f32> = (0..rows * columns).map(|i| (i % 13) as f32 - 6.0).collect();
    let mut y = Tensor::<f32>::zeros(device, &[columns])?;
    let there = Tensor::from_slice(device, &x, &[rows, columns])?;
    reduce(&device.default_stream(), Reduction::Sum, &there.view(), &[0], &mut y.view_mut())?;
    for (column, y) in y.to_vec()?.into_iter().enumerate() {
        let expected: f32 = (0..rows).map(|row| x[row * columns + column]).sum();
        assert_eq!(y, expected, "the sum of column {column}");
    }
    println!("reduce: {columns} sums of {rows} are right");
    Ok(())
}
