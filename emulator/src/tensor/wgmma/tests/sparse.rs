//! Products of a sparse A: "Sparse matrix storage" of `wgmma.mma_async.sp`.

use super::*;

/// A sparse A: of each row the elements that are stored, and the columns of the full matrix that they are of.
struct SparseA {
    stored: Values,
    columns: Vec<Vec<usize>>,
    /// Of the four warps.
    metadata: [Register; 4],
}

impl SparseA {
    /// "Sparse matrix storage" and "Matrix fragments for … sparse matrix A": of four elements two are stored, of tf32 one of two.
    /// Words have the metadata of rows 0 to 7 of a warp below, and of 8 to 15 above; of 8 bits the latter are the next lane's.
    fn new(element: Element, selector: usize, numbers: &mut Numbers) -> SparseA {
        const PAIRS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        let k = 512 / element.bits() as usize;
        let mut metadata = [[0xffff_ffff; 32]; 4];
        let mut columns = vec![Vec::new(); 64];
        let chunk_of = if element == Element::Tf32 { 2 } else { 4 };
        for row in 0..64 {
            for chunk in 0..k / chunk_of {
                let choice = (row * 5 + chunk * 7) % 6;
                let (indices, stored) = match element {
                    Element::Tf32 => ([0b0100, 0b1110][choice % 2], vec![choice % 2]),
                    _ => (PAIRS[choice][0] | PAIRS[choice][1] << 2, PAIRS[choice].to_vec()),
                };
                columns[row].extend(stored.iter().map(|i| chunk * chunk_of + i));
                let (lane, bit) = match element.bits() {
                    8 => (chunk / 8 * 2 + row / 8 % 2, chunk % 8 * 4),
                    _ => (2 * selector + chunk / 4, row / 8 % 2 * 16 + chunk % 4 * 4),
                };
                let word: &mut u32 = &mut metadata[row / 16][row % 8 * 4 + lane];
                *word = *word & !(15 << bit) | (indices as u32) << bit;
            }
        }
        let stored = numbers.values(64, columns[0].len(), element);
        SparseA { stored, columns, metadata }
    }
}

fn assert_sparse(form: Wgmma, accumulator: Accumulator, spans: (u32, u32)) {
    let sparse = form.sparse.expect("it is sparse");
    form.check(accumulator, false).expect("a form that exists");
    let mut numbers = Numbers::new(u64::from(form.n) + u64::from(spans.0));
    let a = SparseA::new(form.a, sparse.selector, &mut numbers);
    let b = numbers.values(form.n as usize, form.depth(), form.b);
    assert_eq!(form.depth(), 2 * a.stored[0].len());
    let layouts = (Layout::new(form.trans_a, spans.0, 64), Layout::new(form.trans_b, spans.1, form.n));
    let (at_a, at_b) = (0x400, 0x1_0000);
    let mut bytes = vec![0xee; 0x3_0000];
    layouts.0.write(&mut bytes, at_a, &a.stored, form.a);
    layouts.1.write(&mut bytes, at_b, &b, form.b);
    let (mut shared, mut product) = (Flat::new(0, bytes), Product::default());
    let columns = form.columns(sparse, a.metadata.each_ref()).expect("they mean something");
    let (operand, b_at) = (OperandA::Shared(layouts.0.descriptor(at_a)), layouts.1.descriptor(at_b));
    form.check_b(b_at).expect("its rows are long enough");
    form.gather((operand, &columns), b_at, &mut shared, &mut product).expect("inside");
    let register = |warp| {
        (0..accumulator.registers(form.n as usize))
            .map(move |i| (warp, i))
            .map(|(warp, i)| product.register(warp, i, accumulator, None))
            .collect()
    };
    let d: Vec<Vec<Register>> = (0..4).map(register).collect();
    for row in 0..64 {
        for (column, b) in b.iter().enumerate() {
            let expected: f32 = a.stored[row].iter().zip(&a.columns[row]).map(|(a, &k)| a * b[k]).sum();
            let found = match accumulator {
                Accumulator::S32 { .. } => element_of(&d, row, column) as i32 as f32,
                _ => f32::from_bits(element_of(&d, row, column)),
            };
            assert_eq!(found, expected, "{form:?} {layouts:?} row {row} column {column}");
        }
    }
}

