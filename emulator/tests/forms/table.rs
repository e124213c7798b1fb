//! Tables of instructions: a line of one stands for several.

/// What a form may name: registers by their types, variables, labels and functions.
const HEAD: &str = ".version 9.0\n.target sm_90a\n.address_size 64\n\
    .global .align 128 .b8 table[1024];\n.const .align 16 .b32 fixed[16];\n\
    .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n\
    .extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n\
    .extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n\
    .func (.param .b32 r) function(.param .b64 a) { .reg .b32 %r; mov.u32 %r, 1; st.param.b32 [r], %r; ret; }\n\
    .visible .entry k(.param .u64 out, .param .align 64 .b8 map[128])\n{\n\
    .reg .pred %p<10>;\n.reg .b8 %b<4>;\n.reg .b16 %h<16>;\n.reg .b32 %r<256>;\n.reg .b64 %d<32>;\n.reg .b128 %q<4>;\n\
    .shared .align 1024 .b8 buffer[4096];\n.local .align 16 .b8 stack[64];\n\
    list: .branchtargets L;\nproto: .callprototype (.param .b32 _) _ (.param .b64 _);\n";

/// A module with a kernel that has this form.
pub fn kernel(form: &str) -> String {
    format!("{HEAD}{form}\nL: ret;\n}}\n")
}

/// The forms that a line stands for: each choice of its alternatives, `<a|b>`, with lists of registers written out:
/// `%r[0-3]` is `{%r0, %r1, %r2, %r3}`.
pub fn expand(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once('<') else { return vec![lists(line)] };
    let (choices, after) = rest.split_once('>').expect("the alternatives end");
    choices.split('|').flat_map(|choice| expand(&format!("{before}{choice}{after}"))).collect()
}

fn lists(form: &str) -> String {
    // An address has a space before its bracket.
    let begins = |at: &usize| form[..*at].ends_with(|last: char| last.is_ascii_alphabetic());
    let Some(at) = form.match_indices('[').map(|(at, _)| at).find(begins) else { return form.to_owned() };
    let (range, after) = form[at + 1..].split_once(']').expect("the list ends");
    let (first, last) = range.split_once('-').expect("a first and a last");
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let (start, register) = form[..at].split_at(form[..at].rfind('%').expect("a register"));
    let registers: Vec<_> = (number(first)..=number(last)).map(|i| format!("{register}{i}")).collect();
    lists(&format!("{start}{{{}}}{after}", registers.join(", ")))
}
