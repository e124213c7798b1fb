//! Functions, calls, indirect branches, and arithmetic with a carry.

use tilewright_emulator::{Arch, Emulator};

use crate::{load_error, module, run_on, words};

/// A kernel of this body: `%out` is the address of its memory, `%t` the thread, `%mine` the thread's word.
fn kernel(functions: &str, body: &str) -> tilewright_emulator::Module {
    module(&format!(
        "{functions}\n.visible .entry k(.param .u64 out)\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<20>, %t;\n\
         .reg .b64 %d<20>, %out, %mine;\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
         mad.wide.u32 %mine, %t, 4, %out;\n{body}\nret;\n}}"
    ))
}

const ADD: &str = ".func (.param .b32 r) add(.param .b32 a, .param .b32 b) {
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; add.u32 %r3, %r1, %r2; st.param.b32 [r+0], %r3; ret; }";

#[test]
fn pass_arguments_and_results() {
    let call = "{ .param .b32 x; .param .b32 y; .param .b32 z; st.param.b32 [x], %t; st.param.b32 [y+0], 100;
        call.uni (z), add, (x, y); ld.param.b32 %r1, [z+0]; }
        st.global.u32 [%mine], %r1;";
    assert_eq!(words(&kernel(ADD, call), 4, 4), [100, 101, 102, 103]);
    // In registers, as older code has it; the function is declared before it is defined.
    let registers = ".func (.reg .u32 r) twice(.reg .u32 a);
        .func (.reg .u32 r) twice(.reg .u32 a) { .reg .u32 b; add.u32 b, a, a; mov.u32 r, b; ret; }";
    let call = "call (%r1), twice, (%t); call (%r1), twice, (%r1); call (%r2), twice, (5);
        add.u32 %r1, %r1, %r2; st.global.u32 [%mine], %r1;";
    assert_eq!(words(&kernel(registers, call), 3, 3), [10, 14, 18]);
}

#[test]
fn return_to_where_each_lane_came_from() {
    // Odd lanes call from one place, even ones from another, some not at all; all meet at the shuffle.
    let body = "and.b32 %r1, %t, 1; setp.eq.u32 %p1, %r1, 1; setp.gt.u32 %p2, %t, 29; mov.u32 %r3, 7;
        @%p2 bra MEET;
        @%p1 bra ODD;
        call (%r3), add, (%t, 1000); bra MEET;
        ODD: call (%r3), add, (%t, 2000);
        MEET: shfl.sync.bfly.b32 %r4, %r3, 1, 0x1f, -1; st.global.u32 [%mine], %r4;";
    let value = |t: u32| {
        if t > 29 {
            7
        } else if t % 2 == 1 {
            t + 2000
        } else {
            t + 1000
        }
    };
    let expected: Vec<_> = (0..32).map(|t: u32| value(t ^ 1)).collect();
    assert_eq!(words(&kernel(ADD, body), 32, 32), expected);
}

#[test]
fn call_themselves_with_frames_of_their_own() {
    // The factorial, through a pointer to a variable of each caller.
    let factorial = ".func factorial(.param .b32 n, .param .b64 to) {
        .reg .pred %p; .reg .b32 %n, %m; .reg .b64 %to, %own; .local .align 4 .b32 own;
        ld.param.b32 %n, [n]; ld.param.b64 %to, [to];
        setp.gt.u32 %p, %n, 1; @!%p bra ONE;
        mov.u64 %own, own; cvta.local.u64 %own, %own; sub.u32 %m, %n, 1;
        { .param .b32 a; .param .b64 b; st.param.b32 [a], %m; st.param.b64 [b], %own; call factorial, (a, b); }
        ld.local.u32 %m, [own]; mul.lo.u32 %m, %m, %n; st.u32 [%to], %m; ret;
        ONE: st.u32 [%to], 1; ret; }";
    let body = "add.u32 %r1, %t, 3; call factorial, (%r1, %mine);";
    assert_eq!(words(&kernel(factorial, body), 4, 4), [6, 24, 120, 720]);
    let message =
        run_on(&Emulator::new(Arch::Sm90a), &kernel(factorial, "call factorial, (1000000, %mine);"), 1, 1)
            .unwrap_err()
            .to_string();
    assert!(message.contains("call of `factorial` at a depth of") && message.contains("stack"), "{message}");
}