#[test]
fn sparse_a_of_every_type_and_layout() {
    use Element::*;
    let of = |selector, form| Wgmma { sparse: Some(Sparse { selector, ordered: false }), ..form };
    for selector in [0, 1] {
        for span_a in [16, 32, 64, 128] {
            for (span_b, trans_b) in
                [(16, false), (64, false), (128, false), (16, true), (32, true), (128, true)]
            {
                for trans_a in [false, true] {
                    let form = Wgmma { trans_a, trans_b, ..of(selector, form(64, F16, F16)) };
                    assert_sparse(form, Accumulator::F32, (span_a, span_b));
                }
            }
        }
        assert_sparse(of(selector, form(8, Bf16, Bf16)), Accumulator::F32, (128, 128));
        assert_sparse(of(selector, form(24, Tf32, Tf32)), Accumulator::F32, (64, 64));
    }
    for (a, b) in [(E4m3, E5m2), (E5m2, E4m3)] {
        assert_sparse(of(0, form(256, a, b)), Accumulator::F32, (32, 16));
    }
    for (a, b) in [(S8, U8), (U8, S8)] {
        assert_sparse(of(0, form(32, a, b)), Accumulator::S32 { saturate: false }, (128, 64));
    }
}

#[test]
fn sparse_forms_that_do_not_exist() {
    let of = |selector, element| Wgmma {
        sparse: Some(Sparse { selector, ordered: false }),
        ..form(16, element, element)
    };
    let integers = Accumulator::S32 { saturate: false };
    assert!(of(2, Element::F16).check(Accumulator::F32, false).expect_err("refused").contains("no lanes"));
    assert!(of(1, Element::S8).check(integers, false).expect_err("refused").contains("no lanes"));
    assert!(of(0, Element::B1).check(integers, false).expect_err("refused").contains("single bits"));
    let f16 = of(0, Element::F16);
    let narrow = f16.check_b(Layout::new(false, 32, 16).descriptor(0)).expect_err("refused").to_string();
    assert!(narrow.contains("a swizzle of 32 bytes"), "{narrow}");
    let same = f16
        .columns(Sparse { selector: 0, ordered: false }, [&[0x5555_5555; 32]; 4])
        .expect_err("refused")
        .to_string();
    assert!(same.contains("metadata of 0b0101"), "{same}");
}

#[test]
fn what_is_not_stored_is_not_multiplied() {
    // The even columns are stored, and B has no numbers in the odd ones.
    let sparse = Sparse { selector: 0, ordered: false };
    let form = Wgmma { sparse: Some(sparse), ..form(8, Element::F16, Element::F16) };
    let (layout, mut bytes) = (Layout::new(false, 64, 64), vec![0; 0x4000]);
    layout.write(&mut bytes, 0, &vec![vec![1.0; 16]; 64], Element::F16);
    let b = vec![(0..32).map(|k| if k % 2 == 0 { 1.0 } else { f32::NAN }).collect(); 8];
    layout.write(&mut bytes, 0x2000, &b, Element::F16);
    let mut product = Product::default();
    let columns = form.columns(sparse, [&[0x8888_8888; 32]; 4]).expect("0 and 2 of four");
    let a = OperandA::Shared(layout.descriptor(0));
    form.gather((a, &columns), layout.descriptor(0x2000), &mut Flat::new(0, bytes), &mut product)
        .expect("inside");
    assert_eq!(product.register(3, 3, Accumulator::F32, None), [16f32.to_bits(); 32]);
}
