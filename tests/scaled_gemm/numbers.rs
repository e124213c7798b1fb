//! What 8-bit floats are, and what becomes of their products.

use tilewright::ops::ScaledGemm;
use tilewright::{Device, F8E4M3, F8E5M2, Stream, Tensor, f16};
use tilewright_support::suite::Outcome;

use crate::case::Case;

/// Each code times one: what the tensor cores take it for is what the host does. Infinities of e5m2 and NaN of both included.
pub fn codes(device: &Device) -> Outcome {
    macro_rules! codes {
        ($t:ident) => {{
            let mut a = vec![$t::from_f32(0.0); 256 * 16];
            for code in 0..=u8::MAX {
                a[usize::from(code) * 16 + 3] = $t::from_bits(code);
            }
            let b = vec![$t::from_f32(1.0); 16];
            let (a, b) =
                (Tensor::from_slice(device, &a, &[256, 16])?, Tensor::from_slice(device, &b, &[1, 16])?);
            let mut c = Tensor::filled(device, -1.0f32, &[256, 1])?;
            ScaledGemm::new().run(&Stream::new(device)?, &a.view(), &b.view(), &mut c.view_mut())?;
            for (code, got) in c.to_vec()?.into_iter().enumerate() {
                let want = $t::from_bits(code as u8).to_f32();
                assert!(
                    got == want || (got.is_nan() && want.is_nan()),
                    "code {code:#x} is {got}, not {want}"
                );
            }
        }};
    }
    codes!(F8E4M3);
    codes!(F8E5M2);
    Ok(())
}

pub fn overflow(device: &Device) -> Outcome {
    let (a, b) = (vec![F8E4M3::from_f32(448.0); 16], vec![F8E4M3::from_f32(-448.0); 16]);
    let (a, b) = (Tensor::from_slice(device, &a, &[1, 16])?, Tensor::from_slice(device, &b, &[1, 16])?);
    let mut c = Tensor::filled(device, f16::NAN, &[1, 1])?;
    let stream = Stream::new(device)?;
    ScaledGemm::new().run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    assert_eq!(c.to_vec_on(&stream)?[0], f16::NEG_INFINITY);
    // A scale brings it back.
    ScaledGemm::new().alpha(1.0 / 1024.0).run(&stream, &a.view(), &b.view(), &mut c.view_mut())?;
    assert_eq!(c.to_vec_on(&stream)?[0].to_f64(), -448.0 * 448.0 * 16.0 / 1024.0);
    Ok(())
}

/// Small integers: sums of 128 fit the tensor cores' accumulators, and those of more f32, which adds them up.
pub fn exact(device: &Device) -> Outcome {
    let [m, n, k] = [70, 130, 2048];
    let value = |i: usize| F8E4M3::from_f32(((i * 7 + i / 64) % 3) as f32 + 1.0);
    let mut case = Case::<F8E4M3, F8E4M3>::new([m, n, k], crate::case::Scaled::No);
    case.a = (0..m * k).map(value).collect();
    case.b = (0..n * k).map(|i| value(i + 1)).collect();
    let (a, b) =
        (Tensor::from_slice(device, &case.a, &[m, k])?, Tensor::from_slice(device, &case.b, &[n, k])?);
    let mut c = Tensor::filled(device, f32::NAN, &[m, n])?;
    ScaledGemm::new().run(&Stream::new(device)?, &a.view(), &b.view(), &mut c.view_mut())?;
    for (at, got) in c.to_vec()?.into_iter().enumerate() {
        assert_eq!(f64::from(got), case.sum(at / n, at % n).0, "element {at}");
    }
    Ok(())
}
