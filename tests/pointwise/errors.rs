//! Calls that are refused name the argument, what it was, and what is allowed; they leave the output alone.

use tilewright::ops::{
    self, Activation, Binary, Cast, Elementwise, Embedding, Gated, Pairs, Rope, Transpose, Unary,
};
use tilewright::{Device, Stream, Tensor, TensorView, f16};
use tilewright_support::suite::Outcome;

#[track_caller]
fn says(result: tilewright::Result<()>, message: &str) {
    assert_eq!(result.expect_err(message).to_string(), message);
}

/// What overlapping tensors must not.
const APART: &str = "what a call writes must lie apart from all else that it uses";

pub fn elementwise(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Device::emulator_with_seed(5));
    let new = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, short, there) = (new(&[4, 10])?, new(&[4, 9])?, Tensor::zeros(&other, &[4, 10])?);
    let mut y = Tensor::filled(device, f16::NAN, &[4, 10])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 10], &[10, 1])? };
    let (x, short, there) = (x.view(), short.view(), there.view());
    let (exp, add) = (Elementwise::new(Unary::Exp), Elementwise::new(Binary::Add));
    let of = "it must be of shape [4, 10], the shape of `y`, with sizes of 1 where it repeats and without dimensions in front";
    says(exp.run(&stream, [&short], &mut y.view_mut()), &format!("`x` was of shape [4, 9]; {of}"));
    says(add.run(&stream, [&x, &short], &mut y.view_mut()), &format!("`b` was of shape [4, 9]; {of}"));
    says(add.run(&stream, [&x, &inside], &mut y.view_mut()), &format!("`y` overlaps `b`; {APART}"));
    let text = format!("`a` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(add.run(&stream, [&there, &x], &mut y.view_mut()), &text);
    let result = add.kernel("binary_sm_80_4_4").run(&stream, [&x, &x], &mut y.view_mut());
    let text =
        "`kernel` was \"binary_sm_80_4_4\", it computes with elements of another size; it must be one of ";
    assert!(result.expect_err(text).to_string().starts_with(text));
    let text = "`kernel` was \"unary_sm_80_2_2\", it reads x row-major, in lines aligned to 16 bytes; it must be one of unary_sm_80_any";
    let columns = new(&[9, 4])?;
    let columns = columns.view().transpose(0, 1)?;
    let result = exp.kernel("unary_sm_80_2_2").run(&stream, [&columns], &mut new(&[4, 9])?.view_mut());
    says(result, text);
    let mut z = Tensor::<f32>::zeros(device, &[4, 9])?;
    says(
        Cast::new().run(&stream, &x, &mut z.view_mut()),
        &format!("`x` was of shape [4, 10]; {}", of.replace("10", "9")),
    );
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn transpose(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Device::emulator_with_seed(5));
    let (x, there) = (Tensor::<f16>::zeros(device, &[4, 10])?, Tensor::<f16>::zeros(&other, &[4, 10])?);
    let mut y = Tensor::filled(device, f16::NAN, &[4, 10])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[10, 4], &[4, 1])? };
    let (x, there) = (x.view(), there.view());
    let run = |dims: &[usize], x: &TensorView<'_, f16>, y: &mut Tensor<f16>| {
        Transpose::new(dims).run(&stream, x, &mut y.view_mut())
    };
    let text = "`y` was of shape [4, 10]; it must be of shape [10, 4]: that of `x` in the order [1, 0]";
    says(run(&[1, 0], &x, &mut y), text);
    for (dims, was) in
        [(&[0, 0][..], "[0, 0]"), (&[0], "[0]"), (&[0, 2], "[0, 2]"), (&[0, 1, 2], "[0, 1, 2]")]
    {
        let text = format!("`dims` was {was}; it must be the dimensions of `x`, 0 to 1, each once");
        says(run(dims, &x, &mut y), &text);
    }
    says(run(&[1, 0], &inside, &mut y), &format!("`y` overlaps `x`; {APART}"));
    let text = format!("`x` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(run(&[0, 1], &there, &mut y), &text);
    let result = Transpose::none().run(&stream, &x.clone().narrow(1, 0, 9)?, &mut y.view_mut());
    says(result, "`x` was of shape [4, 9]; it must be of shape [4, 10], the shape of `y`, or repeat to it");
    let error = |name| -> tilewright::Result<String> {
        let mut to = Tensor::<f16>::zeros(device, &[4, 10])?;
        let result = Transpose::none().kernel(name).run(&stream, &x, &mut to.view_mut());
        Ok(result.expect_err(name).to_string())
    };
    for (name, reason) in [
        ("copy_sm_80_4", "it copies elements of another size"),
        ("transpose_sm_80_2", "x and y have neighbours in the same dimension, or in none"),
        ("gated_sm_80_f16", "not a kernel for elements of 2 bytes"),
    ] {
        let (error, text) = (error(name)?, format!("`kernel` was {name:?}, {reason}; it must be one of "));
        assert!(error.starts_with(&text), "{error}");
    }
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn gated(device: &Device) -> Outcome {
    let (stream, other) = (Stream::new(device)?, Device::emulator_with_seed(5));
    let new = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, short, wide, there) =
        (new(&[4, 10])?, new(&[4, 9])?, new(&[4, 20])?, Tensor::zeros(&other, &[4, 10])?);
    let mut y = Tensor::filled(device, f16::NAN, &[4, 10])?;
    let (mut d, mut dx) = (new(&[4, 10])?, new(&[4, 19])?);
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 10], &[10, 1])? };
    // SAFETY: as above.
    let wider = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 20], &[0, 1])? };
    let (x, short, plain) = (x.view(), short.view(), Gated::new(Activation::Silu));
    let of = "must be of shape [4, 10], the shape of `gate`";
    says(plain.run(&stream, &x, &short, &mut y.view_mut()), &format!("`up` was of shape [4, 9]; it {of}"));
    let result = plain.run(&stream, &short, &short, &mut y.view_mut());
    says(result, "`y` was of shape [4, 10]; it must be of shape [4, 9], the shape of `gate`");
    says(plain.run(&stream, &x, &inside, &mut y.view_mut()), &format!("`y` overlaps `up`; {APART}"));
    let text = format!("`up` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(plain.run(&stream, &x, &there.view(), &mut y.view_mut()), &text);
    let twice = "it must be that of `y`, [4, 10], with twice the columns";
    says(plain.run_packed(&stream, &x, &mut y.view_mut()), &format!("`x` was of shape [4, 10]; {twice}"));
    says(plain.run_packed(&stream, &wider, &mut y.view_mut()), &format!("`y` overlaps `x`; {APART}"));
    let result = plain.run_gradient(&stream, &x, &x, &short, &mut y.view_mut(), &mut d.view_mut());
    says(result, &format!("`dy` was of shape [4, 9]; it {of}"));
    let result = plain.run_gradient(&stream, &x, &x, &inside, &mut y.view_mut(), &mut d.view_mut());
    says(result, &format!("`d_gate` overlaps `dy`; {APART}"));
    let result = plain.run_packed_gradient(&stream, &wide.view(), &x, &mut dx.view_mut());
    let text = "`dx` was of shape [4, 19]; it must be that of `dy`, [4, 10], with twice the columns";
    says(result, text);
    for (name, reason) in [
        ("gated_sm_80_f32", "it computes with elements of another type"),
        ("gated_gradient_sm_80_f16", "not a kernel for f16"),
        ("rope_sm_80_f16", "not a kernel for f16"),
    ] {
        let error = plain.kernel(name).run(&stream, &x, &x, &mut y.view_mut()).expect_err(name).to_string();
        assert!(
            error.starts_with(&format!("`kernel` was {name:?}, {reason}; it must be one of ")),
            "{error}"
        );
    }
    let columns = new(&[9, 4])?;
    let columns = columns.view().transpose(0, 1)?;
    let result =
        plain.kernel("gated_sm_80_f16").run(&stream, &columns, &short, &mut new(&[4, 9])?.view_mut());
    let text = "`kernel` was \"gated_sm_80_f16\", it reads gate row-major, in lines aligned to 16 bytes; it must be one of gated_sm_80_f16_any";
    says(result, text);
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn embedding(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let table = Tensor::<f16>::zeros(device, &[5, 8])?;
    let indices = Tensor::<i32>::zeros(device, &[3])?;
    let mut y = Tensor::filled(device, f16::NAN, &[3, 8])?;
    // SAFETY: no call may use it.
    let inside = unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[2, 8], &[8, 1])? };
    // SAFETY: as above.
    let vast = unsafe { TensorView::<f16>::from_raw_parts(device, table.address(), &[1 << 31, 8], &[0, 1])? };
    let indices = indices.view();
    let mut run = |table: &TensorView<'_, f16>, indices: &TensorView<'_, i32>| {
        Embedding::new().run(&stream, table, indices, &mut y.view_mut())
    };
    says(run(&table.view().select(0, 0)?, &indices), "`table` was of shape [8]; it must be of 2 dimensions");
    let text =
        "`y` was of shape [3, 8]; it must be of shape [2, 8]: that of `indices`, and the columns of `table`";
    says(run(&table.view(), &indices.clone().narrow(0, 0, 2)?), text);
    says(run(&inside, &indices), &format!("`y` overlaps `table`; {APART}"));
    let text =
        "`table` was of shape [2147483648, 8]; it must be of at most 2147483647 rows where indices are i32";
    says(run(&vast, &indices), text);
    let other = Device::emulator_with_seed(5);
    let there = Tensor::<i32>::zeros(&other, &[3])?;
    let text =
        format!("`indices` was on emulator:5; it must be on {}, the device of this call", device.label());
    says(run(&table.view(), &there.view()), &text);
    // SAFETY: as above.
    let vast = unsafe { TensorView::<f16>::from_raw_parts(device, table.address(), &[1 << 32, 8], &[0, 1])? };
    let unsigned = Tensor::<u32>::zeros(device, &[3])?;
    let error = Embedding::new().run(&stream, &vast, &unsigned.view(), &mut y.view_mut());
    let text =
        "`table` was of shape [4294967296, 8]; it must be of at most 4294967295 rows where indices are u32";
    says(error, text);
    let options = Embedding::new().kernel("embedding_sm_80_4");
    let error = options.run(&stream, &table.view(), &indices, &mut y.view_mut()).expect_err("another size");
    let text = "`kernel` was \"embedding_sm_80_4\", it copies elements of another size; it must be one of ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}

