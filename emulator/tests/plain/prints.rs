//! `vprintf`, and traps after it.

use tilewright_emulator::{Arch, Emulator, Fault, FaultKind, Launch, Module};

use crate::module;

/// A kernel that prints its CTA, its thread and a number, and then does this.
fn kernel(after: &str) -> Module {
    let text = "CTA %d, thread %2u: %.3f of %s, %lld\n\0";
    // What one kind of fault says, of whatever kind a fault is that repeats it.
    let name = "pie: out of bounds\0";
    let bytes = |text: &str| text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    module(&format!(
        ".extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
         .global .align 1 .b8 text[{}] = {{{}}};
         .const .align 1 .b8 name[{}] = {{{}}};
         .visible .entry k(.param .u64 out)
         {{
         .local .align 8 .b8 arguments[40];
         .reg .pred %p1; .reg .b32 %r<4>, %t; .reg .f64 %f1; .reg .b64 %d<9>;
         mov.u32 %r1, %ctaid.x; mov.u32 %t, %tid.x;
         setp.ge.u32 %p1, %t, 2; @%p1 bra END;
         mov.u64 %d1, arguments; cvta.local.u64 %d2, %d1;
         mov.u64 %d3, text; cvta.global.u64 %d3, %d3;
         mov.u64 %d4, name; cvta.const.u64 %d4, %d4;
         mov.f64 %f1, 0d3FF8000000000000; mov.u64 %d5, -7;
         st.local.u32 [%d1], %r1; st.local.u32 [%d1+4], %t; st.local.f64 [%d1+8], %f1;
         st.local.u64 [%d1+16], %d4; st.local.u64 [%d1+24], %d5;
         {{ .param .b64 a; .param .b64 b; .param .b32 c;
         st.param.b64 [a], %d3; st.param.b64 [b], %d2;
         call.uni (c), vprintf, (a, b); ld.param.b32 %r2, [c]; }}
         ld.param.u64 %d6, [out]; st.global.u32 [%d6], %r2;
         {after}
         END: ret;
         }}",
        text.len(),
        bytes(text),
        name.len(),
        bytes(name),
    ))
}

/// Launches two CTAs of 32 threads; what they printed, the word that they wrote, and what went wrong.
fn launched(after: &str) -> (String, u32, Option<Fault>) {
    // Clusters that run in parallel print in their order all the same.
    let emulator = Emulator::new(Arch::Sm90a).echoing(false).checking_order(false);
    let out = emulator.allocate(4).unwrap();
    let launch = Launch { grid: [2, 1, 1], threads: [32, 1, 1], ..Launch::default() };
    let done = emulator.launch(&kernel(after).kernel("k").unwrap(), &launch, &out.to_le_bytes());
    let mut word = [0; 4];
    emulator.read(out, &mut word).unwrap();
    let printed = emulator.printed();
    assert_eq!(emulator.printed(), "", "it is given once");
    (printed, u32::from_le_bytes(word), done.err())
}

#[test]
fn print_their_arguments() {
    let (printed, arguments, fault) = launched("");
    let line = |cta, thread| format!("CTA {cta}, thread {thread:2}: 1.500 of pie: out of bounds, -7\n");
    assert_eq!(printed, [line(0, 0), line(0, 1), line(1, 0), line(1, 1)].concat());
    assert_eq!((arguments, fault), (5, None));
}

#[test]
fn say_why_they_trap() {
    let (printed, _, fault) = launched("setp.eq.u32 %p1, %r1, 1; @%p1 trap;");
    assert_eq!(printed.lines().count(), 4, "{printed}");
    let fault = fault.expect("it traps");
    let expected = "trap: the kernel stopped itself, after it said `CTA 1, thread  0: 1.500 of pie: out of bounds, -7`: kernel k, CTA (1, 0, 0), thread 0";
    assert!(fault.to_string().starts_with(expected), "{fault}");
    assert_eq!(fault.kind, FaultKind::Trap, "{fault}");
}

#[test]
fn read_texts_that_are_there() {
    let text = "mov.u64 %d3, 4096; { .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], %d3;
        st.param.b64 [b], %d2; call.uni (c), vprintf, (a, b); }";
    let (_, _, fault) = launched(text);
    let fault = fault.expect("there is no text at 4096");
    assert!(
        fault.what == "1 bytes of global memory at 0x1000: not allocated"
            && fault.to_string().contains("vprintf"),
        "{fault}"
    );
    assert_eq!(fault.kind, FaultKind::Address, "{fault}");
}
