//! `wmma`: loads, products and stores of whole matrices.

use crate::products::{bits, small, value, width};
use crate::run;

/// One product of m x n x k with everything in global memory, in these layouts, with rows and columns some elements apart.
struct Case {
    shape: [usize; 3],
    types: [&'static str; 4],
    /// Registers of A, B, C and D.
    registers: [usize; 4],
    /// Whether A, B, C and D are by rows.
    by_rows: [bool; 4],
    /// What opcode the product has behind its layouts.
    product: &'static str,
    /// Elements between the end of a row or column and the next.
    gap: usize,
}

/// Words of a matrix in memory.
fn matrix(
    ty: &str,
    [rows, columns]: [usize; 2],
    by_rows: bool,
    gap: usize,
    of: impl Fn(usize, usize) -> i64,
) -> Vec<u32> {
    let (lines, length) = if by_rows { (rows, columns) } else { (columns, rows) };
    let mut words = vec![0u32; (lines * (length + gap) * width(ty)).div_ceil(32)];
    for line in 0..lines {
        for i in 0..length {
            let element = if by_rows { of(line, i) } else { of(i, line) };
            let at = (line * (length + gap) + i) * width(ty);
            let element = bits(ty, element);
            words[at / 32] |= (element << (at % 32)) as u32;
            if width(ty) == 64 {
                words[at / 32 + 1] = (element >> 32) as u32;
            }
        }
    }
    words
}

fn registers(prefix: &str, count: usize) -> String {
    let names: Vec<_> = (0..count).map(|i| format!("%{prefix}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

fn check(case: &Case) {
    let Case { shape: [m, n, k], types: [a, b, c, d], registers: counts, by_rows, product, gap } = *case;
    let layout = |i: usize| if by_rows[i] { "row" } else { "col" };
    let shape = format!("m{m}n{n}k{k}");
    let extents = [[m, k], [k, n], [m, n], [m, n]];
    let stride = |i: usize| extents[i][usize::from(by_rows[i])] + gap;
    let parts = [
        matrix(a, extents[0], by_rows[0], gap, |row, k| small(row, k, 0)),
        matrix(b, extents[1], by_rows[1], gap, |k, column| small(k, column, 1)),
        matrix(c, extents[2], by_rows[2], gap, |row, column| small(row, column, 2)),
    ];
    let expected = matrix(d, extents[3], by_rows[3], gap, |row, column| {
        let one = |k| value(a, small(row, k, 0)) * value(b, small(k, column, 1));
        let one =
            |k| if a == "b1" { value(a, small(row, k, 0)) ^ value(b, small(k, column, 1)) } else { one(k) };
        small(row, column, 2) + (0..k).map(one).sum::<i64>()
    });
    // Each begins at a multiple of 32 bytes.
    let mut memory = vec![0u32; expected.len().next_multiple_of(8)];
    let mut loads = String::new();
    for (i, (role, part)) in ["a", "b", "c"].into_iter().zip(&parts).enumerate() {
        loads += &format!(
            "add.u64 %at, %out, {};\nwmma.load.{role}.sync.aligned.{}.{shape}.global.{} {}, [%at], {};\n",
            4 * memory.len(),
            layout(i),
            [a, b, c][i],
            registers(role, counts[i]),
            stride(i)
        );
        memory.extend(part);
        memory.resize(memory.len().next_multiple_of(8), 0);
    }
    let ty = |ty: &str| if ty == "f64" { "b64" } else { "b32" };
    let (popc, rest) = product.split_once(' ').unwrap_or(("", product));
    let body = format!(
        ".reg .{0} %a<8>, %b<8>;\n.reg .{1} %c<8>, %d<8>;\n.reg .b64 %at;\n{loads}\
         wmma.mma{popc}.sync.aligned.{2}.{3}.{shape}.{rest} {4}, {5}, {6}, {7};\n\
         wmma.store.d.sync.aligned.{8}.{shape}.global.{d} [%out], {4}, {9};",
        ty(a),
        ty(d),
        layout(0),
        layout(1),
        registers("d", counts[3]),
        registers("a", counts[0]),
        registers("b", counts[1]),
        registers("c", counts[2]),
        layout(3),
        stride(3)
    );
    let found = run(&body, 32, &memory).unwrap_or_else(|fault| panic!("{fault}\n{body}"));
    assert_eq!(found[..expected.len()], expected, "{shape} {product} {by_rows:?}");
}

#[test]
fn products_of_whole_matrices() {
    let layouts = [[true; 4], [true, false, false, true], [false, true, true, false], [false; 4]];
    for by_rows in layouts {
        for shape in [[16, 16, 16], [32, 8, 16], [8, 32, 16]] {
            let [m, n, _] = shape;
            let check = |types, registers, product| {
                check(&Case { shape, types, registers, by_rows, product, gap: 16 });
            };
            check(["f16", "f16", "f32", "f32"], [8; 4], "f32.f32");
            check(["f16", "f16", "f16", "f16"], [8, 8, 4, 4], "f16.f16");
            check(["f16", "f16", "f16", "f32"], [8, 8, 4, 8], "f32.f16");
            check(["bf16", "bf16", "f32", "f32"], [m / 4, n / 4, 8, 8], "f32.bf16.bf16.f32");
            check(["s8", "s8", "s32", "s32"], [m / 8, n / 8, 8, 8], "s32.s8.s8.s32");
            check(["u8", "u8", "s32", "s32"], [m / 8, n / 8, 8, 8], "s32.u8.u8.s32.satfinite");
        }
        let check = |shape, types, registers, product| {
            check(&Case { shape, types, registers, by_rows, product, gap: 4 });
        };
        check([16, 16, 8], ["tf32", "tf32", "f32", "f32"], [4, 4, 8, 8], "f32.tf32.tf32.f32");
        check([8, 8, 4], ["f64"; 4], [1, 1, 2, 2], "f64.f64.f64.f64");
    }
    for by_rows in [[true, false, true, true], [true, false, false, false]] {
        let check = |shape, types, product| {
            check(&Case { shape, types, registers: [1, 1, 2, 2], by_rows, product, gap: 128 });
        };
        check([8, 8, 32], ["s4", "s4", "s32", "s32"], "s32.s4.s4.s32");
        check([8, 8, 128], ["b1", "b1", "s32", "s32"], ".xor.popc s32.b1.b1.s32");
    }
}

/// A tile of shared memory that 256 threads fill, and a warp multiplies with itself.
fn tile(between: &str, load: &str) -> String {
    format!(
        ".reg .b32 %a<8>, %b<8>, %d<8>, %t, %s, %zero;\n.reg .b16 %h;\n.reg .pred %p;\n\
         mov.u32 %t, %tid.x;\nmov.u32 %s, buffer;\nmad.lo.u32 %s, %t, 2, %s;\ncvt.rn.f16.u32 %h, %t;\n\
         st.shared.b16 [%s], %h;\n{between}\nsetp.ge.u32 %p, %t, 32;\n@%p exit;\nmov.u32 %zero, 0;\n\
         wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}}, {load};\n\
         wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}}, [buffer];\n\
         wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}},\n\
         {{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}}, {{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}},\n\
         {{%zero, %zero, %zero, %zero, %zero, %zero, %zero, %zero}};\n\
         wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%out], {{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}};\n"
    )
}

fn accused(body: &str, threads: u32) -> String {
    run(body, threads, &[0; 512]).expect_err("the kernel is faulty").to_string()
}

#[test]
fn a_tile_is_loaded_behind_a_barrier() {
    let found = run(&tile("bar.sync 0;", "[buffer]"), 256, &[0; 512]).expect("it is right");
    let expected =
        |row: u32, column: u32| (0..16).map(|k| (row * 16 + k) * (column * 16 + k)).sum::<u32>() as f32;
    for (i, &word) in (0..).zip(&found[..256]) {
        assert_eq!(f32::from_bits(word), expected(i / 16, i % 16), "{i}");
    }
    let race = accused(&tile("", "[buffer]"), 256);
    assert!(race.contains("race") && race.contains("wmma.load"), "{race}");
    // Half of it is there.
    let unwritten = accused(&tile("bar.sync 0;", "[buffer]"), 128);
    assert!(unwritten.contains("nobody had written"), "{unwritten}");
}

#[test]
fn misuse_is_told() {
    let stride = accused(&tile("bar.sync 0;", "[buffer], 8"), 256);
    assert!(stride.contains("a stride of 8 elements, where rows or columns have 16"), "{stride}");
    let aligned = accused(&tile("bar.sync 0;", "[buffer+2]"), 256);
    assert!(aligned.contains("must begin at multiples of 16 bytes"), "{aligned}");
    let alone = "@%p bra L; wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%d0, %d1}, [%out]; L:";
    let body = format!(
        ".reg .pred %p;\n.reg .b64 %d<2>;\n.reg .b32 %t;\nmov.u32 %t, %tid.x;\nsetp.eq.u32 %p, %t, 3;\n{alone}"
    );
    let alone = accused(&body, 32);
    assert!(alone.contains("needs all lanes of the warp"), "{alone}");
    let differ = "mov.u32 %t, %tid.x;\nmad.wide.u32 %d0, %t, 8, %out;\n\
        wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%d0], {%d0, %d0};";
    let differ = accused(&format!(".reg .b64 %d<2>;\n.reg .b32 %t;\n{differ}"), 32);
    assert!(differ.contains("differs between the lanes"), "{differ}");
}
