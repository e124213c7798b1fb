//! `fma.oob`, on all numbers of 16 bits: which of them mark what lies outside of a tensor, and what becomes of them.

use super::Kernel;

/// What a load of a tensor map that fills with NaN leaves outside.
const OUTSIDE: u16 = 0x7ff7;

pub(super) fn kernels() -> Vec<Kernel> {
    let types = ["f16", "bf16", "f16x2", "bf16x2"];
    types.iter().flat_map(|ty| ["", ".relu"].map(|relu| kernel(ty, relu))).collect()
}

/// Each thread has a number, in place of each operand, beside others.
fn kernel(ty: &str, relu: &str) -> Kernel {
    let pair = ty.ends_with("x2");
    // 1.5, -2, infinity and a NaN.
    let [some, other, infinity, nan]: [u16; 4] = if ty.starts_with("bf") {
        [0x3fc0, 0xc000, 0x7f80, 0x7fc0]
    } else {
        [0x3e00, 0xc000, 0x7c00, 0x7e00]
    };
    let beside = [
        [some, other],
        [other, some],
        [OUTSIDE, some],
        [some, OUTSIDE],
        [infinity, other],
        [some, infinity],
        [nan, some],
        [some, nan],
        [0, some],
    ];
    let (register, bits) = if pair { ("r", "b32") } else { ("h", "b16") };
    let constant = |x: u16| if pair { u32::from(x) * 0x1_0001 } else { x.into() };
    // The other half of a pair has another number.
    let mut body = match pair {
        true => "not.b32 %r0, %thread;\nprmt.b32 %r0, %thread, %r0, 0x5410;\n".to_owned(),
        false => "cvt.u16.u32 %h0, %thread;\n".to_owned(),
    };
    let mut words = 0;
    for [first, second] in beside {
        for operands in [[0, 1, 2], [1, 0, 2], [1, 2, 0]] {
            let operands = operands.map(|i| format!("%{register}{i}")).join(", ");
            body += &format!(
                "mov.{bits} %{register}1, {};\nmov.{bits} %{register}2, {};\nfma.rn.oob{relu}.{ty} %{register}3, {operands};\n",
                constant(first),
                constant(second)
            );
            body += if pair { "" } else { "cvt.u32.u16 %r3, %h3;\n" };
            body += &format!("st.global.b32 [%mine+{}], %r3;\n", 4 * words);
            words += 1;
        }
    }
    let mut kernel = Kernel::new(format!("fma.rn.oob{relu}.{ty}"), words, body).threads(256);
    kernel.launch.grid[0] = 256;
    kernel
}
