//! Batches: strided, interleaved, shared, many.

use tilewright::ops::{Activation, Gemm, GemmViews};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::guarded::Place;
use tilewright_support::suite::Outcome;

use crate::bias::Bias;
use crate::case::{Case, Input, Output, c_rows};
use crate::operand::{LAYOUTS, Operand, Order, packed, padded};
use crate::reference::{Epilogue, Reference};

const BATCH: usize = 5;
const M: usize = 136;
const N: usize = 264;
const K: usize = 72;

/// Rows of all matrices in turn: matrix b's row r is number `r * batch + b`.
fn interleaved(shape: [usize; 3]) -> Place {
    let pitch = padded(shape[2]);
    Place::by_rows(shape, pitch).strided([pitch, shape[0] * pitch, 1])
}

fn check<T: Input, U: Output>(device: &Device, a: &Operand<T>, b: &Operand<T>, c: Place) -> Outcome {
    let reference = Reference::new(a.values(), b.values(), c.shape[0], c.shape[1]);
    Case::<T, U>::new(a, b, &reference, c).check_all(device)
}

/// Every kernel on batches of every layout.
pub fn strided(device: &Device) -> Outcome {
    for [a, b] in LAYOUTS {
        let a = Operand::<f16>::random(device, 1, a.place([BATCH, M, K], padded))?;
        let b = Operand::random(device, 2, b.place([BATCH, K, N], padded))?;
        check::<f16, f16>(device, &a, &b, c_rows([BATCH, M, N]))?;
        check::<f16, f32>(device, &a, &b, interleaved([BATCH, M, N]))?;
    }
    let a = Operand::<bf16>::random(device, 1, interleaved([BATCH, M, K]))?;
    let b = Operand::random(device, 2, interleaved([BATCH, K, N]))?;
    check::<bf16, bf16>(device, &a, &b, interleaved([BATCH, M, N]))?;
    // A batch of one is a batch too.
    let a = Operand::<f16>::random(device, 1, Order::N.place([1, M, K], padded))?.batched();
    let b = Operand::random(device, 2, Order::T.place([1, K, N], padded))?.batched();
    check::<f16, f16>(device, &a, &b, c_rows([1, M, N]))
}

/// A plan of several launches, made of matrices that begin off 16 bytes, runs on some that begin at 16: of those of the second launch it is the other way round.
pub fn planned_off_and_run_on(device: &Device) -> Outcome {
    const SIZE: usize = 64;
    let (matrix, elements) = (SIZE * SIZE, 4 * SIZE * SIZE + 16);
    let values: Vec<f16> = (0..elements).map(|i| f16::from_f32((i % 7) as f32 - 3.0)).collect();
    let a = Tensor::from_slice(device, &values, &[elements])?;
    let b = Tensor::from_slice(device, &values[..matrix], &[SIZE, SIZE])?;
    let stream = device.default_stream();
    let strides = [2 * matrix + 4, matrix, SIZE, 1];
    let at = |offset: u64| {
        // SAFETY: the last element is at most 4 + 4 * matrix + 4 elements behind the first, which `a` has.
        unsafe {
            let address = a.address() + 2 * offset;
            tilewright::TensorView::<f16>::from_raw_parts(device, address, &[2, 2, SIZE, SIZE], &strides)
        }
    };
    let [mut planned, mut direct] = [
        Tensor::<f16>::zeros(device, &[2, 2, SIZE, SIZE])?,
        Tensor::<f16>::zeros(device, &[2, 2, SIZE, SIZE])?,
    ];
    let plan = Gemm::<f16>::new().plan(&at(4)?, &b.view(), &planned.view_mut())?;
    for offset in [4, 0, 8] {
        planned.fill(&stream, f16::NAN)?;
        plan.run(&stream, &at(offset)?, &b.view(), &mut planned.view_mut(), &GemmViews::default())?;
        Gemm::new().run(&stream, &at(offset)?, &b.view(), &mut direct.view_mut())?;
        assert_eq!(planned.to_vec()?, direct.to_vec()?, "{offset} elements behind 16 bytes");
    }
    Ok(())
}

