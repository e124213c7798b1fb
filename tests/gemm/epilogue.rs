//! alpha, beta and bias, and products of nothing.

use tilewright::ops::{Activation, Gemm, gemm};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::guarded::Place;
use tilewright_support::suite::{Outcome, picked};

use crate::bias::Bias;
use crate::case::{Case, Input, Output, c_rows};
use crate::kinds::{Visitor, each};
use crate::operand::{LAYOUTS, Operand, Order, packed, padded};
use crate::reference::Reference;

const M: usize = 136;
const N: usize = 200;
const K: usize = 72;

fn operands<T: Real>(device: &Device, [a, b]: [Order; 2]) -> tilewright::Result<[Operand<T>; 2]> {
    Ok([
        Operand::random(device, 1, a.place([1, M, K], padded))?,
        Operand::random(device, 2, b.place([1, K, N], padded))?,
    ])
}

/// All combinations, of every element type; C holds NaN when beta is 0.
pub fn scales(device: &Device) -> Outcome {
    struct Scales<'d>(&'d Device);
    impl Visitor for Scales<'_> {
        fn visit<T: Input, U: Output>(&mut self, activation: Activation) -> Outcome {
            let [a, b] = operands::<T>(self.0, LAYOUTS[1])?;
            let reference = Reference::new(a.values(), b.values(), 1, M);
            for alpha in [1.0f32, 0.0, -0.3] {
                for beta in [0.0f32, 1.0, -0.5] {
                    let case = Case::<T, U>::new(&a, &b, &reference, c_rows([1, M, N]));
                    let case = Case { alpha, beta, activation, ..case };
                    for name in case.kernels(self.0)? {
                        if picked(self.0, (name, alpha.to_bits(), beta.to_bits(), U::DTYPE.name()), 3) {
                            case.run(self.0, Some(name))?;
                        }
                    }
                }
            }
            Ok(())
        }
    }
    each(&mut Scales(device))
}

/// Every shape that broadcasts, for C by rows and by columns, on every kernel.
pub fn biases(device: &Device) -> Outcome {
    fn of<T: Input, U: Output>(device: &Device) -> Outcome {
        let [a, b] = operands::<T>(device, LAYOUTS[0])?;
        let reference = Reference::new(a.values(), b.values(), 1, M);
        let shapes: [&[usize]; 8] = [&[N], &[M, 1], &[1], &[], &[M, N], &[1, N], &[1, 1, N], &[1, M, 1]];
        for (shape, step) in shapes.into_iter().flat_map(|shape| [(shape, 1), (shape, 3)]) {
            let bias = Bias::new(device, shape, step)?;
            for c in [c_rows([1, M, N]), Place::by_columns([1, M, N], padded(M))] {
                let case = Case::<T, U>::new(&a, &b, &reference, c);
                Case { bias: Some(&bias), ..case }.check_all(device)?;
            }
        }
        Ok(())
    }
    of::<f16, f16>(device)?;
    of::<bf16, bf16>(device)?;
    of::<bf16, f32>(device)?;
    of::<f16, bf16>(device)
}

/// A view that was broadcast by its owner is a bias too.
pub fn broadcast_views(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (a, b) = (Tensor::<f16>::zeros(device, &[4, 8])?, Tensor::<f16>::zeros(device, &[8, 6])?);
    let rows = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], &[4, 1])?;
    let mut c = Tensor::filled(device, f32::NAN, &[4, 6])?;
    let bias = rows.view().broadcast(&[4, 6])?;
    Gemm::new().bias(&bias).run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    let expected: Vec<f32> = (0..24).map(|i| (1 + i / 6) as f32).collect();
    assert_eq!(c.to_vec_on(&stream)?, expected);
    Ok(())
}

/// A sum of no products is 0: what remains is the old C and the bias, or zeros in place of NaN.
pub fn no_depth(device: &Device) -> Outcome {
    struct Depth<'d>(&'d Device);
    impl Visitor for Depth<'_> {
        fn visit<T: Input, U: Output>(&mut self, activation: Activation) -> Outcome {
            let a = Operand::<T>::random(self.0, 1, Order::N.place([1, 70, 0], packed))?;
            let b = Operand::random(self.0, 2, Order::N.place([1, 0, 130], packed))?;
            let reference = Reference::new(a.values(), b.values(), 1, 70);
            let bias = Bias::<U>::new(self.0, &[130], 1)?;
            for (beta, bias) in [(0.0, None), (-0.5, None), (0.0, Some(&bias)), (1.0, Some(&bias))] {
                let case = Case::<T, U>::new(&a, &b, &reference, c_rows([1, 70, 130]));
                Case { beta, bias, activation, ..case }.run(self.0, None)?;
            }
            Ok(())
        }
    }
    each(&mut Depth(device))
}

