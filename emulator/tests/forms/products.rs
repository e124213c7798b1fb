//! Products of warps: fragments as the manual's formulas have them, results computed from whole matrices.

use crate::run;

/// A matrix of small integers, which every type of elements has exactly.
pub fn small(row: usize, column: usize, salt: usize) -> i64 {
    ((row * 7 + column * 5 + salt * 3 + row * column) % 11) as i64 - 4
}

/// The bits of an integer.
pub fn bits(ty: &str, x: i64) -> u64 {
    match ty {
        "f64" => (x as f64).to_bits(),
        "f32" | "tf32" => (x as f32).to_bits().into(),
        "f16" => half::f16::from_f64(x as f64).to_bits().into(),
        "bf16" => half::bf16::from_f64(x as f64).to_bits().into(),
        "e4m3" => {
            [0u8, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e][x.unsigned_abs() as usize] as u64
                | u64::from(x < 0) << 7
        }
        _ => x as u64 & (u64::MAX >> (64 - width(ty))),
    }
}

pub fn width(ty: &str) -> usize {
    match ty {
        "f64" => 64,
        "f32" | "tf32" | "s32" => 32,
        "f16" | "bf16" => 16,
        "e4m3" | "s8" | "u8" => 8,
        "s4" | "u4" => 4,
        _ => 1,
    }
}

/// What the type makes of an integer.
pub fn value(ty: &str, x: i64) -> i64 {
    match ty {
        "u8" | "u4" | "b1" => x.rem_euclid(1 << width(ty)),
        _ => x,
    }
}

/// Registers of lanes, as 32-bit words: of an element of each by its place in the matrix.
fn fragment(
    ty: &str,
    count: usize,
    place: impl Fn(usize, usize) -> [usize; 2],
    of: impl Fn(usize, usize) -> i64,
) -> Vec<u32> {
    let mut words = Vec::new();
    for lane in 0..32 {
        let mut own = vec![0u32; (count * width(ty)).div_ceil(32)];
        for i in 0..count {
            let [row, column] = place(lane, i);
            let at = i * width(ty);
            let element = bits(ty, of(row, column));
            own[at / 32] |= (element << (at % 32)) as u32;
            if width(ty) == 64 {
                own[at / 32 + 1] = (element >> 32) as u32;
            }
        }
        words.extend(own);
    }
    words
}

/// Moves registers of a lane from or to memory, so many words each behind those of the lane before.
fn moves(op: &str, registers: &[String], wide: bool, offset: usize) -> String {
    let (ty, bytes) = if wide { ("b64", 8) } else { ("b32", 4) };
    let line = |(i, register): (usize, &String)| {
        let at = format!("[%at+{}]", offset + i * bytes);
        if op == "ld" {
            format!("ld.global.{ty} {register}, {at};\n")
        } else {
            format!("st.global.{ty} {at}, {register};\n")
        }
    };
    registers.iter().enumerate().map(line).collect()
}

fn list(registers: &[String]) -> String {
    format!("{{{}}}", registers.join(", "))
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("%{prefix}{i}")).collect()
}

/// Runs `mma` on fragments; gives the words of D.
fn mma(opcode: &str, tail: &str, [a, b, c]: [&[u32]; 3], extra: &[u32], wide: [bool; 2]) -> Vec<u32> {
    let registers = |words: &[u32], wide: bool| words.len() / 32 / if wide { 2 } else { 1 };
    let counts = [registers(a, wide[0]), registers(b, wide[0]), registers(c, wide[1])];
    let (of_a, of_b, of_c) = (names("a", counts[0]), names("b", counts[1]), names("c", counts[2]));
    let of_d = names("d", counts[2]);
    let per_lane = |words: &[u32]| words.len() / 32;
    let total = per_lane(a) + per_lane(b) + per_lane(c) + per_lane(extra);
    let types = wide.map(|wide| if wide { "b64" } else { "b32" });
    let mut offset = 0;
    let mut loads = String::new();
    for (registers, words, wide) in [(&of_a, a, wide[0]), (&of_b, b, wide[0]), (&of_c, c, wide[1])] {
        loads += &moves("ld", registers, wide, offset);
        offset += 4 * per_lane(words);
    }
    loads += &moves("ld", &names("e", per_lane(extra)), false, offset);
    let body = format!(
        ".reg .{0} %a<{1}>, %b<{2}>;\n.reg .{3} %c<{4}>, %d<{4}>;\n.reg .b32 %e<2>, %lane, %step;\n.reg .b64 %at, %in;\n\
         mov.u32 %lane, %tid.x;\nadd.u64 %in, %out, 4096;\nmad.wide.u32 %at, %lane, {5}, %in;\n{loads}\
         {opcode} {6}, {7}, {8}, {9}{tail};\nmad.wide.u32 %at, %lane, {10}, %out;\n{11}",
        types[0],
        counts[0],
        counts[1],
        types[1],
        counts[2],
        4 * total,
        list(&of_d),
        list(&of_a),
        list(&of_b),
        list(&of_c),
        4 * per_lane(c),
        moves("st", &of_d, wide[1], 0)
    );
    let mut memory = vec![0u32; 1024];
    for lane in 0..32 {
        for words in [a, b, c, extra] {
            memory.extend(&words[lane * per_lane(words)..][..per_lane(words)]);
        }
    }
    run(&body, 32, &memory).unwrap_or_else(|fault| panic!("{opcode}: {fault}"))[..c.len()].to_vec()
}

