//! Copies between views of any strides: the bits themselves.

use tilewright::ops::{Transpose, copy, transpose};
use tilewright::{Device, Element, Stream, Tensor, TensorView, TensorViewMut, f16};
use tilewright_support::suite::Outcome;

use crate::case::{by_each, done, runnable};

/// An element type of which elements can be told apart.
pub trait Counted: Element {
    fn number(i: usize) -> Self;
}

macro_rules! counted {
    ($($t:ty, $of:expr;)*) => { $(
        impl Counted for $t {
            fn number(i: usize) -> Self {
                let of: fn(usize) -> $t = $of;
                of(i)
            }
        }
    )* };
}
counted! {
    u8, |i| (i * 37 % 251) as u8;
    f16, |i| f16::from_bits((i * 7 % 31_000) as u16);
    f32, |i| f32::from_bits((i * 77 % 2_000_000_000) as u32);
    i32, |i| i as i32 * 77 - 5;
    i64, |i| i as i64 * 0x1_0000_0077 - 5;
}

/// Elements in front of a tensor and behind it.
const MARGIN: usize = 64;

/// Where a tensor's elements lie in a block: strides, and the first.
#[derive(Clone, Debug)]
struct Lies {
    strides: Vec<usize>,
    first: usize,
}

impl Lies {
    /// Dimensions in this order from the outermost, each line `gap` longer than what is in it.
    fn nested(shape: &[usize], order: &[usize], gap: usize) -> Self {
        let (mut strides, mut next) = (vec![0; shape.len()], 1);
        for (inside, &dim) in order.iter().rev().enumerate() {
            strides[dim] = if inside == 0 { next } else { next + gap };
            next = strides[dim] * shape[dim];
        }
        Lies { strides, first: MARGIN }
    }
    fn block(&self, shape: &[usize]) -> usize {
        let last: usize = shape.iter().zip(&self.strides).map(|(&n, s)| n.saturating_sub(1) * s).sum();
        self.first + last + 1 + MARGIN
    }
    fn offset(&self, shape: &[usize], number: usize) -> usize {
        let (mut at, mut left) = (self.first, number);
        for (&n, s) in shape.iter().zip(&self.strides).rev() {
            at += left % n * s;
            left /= n;
        }
        at
    }
}

/// Copies a tensor of a shape from one place to another, checked; whether the kernel can.
fn check<T: Counted>(
    stream: &Stream,
    kernel: Option<&str>,
    shape: &[usize],
    [from, to]: [&Lies; 2],
) -> tilewright_support::Result<bool> {
    let device = stream.device();
    let source: Vec<T> = (0..from.block(shape)).map(T::number).collect();
    let (x, before) = (Tensor::from_slice(device, &source, &[source.len()])?, T::number(3));
    let y = Tensor::filled(device, before, &[to.block(shape)])?;
    {
        let at = |address: u64, lies: &Lies| address + (lies.first * size_of::<T>()) as u64;
        // SAFETY: the tensors are these; y's is borrowed by nothing else.
        let (x, mut y) = unsafe {
            (
                TensorView::<T>::from_raw_parts(device, at(x.address(), from), shape, &from.strides)?,
                TensorViewMut::<T>::from_raw_parts(device, at(y.address(), to), shape, &to.strides)?,
            )
        };
        let options = kernel.map_or(Transpose::none(), |name| Transpose::none().kernel(name));
        if !done(options.run(stream, &x, &mut y))? {
            return Ok(false);
        }
    }
    let mut exact = vec![before; to.block(shape)];
    for number in 0..shape.iter().product() {
        exact[to.offset(shape, number)] = source[from.offset(shape, number)];
    }
    let y = y.to_vec()?;
    let wrong = y.iter().zip(&exact).position(|(y, exact)| y != exact);
    assert_eq!(wrong, None, "{kernel:?}, {shape:?} from {from:?} to {to:?}");
    Ok(true)
}

pub fn every_kernel(device: &Device) -> Outcome {
    let all = runnable(device, |name| name.starts_with("copy_sm") || name.starts_with("transpose_sm"));
    let stream = Stream::new(device)?;
    let mut seen = std::collections::BTreeSet::new();
    for shape in [[64, 64], [128, 192], [200, 136], [1, 1000], [33, 65], [31, 1], [16, 4096], [127, 129]] {
        let (rows, cols) = (Lies::nested(&shape, &[0, 1], 0), Lies::nested(&shape, &[1, 0], 0));
        for at in [[&rows, &cols], [&rows, &rows]] {
            let mut run = |name| {
                let name = Some(name);
                let bytes = check::<u8>(&stream, name, &shape, at)?;
                let halves = check::<f16>(&stream, name, &shape, at)?;
                Ok(check::<i32>(&stream, name, &shape, at)? || halves || bytes)
            };
            seen.append(&mut by_each(&all, &mut run)?);
        }
    }
    assert_eq!(seen, all);
    Ok(())
}

