//! Lists of blocks of each query: what is accepted, by which kernels, and what they are told.

use super::*;

/// Sequences, heads, queries and columns of Q and O, and of K and V.
const SHAPES: [&[usize]; 4] = [&[3, 32, 300, 64], &[3, 2, 500, 64], &[3, 2, 500, 64], &[3, 32, 300, 64]];

fn lists(device: &Device, shape: &[usize]) -> TensorView<'static, i32> {
    view(device, far(5), shape)
}

#[test]
fn columns_choose_kernels() {
    let (device, _) = fake::h200();
    for (columns, expected) in [
        ([64, 64], "64x64d128x128s3"),
        ([128, 128], "64x64d128x128s3"),
        ([192, 128], "64x64d192x128s4"),
        ([256, 256], "64x64d256x256s3"),
    ] {
        let [d, dv] = columns;
        let views =
            Views::new(&device, [&[1, 32, 4096, d], &[1, 2, 4096, d], &[1, 2, 4096, dv], &[1, 32, 4096, dv]]);
        let kernel = views.kernel(&Attention::new().causal().selected_blocks(lists(&device, &[16]), 64));
        assert_eq!(kernel.name(), format!("decode_sm_90_f16_plain_selected_{expected}"));
        assert_eq!(kernel.splits(), 1, "many queries fill the device");
    }
    let views = Views::of(&device, 1, 4096, [128; 2]);
    assert!(!views.kernel(&Attention::new()).name().contains("_selected_"));
}

#[test]
fn lists_of_few_queries_are_divided() {
    let (device, _) = fake::h200();
    let views =
        Views::new(&device, [&[2, 32, 1, 128], &[2, 4, 9000, 128], &[2, 4, 9000, 128], &[2, 32, 1, 128]]);
    let attention = Attention::new().causal().selected_blocks(lists(&device, &[16]), 64);
    let kernel = views.kernel(&attention);
    // Sixteen places of a list for each of 8 tiles.
    assert!((4..=16).contains(&kernel.splits()), "{}", kernel.splits());
    let plan = views.plan(&attention).unwrap();
    assert_eq!(plan.workspace_len(), 2 * 32 * 129 * kernel.splits() as usize);
}

#[test]
fn lists_must_fit() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let of =
        |shape: &[usize], keys| views.message(&Attention::new().selected_blocks(lists(&device, shape), keys));
    for shape in [&[3, 2, 300, 7][..], &[1, 2, 300, 7], &[300, 7], &[7], &[3, 2, 300, 0], &[2, 1, 1]] {
        views.plan(&Attention::new().selected_blocks(lists(&device, shape), 128)).unwrap();
    }
    let allowed = "one that broadcasts to [3, 2, 300, 7]: batch, KV heads, queries and blocks of a list";
    for shape in [&[3, 32, 300, 7][..], &[2, 2, 300, 7], &[5, 7], &[1, 3, 2, 300, 7]] {
        let message = of(shape, 64);
        assert_eq!(message, format!("`selected_blocks` was of shape {shape:?}; it must be {allowed}"));
    }
    assert_eq!(of(&[], 64), "`selected_blocks` was of shape []; it must be of 1 to 4 dimensions");
    for keys in [0, 32, 100, 1 << 31] {
        let allowed = "a multiple of 64, from 64 on and below 2^31";
        assert_eq!(of(&[7], keys), format!("`keys` was {keys}; it must be {allowed}"));
    }
    let message = of(&[1 << 25], 64);
    assert!(message.starts_with("`selected_blocks` was of shape [33554432]; it must be of fewer than 2^31"));
    let written = view::<i32>(&device, far(3), &[7]);
    let message = views.message(&Attention::new().selected_blocks(&written, 64));
    assert!(message.starts_with("`o` overlaps `selected_blocks`; "), "{message}");
    let wide: [&[usize]; 4] = [&[1, 2, 5, 320], &[1, 2, 90, 320], &[1, 2, 90, 64], &[1, 2, 5, 64]];
    let message =
        Views::new(&device, wide).message(&Attention::new().selected_blocks(lists(&device, &[7]), 64));
    assert!(message.ends_with("it must be of a head dimension from 1 to 256"), "{message}");
}

#[test]
fn nothing_else_goes_with_lists_of_queries() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let attention = || Attention::new().selected_blocks(lists(&device, &[7]), 64);
    let (slopes, bias) = (view::<f32>(&device, far(7), &[32]), view::<f16>(&device, far(8), &[500]));
    let counts = view::<i32>(&device, far(6), &[1]);
    let refuses = |message: String, beside: &str| {
        let was = format!("`selected_blocks` was of shape [7] beside {beside}; it must be left out: ");
        assert!(message.starts_with(&was), "{message}");
    };
    for (attention, beside) in [
        (attention().softcap(3.0), "a softcap"),
        (attention().alibi_slopes(&slopes), "alibi_slopes"),
        (attention().bias(&bias), "a bias"),
        (attention().block_lists(view::<i32>(&device, far(9), &[7]), &counts, [64, 64]), "block_lists"),
    ] {
        refuses(views.message(&attention), beside);
    }
    views.plan(&attention().splits(3).lengths(view::<i32>(&device, far(9), &[3]))).unwrap();
    let codes = view::<i8>(&device, far(1), &[3, 2, 500, 64]);
    let refused = attention().plan(&views.q, &codes, &codes, &views.o).unwrap_err().to_string();
    refuses(refused, "keys of 8 bits");
    let lse = view::<f32>(&device, far(4), &[3, 32, 300]);
    let [mut d_q, mut d_k, mut d_v] = [(10, 32, 300), (11, 2, 500), (12, 2, 500)]
        .map(|(at, heads, rows)| view_mut::<f16>(&device, far(at), &[3, heads, rows, 64]));
    let refused = attention().gradient().run(
        &device.default_stream(),
        [&views.q, &views.k, &views.v],
        (&views.q, &lse),
        &views.q,
        [&mut d_q, &mut d_k, &mut d_v],
    );
    assert!(refused.unwrap_err().to_string().starts_with("`selected_blocks` was "));
    let views = Views::new(&device, [&[1, 4, 70, 64], &[1, 2, 90, 64], &[1, 2, 90, 64], &[1, 4, 70, 64]]);
    let offsets = view::<i32>(&device, far(9), &[4]);
    refuses(views.message(&attention().packed(&offsets, &offsets, 9)), "packed sequences");
}

#[test]
fn kernels_are_told_bytes_and_blocks() {
    let (device, _) = fake::h200();
    let views = Views::new(&device, SHAPES);
    let lists = lists(&device, &[3, 1, 300, 7]);
    let told = |keys| {
        let attention = Attention::new().causal().selected_blocks(&lists, keys);
        let problem = problem(&attention, &views.q, &views.k, &views.v, &views.o, false).unwrap();
        problem.selected.unwrap()
    };
    let selected = told(192);
    assert_eq!(selected.of_lists, [8400, 0, 28, 4]);
    assert_eq!([selected.most, selected.key_blocks], [7, 3]);
    assert_eq!([selected.by_queries.divisor, selected.key_block.divisor], [300, 192]);
    assert_eq!([selected.cache.capacity, selected.cache.queries, selected.cache.right], [500, 300, 0]);
    // A block of more keys than there are ends where the kernels' blocks do.
    let selected = told(1 << 30);
    assert_eq!([selected.key_blocks, selected.key_block.divisor], [1, 512]);
}