/// Where the elements of a lane are: A, B and C of `mma`, of 8 or 16 rows.
type Place = fn(usize, usize) -> [usize; 2];

/// "row = groupID, col = threadID_in_group" with so many elements of a row side by side, the next rows eight below, then the next columns.
fn of_a(lane: usize, i: usize, side: usize, tall: bool) -> [usize; 2] {
    let (group, thread) = (lane >> 2, lane % 4);
    let (part, run) = (i % side, i / side);
    match tall {
        true => [group + 8 * (run % 2), thread * side + part + run / 2 * 4 * side],
        false => [group, thread * side + part + run * 4 * side],
    }
}

fn of_b(lane: usize, i: usize, side: usize) -> [usize; 2] {
    [lane % 4 * side + i % side + i / side * 4 * side, lane >> 2]
}

const OF_C: Place = |lane, i| [(lane >> 2) + 8 * (i / 2), lane % 4 * 2 + (i & 1)];

/// Checks a dense product of m x 8 x k.
fn check(opcode: &str, [a, b, c]: [&str; 3], m: usize, k: usize, combine: fn(i64, i64) -> i64) {
    let side = 32usize.div_ceil(width(a)).max(1);
    let (wide_in, wide_out) = (a == "f64", c == "f64");
    let tall = m == 16;
    let left = fragment(a, m * k / 32, |lane, i| of_a(lane, i, side, tall), |row, k| small(row, k, 0));
    let right = fragment(b, 8 * k / 32, |lane, i| of_b(lane, i, side), |k, column| small(k, column, 1));
    let add = fragment(c, m * 8 / 32, OF_C, |row, column| small(row, column, 2));
    let expected = fragment(c, m * 8 / 32, OF_C, |row, column| {
        let products = (0..k).map(|k| combine(value(a, small(row, k, 0)), value(b, small(k, column, 1))));
        small(row, column, 2) + products.sum::<i64>()
    });
    let found = mma(opcode, "", [&left, &right, &add], &[], [wide_in, wide_out]);
    assert_eq!(found, expected, "{opcode}");
}

#[test]
fn double_precision() {
    for (m, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
        check(&format!("mma.sync.aligned.m{m}n8k{k}.row.col.f64.f64.f64.f64"), ["f64"; 3], m, k, |a, b| {
            a * b
        });
    }
}

#[test]
fn eight_rows_of_integers() {
    for (a, b) in [("s8", "u8"), ("u8", "u8")] {
        check(&format!("mma.sync.aligned.m8n8k16.row.col.s32.{a}.{b}.s32"), [a, b, "s32"], 8, 16, |a, b| {
            a * b
        });
    }
    check("mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.u4.s32", ["s4", "u4", "s32"], 8, 32, |a, b| {
        a * b
    });
}

#[test]
fn single_bits() {
    for (m, k) in [(8, 128), (16, 128), (16, 256)] {
        let opcode = |op: &str| format!("mma.sync.aligned.m{m}n8k{k}.row.col.s32.b1.b1.s32.{op}.popc");
        check(&opcode("xor"), ["b1", "b1", "s32"], m, k, |a, b| a ^ b);
        check(&opcode("and"), ["b1", "b1", "s32"], m, k, |a, b| a & b);
    }
}

