//! Calls that are refused.

use tilewright::ops::{DeviceWeights, GroupRows, GroupedDequantGemm};
use tilewright::quant::{Format, Group, Order, Zeros};
use tilewright::{Device, Stream, Tensor, TensorView, bf16, f16};
use tilewright_support::suite::Outcome;

use crate::case::{Activations, weights};

fn upload<T: Activations>(
    device: &Device,
    shape: [usize; 2],
    scheme: (Format, Group, Zeros),
    order: Order,
) -> tilewright::Result<DeviceWeights> {
    DeviceWeights::upload(device, &weights::<T>(shape, scheme)?.pack(order)?)
}

/// Each error names the argument or the weights, and C stays as it was.
pub fn refused(device: &Device) -> Outcome {
    const U4: (Format, Group, Zeros) = (Format::U4, Group::K64, Zeros::None);
    let b16 = |shape, scheme| upload::<f16>(device, shape, scheme, Order::B16);
    let stream = Stream::new(device)?;
    let w = b16([3 * 64, 128], U4)?;
    let a = Tensor::filled(device, f16::ONE, &[24, 128])?;
    let mut c = Tensor::filled(device, f16::NAN, &[24, 64])?;
    let numbers = Tensor::<i32>::zeros(device, &[8])?;
    let of = |count| numbers.view().narrow(0, 0, count);
    let (offsets, counts) = (GroupRows::offsets(of(4)?), GroupRows::counts(of(3)?));
    let (short, none) = (GroupRows::offsets(of(3)?), GroupRows::offsets(of(0)?));
    let flat = GroupRows::offsets(numbers.view().reshape(&[4, 2])?);
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, c.address(), &[12, 128], &[128, 1])? };
    let new = GroupedDequantGemm::new;
    for (words, gemm, a, w, rows) in [
        (&["`a`", "[24, 120]", "[24, 128]"][..], new(), a.view().narrow(1, 0, 120)?, &w, &offsets),
        (&["`a`", "counts"], new(), a.view(), &w, &counts),
        (&["`c`", "[12, 64]"], new(), a.view().narrow(0, 0, 12)?, &w, &offsets),
        (&["shape", "[192, 128]", "[2 · 64, 128]"], new(), a.view(), &w, &short),
        (&["`offsets`", "[0]", "[groups + 1]"], new(), a.view(), &w, &none),
        (&["`offsets`", "[4, 2]"], new(), a.view(), &w, &flat),
        (&["kernel", "none such"], new().kernel("none such"), a.view(), &w, &offsets),
        (
            &["order", "b8", "b16"],
            new(),
            a.view(),
            &upload::<f16>(device, [192, 128], U4, Order::B8)?,
            &offsets,
        ),
        (
            &["scales", "bf16", "f16"],
            new(),
            a.view(),
            &upload::<bf16>(device, [192, 128], U4, Order::B16)?,
            &offsets,
        ),
        (
            &["format", "nf4", "e4m3, fp4, i8, u4"],
            new(),
            a.view(),
            &b16([192, 128], (Format::NF4, Group::K64, Zeros::None))?,
            &offsets,
        ),
        (
            &["zeros", "rescaled", "none, original"],
            new(),
            a.view(),
            &b16([192, 128], (Format::U4, Group::K64, Zeros::Rescaled))?,
            &offsets,
        ),
    ] {
        let error = gemm.run(&stream, &a, w, rows, &mut c.view_mut()).expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    }
    let mut twelve = c.view_mut().narrow(0, 0, 12)?;
    let error = new().run(&stream, &inside, &w, &offsets, &mut twelve).expect_err("they overlap").to_string();
    assert!(error.contains("`c`") && error.contains("`a`"), "{error}");
    // Matrices that do not begin at a block of 64 rows.
    let (odd, mut narrow) = (b16([3 * 40, 128], U4)?, Tensor::filled(device, f16::NAN, &[24, 40])?);
    let error = new().run(&stream, &a.view(), &odd, &offsets, &mut narrow.view_mut()).expect_err("40 rows");
    assert!(error.to_string().contains("a multiple of 64 rows"), "{error}");
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    // A plan refuses weights that it was not made for.
    let plan = new().plan(&a.view(), &w, &offsets, &c.view_mut())?;
    let other = b16([3 * 64, 128], (Format::U4, Group::K32, Zeros::None))?;
    let error = plan.run(&stream, &a.view(), &other, &offsets, &mut c.view_mut()).expect_err("other weights");
    assert!(error.to_string().contains("for which the plan was made"), "{error}");
    Ok(())
}