/// One A or one B for all: without a batch dimension, with one of size 1, with a stride of 0.
pub fn shared(device: &Device) -> Outcome {
    let all =
        |seed, rows, cols| Operand::<f16>::random(device, seed, Order::N.place([BATCH, rows, cols], padded));
    let once = |seed, rows, cols| -> tilewright::Result<[Operand<f16>; 3]> {
        let place = Order::N.place([1, rows, cols], padded);
        let repeated = Order::N.place([BATCH, rows, cols], padded);
        Ok([
            Operand::random(device, seed, place)?,
            Operand::random(device, seed, place)?.batched(),
            Operand::random(device, seed, repeated.strided([0, repeated.strides[1], 1]))?,
        ])
    };
    let c = c_rows([BATCH, M, N]);
    let (a, b) = (all(1, M, K)?, all(2, K, N)?);
    let (one_a, one_b) = (once(3, M, K)?, once(4, K, N)?);
    for one in &one_a {
        check::<f16, f16>(device, one, &b, c)?;
    }
    for one in &one_b {
        check::<f16, f16>(device, &a, one, c)?;
    }
    check::<f16, f16>(device, &one_a[0], &one_b[1], c)
}

/// Two dimensions of a batch as one, in launches, and as rows of one product; with a bias.
pub fn of_more_dimensions(device: &Device) -> Outcome {
    const OUTER: usize = 2;
    let (stream, batch) = (Stream::new(device)?, OUTER * BATCH);
    for shared in [false, true] {
        let matrices = if shared { 1 } else { batch };
        let a = Operand::<f16>::random(device, 1, Order::N.place([batch, M, K], packed))?;
        let b = Operand::random(device, 2, Order::T.place([matrices, K, N], packed))?;
        let reference = Reference::new(a.values(), b.values(), batch, M);
        let bias = Bias::new(device, &[N], 1)?;
        // C in order, or with the batch's dimensions the other way round in memory.
        for exchanged in [false, true] {
            let mut c = Tensor::<f32>::filled(device, f32::NAN, &[batch, M, N])?;
            let [a, b] = [a.view()?, b.view()?].map(|view| match view.shape() {
                &[n, rows, cols] if n > 1 => view.reshape(&[OUTER, BATCH, rows, cols]),
                _ => Ok(view),
            });
            let to = match exchanged {
                false => c.view_mut().reshape(&[OUTER, BATCH, M, N])?,
                true => c.view_mut().reshape(&[BATCH, OUTER, M, N])?.transpose(0, 1)?,
            };
            Gemm::new().bias(&bias.view()?).run(&stream, &a?, &b?, &mut { to })?;
            let mut out = c.to_vec_on(&stream)?;
            if exchanged {
                let matrix = |i: usize| i % BATCH * OUTER + i / BATCH;
                out = (0..batch).flat_map(|i| out[matrix(i) * M * N..][..M * N].to_vec()).collect();
            }
            let epilogue = Epilogue {
                alpha: 1.0,
                beta: 0.0,
                old: &[],
                bias: Some(&bias),
                activation: Activation::Identity,
            };
            reference.check(&out, &epilogue)?;
        }
    }
    Ok(())
}

/// More matrices than the device takes at a time, each smaller than a tile; with a bias of each matrix and the old C.
pub fn many(device: &Device) -> Outcome {
    let batch = 40 + 5 * device.sm_count() as usize;
    for (pitch, [m, n, k]) in [(padded as fn(usize) -> usize, [24, 40, 56]), (packed, [3, 5, 7])] {
        let a = Operand::<bf16>::random(device, 1, Order::N.place([batch, m, k], pitch))?;
        let b = Operand::random(device, 2, Order::T.place([batch, k, n], pitch))?;
        let reference = Reference::new(a.values(), b.values(), batch, m);
        for shape in [&[batch, 1, n][..], &[batch, m, 1], &[batch, 1, 1], &[m, n]] {
            let bias = Bias::new(device, shape, 1)?;
            let c = Order::N.place([batch, m, n], pitch);
            let case = Case::<bf16, bf16>::new(&a, &b, &reference, c);
            Case { alpha: 0.25, beta: -1.5, bias: Some(&bias), ..case }.check_all(device)?;
        }
    }
    Ok(())
}