/// The two of four, or of tf32 the one of two, that are stored of a chunk of a row.
fn stored(row: usize, chunk: usize) -> [usize; 2] {
    [[0, 1], [0, 2], [1, 3], [2, 3], [0, 3], [1, 2]][(row * 5 + chunk * 7) % 6]
}

/// Checks a product with a sparse A. Metadata lie as "Sparse matrix storage" and its figures have them: `word` gives the lane of
/// four and the first bit of what is of a chunk of a row.
fn check_sparse(
    opcode: &str,
    [a, b, c]: [&str; 3],
    k: usize,
    selector: usize,
    word: fn(usize, usize) -> [usize; 2],
) {
    let side = 32 / width(a);
    let (single, paired) = (a == "tf32", width(a) == 4);
    let at = |row: usize, i: usize| match (single, paired) {
        (true, _) => 2 * i + stored(row, i)[0] / 2,
        (_, true) => i / 4 * 8 + stored(row, i / 4)[i / 2 % 2] * 2 + i % 2,
        _ => i / 2 * 4 + stored(row, i / 2)[i % 2],
    };
    let chunks = k / if single {
        2
    } else if paired {
        8
    } else {
        4
    };
    let mut metadata = vec![0xffff_ffffu32; 32];
    for row in 0..16 {
        for chunk in 0..chunks {
            let [lane, bit] = word(row, chunk);
            let [first, second] = stored(row, chunk);
            let four = match single {
                true => [0b0100, 0b1110][first / 2],
                false => first | second << 2,
            };
            let own = &mut metadata[row % 8 * 4 + selector + lane];
            *own = *own & !(15 << bit) | (four as u32) << bit;
        }
    }
    let left =
        fragment(a, 16 * k / 64, |lane, i| of_a(lane, i, side, true), |row, i| small(row, at(row, i), 0));
    let right = fragment(b, 8 * k / 32, |lane, i| of_b(lane, i, side), |k, column| small(k, column, 1));
    let add = fragment(c, 4, OF_C, |row, column| small(row, column, 2));
    let expected = fragment(c, 4, OF_C, |row, column| {
        let kept = (0..k / 2).map(|i| at(row, i));
        let products = kept.map(|k| value(a, small(row, k, 0)) * value(b, small(k, column, 1)));
        small(row, column, 2) + products.sum::<i64>()
    });
    let count =
        |of: fn(usize, usize) -> [usize; 2]| (0..chunks).map(|chunk| of(8, chunk)[0]).max().unwrap_or(0) + 1;
    let tail = format!(", %e0, {}", selector / count(word));
    let found = mma(opcode, &tail, [&left, &right, &add], &metadata, [false; 2]);
    assert_eq!(found, expected, "{opcode} {selector}");
}

#[test]
fn sparse_products() {
    // Of 16 bits and more a word has a row in its lower half, and the one eight below in its upper half.
    let halves = |row: usize, chunk: usize| [chunk / 4, row / 8 * 16 + chunk % 4 * 4];
    // Of less, a lane has a row, and the next one that eight below.
    let whole = |row: usize, chunk: usize| [chunk / 8 * 2 + row / 8, chunk % 8 * 4];
    for ty in ["f16", "bf16"] {
        for selector in 0..4 {
            let opcode = format!("mma.sp.sync.aligned.m16n8k16.row.col.f32.{ty}.{ty}.f32");
            check_sparse(&opcode, [ty, ty, "f32"], 16, selector, halves);
        }
        for selector in [0, 2] {
            let opcode = format!("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.{ty}.{ty}.f32");
            check_sparse(&opcode, [ty, ty, "f32"], 32, selector, halves);
        }
    }
    let opcode =
        |shape: &str, rest: &str| format!("mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{rest}");
    check_sparse(&opcode("m16n8k8", "f32.tf32.tf32.f32"), ["tf32", "tf32", "f32"], 8, 3, halves);
    check_sparse(&opcode("m16n8k16", "f32.tf32.tf32.f32"), ["tf32", "tf32", "f32"], 16, 2, halves);
    check_sparse(&opcode("m16n8k32", "s32.s8.u8.s32"), ["s8", "u8", "s32"], 32, 2, whole);
    check_sparse(&opcode("m16n8k64", "s32.u8.s8.s32"), ["u8", "s8", "s32"], 64, 0, whole);
    check_sparse(&opcode("m16n8k64", "f32.e4m3.e4m3.f32"), ["e4m3", "e4m3", "f32"], 64, 0, whole);
    check_sparse(&opcode("m16n8k64", "s32.s4.u4.s32"), ["s4", "u4", "s32"], 64, 2, whole);
    check_sparse(&opcode("m16n8k128", "s32.u4.s4.s32"), ["u4", "s4", "s32"], 128, 0, whole);
}

