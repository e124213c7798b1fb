//! Memory that kernels allocate.

use tilewright_emulator::{Arch, Emulator, Fault, Launch, Module};

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .extern .func (.param .b64 r) malloc(.param .b64 a);\n.extern .func free(.param .b64 a);\n";
const REGISTERS: &str = ".reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %d<8>, %out, %at;\nld.param.u64 %out, [out];\n\
    mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmad.lo.u32 %r0, %r1, %r2, %r0;\n\
    mul.wide.u32 %d0, %r0, 8;\nadd.u64 %out, %out, %d0;\n";

/// Allocates so many bytes, to `%at`.
fn allocate(bytes: u64) -> String {
    format!(
        "{{ .param .b64 a; .param .b64 b; mov.u64 %d1, {bytes}; st.param.b64 [a], %d1; call.uni (b), malloc, (a); \
         ld.param.b64 %at, [b]; }}\n"
    )
}

const FREE: &str = "{ .param .b64 a; st.param.b64 [a], %at; call.uni free, (a); }\n";

/// Runs kernels one after the other, each in two CTAs of two threads; gives a number of each thread.
fn run(bodies: &[&str]) -> Result<Vec<u64>, Fault> {
    let kernels = bodies
        .iter()
        .enumerate()
        .map(|(i, body)| format!(".visible .entry k{i}(.param .u64 out)\n{{\n{REGISTERS}{body}\nret;\n}}\n"));
    let text = format!("{HEAD}{}", kernels.collect::<String>());
    let module = Module::load(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let emulator = Emulator::new(Arch::Sm90a);
    let out = emulator.allocate(32).expect("it is little");
    let launch = Launch { grid: [2, 1, 1], threads: [2, 1, 1], ..Launch::default() };
    for i in 0..bodies.len() {
        let kernel = module.kernel(&format!("k{i}")).expect("it is called so");
        emulator.launch(&kernel, &launch, &out.to_le_bytes())?;
    }
    let mut bytes = [0; 32];
    emulator.read(out, &mut bytes).expect("just allocated");
    Ok(bytes.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect())
}

#[test]
fn memory_is_everybodys_until_it_is_freed() {
    let make = allocate(12) + "cvt.u64.u32 %d2, %r0;\nst.u64 [%at], %d2;\nst.global.u64 [%out], %at;";
    let found = run(&[&make]).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(found.iter().all(|&at| at != 0 && at % 16 == 0), "{found:?}");
    assert!((0..4).all(|i| !found[i + 1..].contains(&found[i])), "{found:?}");
    // The next launch reads what the other CTA's thread has allocated, and another frees it.
    let take = "xor.b32 %r3, %r0, 3;\nsub.u64 %out, %out, %d0;\nmul.wide.u32 %d3, %r3, 8;\nadd.u64 %d3, %out, %d3;\n\
        ld.global.u64 %at, [%d3];\nld.u64 %d2, [%at];\nadd.u64 %d2, %d2, 100;\nst.u64 [%at], %d2;";
    let give = format!("ld.global.u64 %at, [%out];\nld.u64 %d2, [%at];\nst.global.u64 [%out], %d2;\n{FREE}");
    let found = run(&[&make, take, &give]).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found, [100, 101, 102, 103]);
}

#[test]
fn there_is_an_end_of_it() {
    let large = allocate((8 << 20) + 1) + "st.global.u64 [%out], %at;\n" + FREE;
    assert_eq!(run(&[&large]).unwrap_or_else(|fault| panic!("{fault}")), [0; 4]);
    // Two have room; what is freed makes room.
    let half =
        allocate(4 << 20) + "setp.ne.u64 %p0, %at, 0;\nselp.u64 %d2, 1, 0, %p0;\nst.global.u64 [%out], %d2;";
    let found = run(&[&half]).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(found.iter().sum::<u64>(), 2);
    let again = allocate(1 << 20) + FREE + &allocate(1 << 20) + FREE + &half.replace("4194304", "1048576");
    assert_eq!(run(&[&again]).unwrap_or_else(|fault| panic!("{fault}")), [1; 4]);
}

#[test]
fn misuse_is_told() {
    let accused = |body: &str| run(&[body]).expect_err("the kernel is faulty").to_string();
    let behind = accused(&(allocate(12) + "st.u32 [%at+12], 1;"));
    assert!(behind.contains("out of bounds"), "{behind}");
    let late = accused(&(allocate(12) + FREE + "ld.u32 %r3, [%at];\nst.u32 [%out], %r3;"));
    assert!(late.contains("freed memory"), "{late}");
    let twice = accused(&(allocate(12) + FREE + FREE));
    assert!(twice.contains("where no memory of the heap begins"), "{twice}");
    let inside = accused(&(allocate(12) + "add.u64 %at, %at, 4;\n" + FREE));
    assert!(inside.contains("where no memory of the heap begins"), "{inside}");
    let hosts = accused(&format!("sub.u64 %at, %out, %d0;\n{FREE}"));
    assert!(hosts.contains("where no memory of the heap begins"), "{hosts}");
}
