//! Errors that name their argument, and leave outputs alone.

use tilewright::ops::{Conv, ConvGradient};
use tilewright::{Device, Error, Stream, Tensor, TensorView, f16};
use tilewright_support::suite::Outcome;

/// The argument that an error names, with what it says.
fn named<T: std::fmt::Debug>(result: tilewright::Result<T>) -> (String, String) {
    match result {
        Err(error @ Error::Argument { .. }) => {
            let text = error.to_string();
            (text.split('`').nth(1).unwrap_or_default().to_owned(), text)
        }
        other => panic!("not an error about an argument: {other:?}"),
    }
}

pub fn each(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (x, w) = (tensor(&[2, 5, 4, 8])?, tensor(&[6, 3, 3, 8])?);
    let mut y = Tensor::filled(device, f16::NAN, &[2, 3, 2, 6])?;
    let (short, long) = (tensor(&[5])?, tensor(&[2, 3, 3, 6])?);
    let (short, long) = (short.view(), long.view());
    let conv = || Conv::<f16>::new();
    for (name, what, conv) in [
        ("stride", "[0, 1]; it must be of numbers from 1 to 2^30", conv().stride([0, 1])),
        ("dilation", "[1, 0]; it must be of numbers from 1 to 2^30", conv().dilation([1, 0])),
        ("padding", "it must be of numbers from 0 to 2^30", conv().padding([0, 1 << 40])),
        ("stride", "[2, 1, 1]; it must be 1 in the place of the depth", conv().stride([2, 1, 1])),
        ("groups", "0; it must be at least 1", conv().groups(0)),
        ("groups", "4; it must be a divisor of the 6 filters of `w`", conv().groups(4)),
        ("x", "it must be with 2 times the 8 channels of `w`", conv().groups(2)),
        ("y", "it must be of shape [2, 5, 4, 6]", conv().padding([1, 1])),
        ("y", "it must be of shape [2, 2, 1, 6]", conv().stride([2, 2])),
        ("w", "of filters that fit into the images of `x`, of shape [2, 5, 4, 8]", conv().dilation([1, 2])),
        ("bias", "it must be of shape [6], one number for each output", conv().bias(&short)),
        (
            "residual",
            "it must be of shape [2, 3, 2, 6], or one that broadcasts to it",
            conv().residual(&long),
        ),
        ("kernel", "not a kernel for convolutions of f16", conv().kernel("none such")),
    ] {
        let (argument, text) = named(conv.run(&stream, &x.view(), &w.view(), &mut y.view_mut()));
        assert!(argument == name && text.contains(what), "{name}: {text}");
    }
    let flat = tensor(&[2, 20, 8])?;
    let (argument, text) = named(conv().run(&stream, &flat.view(), &w.view(), &mut y.view_mut()));
    assert_eq!((&*argument, text.contains("of 4 dimensions, as `y`")), ("x", true), "{text}");
    let mut line = tensor(&[2, 6])?;
    let (argument, _) = named(conv().run(&stream, &x.view(), &w.view(), &mut line.view_mut()));
    assert_eq!(argument, "y");
    let (taps, mut out) = (tensor(&[6, 3, 8])?, tensor(&[2, 18, 6])?);
    let sequences = conv().stride([2, 1]).run(&stream, &flat.view(), &taps.view(), &mut out.view_mut());
    let (argument, text) = named(sequences);
    assert!(argument == "stride" && text.contains("of the height, which sequences have not"), "{text}");
    assert!(y.to_vec_on(&stream)?.iter().all(|y| y.is_nan()));
    volumes(device, &stream)?;

    let wide = Tensor::<f32>::zeros(device, &[2, 5, 4, 8])?;
    let filters = Tensor::<f32>::zeros(device, &[6, 3, 3, 8])?;
    let mut sums = Tensor::<f32>::zeros(device, &[2, 3, 2, 6])?;
    let (argument, text) =
        named(Conv::new().run(&stream, &wide.view(), &filters.view(), &mut sums.view_mut()));
    assert!(argument == "groups" && text.contains("of f32 there are no other convolutions"), "{text}");

    let overlapping = {
        // SAFETY: no call uses it.
        let inside = unsafe {
            tilewright::TensorView::from_raw_parts(device, y.address(), &[2, 5, 4, 8], &[0, 0, 0, 1])?
        };
        conv().run(&stream, &inside, &w.view(), &mut y.view_mut())
    };
    assert!(matches!(overlapping, Err(Error::Overlap { written: "y", other: "x" })), "{overlapping:?}");
    gradients(device, &stream)
}

