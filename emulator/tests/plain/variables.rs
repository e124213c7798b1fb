//! Variables of modules.

use tilewright_emulator::{Arch, Emulator};

use crate::{load_error, module, run_on, words};

#[test]
fn have_initial_values_and_addresses() {
    let module = module(
        ".global .align 4 .u32 table[5] = {7, 8, 9};
         .const .f32 half = 0.5;
         .visible .global .u64 cursor = generic(table)+8;
         .entry k(.param .u64 out) {
            .reg .b32 %r<9>; .reg .b64 %d<9>;
            ld.param.u64 %d1, [out];
            ld.global.u32 %r1, [table+4]; st.global.u32 [%d1], %r1;
            mov.u64 %d2, table; ld.u32 %r2, [%d2]; st.global.u32 [%d1+4], %r2;
            ld.const.b32 %r3, [half]; st.global.u32 [%d1+8], %r3;
            ld.global.u64 %d3, [cursor]; ld.u32 %r4, [%d3]; st.global.u32 [%d1+12], %r4;
            ld.global.u32 %r5, [table+16]; st.global.u32 [%d1+16], %r5;
            mov.u64 %d4, table+4; cvta.global.u64 %d4, %d4; ld.u32 %r6, [%d4]; st.global.u32 [%d1+20], %r6;
            ret;
         }",
    );
    assert_eq!(words(&module, 1, 6), [8, 7, 0.5f32.to_bits(), 9, 0, 8]);
}

#[test]
fn live_as_long_as_the_emulator() {
    let text = ".global .u32 count; .entry k(.param .u64 out) { .reg .b32 %r; .reg .b64 %d;
        ld.param.u64 %d, [out]; atom.global.add.u32 %r, [count], 3; st.global.u32 [%d], %r; ret; }";
    let (first, second) = (module(text), module(text));
    let emulator = Emulator::new(Arch::Sm90a);
    let count = |module| run_on(&emulator, module, 1, 1).unwrap()[0];
    assert_eq!([count(&first), count(&first), count(&second), count(&first)], [0, 3, 0, 6]);
    let (address, bytes) = emulator.variable(&first, "count").unwrap();
    emulator.write(address, &100u32.to_le_bytes()).unwrap();
    assert_eq!((bytes, count(&first), count(&second)), (4, 100, 3));
    assert_eq!(words(&first, 1, 1), [0], "another device has a variable of its own");
    assert!(emulator.free(address).is_err());
    let error = emulator.variable(&first, "other").unwrap_err();
    assert_eq!((emulator.used(), &*error.what), (4 * 6, "the module has no variable `other`"));
}

#[test]
fn have_bounds() {
    let module = module(
        ".global .u32 a[2]; .global .u32 b; .entry k(.param .u64 out) { .reg .b32 %r; ld.global.u32 %r, [a+8]; ret; }",
    );
    let message = run_on(&Emulator::new(Arch::Sm90a), &module, 1, 1).unwrap_err().to_string();
    assert!(message.contains("out of bounds"), "{message}");
}

#[test]
fn that_cannot_be_are_errors_at_load() {
    assert_eq!(
        load_error(".extern .global .u32 x;"),
        "PTX line 2: variable `x` is declared `.extern`: modules are not linked"
    );
    assert_eq!(load_error(".global .u32 x;\n.global .u32 x;"), "PTX line 3: variable `x` is declared twice");
    assert_eq!(
        load_error(".global .u64 x = y;"),
        "PTX line 2: `y` is no variable or function with an address"
    );
    assert!(load_error(".const .b8 x[65537];").contains("constant memory"));
}
