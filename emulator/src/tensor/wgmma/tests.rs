//! Against products computed from matrices that are written to memory through the canonical layouts, as CUTLASS
//! spells them: shapes and strides in elements, a swizzle of the offset, for tiles at multiples of 1024.

mod sparse;

use super::*;
use crate::tensor::float::{self, Format, Rounding};
use crate::tensor::memory::flat::Flat;

/// A matrix of `outer` x `k` values.
type Values = Vec<Vec<f32>>;

/// A generator of small numbers, all exact in every type that is `signed` or not.
struct Numbers(fastrand::Rng);

impl Numbers {
    fn new(seed: u64) -> Self {
        Numbers(fastrand::Rng::with_seed(seed))
    }

    fn next(&mut self, signed: bool) -> f32 {
        let magnitude = self.0.u8(..9);
        if signed { magnitude as f32 - 4.0 } else { magnitude as f32 }
    }

    fn values(&mut self, outer: usize, k: usize, element: Element) -> Values {
        (0..outer).map(|_| (0..k).map(|_| self.next(element != Element::U8)).collect()).collect()
    }
}

fn encode(element: Element, x: f32) -> Vec<u8> {
    match element {
        Element::F16 => float::f32_to_f16(x, Rounding::Nearest).to_le_bytes().into(),
        Element::Bf16 => float::f32_to_bf16(x, Rounding::Nearest).to_le_bytes().into(),
        // The low bits are to be ignored.
        Element::Tf32 => (x.to_bits() | 0x1abc).to_le_bytes().into(),
        Element::E4m3 => vec![float::f32_to_e4m3(x)],
        Element::E5m2 => vec![Format::E5M2.encode(f64::from(x), Rounding::Nearest, true) as u8],
        Element::S8 => vec![x as i8 as u8],
        Element::U8 => vec![x as u8],
        Element::S4 | Element::U4 | Element::B1 => unreachable!("no operand of wgmma in bytes"),
    }
}

/// A tile in memory and the descriptor of it.
#[derive(Clone, Copy, Debug)]
struct Layout {
    transposed: bool,
    span: u32,
    leading: u32,
    stride: u32,
}

impl Layout {
    /// Tiles one after the other, with gaps that only the descriptor knows of.
    fn new(transposed: bool, span: u32, extent: u32) -> Layout {
        let core = 8 * span;
        let (leading, stride) = match (transposed, span) {
            (false, 16) => ((core + 128) * extent / 8 + 256, core + 128),
            (false, _) => (16, 2 * core),
            (true, 16) => (core * extent / 8 + 128, core),
            // Core matrices along K, four where A is sparse, then the next span of M or N.
            (true, _) => (8 * core, 2 * core),
        };
        Layout { transposed, span, leading, stride }
    }

    /// The byte offset of an element, `size` bytes long.
    fn offset(&self, outer: u32, k: u32, size: u32) -> u32 {
        let Layout { transposed, span, leading, stride } = *self;
        let t = 16 / size;
        let linear = match (transposed, span) {
            // ((8,m),(T,2)):((1T,SBO),(1,LBO))
            (false, 16) => outer % 8 * 16 + outer / 8 * stride + k % t * size + k / t * leading,
            // ((8,m),(T,2)):((wT,SBO),(1,T)), w pieces in a span
            (false, _) => outer % 8 * span + outer / 8 * stride + k * size,
            // ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
            (true, 16) => outer % t * size + outer / t * stride + k % 8 * 16 + k / 8 * leading,
            // ((T,w,m),(8,k)):((1,T,LBO),(wT,SBO))
            (true, _) => {
                let w = span / 16;
                outer % t * size
                    + outer / t % w * 16
                    + outer / t / w * leading
                    + k % 8 * span
                    + k / 8 * stride
            }
        };
        // Swizzle<B,4,3> of byte offsets.
        linear ^ (linear >> 7 & (span / 16 - 1)) << 4
    }