/// A product of f64 of which lane 5, that has row 1 of A, did not write its element; the lanes of a mask store their results.
fn of_unwritten(stores: &str) -> Result<Vec<u32>, tilewright_emulator::Fault> {
    let body = format!(
        ".reg .b64 %a, %b, %c<2>, %d<2>, %at;\n.reg .b32 %t, %bit;\n.reg .pred %p, %q;\nmov.u32 %t, %tid.x;\n\
         setp.ne.u32 %p, %t, 5;\nmov.b64 %b, 0d3FF0000000000000;\n@%p mov.b64 %a, %b;\nmov.b64 %c0, 0;\nmov.b64 %c1, 0;\n\
         mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%d0, %d1}}, {{%a}}, {{%b}}, {{%c0, %c1}};\n\
         shr.u32 %bit, {stores}, %t;\nand.b32 %bit, %bit, 1;\nsetp.eq.u32 %q, %bit, 1;\n\
         mul.wide.u32 %at, %t, 16;\nadd.u64 %at, %out, %at;\n@%q st.global.v2.b64 [%at], {{%d0, %d1}};"
    );
    run(&body, 32, &[0; 128])
}

#[test]
fn what_nobody_wrote_is_in_its_row() {
    let found = of_unwritten("0xffffff0f").unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found[..2], [0, (4f64.to_bits() >> 32) as u32]);
    let fault = of_unwritten("0x80").expect_err("it has no value").to_string();
    assert!(fault.contains("nobody had written"), "{fault}");
}

#[test]
fn metadata_are_checked() {
    let sparse = |metadata: u32, ordered: &str| {
        let body = format!(
            ".reg .b32 %z, %m, %d<4>;\nmov.u32 %z, 0;\nmov.u32 %m, {metadata};\n\
             mma.sp{ordered}.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%d0, %d1, %d2, %d3}}, {{%z, %z}}, {{%z, %z}}, \
             {{%z, %z, %z, %z}}, %m, 0;"
        );
        run(&body, 32, &[0; 4]).map(|_| ()).map_err(|fault| fault.to_string())
    };
    assert_eq!(sparse(0x4444_4444, "::ordered_metadata"), Ok(()));
    // The second index before the first.
    assert_eq!(sparse(0x1111_1111, ""), Ok(()));
    let reversed = sparse(0x1111_1111, "::ordered_metadata").expect_err("it is the other order");
    assert!(reversed.contains("must be the greater one"), "{reversed}");
    let twice = sparse(0xffff_ffff, "").expect_err("the same twice");
    assert!(twice.contains("must be another one"), "{twice}");
}

#[test]
fn a_predicate_of_no_lane_leaves_an_instruction_of_the_warp_out() {
    let body = "
        .reg .pred %never, %first;\n.reg .b32 %t, %s, %r<5>;\n.reg .b64 %mine;
        mov.u32 %t, %tid.x;\nmov.u32 %s, buffer;\nmad.wide.u32 %mine, %t, 4, %out;
        mov.b32 %r0, 7;\nmov.b32 %r1, 7;\nmov.b32 %r2, 7;\nmov.b32 %r3, 7;\nmov.b32 %r4, 7;
        setp.gt.u32 %never, %t, 99;\nsetp.eq.u32 %first, %t, 0;
        @GUARD ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%s];
        @GUARD mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4}, {%r0, %r1};
        @GUARD wmma.load.a.sync.aligned.row.m16n16k16.shared.u8 {%r0, %r1}, [%s], 16;
        st.global.u32 [%mine], %r0;";
    assert_eq!(run(&body.replace("GUARD", "%never"), 32, &[0; 32]).expect("nothing is executed"), [7; 32]);
    let alone = run(&body.replace("GUARD", "%first"), 32, &[0; 32]).expect_err("one lane is not the warp");
    assert!(alone.to_string().contains("and 0x00000001 execute it"), "{alone}");
}