#[test]
fn are_called_by_address() {
    let functions = format!(
        "{ADD} .func (.param .b32 r) sub(.param .b32 a, .param .b32 b) {{ .reg .b32 %r<4>;
         ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; sub.u32 %r3, %r1, %r2; st.param.b32 [r], %r3; ret; }}
         .global .u64 table[2] = {{add, sub}};"
    );
    let body = "p: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
        and.b32 %r1, %t, 1; mov.u64 %d1, table; mad.wide.u32 %d1, %r1, 8, %d1; ld.global.u64 %d2, [%d1];
        call (%r2), %d2, (%t, 3), p; st.global.u32 [%mine], %r2;";
    assert_eq!(words(&kernel(&functions, body), 4, 4), [3, 1u32.wrapping_sub(3), 5, 0]);
    let wrong = "p: .callprototype (.param .b32 _) _ (.param .b32 _);
        mov.u64 %d2, add; call (%r2), %d2, (%t), p;";
    let message = run_on(&Emulator::new(Arch::Sm90a), &kernel(ADD, wrong), 1, 1).unwrap_err().to_string();
    assert!(message.contains("call of `add` with other parameters"), "{message}");
    let nowhere = "p: .callprototype _ (); mov.u64 %d2, 64; call %d2, p;";
    let message = run_on(&Emulator::new(Arch::Sm90a), &kernel(ADD, nowhere), 1, 1).unwrap_err().to_string();
    assert!(message.contains("0x40, where no function begins"), "{message}");
}

#[test]
fn have_other_names() {
    let functions =
        format!(".func (.param .b32 r) plus(.param .b32 a, .param .b32 b);\n{ADD}\n.alias plus, add;");
    // By its name, by its address, and from a list.
    let body = "call (%r1), plus, (%t, 3); call (%r1), add, (%r1, 10); mov.u64 %d1, plus; mov.u64 %d2, add; setp.ne.u64 %p1, %d1, %d2;
        @%p1 trap; list: .calltargets add, plus; call (%r2), %d1, (%r1, 100), list; st.global.u32 [%mine], %r2;";
    assert_eq!(words(&kernel(&functions, body), 3, 3), [113, 114, 115]);
    let load = |text: &str| {
        load_error(&format!("{ADD} .func other() {{ ret; }} .entry k() {{ .reg .b64 %d; {text} }}"))
    };
    let list = "mov.u64 %d, add; l: .calltargets add, other; call %d, l;";
    assert!(load(list).contains("`other` has other parameters or results than the list's first function"));
    assert!(load("mov.u64 %d, add; l: .calltargets none; call %d, l;").contains("`none` is no function"));
}

#[test]
fn branches_take_the_label_of_their_index() {
    let body = "targets: .branchtargets A, B, C; mov.u32 %r2, 0; rem.u32 %r1, %t, 3;
        brx.idx %r1, targets;
        A: add.u32 %r2, %r2, 1;
        B: add.u32 %r2, %r2, 10; bra C;
        C: add.u32 %r2, %r2, 100; st.global.u32 [%mine], %r2;";
    assert_eq!(words(&kernel("", body), 6, 6), [111, 110, 100, 111, 110, 100]);
    let body = "targets: .branchtargets A; brx.idx %t, targets; A: ret;";
    let message = run_on(&Emulator::new(Arch::Sm90a), &kernel("", body), 2, 2).unwrap_err().to_string();
    assert!(message.contains("brx.idx with index 1, where there are 1 targets"), "{message}");
}

#[test]
fn carries_go_from_one_instruction_to_the_next() {
    // 0xffffffff_00000000 + 0x1_ffffffff + t, in halves; a difference; a product of 32 by 32 bits, added to 64.
    let body = "add.cc.u32 %r1, 0, 0xffffffff; addc.cc.u32 %r2, 0xffffffff, 1; addc.u32 %r3, 0, 0;
        sub.cc.u32 %r4, %t, 1; subc.u32 %r5, 5, 0;
        mad.lo.cc.u32 %r6, 0xffffffff, 0xffffffff, 0xffffffff; madc.hi.u32 %r7, 0xffffffff, 0xffffffff, 7;
        mad.hi.cc.s32 %r8, -1, 5, 0; addc.u32 %r9, 0, 0;
        add.cc.u64 %d1, -1, 1; addc.u64 %d2, 5, 0;
        cvt.u32.u64 %r10, %d2; sub.cc.u32 %r11, 5, 3; addc.u32 %r12, 10, 0; sub.cc.u32 %r11, 3, 5; addc.u32 %r13, 10, 0;
        st.global.v4.u32 [%out], {%r1, %r2, %r3, %r4}; st.global.v4.u32 [%out+16], {%r5, %r6, %r7, %r8};
        st.global.v4.u32 [%out+32], {%r9, %r10, %r12, %r13};";
    let product = (u64::from(u32::MAX) * u64::from(u32::MAX)) + u64::from(u32::MAX);
    assert_eq!(
        words(&kernel("", body), 1, 12),
        [
            u32::MAX,
            0,
            1,
            u32::MAX,
            4,
            product as u32,
            ((product >> 32) as u32).wrapping_add(7),
            u32::MAX,
            0,
            6,
            11,
            10
        ]
    );
}

