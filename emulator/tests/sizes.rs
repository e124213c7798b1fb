//! Texts that ask for too much: sizes that are too large or wrap, what is nested too deep, and long chains.

use std::time::{Duration, Instant};

use tilewright_emulator::{Arch, Emulator, Launch, Limits, Module};

const HEAD: &str = ".version 8.1\n.target sm_90a\n.address_size 64\n";

fn load(text: &str) -> Result<Module, String> {
    let start = Instant::now();
    let loaded = Module::load(&format!("{HEAD}{text}")).map_err(|error| error.to_string());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    loaded
}

/// A kernel with this body is not loaded, for these words.
#[track_caller]
fn refused(text: &str, words: &str) {
    let error = load(text).err().unwrap_or_else(|| panic!("loaded: {}", &text[..text.len().min(200)]));
    assert!(error.contains(words) && error.len() < 400, "`{words}` is not in: {error}");
}

fn entry(body: &str) -> String {
    format!(".visible .entry k()\n{{\n{body}\nret;\n}}\n")
}

/// What is wrong when kernel `k` is launched without parameters, with so much memory.
fn launched(memory: u64, text: &str, launch: &Launch) -> Result<(), String> {
    let kernel = load(text).unwrap_or_else(|error| panic!("{error}")).kernel("k").expect("it is called so");
    let emulator = Emulator::new(Arch::Sm90a).with_limits(Limits { memory, ..Limits::default() });
    emulator.launch(&kernel, launch, &[]).map(|_| ()).map_err(|fault| fault.to_string())
}

#[test]
fn registers() {
    for count in ["4294967295", "1048577", "2000000000"] {
        refused(&entry(&format!(".reg .b32 %x<{count}>;")), "`%x`: a kernel has at most 1048576 registers");
        refused(&entry(&format!(".reg .pred %x<{count}>;")), "`%x`: a kernel has at most 1048576 registers");
    }
    refused(&entry(".reg .b32 %x<1048576>;\n.reg .b32 %y;"), "`%y`: a kernel has at most 1048576 registers");
    refused(&entry(".reg .b32 %x<1000000000>, %y<4000000000>;"), "a kernel has at most 1048576 registers");
    // What can be loaded may be more than there is memory for.
    let large = entry(".reg .b32 %x<100000>;\nmov.u32 %x0, 1;");
    let launch = Launch { threads: [1024, 1, 1], ..Launch::default() };
    assert!(launched(256 << 20, &large, &launch).unwrap_err().starts_with("out of memory: a cluster"));
    launched(512 << 20, &large, &launch).unwrap();
    // Lists of targets are as long as that for each branch.
    let labels: Vec<String> = (0..5000).map(|i| format!("L{i}")).collect();
    let branches = |count: usize| {
        let list = format!("LIST: .branchtargets {};\n", labels.join(", "));
        let branches = "brx.idx %r, LIST;\n".repeat(count);
        entry(&format!(".reg .b32 %r;\nmov.u32 %r, 0;\n{list}{branches}{}:", labels.join(":\n")))
    };
    refused(&branches(5000), "the module has more than 16777216 instructions, registers and names");
    load(&branches(50)).unwrap();
}

#[test]
fn variables() {
    for space in ["local", "shared"] {
        for size in
            ["4294967295", "4294967296", "18446744073709551615", "1073741825", "4611686018427387905][4"]
        {
            refused(&entry(&format!(".{space} .align 4 .b8 x[{size}];")), "variable `x` is too large");
        }
        refused(
            &entry(&format!(".{space} .align 2147483648 .b8 x[4];\n.{space} .align 2147483648 .b8 y[4];")),
            "too large",
        );
        refused(
            &entry(&format!(".{space} .b8 x[1073741820];\n.{space} .b8 y[8];")),
            "variable `y` is too large",
        );
    }
    for size in ["1073741825", "4294967295", "18446744073709551615"] {
        refused(
            &format!(".visible .entry k(.param .b8 x[{size}])\n{{\nret;\n}}\n"),
            "variable `x` is too large",
        );
        refused(&format!(".func f(.param .b8 x[{size}])\n{{\nret;\n}}\n"), "`x`");
    }
    for size in ["18446744073709551615", "18446744073709551400", "68719476737", "9223372036854775808"] {
        refused(&format!(".global .align 1 .b8 x[{size}];"), "variable `x` is too large");
    }
    refused(".global .b8 x[40000000000];\n.global .b8 y[40000000000];", "variable `y` is too large");
    let launch = Launch::default();
    let local = |bytes: u32| entry(&format!(".local .align 4 .b8 x[{bytes}];"));
    let error = launched(1 << 30, &local(1 << 30), &launch).unwrap_err();
    assert!(error.starts_with("1073741824 bytes of local memory: a thread has at most 524288"), "{error}");
    launched(1 << 30, &local(512 << 10), &launch).unwrap();
    let global = |bytes: u64| format!(".global .align 4 .b8 x[{bytes}];\n{}", entry(""));
    let error = launched(1 << 30, &global(60_000_000_000), &launch).unwrap_err();
    assert!(error.starts_with("variable `x`: out of memory: an allocation of 60000000000 bytes"), "{error}");
    launched(1 << 30, &global(1 << 20), &launch).unwrap();
    let error = launched(1 << 30, &entry(".shared .b8 x[1073741824];"), &launch).unwrap_err();
    assert!(error.starts_with("1073741824 bytes of static shared memory"), "{error}");
}

