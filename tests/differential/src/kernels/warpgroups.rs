//! `wgmma.mma_async`.
//!
//! Shared memory is full of elements, so that any descriptor whose addresses lie in it names two matrices: where each
//! element is read from shows in the products.

use super::elements::{Each, Element};
use super::products::{Data, addend, agreement};
use super::sparse::metadata;
use super::{Kernel, bytes, registers, store};
use crate::random::Random;

/// Shared memory that descriptors may name.
const SHARED: usize = 96 << 10;

/// One operand in shared memory.
#[derive(Clone, Copy, Debug)]
struct Operand {
    start: usize,
    leading: usize,
    stride: usize,
    base_offset: usize,
    /// 0: none, 1: 128 bytes, 2: 64, 3: 32.
    swizzle: usize,
}

impl Operand {
    /// All but the start's place in shared memory.
    fn bits(self) -> u64 {
        let field = |bytes: usize| (bytes as u64 & 0x3_ffff) >> 4;
        field(self.start)
            | field(self.leading) << 16
            | field(self.stride) << 32
            | (self.base_offset as u64) << 49
            | (self.swizzle as u64) << 62
    }
}

/// One form.
#[derive(Clone, Copy, Debug)]
struct Form {
    n: usize,
    a: Element,
    b: Element,
    accumulator: &'static str,
    /// `None`: in registers.
    at_a: Option<Operand>,
    at_b: Operand,
    trans: [usize; 2],
    negate: [i32; 2],
    scale: bool,
    data: Data,
}

pub(super) fn kernels() -> Vec<Kernel> {
    use Element::*;
    let mut random = Random::new(4);
    let mut forms = Vec::new();
    let packed = Operand { start: 0, leading: 128, stride: 256, base_offset: 0, swizzle: 0 };
    let tile = |swizzle: usize, start: usize| Operand {
        start,
        leading: 16,
        stride: [256, 1024, 512, 256][swizzle],
        base_offset: 0,
        swizzle,
    };
    let plain = Form {
        n: 64,
        a: F16,
        b: F16,
        accumulator: "f32",
        at_a: Some(packed),
        at_b: Operand { start: 16384, ..packed },
        trans: [0, 0],
        negate: [1, 1],
        scale: true,
        data: Data::Whole,
    };
    // Every type, with sums that are exact and that are not.
    let f8 = [E4m3, E5m2].into_iter().flat_map(|a| [(a, E4m3), (a, E5m2)]);
    let bytes = [S8, U8].into_iter().flat_map(|a| [(a, S8), (a, U8)]);
    let types = [(F16, F16), (Bf16, Bf16), (Tf32, Tf32)].into_iter().chain(f8).chain(bytes);
    for (a, b) in types {
        let accumulators: &[&str] = match a {
            F16 | E4m3 | E5m2 => &["f32", "f16"],
            S8 | U8 => &["s32", "s32.satfinite"],
            _ => &["f32"],
        };
        for &accumulator in accumulators {
            for data in [Data::Whole, Data::Fractions] {
                for at_a in [plain.at_a, None] {
                    forms.push(Form { a, b, accumulator, data, at_a, n: 32, ..plain });
                }
            }
        }
    }
    for n in [8, 16, 24, 40, 72, 96, 128, 136, 192, 200, 248, 256] {
        forms.push(Form { n, ..plain });
        forms.push(Form { n, at_b: tile(1, 16384), at_a: Some(tile(1, 0)), ..plain });
    }
    for n in [8, 24, 48, 96, 224, 256] {
        forms.push(Form { n, a: S8, b: U8, accumulator: "s32", ..plain });
    }
    // K-major: every swizzle, steps along K inside of a tile, other strides, tiles that begin off their pattern.
    for swizzle in 1..4 {
        let span = [16, 128, 64, 32][swizzle];
        for step in (0..span).step_by(32) {
            let (at_a, at_b) = (Some(tile(swizzle, step)), tile(swizzle, 16384 + step));
            forms.push(Form { at_a, at_b, ..plain });
        }
        let wide = Operand { stride: tile(swizzle, 0).stride * 2, ..tile(swizzle, 16384) };
        forms.push(Form { at_a: Some(tile(swizzle, 2048)), at_b: wide, ..plain });
        for rows in 1..8 {
            // A start that is no multiple of the pattern's, and what says so.
            let off = |start: usize| Operand { base_offset: rows, ..tile(swizzle, start + rows * 128) };
            forms.push(Form { at_a: Some(off(0)), at_b: off(16384), ..plain });
        }
    }
    let odd = Operand { start: 16384 + 48, leading: 2064, stride: 4128, ..packed };
    forms.push(Form { at_b: odd, n: 64, ..plain });
    forms.push(Form { at_a: Some(Operand { start: 4096, ..odd }), n: 128, ..plain });
    // M- and N-major.
    for (trans, swizzle) in [[1, 0], [0, 1], [1, 1]].into_iter().flat_map(|t| (0..4).map(move |s| (t, s))) {
        for (leading, stride) in [(1024, 2048), (4096, 1024), (2048, 8192)] {
            let operand = |start, transposed| match (transposed, swizzle) {
                (1, _) => Operand { start, leading, stride, base_offset: 0, swizzle },
                _ => tile(swizzle, start),
            };
            let (at_a, at_b) = (Some(operand(0, trans[0])), operand(32768, trans[1]));
            // Without a swizzle, 256 columns lie 31 strides apart.
            let most = if stride > 2048 && swizzle == 0 { 64 } else { 256 };
            for (a, n) in [(F16, 64), (Bf16, 24), (F16, most)] {
                forms.push(Form { a, b: a, n, at_a, at_b, trans, ..plain });
            }
        }
        if swizzle > 0 && trans[1] == 1 {
            let at_b = Operand { start: 32768, leading: 4096, stride: 1024, base_offset: 0, swizzle };
            forms.push(Form { at_a: None, at_b, trans: [0, 1], ..plain });
        }
    }
    for negate in [[-1, 1], [1, -1], [-1, -1]] {
        forms.push(Form { negate, ..plain });
        forms.push(Form { negate, at_a: None, a: Bf16, b: Bf16, ..plain });
        forms.push(Form { negate, a: E4m3, b: E5m2, ..plain });
    }
    forms.push(Form { scale: false, ..plain });
    forms.push(Form { scale: false, accumulator: "f16", at_a: None, ..plain });
    let mut kernels: Vec<_> = forms.iter().map(|form| kernel(form, None, &mut random)).collect();
    kernels
        .extend(of_sparse(plain).iter().map(|(form, selector)| kernel(form, Some(*selector), &mut random)));
    kernels
}