#[test]
fn that_cannot_be_are_errors_at_load() {
    let error = |text: &str| load_error(&format!(".extern .func f(.param .b32 a);\n{text}"));
    assert_eq!(
        error(".entry k() {\ncall f, (1); }"),
        "PTX line 4: call: function `f` is only declared: modules are not linked"
    );
    assert!(error(".func f() { ret; }").contains("other parameters or results"));
    assert!(error(".entry k() { call g; }").contains("`g` is no function"));
    assert!(
        error(".func g(.param .b64 a) { ret; } .entry k() { call g; }").contains("has 1 parameters, not 0")
    );
    assert!(
        error(".func g(.param .b64 a) { ret; } .entry k() { .param .b32 x; call g, (x); }")
            .contains("4 bytes, where 8")
    );
    // A function that nobody calls is looked at too.
    assert!(error(".func g() {\nfrob; }").contains("line 4: frob"));
}

#[test]
fn take_memory_from_their_stacks() {
    // Each thread takes as much as it likes; what is given back is taken again, by a function when it returns.
    let function = ".func (.param .b32 r) sum(.param .b32 count) {
        .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<3>;
        ld.param.u32 %r1, [count]; mul.lo.u32 %r2, %r1, 4; alloca.u32 %r3, %r2; mov.u32 %r4, 0; mov.u32 %r5, 0;
        FILL: mad.lo.u32 %r6, %r4, 4, %r3; st.local.u32 [%r6], %r4; add.u32 %r4, %r4, 1;
        setp.lt.u32 %p1, %r4, %r1; @%p1 bra FILL;
        ADD: sub.u32 %r4, %r4, 1; mad.lo.u32 %r6, %r4, 4, %r3; ld.local.u32 %r7, [%r6]; add.u32 %r5, %r5, %r7;
        setp.ne.u32 %p1, %r4, 0; @%p1 bra ADD;
        st.param.b32 [r], %r5; ret; }";
    let body = "add.u32 %r1, %t, 1; alloca.u64 %d1, 5; st.local.u32 [%d1], %t;
        stacksave.u64 %d2; cvt.u64.u32 %d3, %r1; alloca.u64 %d4, %d3, 256; and.b64 %d5, %d4, 255; cvt.u32.u64 %r2, %d5;
        st.local.u8 [%d4], %t; stackrestore.u64 %d2;
        alloca.u64 %d6, 8, 256; sub.u64 %d6, %d6, %d4; cvt.u32.u64 %r3, %d6; stackrestore.u64 %d2;
        call (%r4), sum, (%r1); call (%r5), sum, (100); add.u32 %r4, %r4, %r5;
        stacksave.u64 %d7; sub.u64 %d7, %d7, %d2; cvt.u32.u64 %r5, %d7;
        ld.local.u32 %r6, [%d1]; sub.u32 %r6, %r6, %t;
        or.b32 %r2, %r2, %r3; or.b32 %r2, %r2, %r5; or.b32 %r2, %r2, %r6; shl.b32 %r2, %r2, 16; or.b32 %r4, %r4, %r2;
        st.global.u32 [%mine], %r4;";
    let expected: Vec<u32> = (0..32).map(|t| t * (t + 1) / 2 + 4950).collect();
    assert_eq!(words(&kernel(function, body), 32, 32), expected);
}

#[test]
fn have_stacks_that_end() {
    for size in ["20000", "0xfffffff0", "0xffffffffffffffff"] {
        let body = format!("mov.u64 %d2, {size}; alloca.u64 %d1, %d2; st.local.u32 [%d1+16384], %t;");
        let fault = run_on(&Emulator::new(Arch::Sm90a), &kernel("", &body), 1, 1).expect_err("too much");
        assert!(fault.what.contains("bytes of local memory at"), "{size}: {fault}");
    }
    let text = "alloca.u64 %d1, 8, 24;";
    let error = load_error(&format!(".visible .entry k() {{ .reg .b64 %d<2>; {text} ret; }}"));
    assert!(error.contains("an alignment of 24"), "{error}");
}