pub fn rope(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let new = |shape: &[usize]| Tensor::<f16>::zeros(device, shape);
    let (x, k) = (new(&[4, 2, 16])?, new(&[5, 2, 16])?);
    let mut y = Tensor::filled(device, f16::NAN, &[4, 2, 16])?;
    // SAFETY: no call may use it.
    let inside =
        unsafe { TensorView::<f16>::from_raw_parts(device, y.address(), &[4, 2, 16], &[32, 16, 1])? };
    let (places, table) = (Tensor::<i32>::zeros(device, &[5])?, Tensor::<f32>::zeros(device, &[9, 7])?);
    let (table, right) = (table.view(), Tensor::<f32>::zeros(device, &[9, 8])?);
    let (right, few) = (right.view(), right.view().narrow(0, 0, 8)?);
    let (x, plain) = (x.view(), || Rope::new(Pairs::Halves));
    for (rope, x, message) in [
        (plain().columns(15), &x, "`columns` was 15; it must be even, and at most 16".to_owned()),
        (plain().columns(18), &x, "`columns` was 18; it must be even, and at most 16".to_owned()),
        (plain().theta(1.0), &x, "`theta` was 1; it must be above 1, and finite".to_owned()),
        (plain().theta(f64::NAN), &x, "`theta` was NaN; it must be above 1, and finite".to_owned()),
        (
            plain().positions(places.view()),
            &x,
            "`positions` was of shape [5]; it must be of shape [4], one for each token".to_owned(),
        ),
        (
            plain().table(&table, &table),
            &x,
            "`cos` was of shape [9, 7]; it must be of shape [positions, 8]: one for each pair".to_owned(),
        ),
        (
            plain().table(&right, &few),
            &x,
            "`sin` was of shape [8, 8]; it must be of shape [9, 8], the shape of `cos`".to_owned(),
        ),
        (
            plain(),
            &x.clone().select(0, 0)?,
            "`y` was of shape [4, 2, 16]; it must be of shape [2, 16], the shape of `x`".to_owned(),
        ),
        (plain(), &inside, format!("`y` overlaps `x`; {APART}")),
    ] {
        says(rope.run(&stream, x, &mut y.view_mut()), &message);
    }
    let mut k_to = new(&[5, 2, 16])?;
    let result = plain().run_both(&stream, [&x, &k.view()], [&mut y.view_mut(), &mut k_to.view_mut()]);
    says(result, "`k` was of shape [5, 2, 16]; it must be that of `q`, [4, 2, 16], but for the heads");
    let shapes = "[tokens, heads, columns] or [batch, sequence, heads, columns]";
    let result = ops::rope(&stream, &x.clone().select(0, 0)?, &mut y.view_mut().select(0, 0)?);
    says(result, &format!("`x` was of shape [2, 16]; it must be {shapes}"));
    let result = plain().kernel("rope_sm_80_f16").columns(8).run(&stream, &x, &mut y.view_mut());
    let text = "`kernel` was \"rope_sm_80_f16\", it takes bytes of columns in multiples of 16; it must be one of rope_sm_80_f16_any";
    says(result, text);
    assert!(y.to_vec()?.iter().all(|y| y.is_nan()));
    Ok(())
}
