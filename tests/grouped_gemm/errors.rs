//! Calls that are refused, each by the name of an argument.

use tilewright::ops::{GroupRows, GroupedGemm, group_combine, group_order};
use tilewright::{Device, Error, Result, Stream, Tensor, TensorView, f16};
use tilewright_support::suite::Outcome;

pub fn expect(name: &str, was: Result<()>) -> Outcome {
    match was {
        Err(Error::Argument { argument, .. }) if argument == name => Ok(()),
        Err(Error::Overlap { written, .. }) if written == name => Ok(()),
        other => Err(format!("not an error about `{name}`: {other:?}").into()),
    }
}

pub fn refused(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (a, b, apart, flat) =
        (tensor(&[24, 64])?, tensor(&[3, 64, 40])?, tensor(&[3, 24, 64])?, tensor(&[64, 40])?);
    let mut c = Tensor::filled(device, f16::NAN, &[24, 40])?;
    let numbers = Tensor::<i32>::zeros(device, &[8])?;
    let of = |count| numbers.view().narrow(0, 0, count);
    let (offsets, counts) = (GroupRows::offsets(of(4)?), GroupRows::counts(of(3)?));
    let short = GroupRows::offsets(of(3)?);
    let sparse = numbers.view().reshape(&[4, 2])?.select(1, 0)?;
    let sparse = GroupRows::offsets(sparse);
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, c.address(), &[24, 64], &[16, 1])? };
    let few = Tensor::<f32>::zeros(device, &[23])?;
    let few = few.view();
    let new = GroupedGemm::new;
    for (name, gemm, a, b, rows) in [
        ("b", new(), a.view(), flat.view(), &offsets),
        ("a", new(), a.view().narrow(1, 0, 56)?, b.view(), &offsets),
        ("a", new(), apart.view(), b.view(), &offsets),
        ("a", new(), a.view(), b.view(), &counts),
        ("a", new(), apart.view().narrow(0, 0, 2)?, b.view(), &counts),
        ("c", new(), a.view().narrow(0, 0, 23)?, b.view(), &offsets),
        ("c", new(), apart.view(), b.view(), &counts),
        ("offsets", new(), a.view(), b.view(), &short),
        ("offsets", new(), a.view(), b.view(), &sparse),
        ("scales", new().scales(&few), a.view(), b.view(), &offsets),
        ("kernel", new().kernel("none such"), a.view(), b.view(), &offsets),
        ("c", new(), inside, b.view(), &offsets),
    ] {
        expect(name, gemm.run(&stream, &a, &b, rows, &mut c.view_mut()))?;
    }
    assert!(c.to_vec_on(&stream)?.iter().all(|x| x.is_nan()));
    let mut wide = tensor(&[3, 24, 40])?;
    let long = GroupRows::counts(of(4)?);
    expect("counts", new().run(&stream, &apart.view(), &b.view(), &long, &mut wide.view_mut()))?;
    let error = new().run(&stream, &a.view(), &b.view(), &short, &mut c.view_mut());
    let text =
        "`offsets` was of shape [3]; it must be of shape [4]: where each group begins and the last one ends";
    assert_eq!(error.expect_err("too few offsets").to_string(), text);
    Ok(())
}

pub fn refused_orders(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let ints = |shape: &[usize]| Tensor::<i32>::filled(device, -7, shape);
    let groups = ints(&[6, 2])?;
    let mut offsets = [ints(&[4])?, ints(&[4, 1])?, ints(&[0])?, ints(&[1])?];
    let mut order = [ints(&[12])?, ints(&[11])?];
    let mut places = [ints(&[6, 2])?, ints(&[12])?];
    for (name, of, [o, r, p]) in [
        ("groups", groups.view().select(1, 0)?, [0, 0, 0]),
        ("groups", groups.view().transpose(0, 1)?.narrow(1, 0, 2)?, [0, 0, 0]),
        ("offsets", groups.view(), [1, 0, 0]),
        ("offsets", groups.view(), [2, 0, 0]),
        ("offsets", groups.view(), [3, 0, 0]),
        ("order", groups.view(), [0, 1, 0]),
        ("places", groups.view(), [0, 0, 1]),
    ] {
        let outputs = (&mut offsets[o].view_mut(), &mut order[r].view_mut(), &mut places[p].view_mut());
        let name = if of.shape() == [2, 2] { "order" } else { name };
        expect(name, group_order(&stream, of, outputs.0, outputs.1, outputs.2))?;
    }
    assert!(offsets[0].to_vec_on(&stream)?.iter().all(|&x| x == -7));
    let (x, weights) = (Tensor::<f16>::zeros(device, &[12, 16])?, Tensor::<f32>::zeros(device, &[6, 2])?);
    let mut y = Tensor::<f16>::zeros(device, &[6, 16])?;
    let (places, all) = (places[0].view(), x.view());
    let narrow = weights.view().narrow(0, 0, 5)?;
    expect("weights", group_combine(&stream, &all, &narrow, &places, &mut y.view_mut()))?;
    let few = places.clone().narrow(0, 0, 5)?;
    expect("places", group_combine(&stream, &all, &weights.view(), &few, &mut y.view_mut()))?;
    let thin = all.clone().narrow(1, 0, 8)?;
    expect("x", group_combine(&stream, &thin, &weights.view(), &places, &mut y.view_mut()))?;
    let flat = &mut y.view_mut().select(0, 0)?;
    expect("y", group_combine(&stream, &all, &weights.view(), &places, flat))
}
