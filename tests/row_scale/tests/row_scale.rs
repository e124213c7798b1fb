//! Every kernel by name, the choice, and errors.

use row_scale::RowScale;
use tilewright::{Device, Stream, Tensor, f16};

fn scaled(device: &Device, [rows, cols]: [usize; 2], kernel: Option<&str>) -> tilewright::Result<String> {
    let (x, s): (Vec<_>, Vec<_>) =
        ((0..rows * cols).map(|i| (i % 97) as f32).collect(), (0..rows).map(|i| i as f32).collect());
    let x =
        Tensor::from_slice(device, &x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>(), &[rows, cols])?;
    let (s, mut y) =
        (Tensor::from_slice(device, &s, &[rows, 1])?, Tensor::<f16>::zeros(device, &[rows, cols])?);
    let plan = RowScale { kernel }.run(&Stream::new(device)?, &x.view(), &s.view(), &mut y.view_mut())?;
    device.synchronize()?;
    let (x, y) = (x.to_vec()?, y.to_vec()?);
    for (i, (x, y)) in x.iter().zip(&y).enumerate() {
        assert_eq!(*y, f16::from_f32(x.to_f32() * (i / cols) as f32), "at {i}");
    }
    Ok(plan.to_string())
}

#[test]
fn rows_are_scaled() {
    let device = Device::emulator();
    for kernel in [None, Some("row_scale_f16_64"), Some("row_scale_f16_256")] {
        for shape in [[1, 1], [16, 64], [33, 300], [0, 5]] {
            scaled(&device, shape, kernel).unwrap();
        }
    }
    let plan = scaled(&device, [40, 300], None).unwrap();
    assert_eq!(plan, "row_scale_f16_256: about 4536 cycles; tiles of 16 x 256: the fastest by estimate");
}

#[test]
fn errors_read_as_those_of_the_operators() {
    let device = Device::emulator();
    let error = scaled(&device, [4, 4], Some("row_scale_f32_64")).unwrap_err().to_string();
    let text = "it is for another element type; it must be one of row_scale_f16_64, row_scale_f16_256";
    assert_eq!(error, format!("`kernel` was \"row_scale_f32_64\", {text}"));
    let (x, s) =
        (Tensor::<f32>::zeros(&device, &[4, 4]).unwrap(), Tensor::<f32>::zeros(&device, &[3, 1]).unwrap());
    let mut y = Tensor::<f32>::zeros(&device, &[4, 4]).unwrap();
    let run =
        RowScale::default().run(&Stream::new(&device).unwrap(), &x.view(), &s.view(), &mut y.view_mut());
    assert_eq!(run.unwrap_err().to_string(), "`s` was of shape [3, 1]; it must be of shape [4, 1]");
}