/// Outputs without elements: nothing is launched.
pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for [batch, m, n] in [[0, 4, 6], [2, 0, 6], [2, 4, 0]] {
        let a = Tensor::<f16>::zeros(device, &[batch, m, 8])?;
        let b = Tensor::<f16>::zeros(device, &[batch, 8, n])?;
        let mut c = Tensor::<f16>::zeros(device, &[batch, m, n])?;
        let call = |stream: &Stream| gemm(stream, &a.view(), &b.view(), &mut c.view_mut());
        assert_eq!(stream.capture(call)?.nodes(), 0);
    }
    Ok(())
}

/// NaN and infinity stay in their rows, whatever the kernel adds beyond the edges; activations keep NaN.
pub fn not_numbers(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let mut data = vec![f16::ONE; 40 * 24];
    data[3 * 24 + 23] = f16::NAN;
    data[17 * 24] = f16::INFINITY;
    let a = Tensor::from_slice(device, &data, &[40, 24])?;
    let b = Tensor::filled(device, f16::ONE, &[24, 56])?;
    let mut c = Tensor::<f16>::zeros(device, &[40, 56])?;
    let gemm = Gemm::new().activation(Activation::Relu);
    for kernel in gemm.candidates(&a.view(), &b.view(), &c.view_mut())? {
        if kernel.rejection().is_some() {
            continue;
        }
        c.fill(&stream, f16::ZERO)?;
        let gemm = Gemm::new().activation(Activation::Relu).kernel(kernel.name());
        gemm.run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
        for (i, x) in c.to_vec_on(&stream)?.into_iter().enumerate() {
            let (row, name) = (i / 56, kernel.name());
            match row {
                3 => assert!(x.is_nan(), "{name}: {x} in row {row}"),
                17 => assert_eq!(x, f16::INFINITY, "{name}: row {row}"),
                _ => assert_eq!(x.to_f32(), 24.0, "{name}: row {row}"),
            }
        }
    }
    Ok(())
}

/// Sums that f16 holds exactly are exact on every kernel, and too large ones are infinite.
pub fn rounding(device: &Device) -> Outcome {
    let [m, n, k] = [96, 80, 64];
    let number = |i: usize| (i * 7 % 11) as f32 - 5.0;
    let [left, right] = [m * k, k * n].map(|len| f16::round(&(0..len).map(number).collect::<Vec<_>>()));
    let sum = |i: usize| (0..k).map(|x| number(i / n * k + x) * number(x * n + i % n)).sum::<f32>();
    let expected = f16::round(&(0..m * n).map(sum).collect::<Vec<_>>());
    let stream = Stream::new(device)?;
    let mut c = Tensor::<f16>::zeros(device, &[m, n])?;
    for [order_a, order_b] in LAYOUTS {
        let a = Operand::new(device, order_a.place([1, m, k], padded), &left)?;
        let b = Operand::new(device, order_b.place([1, k, n], padded), &right)?;
        let (a, b) = (a.view()?, b.view()?);
        for kernel in Gemm::<f16>::new().candidates(&a, &b, &c.view_mut())? {
            if kernel.rejection().is_none() {
                c.fill(&stream, f16::NAN)?;
                Gemm::new().kernel(kernel.name()).run(&stream, &a, &b, &mut c.view_mut())?;
                assert!(c.to_vec_on(&stream)? == expected, "{}", kernel.name());
            }
        }
    }
    let large = Tensor::filled(device, f16::from_f32(300.0), &[64, 64])?;
    let mut c = Tensor::<f16>::zeros(device, &[64, 64])?;
    gemm(&stream, &large.view(), &large.view(), &mut c.view_mut())?;
    assert!(c.to_vec_on(&stream)?.iter().all(|&x| x == f16::INFINITY));
    Ok(())
}
