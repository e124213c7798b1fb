//! What lanes of a warp do together, wherever they are.

use super::generate::register;
use super::memory::{SLOT, Sum, sums};
use super::text::MASK;
use crate::instructions::Instruction;
use crate::random::Random;

/// Whether lane `%j` is one of those that are here goes to `%q`.
fn here() -> String {
    format!("shr.u32 %w, {MASK}, %j;\nand.b32 %w, %w, 1;\nsetp.ne.u32 %q, %w, 0;\n")
}

/// Lane `%j` is that of a register if it is here, or this one.
fn some_lane(random: &mut Random) -> String {
    let from = register("r", random);
    format!("and.b32 %j, {from}, 31;\n{}selp.u32 %j, %j, %lane, %q;\n", here())
}

/// The instruction of the table with the lanes that are here in place of all.
pub(super) fn of_table(instruction: &Instruction) -> Instruction {
    Instruction { text: instruction.text.replace(", -1;", &format!(", {MASK};")), ..instruction.clone() }
}

/// A shuffle of any mode, from lanes and within parts of the warp that registers or constants name. What a lane takes from one
/// that does not take part is open: there it keeps its own.
pub(super) fn shuffle(random: &mut Random) -> String {
    let file = *random.pick(&["r", "r", "f"]);
    let [to, from] = [register(file, random), register(file, random)];
    let by = match random.below(3) {
        0 => random.below(33).to_string(),
        _ => register("r", random),
    };
    let within = match random.below(4) {
        0 => register("r", random),
        1 => random.below(1 << 13).to_string(),
        _ => random.pick(&[0x1f, 0, 0x181f, 0x1800, 0x1e0f, 0x100f]).to_string(),
    };
    let mode = *random.pick(&["up", "down", "bfly", "idx"]);
    // PTX ISA, "shfl.sync": the lane that is read, and whether it is in range.
    let (lane, valid) = match mode {
        "up" => ("sub.s32 %j, %lane, %j;", "ge"),
        "down" => ("add.s32 %j, %lane, %j;", "le"),
        "bfly" => ("xor.b32 %j, %lane, %j;", "le"),
        _ => ("and.b32 %j, %j, %w;\nor.b32 %j, %j, %low;", "le"),
    };
    let (valid_to, guard) = match random.one_in(2) {
        true => (format!("|{}", register("p", random)), here()),
        false => (String::new(), here()),
    };
    format!(
        "mov.b32 %was, {from};\nmov.b32 %x, {within};\nbfe.u32 %w, %x, 8, 5;\nand.b32 %x, %x, 31;\nand.b32 %low, %lane, %w;\n\
         not.b32 %w, %w;\nand.b32 %x, %x, %w;\nor.b32 %x, %x, %low;\nmov.b32 %j, {by};\nand.b32 %j, %j, 31;\n{lane}\n\
         setp.{valid}.s32 %q, %j, %x;\nselp.u32 %j, %j, %lane, %q;\n{guard}\
         shfl.sync.{mode}.b32 {to}{valid_to}, {from}, {by}, {within}, {MASK};\n@!%q mov.b32 {to}, %was;"
    )
}

/// Lanes of both sides of a branch meet in an instruction of the same kind.
pub(super) fn both_sides(random: &mut Random) -> String {
    let condition = register("p", random);
    let (before, sides): (String, [String; 2]) = match random.below(5) {
        0 => {
            let side = |random: &mut Random| {
                let [to, from] = [register("r", random), register("r", random)];
                format!("shfl.sync.idx.b32 {to}, {from}, %j, 31, {MASK};")
            };
            (some_lane(random), [side(random), side(random)])
        }
        1 => {
            let mode = *random.pick(&["any", "all"]);
            let side = |random: &mut Random| {
                let [to, from] = [register("p", random), register("p", random)];
                format!("vote.sync.{mode}.pred {to}, {from}, {MASK};")
            };
            (String::new(), [side(random), side(random)])
        }
        2 => {
            let side = |random: &mut Random| {
                let (to, from) = (register("r", random), register("p", random));
                format!("vote.sync.ballot.b32 {to}, {from}, {MASK};")
            };
            (String::new(), [side(random), side(random)])
        }
        3 => {
            let operation = *random.pick(&["add.u32", "min.s32", "max.u32", "xor.b32", "and.b32"]);
            let side = |random: &mut Random| {
                let [to, from] = [register("r", random), register("r", random)];
                format!("redux.sync.{operation} {to}, {from}, {MASK};")
            };
            (String::new(), [side(random), side(random)])
        }
        _ => return exchange(random, Some(&condition)),
    };
    let [then, otherwise] = sides;
    format!("{before}@!{condition} bra ELSE#;\n{then}\nbra END#;\nELSE#:\n{otherwise}\nEND#:")
}

/// A lane reads what another one has written to shared memory. With a condition, lanes wait for each other on both sides of a
/// branch.
pub(super) fn exchange(random: &mut Random, condition: Option<&str>) -> String {
    let [to, from] = [register("r", random), register("r", random)];
    let lane = some_lane(random);
    let wait = match condition {
        None => format!("bar.warp.sync {MASK};"),
        Some(condition) => format!(
            "@!{condition} bra ELSE#;\nbar.warp.sync {MASK};\nbra END#;\nELSE#:\nbar.warp.sync {MASK};\nEND#:"
        ),
    };
    let ty = *random.pick(&["u8", "s8", "u16", "s16", "b32"]);
    format!(
        "{lane}st.shared.{} [%wslot], {from};\n{wait}\nmad.lo.u32 %w, %j, {SLOT}, %wslots;\nld.shared.{ty} {to}, [%w];\n\
         bar.warp.sync {MASK};",
        random.pick(&["b8", "b16", "b32"])
    )
}

/// The first of the lanes that are together, whichever these are, adds how many they are.
pub(super) fn count(random: &mut Random, all_stay: bool) -> String {
    let (space, base) = sums(random, all_stay);
    let to = register("r", random);
    format!(
        "activemask.b32 %w;\nand.b32 {to}, %w, %bit;\nneg.s32 %x, %w;\nand.b32 %x, %x, %w;\nsetp.eq.u32 %q, %x, %bit;\n\
         popc.b32 %w, %w;\n@%q red{space}.add.u32 [{base}+{}], %w;",
        Sum::COUNT * SLOT
    )
}
