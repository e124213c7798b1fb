//! Sinks, slopes of ALiBi, and packed queries over caches: what is accepted, and by which kernels.

use tilewright_attention::ATTENTION;
use tilewright_device::tile::PageTable;

use super::*;

#[test]
fn sinks_and_slopes_must_fit() {
    let (device, _) = fake::h200();
    let shapes: [&[usize]; 4] = [&[3, 4, 70, 64], &[3, 2, 90, 64], &[3, 2, 90, 64], &[3, 4, 70, 64]];
    let views = Views::new(&device, shapes);
    let of = |shape: &[usize]| view::<f32>(&device, far(5), shape);
    assert!(views.plan(&Attention::new().sinks(&of(&[4]))).is_ok());
    for shape in [&[4][..], &[3, 4]] {
        let kernel = views.kernel(&Attention::new().alibi_slopes(&of(shape)));
        assert!(kernel.name().contains("_capped_"), "slopes are for the kernels that change scores");
    }
    let message = views.message(&Attention::new().sinks(&of(&[2])));
    assert_eq!(
        message,
        "`sinks` was of shape [2]; it must be of shape [4]: a logit for each head, contiguous"
    );
    for (shape, was) in [(&[2][..], "[4]"), (&[2, 4], "[3, 4]"), (&[3, 4, 1], "[3, 4]")] {
        let message = views.message(&Attention::new().alibi_slopes(&of(shape)));
        let expected =
            format!("`alibi_slopes` was of shape {shape:?}; it must be of shape {was}: a slope for each");
        assert!(message.starts_with(&expected), "{message}");
    }
    let across = of(&[4, 3]).transpose(0, 1).unwrap();
    let message = views.message(&Attention::new().alibi_slopes(&across));
    assert!(message.starts_with("`alibi_slopes` was of strides [1, 3]; "), "{message}");
    let message = views.message(&Attention::new().alibi_slopes(&of(&[4])).scale(1e-30));
    assert!(
        message.starts_with("`scale` was 1e-30 beside ALiBi's slopes; it must be at least 1e-20"),
        "{message}"
    );
    let written = view::<f32>(&device, far(3), &[4]);
    let message = views.message(&Attention::new().sinks(&written));
    assert!(message.starts_with("`o` overlaps `sinks`; "), "{message}");
}

#[test]
fn biases_must_fit() {
    let (device, _) = fake::h200();
    let shapes: [&[usize]; 4] = [&[3, 4, 70, 64], &[3, 2, 90, 64], &[3, 2, 90, 64], &[3, 4, 70, 64]];
    let views = Views::new(&device, shapes);
    let of = |shape: &[usize]| view::<f16>(&device, far(5), shape);
    for shape in [&[3, 4, 70, 90][..], &[1, 4, 1, 90], &[70, 90], &[90], &[3, 1, 1, 90], &[1]] {
        let kernel = views.kernel(&Attention::new().bias(of(shape)));
        assert!(kernel.name().contains("_capped_"), "biases are for the kernels that change scores");
    }
    let allowed = "one that broadcasts to [3, 4, 70, 90]: batch, heads, queries and keys";
    for shape in [&[3, 4, 70, 89][..], &[2, 1, 1, 90], &[1, 3, 4, 70, 90]] {
        let message = views.message(&Attention::new().bias(of(shape)));
        assert_eq!(message, format!("`bias` was of shape {shape:?}; it must be {allowed}"));
    }
    let other = view::<bf16>(&device, far(5), &[70, 90]);
    let message = views.message(&Attention::new().bias(&other));
    assert_eq!(message, "`bias` was of bf16; it must be of f16, the type of `q`");
    let message = views.message(&Attention::new().bias(of(&[90])).scale(1e-30));
    assert!(message.starts_with("`scale` was 1e-30 beside a bias; it must be at least 1e-20"), "{message}");
    let written = view::<f16>(&device, far(3), &[70, 90]);
    let message = views.message(&Attention::new().bias(&written));
    assert!(message.starts_with("`o` overlaps `bias`; "), "{message}");
    let message = views.message(&Attention::new().splits(2).bias(of(&[70, 90])));
    assert!(
        message.starts_with("`bias` was of shape [70, 90] beside splits; it must be left out: "),
        "{message}"
    );
    let views = Views::new(&device, [&[1, 4, 70, 64], &[1, 2, 90, 64], &[1, 2, 90, 64], &[1, 4, 70, 64]]);
    let offsets = view::<i32>(&device, far(6), &[4]);
    let message = views.message(&Attention::new().packed(&offsets, &offsets, 9).bias(of(&[70, 90])));
    assert!(message.starts_with("`bias` was of shape [70, 90] beside packed sequences; "), "{message}");
}

#[test]
fn packed_queries_take_caches() {
    let (device, _) = fake::h200();
    let shapes: [&[usize]; 4] = [&[1, 4, 300, 64], &[9, 2, 16, 64], &[9, 2, 16, 64], &[1, 4, 300, 64]];
    let views = Views::new(&device, shapes);
    let offsets = view::<i32>(&device, far(5), &[4]);
    let (table, lengths) = (view::<i32>(&device, far(6), &[3, 7]), view::<i64>(&device, far(7), &[3]));
    let chunks = || Attention::new().causal().packed_queries(&offsets, 100);
    let kernel = views.kernel(&chunks().block_table(&table).lengths(&lengths));
    assert!(kernel.name().contains("_packed_"), "{}", kernel.name());
    let few = view::<i32>(&device, far(6), &[2, 7]);
    let message = views.message(&chunks().block_table(&few));
    assert!(
        message.starts_with("`block_table` was of shape [2, 7]; it must be of shape [3, 7]: "),
        "{message}"
    );
    // Without a table each sequence has a matrix.
    let message = views.message(&chunks().lengths(&lengths));
    let because = "the sequences of `query_offsets`, and the head dimension of `q`";
    assert_eq!(
        message,
        format!("`k` was of shape [9, 2, 16, 64]; it must be of shape [3, 2, 16, 64]: {because}")
    );
    let message = views.message(&chunks().block_table(&table).splits(2));
    assert!(message.starts_with("`splits` was given for packed sequences; "), "{message}");
    let offsets = view::<i32>(&device, far(5), &[4]);
    let message = views.message(&Attention::new().packed(&offsets, &offsets, 9).lengths(&lengths));
    assert!(message.starts_with("`lengths` was given for packed sequences; "), "{message}");
}

#[test]
fn boxes_of_pages_stay_within_a_page_and_a_block() {
    for log2_rows in 0..12 {
        let pages = PageTable { address: 1, log2_rows, ..PageTable::NONE };
        for kernel in ATTENTION.iter().map(|kernel| kernel.tile[1]) {
            let rows = pages.box_rows(kernel);
            assert!(rows > 0 && kernel.is_multiple_of(rows) && (1u32 << log2_rows).is_multiple_of(rows));
            assert_eq!(PageTable::NONE.box_rows(kernel), kernel, "without pages one box takes a block");
        }
    }
}