/// With a sparse A, whose rows B's are twice as long as, and which lanes have its metadata.
fn of_sparse(plain: Form) -> Vec<(Form, usize)> {
    use Element::*;
    let long = Operand { start: 16384, leading: 128, stride: 512, base_offset: 0, swizzle: 0 };
    let plain = Form { at_b: long, n: 32, ..plain };
    let mut forms = Vec::new();
    for (a, b, accumulator) in [
        (F16, F16, "f32"),
        (F16, F16, "f16"),
        (Bf16, Bf16, "f32"),
        (Tf32, Tf32, "f32"),
        (E4m3, E5m2, "f32"),
        (E5m2, E4m3, "f16"),
        (S8, U8, "s32"),
        (U8, S8, "s32.satfinite"),
    ] {
        // Of 8 bits all lanes have metadata.
        for selector in 0..if a.bits() == 8 { 1 } else { 2 } {
            for data in [Data::Whole, Data::Fractions] {
                for at_a in [plain.at_a, None] {
                    forms.push((Form { a, b, accumulator, data, at_a, ..plain }, selector));
                }
            }
        }
    }
    for swizzle in 0..4 {
        let stride = [256, 1024, 512, 256][swizzle];
        let rows = Operand { start: 0, leading: 128, stride, base_offset: 0, swizzle };
        let columns = Operand { start: 32768, leading: 1024, stride: 2048, base_offset: 0, swizzle };
        // Rows of B are of 64 bytes, and no longer than a swizzle's.
        if swizzle != 3 {
            let at_b = if swizzle == 0 { long } else { Operand { start: 16384, ..rows } };
            forms.push((Form { at_a: Some(rows), at_b, n: 64, ..plain }, 0));
        }
        forms.push((Form { at_a: Some(rows), at_b: columns, trans: [0, 1], ..plain }, 1));
        let at_a = Some(Operand { start: 0, ..columns });
        forms.push((Form { at_a, at_b: columns, trans: [1, 1], ..plain }, 0));
    }
    for n in [8, 96, 256] {
        forms.push((Form { n, ..plain }, 0));
    }
    forms.push((Form { negate: [-1, 1], ..plain }, 0));
    forms.push((Form { scale: false, ..plain }, 0));
    forms
}

