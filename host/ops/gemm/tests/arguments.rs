//! What is refused, and in which words; what counts as nothing to do.

use super::*;

/// The message of a product of these shapes, all row-major.
fn refused(a: &[usize], b: &[usize], c: &[usize]) -> String {
    let (device, journal) = fake::h200();
    let stream = Stream::new(&device).unwrap();
    let strides = |shape: &[usize]| -> Vec<usize> {
        (0..shape.len()).map(|dim| shape[dim + 1..].iter().product()).collect()
    };
    let (a, b) = (view::<f16>(&device, A, a, &strides(a)), view(&device, B, b, &strides(b)));
    let mut c = view_mut::<f32>(&device, C, c, &strides(c));
    let text = message(gemm(&stream, &a, &b, &mut c));
    assert_eq!(text, message(Gemm::new().plan(&a, &b, &c)));
    assert_eq!(text, message(Gemm::new().candidates(&a, &b, &c)));
    assert!(journal.launches.lock().unwrap().is_empty());
    text
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let rows = "as many rows as `c`";
    let inner = "as many rows as `a` has columns and as many columns as `c`";
    assert_eq!(
        refused(&[5, 8], &[8, 6], &[4, 6]),
        format!("`a` was of shape [5, 8]; it must be of shape [4, 8]: {rows}")
    );
    assert_eq!(
        refused(&[4, 8], &[9, 6], &[4, 6]),
        format!("`b` was of shape [9, 6]; it must be of shape [8, 6]: {inner}")
    );
    assert_eq!(
        refused(&[4, 8], &[8, 7], &[4, 6]),
        format!("`b` was of shape [8, 7]; it must be of shape [8, 6]: {inner}")
    );
    assert_eq!(
        refused(&[2, 4, 8], &[8, 6], &[3, 4, 6]),
        format!("`a` was of shape [2, 4, 8]; it must be of shape [4, 8] or [3, 4, 8]: {rows}")
    );
    assert_eq!(
        refused(&[4, 8], &[2, 8, 6], &[4, 6]),
        format!("`b` was of shape [2, 8, 6]; it must be of shape [8, 6]: {inner}")
    );
}

#[test]
fn only_matrices_and_batches_of_them_are_taken() {
    let allowed = "of 2 to 5 dimensions: rows and columns, with those of a batch in front";
    assert_eq!(refused(&[8], &[8, 6], &[1, 6]), format!("`a` was of shape [8]; it must be {allowed}"));
    assert_eq!(
        refused(&[4, 8], &[1, 2, 8, 6], &[4, 6]),
        "`b` was of shape [1, 2, 8, 6]; it must be of shape [8, 6]: as many rows as `a` has columns and as many columns as \
         `c`"
    );
    assert_eq!(
        refused(&[2, 3, 4, 8], &[2, 1, 8, 6], &[2, 5, 4, 6]),
        "`a` was of shape [2, 3, 4, 8]; it must be of shape [4, 8], or with that at its end and broadcast to [2, 5, 4, 8]: as \
         many rows as `c`"
    );
    assert_eq!(refused(&[4, 8], &[8, 6], &[]), format!("`c` was of shape []; it must be {allowed}"));
}

#[test]
fn sizes_that_kernels_cannot_count_are_named_as_they_were_given() {
    let long = 1 << 32;
    let text = refused(&[67, long], &[long, 6], &[67, 6]);
    assert_eq!(text, format!("`a` was of shape [67, {long}]; it must be of sizes below 2^32"));
}

#[test]
fn a_product_of_too_many_tiles_is_refused() {
    let (device, _) = fake::h200();
    let many = 1 << 24;
    let mut views = Views::<f16, f16>::new(&device, "nt", [many, many, 64]);
    let text = message(views.run(&Gemm::new(), &device.default_stream()));
    assert_eq!(text, format!("`c` was of shape [{many}, {many}]; it must be of at most 2147483648 tiles"));
}

#[test]
fn outputs_that_overlap_inputs_are_refused() {
    let (device, _) = fake::h200();
    let stream = device.default_stream();
    let all = |at| view::<f16>(&device, at, &[8, 8], &[8, 1]);
    let c = |at| view_mut::<f16>(&device, at, &[8, 8], &[8, 1]);
    let says =
        |name| format!("`c` overlaps `{name}`; what a call writes must lie apart from all else that it uses");
    assert_eq!(message(gemm(&stream, &all(A), &all(B), &mut c(A))), says("a"));
    // One element in common.
    assert_eq!(message(gemm(&stream, &all(A), &all(B), &mut c(B + 126))), says("b"));
    gemm(&stream, &all(A), &all(B), &mut c(B + 128)).unwrap();
    let bias = view(&device, C + 64, &[8], &[1]);
    assert_eq!(message(Gemm::new().bias(&bias).run(&stream, &all(A), &all(B), &mut c(C))), says("bias"));
    // Column blocks of one matrix are apart.
    let block = |start: u64| view::<f16>(&device, A + start * 2, &[8, 8], &[24, 1]);
    let mut last = view_mut::<f16>(&device, A + 32, &[8, 8], &[24, 1]);
    gemm(&stream, &block(0), &block(8), &mut last).unwrap();
    // Inputs may be one and the same.
    gemm(&stream, &all(A), &all(A), &mut c(C)).unwrap();
}

