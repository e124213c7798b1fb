//! Conversions of element types.

use tilewright::ops::{Cast, CastElement, cast};
use tilewright::{Device, F8E4M3, F8E5M2, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// A type with its conversions in f64.
trait Exact: CastElement {
    fn value(self) -> f64;
    /// The nearest element to a value of f32.
    fn nearest(value: f32) -> Self;
    /// Whether it is as good as another: all NaN are.
    fn same(self, other: Self) -> bool {
        self == other || (self.value().is_nan() && other.value().is_nan())
    }
}

macro_rules! exact {
    ($($t:ty, $value:expr, $nearest:expr;)*) => { $(
        impl Exact for $t {
            fn value(self) -> f64 {
                let value: fn($t) -> f64 = $value;
                value(self)
            }
            fn nearest(value: f32) -> Self {
                let nearest: fn(f32) -> $t = $nearest;
                nearest(value)
            }
        }
    )* };
}
exact! {
    f16, |x| x.to_f64(), f16::from_f32;
    bf16, |x| x.to_f64(), bf16::from_f32;
    f32, f64::from, |x| x;
    i8, f64::from, |x| x.round_ties_even() as i8;
    u8, f64::from, |x| x.round_ties_even() as u8;
    i32, f64::from, |x| x.round_ties_even() as i32;
    F8E4M3, |x| x.to_f32().into(), F8E4M3::from_f32;
    F8E5M2, |x| x.to_f32().into(), F8E5M2::from_f32;
}

/// Numbers of every size, of both signs, and those between two of a type.
fn values(count: usize) -> Vec<f32> {
    let odd = [
        0.0,
        -0.0,
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        127.5,
        128.0,
        -128.5,
        -129.0,
        255.5,
        256.0,
        65504.0,
        65519.0,
        65520.0,
        1e38,
        -1e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0,
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
        1e-8,
        6e-8,
        2_147_483_600.0,
        2_147_483_648.0,
        -2_147_483_648.0,
        4e9,
        8_388_607.5,
        16_777_217.0,
    ];
    let scales = [1.0, 50.0, 3e4, 1e9];
    let many = normal::<f32>(9, count).into_iter().enumerate();
    many.map(|(i, x)| if i < odd.len() { odd[i] } else { x * scales[i % 4] }).collect()
}

fn check<T: Exact, U: Exact>(
    stream: &Stream,
    kernel: Option<&str>,
    cols: usize,
) -> tilewright_support::Result<bool> {
    let device = stream.device();
    let values: Vec<T> = values(2 * cols).into_iter().map(T::nearest).collect();
    let x = Tensor::from_slice(device, &values, &[2, cols])?;
    let mut y = Tensor::filled(device, U::nearest(77.0), &[2, cols])?;
    let options = kernel.map_or(Cast::new(), |name| Cast::new().kernel(name));
    match options.run(stream, &x.view(), &mut y.view_mut()) {
        Err(error) if error.to_string().starts_with("`kernel` was ") => return Ok(false),
        result => result?,
    }
    for (x, y) in values.iter().zip(y.to_vec()?) {
        let exact = U::nearest(x.value() as f32);
        assert!(y.same(exact), "{x:?} becomes {y:?}, must be {exact:?}, by {kernel:?}");
    }
    Ok(true)
}

fn from<T: Exact>(stream: &Stream, cols: usize) -> Outcome {
    assert!(check::<T, f16>(stream, None, cols)?);
    assert!(check::<T, bf16>(stream, None, cols)?);
    assert!(check::<T, f32>(stream, None, cols)?);
    assert!(check::<T, i8>(stream, None, cols)?);
    assert!(check::<T, u8>(stream, None, cols)?);
    assert!(check::<T, i32>(stream, None, cols)?);
    assert!(check::<T, F8E4M3>(stream, None, cols)?);
    assert!(check::<T, F8E5M2>(stream, None, cols)?);
    Ok(())
}

pub fn every_pair(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for cols in [1, 31, 32, 33, 127, 1000, 4096] {
        from::<f16>(&stream, cols)?;
        from::<bf16>(&stream, cols)?;
        from::<f32>(&stream, cols)?;
    }
    for cols in [1, 33, 1000] {
        from::<i8>(&stream, cols)?;
        from::<u8>(&stream, cols)?;
        from::<i32>(&stream, cols)?;
        from::<F8E4M3>(&stream, cols)?;
        from::<F8E5M2>(&stream, cols)?;
    }
    assert!(check::<f32, bf16>(&stream, None, 65_536)?);
    Ok(())
}

/// Vectors and single elements give the same.
pub fn every_kernel(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    for name in crate::case::runnable(device, |name| name.starts_with("unary_") || name.starts_with("cast_"))
    {
        let kernel = Some(name);
        let ran = [
            check::<f32, f16>(&stream, kernel, 1008)?,
            check::<f16, f32>(&stream, kernel, 1008)?,
            check::<bf16, f16>(&stream, kernel, 1008)?,
            check::<i32, f32>(&stream, kernel, 1008)?,
            check::<F8E4M3, bf16>(&stream, kernel, 1008)?,
            check::<u8, f32>(&stream, kernel, 1008)?,
            check::<f16, F8E5M2>(&stream, kernel, 1008)?,
            check::<f32, i8>(&stream, kernel, 1008)?,
        ];
        assert!(ran.contains(&true), "{name} computes none of them");
    }
    Ok(())
}

/// All codes of 8 bits, and to them all f16, and f32 next to where they are rounded up or down: bit by bit, by every kernel.
pub fn eight_bits(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let codes: Vec<u8> = (0..=u8::MAX).collect();
    let [mut from, mut to] = [0, 0];
    for name in crate::case::runnable(device, |name| name.starts_with("unary_") || name.starts_with("cast_"))
    {
        let cast = Cast::new().kernel(name);
        let possible = |result: tilewright::Result<()>| match result {
            Err(error) if error.to_string().starts_with("`kernel` was ") => Ok(false),
            result => result.map(|()| true),
        };
        let x = Tensor::from_slice(
            device,
            &codes.iter().map(|&x| F8E4M3::from_bits(x)).collect::<Vec<_>>(),
            &[256],
        )?;
        let mut y = Tensor::<f32>::zeros(device, &[256])?;
        if possible(cast.run(&stream, &x.view(), &mut y.view_mut()))? {
            for (x, y) in x.to_vec()?.iter().zip(y.to_vec()?) {
                assert!(
                    y.to_bits() == x.to_f32().to_bits() || y.is_nan() && x.to_f32().is_nan(),
                    "{x:?} by {name}"
                );
            }
            from += 1;
        }
        let x = Tensor::from_slice(
            device,
            &codes.iter().map(|&x| F8E5M2::from_bits(x)).collect::<Vec<_>>(),
            &[256],
        )?;
        let mut y = Tensor::<f16>::zeros(device, &[256])?;
        if possible(cast.run(&stream, &x.view(), &mut y.view_mut()))? {
            for (x, y) in x.to_vec()?.iter().zip(y.to_vec()?) {
                let (x, y) = (x.to_f32(), y.to_f32());
                assert!(y.to_bits() == x.to_bits() || y.is_nan() && x.is_nan(), "{x} by {name}");
            }
        }
        // Each f16, and f32 next to it.
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let near = |x: &f16| {
            [-1i32, 0, 1].map(|step| f32::from_bits(x.to_f32().to_bits().wrapping_add_signed(step)))
        };
        let wide: Vec<f32> = halves.iter().flat_map(near).collect();
        let (narrow, wide) = (
            Tensor::from_slice(device, &halves, &[1 << 16])?,
            Tensor::from_slice(device, &wide, &[3 << 16])?,
        );
        let mut y = Tensor::<F8E4M3>::zeros(device, &[3 << 16])?;
        if possible(cast.run(&stream, &wide.view(), &mut y.view_mut()))? {
            for (x, y) in wide.to_vec()?.into_iter().zip(y.to_vec()?) {
                assert_eq!(y.to_bits(), F8E4M3::from_f32(x).to_bits(), "{x:e} by {name}");
            }
            to += 1;
        }
        let mut y = Tensor::<F8E5M2>::zeros(device, &[1 << 16])?;
        if possible(cast.run(&stream, &narrow.view(), &mut y.view_mut()))? {
            for (x, y) in halves.iter().zip(y.to_vec()?) {
                assert_eq!(y.to_bits(), F8E5M2::from_f32(x.to_f32()).to_bits(), "{x:e} by {name}");
            }
        }
    }
    assert!(from >= 2 && to >= 2, "{from} and {to} kernels ran");
    Ok(())
}

/// Strides, and one type to itself.
pub fn places_anywhere(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let data: Vec<i32> = (0..1000).map(|i| i * 4_000_037 - 2_000_000_000).collect();
    let x = Tensor::from_slice(device, &data, &[20, 50])?;
    let mut same = Tensor::<i32>::zeros(device, &[50, 20])?;
    cast(&stream, &x.view().transpose(0, 1)?, &mut same.view_mut())?;
    assert_eq!(same.to_vec()?, x.view().transpose(0, 1)?.to_vec()?);
    let mut y = Tensor::<bf16>::zeros(device, &[50, 20])?;
    cast(&stream, &x.view().transpose(0, 1)?, &mut y.view_mut())?;
    let exact = same.to_vec()?.into_iter().map(|x| bf16::from_f32(x as f32));
    assert!(y.to_vec()?.into_iter().eq(exact));
    // A row for all rows; and nothing.
    let row = Tensor::<f32>::from_slice(device, &[1.0, 2.0, 3.0, 4.0], &[4])?;
    let mut y = Tensor::<f16>::zeros(device, &[3, 4])?;
    cast(&stream, &row.view(), &mut y.view_mut())?;
    assert!(y.to_vec()?.chunks(4).all(|y| y.iter().map(|y| y.to_f32()).eq([1.0, 2.0, 3.0, 4.0])));
    let (empty, mut y) = (Tensor::<f32>::zeros(device, &[0, 3])?, Tensor::<u8>::zeros(device, &[0, 3])?);
    cast(&stream, &empty.view(), &mut y.view_mut())?;
    Cast::new().plan(&empty.view(), &y.view_mut())?;
    Ok(())
}
