//! Lists of blocks of keys: what is accepted, by which kernels, and what they are told.

use tilewright_attention::AnySequences;

use super::*;

const SHAPES: [&[usize]; 4] = [&[3, 4, 300, 64], &[3, 2, 500, 64], &[3, 2, 500, 64], &[3, 4, 300, 64]];

fn lists(device: &Device, shape: &[usize]) -> TensorView<'static, i32> {
    view(device, far(5), shape)
}

fn counts(device: &Device, shape: &[usize]) -> TensorView<'static, i64> {
    view(device, far(6), shape)
}

#[test]
fn blocks_choose_tiles_that_divide_them() {
    let (device, _) = fake::h200();
    for (columns, blocks, tile) in [
        (64, [128, 128], "128x128d64x64s2"),
        (64, [64, 128], "64x64d64x64s2"),
        (128, [256, 384], "128x128d128x128s2"),
        (128, [128, 64], "64x64d128x128s2"),
        (128, [192, 192], "64x64d128x128s2"),
        (256, [128, 192], "128x64d256x256s2"),
        (256, [64, 64], "64x64d256x256s2"),
    ] {
        let shape = [4, 32, 4096, columns];
        let views = Views::new(&device, [&shape; 4].map(|shape| &shape[..]));
        let (lists, counts) = (lists(&device, &[1, 9]), counts(&device, &[1]));
        let kernel = views.kernel(&Attention::new().causal().block_lists(&lists, &counts, blocks));
        let expected = format!("attention_sm_90_f16_plain_listed_{tile}");
        assert_eq!(kernel.name(), expected, "{columns} columns, blocks of {blocks:?}");
    }
    let views = Views::of(&device, 4096, 4096, [64; 2]);
    assert!(!views.kernel(&Attention::new()).name().contains("_listed_"));
}

#[test]
fn lists_must_fit() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let of = |shape: &[usize], of_counts: &[usize], blocks| {
        views.message(&Attention::new().block_lists(
            lists(&device, shape),
            counts(&device, of_counts),
            blocks,
        ))
    };
    for (shape, of_counts) in [
        (&[3, 4, 3, 7][..], &[3, 4, 3][..]),
        (&[1, 4, 3, 7], &[3, 1, 3]),
        (&[3, 7], &[3]),
        (&[7], &[1]),
        (&[3, 4, 3, 0], &[]),
    ] {
        let (lists, counts) = (lists(&device, shape), counts(&device, of_counts));
        views.plan(&Attention::new().block_lists(&lists, &counts, [128, 64])).unwrap();
    }
    let of_lists = "batch, heads, blocks of queries and numbers of a list";
    for shape in [&[3, 4, 2, 7][..], &[2, 4, 3, 7], &[1, 3, 4, 3, 7]] {
        let allowed = format!("one that broadcasts to [3, 4, 3, 7]: {of_lists}");
        let message = of(shape, &[3], [128, 64]);
        assert_eq!(message, format!("`block_lists` was of shape {shape:?}; it must be {allowed}"));
    }
    assert_eq!(of(&[], &[3], [128, 64]), "`block_lists` was of shape []; it must be of 1 to 4 dimensions");
    let message = of(&[3, 7], &[4], [128, 64]);
    let allowed = "one that broadcasts to [3, 4, 3]: batch, heads, blocks of queries";
    assert_eq!(message, format!("`block_counts` was of shape [4]; it must be {allowed}"));
    for blocks in [[0, 64], [64, 0], [32, 64], [64, 100], [1 << 31, 64], [64, usize::MAX - 63]] {
        let message = of(&[7], &[1], blocks);
        assert!(
            message.starts_with(&format!("`blocks` was {blocks:?}; it must be multiples of 64")),
            "{message}"
        );
    }
    let message = of(&[1 << 25], &[1], [64, 64]);
    assert!(message.starts_with("`block_lists` was of shape [33554432]; it must be of fewer than 2^31 keys"));
    let written = view::<i32>(&device, far(3), &[7]);
    let message = views.message(&Attention::new().block_lists(&written, counts(&device, &[1]), [64, 64]));
    assert!(message.starts_with("`o` overlaps `block_lists`; "), "{message}");
}