#[test]
fn biases_broadcast_or_are_refused() {
    let (device, _) = fake::h200();
    let stream = device.default_stream();
    let (a, b) = (view::<f16>(&device, A, &[3, 4, 8], &[32, 8, 1]), view(&device, B, &[8, 6], &[6, 1]));
    let mut c = view_mut::<f32>(&device, C, &[3, 4, 6], &[24, 6, 1]);
    let mut with = |shape: &[usize]| {
        let bias = view(&device, BIAS, shape, &vec![1; shape.len()]);
        Gemm::new().bias(&bias).run(&stream, &a, &b, &mut c)
    };
    for shape in [&[6][..], &[1], &[], &[4, 1], &[4, 6], &[1, 4, 6], &[3, 1, 1], &[3, 4, 6], &[1, 3, 4, 6]] {
        with(shape).unwrap();
    }
    for shape in [&[4][..], &[6, 1], &[2, 4, 6], &[2, 3, 4, 6]] {
        let allowed = "of shape [6], or one that broadcasts to [3, 4, 6]";
        assert_eq!(message(with(shape)), format!("`bias` was of shape {shape:?}; it must be {allowed}"));
    }
}

#[test]
fn unknown_kernels_are_refused_with_the_names_of_others() {
    let (device, _) = fake::h200();
    let views = Views::<f16, f16>::new(&device, "nt", [64; 3]);
    let forced = Gemm::<f16>::new().kernel("fastest").plan(&views.a, &views.b, &views.c);
    let text = message(forced.map(drop));
    let start =
        "`kernel` was \"fastest\", not a kernel for f16 -> f16 with activation none; it must be one of gemm_";
    assert!(text.starts_with(start), "{text}");
    // A kernel of another kind.
    let views = Views::<bf16, f32>::new(&device, "nt", [64; 3]);
    let name = Views::<f16, f16>::new(&device, "nt", [64; 3]).name();
    let forced =
        Gemm::<f32>::new().activation(Activation::Silu).kernel(name).plan(&views.a, &views.b, &views.c);
    let text = message(forced.map(drop));
    assert!(text.contains("not a kernel for bf16 -> f32 with activation silu"), "{text}");
    assert!(text.contains("gemm_sm_90_bf16_f32_nt_silu_"), "{text}");
}

#[test]
fn everything_must_be_on_one_device() {
    let (device, _) = fake::h200();
    let (other, _) = fake::device((9, 0));
    let stream = Stream::new(&device).unwrap();
    let of = |device: &Device, at| view::<f16>(device, at, &[8, 8], &[8, 1]);
    let says = |name| format!("`{name}` was on fake:0; it must be on fake:1, the device of this call");
    let mut c = view_mut::<f16>(&device, C, &[8, 8], &[8, 1]);
    assert_eq!(message(gemm(&stream, &of(&other, A), &of(&device, B), &mut c)), says("a"));
    assert_eq!(message(gemm(&stream, &of(&device, A), &of(&other, B), &mut c)), says("b"));
    let bias = view(&other, BIAS, &[8], &[1]);
    let gemm = Gemm::new().bias(&bias);
    assert_eq!(message(gemm.run(&stream, &of(&device, A), &of(&device, B), &mut c)), says("bias"));
    let foreign = Stream::new(&other).unwrap();
    assert_eq!(message(super::gemm(&foreign, &of(&device, A), &of(&device, B), &mut c)), says("stream"));
}

#[test]
fn nothing_to_store_is_nothing_to_do() {
    let (device, journal) = fake::h200();
    let stream = device.default_stream();
    for [batch, m, n, k] in [[0, 4, 6, 8], [2, 0, 6, 8], [2, 4, 0, 8], [0, 0, 0, 0]] {
        let a = Tensor::<f16>::uninit(&device, &[batch, m, k]).unwrap();
        let b = Tensor::<f16>::uninit(&device, &[k, n]).unwrap();
        let mut c = Tensor::<f32>::uninit(&device, &[batch, m, n]).unwrap();
        gemm(&stream, &a.view(), &b.view(), &mut c.view_mut()).unwrap();
        Gemm::new().plan(&a.view(), &b.view(), &c.view_mut()).unwrap();
    }
    assert!(journal.launches.lock().unwrap().is_empty() && journal.loads.lock().unwrap().is_empty());
}