    fn descriptor(&self, start: u32) -> u64 {
        let mode: u64 = match self.span {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        let field = |x: u32| u64::from((x & 0x3_ffff) >> 4);
        field(start) | field(self.leading) << 16 | field(self.stride) << 32 | mode << 62
    }

    fn write(&self, memory: &mut [u8], start: u32, values: &Values, element: Element) {
        for (outer, row) in values.iter().enumerate() {
            for (k, x) in row.iter().enumerate() {
                let bytes = encode(element, *x);
                let at = (start + self.offset(outer as u32, k as u32, bytes.len() as u32)) as usize;
                memory[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

/// Element (`row`, `column`) of D from the registers of the warps.
///
/// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": D.
fn element_of(d: &[Vec<Register>], row: usize, column: usize) -> u32 {
    let lane = row % 8 * 4 + column % 8 / 2;
    d[row / 16][column / 8 * 4 + row / 8 % 2 * 2 + column % 2][lane]
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn assert_product(form: Wgmma, accumulator: Accumulator, spans: (u32, u32)) {
    let k = form.depth();
    let mut numbers = Numbers::new(u64::from(form.n) + u64::from(spans.0));
    let a = numbers.values(64, k, form.a);
    let b = numbers.values(form.n as usize, k, form.b);
    let layouts = (Layout::new(form.trans_a, spans.0, 64), Layout::new(form.trans_b, spans.1, form.n));
    let (at_a, at_b) = (0x400, 0x1_0000);
    let mut bytes = vec![0xee; 0x3_0000];
    layouts.0.write(&mut bytes, at_a, &a, form.a);
    layouts.1.write(&mut bytes, at_b, &b, form.b);
    let mut shared = Flat::new(0, bytes);
    let mut product = Product::default();
    form.check(accumulator, false).expect("a form that exists");
    let operand = OperandA::Shared(layouts.0.descriptor(at_a));
    form.gather((operand, &[]), layouts.1.descriptor(at_b), &mut shared, &mut product).expect("inside");

    let start: Register = std::array::from_fn(|lane| match accumulator {
        Accumulator::F32 => (lane as f32).to_bits(),
        Accumulator::S32 { .. } => lane as u32,
        Accumulator::F16 => u32::from(float::f32_to_f16(lane as f32, Rounding::Nearest)) * 0x1_0001,
    });
    let sign = if form.negate_a != form.negate_b { -1.0 } else { 1.0 };
    for c in [None, Some(&start)] {
        let registers = accumulator.registers(form.n as usize);
        let d: Vec<Vec<Register>> = (0..4)
            .map(|warp| (0..registers).map(|i| product.register(warp, i, accumulator, c)).collect())
            .collect();
        for row in 0..64 {
            for column in 0..form.n as usize {
                let lane = row % 8 * 4 + column % 8 / 2;
                let expected = sign * dot(&a[row], &b[column]) + c.map_or(0.0, |_| lane as f32);
                let found = match accumulator {
                    Accumulator::F32 => f32::from_bits(element_of(&d, row, column)),
                    Accumulator::S32 { .. } => element_of(&d, row, column) as i32 as f32,
                    // "Register Fragments": two columns in a register.
                    Accumulator::F16 => {
                        let register = d[row / 16][column / 8 * 2 + row / 8 % 2][lane];
                        float::f16_to_f32((register >> (column % 2 * 16)) as u16)
                    }
                };
                assert_eq!(found, expected, "{form:?} {layouts:?} row {row} column {column}");
            }
        }
    }
}

fn form(n: u32, a: Element, b: Element) -> Wgmma {
    Wgmma { n, a, b, trans_a: false, trans_b: false, negate_a: false, negate_b: false, sparse: None }
}

#[test]
fn every_swizzle_and_both_majors() {
    for span_a in [16, 32, 64, 128] {
        for span_b in [16, 32, 64, 128] {
            for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
                let form = Wgmma { trans_a, trans_b, ..form(128, Element::F16, Element::F16) };
                assert_product(form, Accumulator::F32, (span_a, span_b));
            }
        }
    }
}

#[test]
fn every_type() {
    use Element::*;
    for (a, b) in [(Bf16, Bf16), (Tf32, Tf32), (E4m3, E4m3), (E4m3, E5m2), (E5m2, E4m3), (E5m2, E5m2)] {
        assert_product(form(24, a, b), Accumulator::F32, (128, 64));
    }
    for (a, b) in [(S8, S8), (S8, U8), (U8, S8), (U8, U8)] {
        assert_product(form(32, a, b), Accumulator::S32 { saturate: false }, (32, 16));
    }
    for (a, b) in [(F16, F16), (E5m2, E4m3)] {
        assert_product(form(40, a, b), Accumulator::F16, (64, 128));
    }
}

#[test]
fn single_bits_are_counted() {
    // Rows of 256 bits lie as those of 32 bytes.
    let mut numbers = Numbers::new(11);
    let mut rows = |count: usize| -> Vec<[u8; 32]> {
        (0..count).map(|_| std::array::from_fn(|_| (numbers.next(false) * 31.0) as u8)).collect()
    };
    let (a, b) = (rows(64), rows(16));
    let form = form(16, Element::B1, Element::B1);
    let accumulator = Accumulator::S32 { saturate: false };
    form.check(accumulator, true).expect("a form that exists");
    assert!(form.check(Accumulator::S32 { saturate: true }, true).is_err());
    for span in [16, 32, 64, 128] {
        let (mut bytes, layout) = (vec![0xee; 0x2_0000], Layout::new(false, span, 64));
        for (start, rows) in [(0, &a), (0x1_0000, &b)] {
            for (outer, row) in rows.iter().enumerate() {
                for (k, byte) in row.iter().enumerate() {
                    bytes[start + layout.offset(outer as u32, k as u32, 1) as usize] = *byte;
                }
            }
        }
        // PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk256": A.
        let word = |row: usize, at: usize| u32::from_le_bytes(std::array::from_fn(|i| a[row][at + i]));
        let registers: [[Register; 4]; 4] = std::array::from_fn(|warp| {
            std::array::from_fn(|i| {
                std::array::from_fn(|lane| word(16 * warp + lane / 4 + i % 2 * 8, lane % 4 * 4 + i / 2 * 16))
            })
        });
        let mut shared = Flat::new(0, bytes);
        for operand in [OperandA::Shared(layout.descriptor(0)), OperandA::Registers(&registers)] {
            let mut product = Product::default();
            let place = layout.descriptor(0x1_0000);
            form.gather((operand, &[]), place, &mut shared, &mut product).expect("inside");
            let register = |warp| (0..8).map(|i| product.register(warp, i, accumulator, None)).collect();
            let d: Vec<Vec<Register>> = (0..4).map(register).collect();
            for (row, a) in a.iter().enumerate() {
                for (column, b) in b.iter().enumerate() {
                    let count: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
                    assert_eq!(element_of(&d, row, column), count, "span {span}, row {row}, column {column}");
                }
            }
        }
    }
}

#[test]
fn every_width_and_sign() {
    for n in (8..=256).step_by(8) {
        let form =
            Wgmma { negate_a: n % 16 == 0, negate_b: n % 3 == 0, ..form(n, Element::F16, Element::F16) };
        assert_product(form, Accumulator::F32, (128, 128));
    }
}

#[test]
fn a_from_registers() {
    let form = form(16, Element::F16, Element::F16);
    let mut numbers = Numbers::new(7);
    let (a, b) = (numbers.values(64, 16, Element::F16), numbers.values(16, 16, Element::F16));
    let layout = Layout::new(false, 32, 16);
    let mut bytes = vec![0; 0x1000];
    layout.write(&mut bytes, 0, &b, Element::F16);
    // PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16": A.
    let pair = |row: usize, k: usize| {
        [a[row][k], a[row][k + 1]].map(|x| u32::from(float::f32_to_f16(x, Rounding::Nearest)))
    };
    let registers: [[Register; 4]; 4] = std::array::from_fn(|warp| {
        std::array::from_fn(|i| {
            std::array::from_fn(|lane| {
                let row = warp * 16 + lane / 4 + if i % 2 == 1 { 8 } else { 0 };
                let [low, high] = pair(row, lane % 4 * 2 + if i >= 2 { 8 } else { 0 });
                low | high << 16
            })
        })
    });
    let mut product = Product::default();
    let mut shared = Flat::new(0, bytes);
    form.gather((OperandA::Registers(&registers), &[]), layout.descriptor(0), &mut shared, &mut product)
        .expect("inside");
    let d: Vec<Vec<Register>> = (0..4)
        .map(|warp| (0..8).map(|i| product.register(warp, i, Accumulator::F32, None)).collect())
        .collect();
    for (row, a) in a.iter().enumerate() {
        for (column, b) in b.iter().enumerate() {
            assert_eq!(f32::from_bits(element_of(&d, row, column)), dot(a, b));
        }
    }
}

#[test]
fn a_matrix_inside_a_swizzled_tile() {
    // The second 16 of K of a tile of 64, and rows from 8 on, of a tile that begins at an odd multiple of 128.
    let mut numbers = Numbers::new(3);
    let tile = numbers.values(24, 64, Element::F16);
    let layout = Layout { transposed: false, span: 128, leading: 16, stride: 1024 };
    let base = 3 * 128;
    let mut bytes = vec![0; 0x2000];
    layout.write(&mut bytes, base, &tile, Element::F16);
    let descriptor = layout.descriptor(base + 1024 + 32) | 3 << 49;
    let mut shared = Flat::new(0, bytes);
    let mut seen = 0;
    read(descriptor, false, [16, CORES], &mut shared, |[group, core], words| {
        let mut values = [0.0; 64];
        Element::F16.unpack(words, &mut values);
        for (row, values) in values.chunks(8).enumerate() {
            assert_eq!(*values, tile[8 + 8 * group + row][16 + 8 * core..][..8], "{group} {core} {row}");
        }
        seen += 1;
    })
    .expect("inside");
    assert_eq!(seen, 4);
}

#[test]
fn swizzled_core_matrices_are_free_of_conflicts() {
    for (transposed, span) in
        [(false, 32), (false, 64), (false, 128), (true, 32), (true, 64), (true, 128), (true, 16)]
    {
        let layout = Layout::new(transposed, span, 64);
        let form = Wgmma { trans_b: transposed, ..form(64, Element::F16, Element::F16) };
        let pieces: Vec<u32> = form.pieces_b(layout.descriptor(0x400)).collect();
        assert_eq!(pieces.len(), 128);
        for core in pieces.chunks(8) {
            let banks: std::collections::HashSet<u32> = core.iter().map(|address| address / 16 % 8).collect();
            assert_eq!(banks.len(), 8, "{layout:?}: {core:x?}");
        }
    }
}

#[test]
fn integers_wrap_or_saturate() {
    let form = form(8, Element::U8, Element::U8);
    let layout = Layout::new(false, 32, 64);
    let mut shared = Flat::new(0, vec![255; 0x2000]);
    let mut product = Product::default();
    let a = OperandA::Shared(layout.descriptor(0));
    form.gather((a, &[]), layout.descriptor(0), &mut shared, &mut product).expect("in");
    let c = [i32::MAX as u32; 32];
    let sum = 255 * 255 * 32;
    let register = |saturate| product.register(0, 0, Accumulator::S32 { saturate }, Some(&c))[5];
    assert_eq!(register(true), i32::MAX as u32);
    assert_eq!(register(false), (i32::MAX as u32).wrapping_add(sum));
}

#[test]
fn forms_that_do_not_exist() {
    let f32 = Accumulator::F32;
    let bad = |form: Wgmma, accumulator, registers| form.check(accumulator, registers).expect_err("refused");
    assert!(bad(form(12, Element::F16, Element::F16), f32, false).contains("n = 12"));
    assert!(
        bad(form(40, Element::S8, Element::S8), Accumulator::S32 { saturate: false }, false)
            .contains("n = 40")
    );
    assert!(bad(form(8, Element::F16, Element::Bf16), f32, false).contains("F16 and Bf16"));
    assert!(bad(form(8, Element::Bf16, Element::Bf16), Accumulator::F16, false).contains("accumulate"));
    let transposed = Wgmma { trans_b: true, ..form(8, Element::E4m3, Element::E4m3) };
    assert!(bad(transposed, f32, false).contains("transposes"));
    let transposed = Wgmma { trans_a: true, ..form(8, Element::F16, Element::F16) };
    assert!(bad(transposed, f32, true).contains("transposes"));
}

#[test]
fn a_read_outside_is_the_memory_s_fault() {
    let form = form(8, Element::F16, Element::F16);
    let layout = Layout::new(false, 128, 64);
    let mut shared = Flat::new(0, vec![0; 0x1000]);
    let a = OperandA::Shared(layout.descriptor(0));
    let fault = form.gather((a, &[]), layout.descriptor(0), &mut shared, &mut Product::default());
    assert_eq!(fault, Err(0x1000));
}

#[test]
fn nan_and_infinity() {
    let form = form(8, Element::F16, Element::F16);
    let layout = Layout::new(false, 32, 64);
    let mut a = vec![vec![0.0; 16]; 64];
    a[0][3] = f32::INFINITY;
    let mut b = vec![vec![1.0; 16]; 8];
    b[2][3] = 0.0;
    let mut bytes = vec![0; 0x4000];
    layout.write(&mut bytes, 0, &a, Element::F16);
    layout.write(&mut bytes, 0x2000, &b, Element::F16);
    let mut product = Product::default();
    let operand = OperandA::Shared(layout.descriptor(0));
    let b = layout.descriptor(0x2000);
    form.gather((operand, &[]), b, &mut Flat::new(0, bytes), &mut product).expect("inside");
    let d = product.register(0, 0, Accumulator::F32, None);
    assert_eq!((d[0], d[1], d[4]), (f32::INFINITY.to_bits(), float::NAN, 0));
}