#[test]
fn nothing_else_goes_with_lists() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let attention = || Attention::new().block_lists(lists(&device, &[7]), counts(&device, &[1]), [64, 64]);
    let (slopes, bias) = (view::<f32>(&device, far(7), &[4]), view::<f16>(&device, far(8), &[500]));
    let lengths = view::<i32>(&device, far(9), &[3]);
    for (attention, beside) in [
        (attention().softcap(3.0), "a softcap"),
        (attention().alibi_slopes(&slopes), "alibi_slopes"),
        (attention().bias(&bias), "a bias"),
        (attention().lengths(&lengths), "lengths"),
        (attention().splits(2), "splits"),
    ] {
        let was = format!("`block_lists` was of shape [7] beside {beside}; it must be left out: ");
        let message = views.message(&attention);
        assert!(message.starts_with(&was), "{message}");
    }
    let shapes: [&[usize]; 4] = [&[1, 4, 70, 64], &[9, 2, 16, 64], &[9, 2, 16, 64], &[1, 4, 70, 64]];
    let message =
        Views::new(&device, shapes).message(&attention().block_table(view::<i32>(&device, far(9), &[1, 7])));
    assert!(message.starts_with("`block_lists` was of shape [7] beside a block_table; "), "{message}");
    let views = Views::new(&device, [&[1, 4, 70, 64], &[1, 2, 90, 64], &[1, 2, 90, 64], &[1, 4, 70, 64]]);
    let offsets = view::<i32>(&device, far(9), &[4]);
    let message = views.message(&attention().packed(&offsets, &offsets, 9));
    assert!(message.starts_with("`block_lists` was of shape [7] beside packed sequences; "), "{message}");
    let codes = view::<i8>(&device, far(1), &[1, 2, 90, 64]);
    let refused = attention().plan(&views.q, &codes, &codes, &views.o).unwrap_err().to_string();
    assert!(refused.starts_with("`block_lists` was of shape [7] beside keys of 8 bits; "), "{refused}");
    let lse = view::<f32>(&device, far(4), &[1, 4, 70]);
    let [mut d_q, mut d_k, mut d_v] = [(10, 4, 70), (11, 2, 90), (12, 2, 90)]
        .map(|(at, heads, rows)| view_mut::<f16>(&device, far(at), &[1, heads, rows, 64]));
    let refused = attention().gradient().run(
        &device.default_stream(),
        [&views.q, &views.k, &views.v],
        (&views.q, &lse),
        &views.q,
        [&mut d_q, &mut d_k, &mut d_v],
    );
    assert!(refused.unwrap_err().to_string().starts_with("`block_lists` was "));
}

#[test]
fn kernels_are_told_bytes_and_blocks_that_hold_all_keys() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let (lists, counts) = (lists(&device, &[3, 1, 3, 7]), counts(&device, &[4, 3]));
    let told = |blocks| {
        let attention = Attention::new().block_lists(&lists, &counts, blocks);
        let problem = problem(&attention, &views.q, &views.k, &views.v, &views.o, false).unwrap();
        let AnySequences::Listed(listed) = problem.sequences else { panic!("lists") };
        listed
    };
    let listed = told([128, 192]);
    assert_eq!((listed.of_lists, listed.of_counts), ([84, 0, 28, 4], [0, 24, 8]));
    assert_eq!([listed.most, listed.key_blocks], [7, 3]);
    assert_eq!([listed.query_block.divisor, listed.key_block.divisor], [128, 192]);
    // A block of more keys than there are ends where the widest kernel's blocks do.
    let listed = told([128, 1 << 30]);
    assert_eq!([listed.key_blocks, listed.key_block.divisor], [1, 512]);
}
