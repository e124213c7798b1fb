//! Every GEMM kernel on the emulator, with products that no tile divides.

use std::fmt::Write as _;

use tilewright::ops::{Gemm, GemmInput, GemmOutput};
use tilewright::{Device, Tensor, TensorView, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;
use tilewright_support::reference::{Matrix, pick, product, relative_error, sample};

/// Runs all kernels that compute this product; says which are wrong.
fn all_kernels<T: GemmInput + Real, U: GemmOutput + Real>([m, n, k]: [usize; 3], transposed: [bool; 2]) {
    let device = Device::emulator();
    let (a, b) = (normal::<T>(1, m * k), normal::<T>(2, k * n));
    let [a_shape, b_shape] =
        [if transposed[0] { [k, m] } else { [m, k] }, if transposed[1] { [n, k] } else { [k, n] }];
    let on_device = [(&a, a_shape), (&b, b_shape)]
        .map(|(data, shape)| Tensor::from_slice(&device, data, &shape).unwrap());
    let view = |i: usize| -> TensorView<'_, T> {
        let view = on_device[i].view();
        if transposed[i] { view.transpose(0, 1).unwrap() } else { view }
    };
    let a = if transposed[0] { Matrix::new(&a, k, m).t() } else { Matrix::new(&a, m, k) };
    let b = if transposed[1] { Matrix::new(&b, n, k).t() } else { Matrix::new(&b, k, n) };
    let rows = sample(m, 64);
    let reference = product(&a, &b, &rows);

    let mut c = Tensor::<U>::filled(&device, U::POISON, &[m, n]).unwrap();
    let candidates = Gemm::<U>::new().candidates(&view(0), &view(1), &c.view_mut()).unwrap();
    let (mut wrong, mut ran) = (String::new(), 0);
    for candidate in candidates.iter().filter(|candidate| candidate.rejection().is_none()) {
        let mut c = Tensor::<U>::filled(&device, U::POISON, &[m, n]).unwrap();
        let gemm = Gemm::new().kernel(candidate.name());
        if let Err(error) = gemm.run(&device.default_stream(), &view(0), &view(1), &mut c.view_mut()) {
            writeln!(wrong, "{}: {error}", candidate.name()).unwrap();
            continue;
        }
        let c = c.to_vec().unwrap();
        let error = relative_error(&pick(&c, n, &rows), &reference);
        if error.is_nan() || error > 2.0 * U::ROUNDING {
            writeln!(wrong, "{}: relative error {error:.1e}", candidate.name()).unwrap();
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(ran > 0, "no kernel computes this");
}

macro_rules! products {
    ($($name:ident: $t:ty => $u:ty, $shape:expr, $transposed:expr;)*) => { $(
        #[test]
        fn $name() {
            all_kernels::<$t, $u>($shape, $transposed);
        }
    )* };
}
products! {
    f16_nt: f16 => f16, [136, 264, 200], [false, true];
    f16_nn: f16 => f16, [136, 264, 200], [false, false];
    f16_tn: f16 => f16, [136, 264, 200], [true, false];
    f16_tt: f16 => f16, [136, 264, 200], [true, true];
    f16_to_f32: f16 => f32, [200, 72, 136], [false, true];
    bf16_nt: bf16 => bf16, [72, 136, 264], [false, true];
    bf16_to_f32: bf16 => f32, [16, 264, 328], [false, false];
    f16_to_bf16: f16 => bf16, [264, 136, 64], [true, false];
    // Not aligned for TMA or 16-byte copies.
    f16_odd: f16 => f16, [67, 45, 83], [false, true];
}