/// With a sparse A, `sparse` is which lanes have its metadata.
fn kernel(form: &Form, sparse: Option<usize>, random: &mut Random) -> Kernel {
    let Form { n, a, b, at_a, at_b, trans, negate, scale, data, .. } = *form;
    let (accumulator, saturate) = match form.accumulator.split_once('.') {
        Some((accumulator, _)) => (accumulator, ".satfinite"),
        None => (form.accumulator, ""),
    };
    let k = 256 / a.bits() as usize * if sparse.is_some() { 2 } else { 1 };
    let each: Each = if data == Data::Whole { Element::small } else { Element::any };
    // A and its like are in the first part, where their descriptors point.
    let middle = if at_b.start >= 32768 { 32768 } else { 16384 };
    let mut words = a.words(middle / 4, random, each);
    words.extend(b.words((SHARED - middle) / 4, random, each));
    let count = if accumulator == "f16" { n / 4 } else { n / 2 };
    words.extend(addend(accumulator, 128 * count, data, random));
    words.extend(a.words(128 * 4, random, each));
    if sparse.is_some() {
        words.extend(metadata(a, 128, random));
    }

    let first = 8;
    let mut body = String::new();
    let place = SHARED;
    body += &format!("mad.wide.u32 %at, %thread, 4, %in;\nadd.u64 %at, %at, {place};\n");
    for i in 0..count {
        body += &format!("ld.global.b32 %r{}, [%at+{}];\n", first + i, i * 512);
    }
    for i in 0..4 {
        body += &format!("ld.global.b32 %r{}, [%at+{}];\n", i, (count + i) * 512);
    }
    let (mark, of_sparse) = match sparse {
        Some(selector) => {
            body += &format!("ld.global.b32 %r4, [%at+{}];\n", (count + 4) * 512);
            (".sp", format!("%r4, {selector}, "))
        }
        None => ("", String::new()),
    };
    body += "cvt.u64.u32 %d0, %shared;\nshr.u64 %d0, %d0, 4;\n";
    body += &format!("add.u64 %d2, %d0, {:#x};\n", at_b.bits());
    let operand_a = match at_a {
        Some(at_a) => {
            body += &format!("add.u64 %d1, %d0, {:#x};\n", at_a.bits());
            "%d1".to_owned()
        }
        None => format!("{{{}}}", registers(0, 4)),
    };
    let mut constants = String::new();
    if !a.is_integer() {
        constants += &format!(", {}, {}", negate[0], negate[1]);
        if a.bits() == 16 {
            constants += &if at_a.is_some() {
                format!(", {}, {}", trans[0], trans[1])
            } else {
                format!(", {}", trans[1])
            };
        }
    }
    body += &format!("setp.ne.u32 %p0, {}, 0;\n", u32::from(scale));
    body += "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n";
    body += &format!(
        "wgmma.mma_async{mark}.sync.aligned.m64n{n}k{k}{saturate}.{accumulator}.{}.{} {{{}}}, {operand_a}, %d2, \
         {of_sparse}%p0{constants};\n",
        a.name(),
        b.name(),
        registers(first, count)
    );
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    body += &store(first, count, 0);
    let of = sparse.map_or(String::new(), |selector| format!(", sparse by lanes {selector}"));
    let mut kernel = Kernel::new(format!("wgmma {form:?}{of}"), count, body).threads(128).input(bytes(words));
    kernel.filled = SHARED;
    kernel.launch.dynamic_shared = SHARED as u32;
    kernel.agreement = agreement(a, accumulator, data, k);
    kernel
}
