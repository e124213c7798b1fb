//! Loads, stores, sums that have no order, and what threads of a CTA hand to each other.
//!
//! Each thread has [`AREA`] bytes of its own in global, shared and local memory, a slot of [`SLOT`] bytes in global and in
//! shared memory which others read between two barriers, and one which its warp reads between two of the warp. All threads add to sums, each of one operation whose result
//! does not depend on the order.

use super::generate::register;
use super::text::MASK;
use super::{CTA, FILES};
use crate::random::Random;

/// Bytes of a thread's own memory of a kind.
pub(super) const AREA: usize = 32;
/// Bytes of a slot, and of a sum.
pub(super) const SLOT: usize = 8;

/// What is added to one place.
pub(super) struct Sum {
    /// The operation with its type.
    operation: &'static str,
    /// The registers that are added.
    file: &'static str,
    /// What it begins with.
    pub(super) first: u64,
}

/// The sums, in order of their places.
pub(super) const SUMS: [Sum; 15] = [
    Sum { operation: "add.u32", file: "r", first: 0 },
    Sum { operation: "add.u64", file: "d", first: 1 << 40 },
    Sum { operation: "min.u32", file: "r", first: 0xffff_ffff },
    Sum { operation: "max.u32", file: "r", first: 0 },
    Sum { operation: "min.s32", file: "r", first: 0x7fff_ffff },
    Sum { operation: "max.s32", file: "r", first: 0x8000_0000 },
    Sum { operation: "and.b32", file: "r", first: 0xffff_ffff },
    Sum { operation: "or.b32", file: "r", first: 0 },
    Sum { operation: "xor.b32", file: "r", first: 0x1234_5678 },
    Sum { operation: "max.u64", file: "d", first: 0 },
    Sum { operation: "min.s64", file: "d", first: 0x7fff_ffff_ffff_ffff },
    Sum { operation: "xor.b64", file: "d", first: 0 },
    Sum { operation: "inc.u32", file: "", first: 5 },
    Sum { operation: "dec.u32", file: "", first: 7 },
    // Of small integers, so that no sum is rounded.
    Sum { operation: "add.f32", file: "f", first: 0 },
];

impl Sum {
    /// The place of a sum of counts.
    pub(super) const COUNT: usize = 0;
}

/// Types of each register file.
const TYPES: [(&str, &[&str]); 6] = [
    ("r", &["u8", "s8", "b8", "u16", "s16", "b16", "u32", "s32", "b32"]),
    ("d", &["u8", "s8", "u16", "s16", "u32", "s32", "b32", "u64", "s64", "b64"]),
    ("h", &["u8", "s8", "b8", "u16", "s16", "b16"]),
    ("f", &["f32", "b32"]),
    ("v", &["f64", "b64"]),
    ("e", &["b16"]),
];

fn bytes(ty: &str) -> usize {
    ty[1..].parse::<usize>().expect("the bits of a type") / 8
}

/// A load or store of the thread's own memory, of any width.
pub(super) fn access(random: &mut Random) -> String {
    let (file, types) = *random.pick(&TYPES);
    let ty = *random.pick(types);
    let (_, all, _) = FILES.iter().find(|(name, ..)| *name == file).expect("a register file");
    let counts = [1, 1, 2, 4].map(|count| if count * bytes(ty) <= 16 && count <= *all { count } else { 1 });
    let count = *random.pick(&counts);
    let whole = count * bytes(ty);
    let load = random.one_in(2);
    let (space, base, wide) = *random.pick(&[
        (".global", "%gown", true),
        (".shared", "%own", false),
        (".local", "%lown", true),
        ("", "%gown", true),
        ("", "%sgeneric", true),
        ("", "%lgeneric", true),
    ]);
    let (order, cache) = match (space, load) {
        (".global" | ".shared", _) => match random.below(6) {
            0 => (".volatile", ""),
            1 => (*random.pick(&[".relaxed.cta", ".relaxed.gpu", ".relaxed.sys"]), ""),
            2 if load => ("", *random.pick(&[".ca", ".cg", ".cs"])),
            2 => ("", *random.pick(&[".wb", ".cg", ".cs"])),
            _ => ("", ""),
        },
        _ => ("", ""),
    };
    let (before, address) = if random.one_in(2) {
        (String::new(), format!("{base}+{}", random.below(AREA / whole) * whole))
    } else {
        // The bits of a number below the area's size that is a multiple of this one.
        let offset = format!("and.b32 %w, {}, {};\n", register("r", random), AREA - whole);
        match wide {
            true => (format!("{offset}cvt.u64.u32 %y, %w;\nadd.u64 %y, %y, {base};\n"), "%y".to_owned()),
            false => (format!("{offset}add.u32 %w, %w, {base};\n"), "%w".to_owned()),
        }
    };
    let mut registers: Vec<String> = Vec::new();
    while registers.len() < count {
        let next = register(file, random);
        if !load || !registers.contains(&next) {
            registers.push(next);
        }
    }
    let (vector, registers) = match count {
        1 => (String::new(), registers.concat()),
        _ => (format!(".v{count}"), format!("{{{}}}", registers.join(", "))),
    };
    match load {
        true => format!("{before}ld{order}{space}{cache}{vector}.{ty} {registers}, [{address}];"),
        false => format!("{before}st{order}{space}{cache}{vector}.{ty} [{address}], {registers};"),
    }
}