fn volumes(device: &Device, stream: &Stream) -> Outcome {
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (x, w) = (tensor(&[2, 3, 5, 4, 8])?, tensor(&[6, 2, 3, 3, 8])?);
    let mut y = Tensor::filled(device, f16::NAN, &[2, 2, 3, 2, 6])?;
    let mut conv = |what, x: TensorView<'_, f16>, w: TensorView<'_, f16>, conv: Conv<'_, f16>| {
        let (argument, text) = named(conv.run(stream, &x, &w, &mut y.view_mut()));
        assert!(text.contains(what), "{text}");
        argument
    };
    let (plain, part) = (Conv::new, x.view().narrow(1, 0, 3)?);
    assert_eq!(
        conv(
            "of shape [2, 3, 3, 2, 6]",
            part.clone(),
            w.view(),
            plain().padding([1, 0, 0]).padding_after([0])
        ),
        "y"
    );
    assert_eq!(
        conv("filters that fit into the images of `x`", part, w.view(), plain().dilation([3, 1, 1])),
        "w"
    );
    let (more, taller) = (tensor(&[2, 4, 5, 4, 8])?, tensor(&[6, 2, 5, 3, 8])?);
    let apart = more.view().narrow(1, 1, 3)?;
    assert_eq!(conv("of volumes' planes that follow each other evenly", apart, w.view(), plain()), "x");
    let apart = taller.view().narrow(2, 0, 3)?;
    assert_eq!(conv("of slices' rows that follow each other evenly", x.view(), apart, plain()), "w");
    assert_eq!(conv("of 5 dimensions, as `y`", x.view(), w.view().select(1, 0)?, plain()), "w");
    assert!(y.to_vec_on(stream)?.iter().all(|y| y.is_nan()));
    Ok(())
}

fn gradients(device: &Device, stream: &Stream) -> Outcome {
    let tensor = |shape: &[usize]| Tensor::filled(device, f16::ONE, shape);
    let (x, w, dy) = (tensor(&[2, 5, 4, 8])?, tensor(&[6, 3, 3, 8])?, tensor(&[2, 3, 2, 6])?);
    let (mut dx, mut dw) = (tensor(x.shape())?, tensor(w.shape())?);
    let mut other = ConvGradient::new().padding([1, 1]);
    let (argument, _) = named(other.images(stream, &dy.view(), &w.view(), &mut dx.view_mut()));
    assert_eq!(argument, "dy");
    let (argument, _) = named(other.filters(stream, &x.view(), &dy.view(), &mut dw.view_mut()));
    assert_eq!(argument, "dy");
    let (argument, _) =
        named(ConvGradient::new().groups(2).images(stream, &dy.view(), &w.view(), &mut dx.view_mut()));
    assert_eq!(argument, "dx");
    let mut small = Tensor::<f32>::zeros(device, &[1])?;
    let len = ConvGradient::new().workspace_len(&x.view(), &dy.view(), &dw.view_mut())?;
    if len > 1 {
        let mut small = small.view_mut();
        let mut gradient = ConvGradient::new().workspace(&mut small);
        let (argument, text) = named(gradient.filters(stream, &x.view(), &dy.view(), &mut dw.view_mut()));
        assert!(argument == "workspace" && text.contains(&len.to_string()), "{text}");
    }
    let f32s = |shape: &[usize]| Tensor::<f32>::zeros(device, shape);
    let (x, w, dy) = (f32s(&[1, 4, 4, 6])?, f32s(&[6, 1, 1, 1])?, f32s(&[1, 4, 4, 6])?);
    let mut dw = f32s(w.shape())?;
    let (argument, _) =
        named(ConvGradient::new().groups(6).filters(stream, &x.view(), &dy.view(), &mut dw.view_mut()));
    assert_eq!(argument, "dw");
    let (mut dx, dy) = (f32s(&[1, 7, 7, 6])?, dy.view());
    let strided = ConvGradient::new().groups(6).stride([2, 2]);
    let (argument, _) = named(strided.images(stream, &dy, &w.view(), &mut dx.view_mut()));
    assert_eq!(argument, "stride");
    Ok(())
}