#[test]
fn initial_values() {
    let zeros = |size: &str| format!(".global .b8 x[2][{size}] = {{{{1}}, {{2}}}};");
    for size in ["18446744073709551615", "4611686018427387904", "9223372036854775808", "1000000000"] {
        refused(&zeros(size), "an initial value of more than 268435456 bytes");
    }
    load(&zeros("1000")).unwrap();
    refused(
        &format!(".global .b8 x{} = {}1;", "[1]".repeat(10_000), "{".repeat(10_000)),
        "has more than 64 dimensions",
    );
    load(&format!(".global .b8 x{} = {}1{};", "[1]".repeat(60), "{".repeat(60), "}".repeat(60))).unwrap();
}

#[test]
fn what_is_nested() {
    for (open, close) in [("(", ")"), ("{", "}"), ("[%d, {", "}]")] {
        let nested =
            |depth: usize| entry(&format!("mov.u32 {}1{};", open.repeat(depth), close.repeat(depth)));
        refused(&nested(10_000), "operands are nested more than 64 deep");
        refused(&nested(1_000_000), "operands are nested more than 64 deep");
    }
    let scopes = |depth: usize| entry(&format!("{}{}", "{ .reg .b32 %x;".repeat(depth), "}".repeat(depth)));
    refused(&scopes(10_000), "scopes are nested more than 64 deep");
    load(&scopes(60)).unwrap();
    refused(&entry("mov.u32 %x, [%y+9223372036854775807+9223372036854775807];"), "`%x` is no register");
}

/// Functions that each call the next one, and a kernel that calls the first.
fn chain(count: usize, last: &str) -> String {
    let functions = (0..count).rev().map(|i| {
        let call = if i + 1 < count { format!("call f{};", i + 1) } else { last.to_owned() };
        format!(".func f{i}()\n{{\n.reg .b32 %r;\nmov.u32 %r, {i};\n{call}\nret;\n}}\n")
    });
    functions.collect::<String>() + &entry("call f0;")
}

#[test]
fn chains_of_calls() {
    // Each function has a frame of 16 bytes.
    launched(1 << 30, &chain(2000, ""), &Launch::default()).unwrap();
    load(&chain(10_000, "")).unwrap();
    let frames = |count| chain(count, "").replace(".reg .b32 %r;", ".reg .b32 %r;\n.local .b8 mine[1024];");
    launched(1 << 30, &frames(512), &Launch::default()).unwrap();
    let error = launched(1 << 30, &frames(513), &Launch::default()).unwrap_err();
    assert!(error.starts_with("525312 bytes of local memory: a thread has at most 524288"), "{error}");
    // In a circle.
    let error = launched(
        1 << 30,
        &chain(2000, "call f0;").replace(".func f0", ".func f0()\n;\n.func f0"),
        &Launch::default(),
    );
    assert!(error.is_err_and(|error| error.contains("the thread's stack of 16384 bytes is full")));
    let registers = chain(1, "call f0;").replace(".reg .b32 %r;", ".reg .b32 %r, %x<10000>;");
    let error = launched(64 << 20, &registers, &Launch::default()).unwrap_err();
    assert!(error.starts_with("out of memory: what a call keeps of registers"), "{error}");
}

#[test]
fn chains_of_branches() {
    // Each block goes to the one before it in the text.
    let count = 20_000;
    let blocks: String =
        (0..count).rev().map(|i| format!("L{}: add.u32 %r, %r, 1;\nbra L{i};\n", i + 1)).collect();
    let body = format!(".reg .b32 %r;\nmov.u32 %r, 0;\nbra L{count};\n{blocks}L0:");
    let backwards: String = (0..count)
        .map(|i| {
            format!(
                "L{i}: add.u32 %r, %r, 1;\nbra {};\n",
                if i == 0 { "END".into() } else { format!("L{}", i - 1) }
            )
        })
        .collect();
    launched(1 << 30, &entry(&body), &Launch::default()).unwrap();
    let body = format!(".reg .b32 %r;\nmov.u32 %r, 0;\nbra L{};\n{backwards}END:", count - 1);
    launched(1 << 30, &entry(&body), &Launch::default()).unwrap();
    // Registers times blocks.
    let blocks: String = (0..10_000).map(|i| format!("@%p bra L{i};\nL{i}:\n")).collect();
    let body = |registers: usize| {
        format!(".reg .pred %p;\n.reg .b32 %r<{registers}>;\nsetp.eq.u32 %p, 1, 1;\n{blocks}")
    };
    load(&entry(&body(1000))).unwrap();
    refused(&entry(&body(1_000_000)), "is too large to be analysed");
}