/// The sums that are added to, with their state space: those of a CTA only where all threads come to its last barrier, which is
/// what puts their additions before the reads.
pub(super) fn sums(random: &mut Random, all_stay: bool) -> (&'static str, &'static str) {
    let spaces = [(".global", "%gsums"), ("", "%gsums"), (".shared", "%sums"), ("", "%sumsgeneric")];
    *random.pick(if all_stay { &spaces } else { &spaces[..2] })
}

/// Adds to a sum; what was there before is not used.
pub(super) fn add(random: &mut Random, all_stay: bool) -> String {
    let at = random.below(SUMS.len());
    let Sum { operation, file, .. } = SUMS[at];
    let (before, value) = match file {
        "f" => {
            let from = register("r", random);
            (format!("and.b32 %w, {from}, 15;\ncvt.rn.f32.u32 %addend, %w;\n"), "%addend".to_owned())
        }
        // The same bound each time.
        "" => (String::new(), "1000".to_owned()),
        file => (String::new(), register(file, random)),
    };
    let (space, base) = sums(random, all_stay);
    // CTAs add to global memory together.
    let orders = ["", "", ".relaxed.gpu", ".acq_rel.gpu", ".release.gpu", ".relaxed.sys"];
    let order = random.pick(&orders);
    let place = format!("[{base}+{}]", at * SLOT);
    match random.below(3) {
        0 => {
            format!("{before}red{}{space}.{operation} {place}, {value};", order.replace("acq_rel", "release"))
        }
        1 => format!("{before}atom{order}{space}.{operation} _, {place}, {value};"),
        _ => {
            let bits = if operation.ends_with("64") { "wide" } else { "word" };
            format!("{before}atom{order}{space}.{operation} %{bits}, {place}, {value};")
        }
    }
}

/// All threads of the CTA that have not ended wait for each other.
fn barrier(random: &mut Random) -> String {
    let id = random.below(16);
    match random.one_in(2) {
        true => format!("barrier.sync {id};"),
        // This form is for whole warps.
        false => format!("bar.warp.sync {MASK};\nbar.sync {id};"),
    }
}

/// What threads of a CTA do together, where all of them come that have not ended.
pub(super) fn of_cta(random: &mut Random) -> String {
    let [first, second] = [barrier(random), barrier(random)];
    match random.below(5) {
        0 => {
            let at = random.below(SUMS.len());
            let (ty, file) = match SUMS[at].operation.ends_with("64") {
                true => ("b64", "d"),
                false if SUMS[at].file == "f" => ("f32", "f"),
                false => ("b32", "r"),
            };
            let to = register(file, random);
            format!("{first}\nld.shared.{ty} {to}, [%sums+{}];\n{second}", at * SLOT)
        }
        1 => {
            let (id, from) = (random.below(16), register("p", random));
            let sign = if random.one_in(2) { "" } else { "!" };
            let (operation, to) = match random.below(3) {
                0 => ("popc.u32", register("r", random)),
                1 => ("and.pred", register("p", random)),
                _ => ("or.pred", register("p", random)),
            };
            format!("barrier.red.{operation} {to}, {id}, {sign}{from};")
        }
        _ => {
            let (file, types) = *random.pick(&TYPES);
            let (stored, loaded) = (*random.pick(types), *random.pick(types));
            let [from, to, whose] = [register(file, random), register(file, random), register("r", random)];
            let (space, slot, address) = match random.one_in(2) {
                true => ("shared", "%slot", format!("mad.lo.u32 %w, %w, {SLOT}, %slots;")),
                false => ("global", "%gslot", format!("mad.wide.u32 %y, %w, {SLOT}, %gslots;")),
            };
            let at = if space == "shared" { "%w" } else { "%y" };
            format!(
                "st.{space}.{stored} [{slot}], {from};\n{first}\nrem.u32 %w, {whose}, {CTA};\n{address}\n\
                 ld.{space}.{loaded} {to}, [{at}];\n{second}"
            )
        }
    }
}