/// Dimensions in any order on both sides, gaps, alignments; more than the kernels' five dimensions do not come together.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let shapes: [&[usize]; 6] =
        [&[5, 7], &[70, 3, 66], &[2, 3, 40, 72], &[3, 2, 5, 4, 17], &[130, 1, 8], &[1000]];
    let orders: [&[usize]; 6] = [&[1, 0], &[2, 0, 1], &[0, 2, 1, 3], &[4, 2, 0, 3, 1], &[2, 1, 0], &[0]];
    for (shape, order) in shapes.into_iter().zip(orders) {
        let plain: Vec<usize> = (0..shape.len()).collect();
        for (gap, shift) in [(0, 0), (1, 0), (8, 0), (16, 0), (0, 1), (5, 3)] {
            let [straight, mixed] = [&plain[..], order].map(|order| {
                let lies = Lies::nested(shape, order, gap);
                Lies { first: lies.first + shift, ..lies }
            });
            let doubled = Lies { strides: mixed.strides.iter().map(|s| 2 * s).collect(), ..mixed.clone() };
            for at in [
                [&straight, &mixed],
                [&mixed, &straight],
                [&mixed, &mixed],
                [&doubled, &straight],
                [&straight, &doubled],
            ] {
                assert!(check::<u8>(&stream, None, shape, at)?);
                assert!(check::<f16>(&stream, None, shape, at)?);
                assert!(check::<f32>(&stream, None, shape, at)?);
                assert!(check::<i64>(&stream, None, shape, at)?);
            }
        }
    }
    Ok(())
}

/// By the order of dimensions; what is chosen; rows that repeat.
pub fn orders(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let data: Vec<i32> = (0..3 * 70 * 130).collect();
    let x = Tensor::from_slice(device, &data, &[3, 70, 130])?;
    for dims in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let shape = dims.map(|dim| [3, 70, 130][dim]);
        let mut y = Tensor::filled(device, -1, &shape)?;
        transpose(&stream, &x.view(), &dims, &mut y.view_mut())?;
        let y = y.to_vec()?;
        for (number, &y) in y.iter().enumerate() {
            let at = [number / shape[2] / shape[1], number / shape[2] % shape[1], number % shape[2]];
            let mut from = [0; 3];
            (0..3).for_each(|i| from[dims[i]] = at[i]);
            assert_eq!(y as usize, (from[0] * 70 + from[1]) * 130 + from[2], "{dims:?} at {at:?}");
        }
    }
    let names = |x: &Tensor<f16>, y: &mut Tensor<f16>| -> tilewright::Result<[&'static str; 2]> {
        let (x, across) = (x.view(), x.view().transpose(0, 1)?);
        let y = y.view_mut();
        Ok([Transpose::none().plan(&x, &y)?, Transpose::none().plan(&across, &y)?]
            .map(|plan| plan.kernel().name()))
    };
    let (large, mut to) = (Tensor::zeros(device, &[1024, 1024])?, Tensor::zeros(device, &[1024, 1024])?);
    let [straight, across] = names(&large, &mut to)?;
    assert!(straight.starts_with("copy_") && across.starts_with("transpose_"), "{straight}, {across}");
    let (wide, mut to) = (Tensor::<i64>::zeros(device, &[256, 1024])?, Tensor::zeros(device, &[256, 1024])?);
    let plan = Transpose::none().plan(&wide.view(), &to.view_mut())?;
    assert_eq!(plan.kernel().name(), straight, "elements of 8 bytes are copied in vectors too");
    let row = Tensor::<u8>::from_slice(device, &[1, 2, 3, 4, 5], &[5])?;
    let mut y = Tensor::<u8>::zeros(device, &[3, 5])?;
    copy(&stream, &row.view(), &mut y.view_mut())?;
    assert_eq!(y.to_vec()?, [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5]);
    Ok(())
}

/// Shared memory is read and written without conflicts: the emulator counts them.
pub fn conflicts(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    let (shape, stream) = ([256, 256], Stream::new(device)?);
    let [rows, cols] = [[0, 1], [1, 0]].map(|order| Lies::nested(&shape, &order, 0));
    assert!(check::<u8>(&stream, None, &shape, [&rows, &cols])?);
    assert!(check::<f16>(&stream, None, &shape, [&rows, &cols])?);
    assert!(check::<f32>(&stream, None, &shape, [&rows, &cols])?);
    let all = device.profile().unwrap_or_default();
    let kernels: Vec<_> = all.iter().filter(|kernel| kernel.name.starts_with("transpose_sm")).collect();
    assert!(kernels.len() >= 3, "one for each size of elements ran");
    for kernel in kernels {
        let shared = kernel.counters.shared.total();
        assert!(shared.wavefronts > 0 && shared.conflicts == 0, "{kernel}");
    }
    Ok(())
}

pub fn nothing(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let (x, mut y) = (Tensor::<f16>::zeros(device, &[0, 5])?, Tensor::<f16>::zeros(device, &[5, 0])?);
    transpose(&stream, &x.view(), &[1, 0], &mut y.view_mut())?;
    Transpose::none().plan(&x.view().transpose(0, 1)?, &y.view_mut())?;
    // Strides that do not fit 64 bits, of no elements.
    let most = u32::MAX as usize;
    let shape = [2, 0, most, most];
    let (wide, mut to) = (Tensor::<i64>::zeros(device, &shape)?, Tensor::<i64>::zeros(device, &shape)?);
    copy(&stream, &wide.view(), &mut to.view_mut())?;
    let (one, mut y) = (Tensor::from_slice(device, &[7u8], &[])?, Tensor::<u8>::zeros(device, &[])?);
    transpose(&stream, &one.view(), &[], &mut y.view_mut())?;
    assert_eq!(y.to_vec()?, [7]);
    Ok(())
}
