//! Which architectures have an instruction: ptxas refuses what the module's target has not.
//!
//! PTX ISA, the "Target ISA Notes" of the instructions.

use super::Decoded;
use crate::arch::Target;
use crate::error::LoadError;
use tilewright_ptx::ast::{Module, Statement};

/// What needs more than `sm_70`: the instruction, a modifier that it has (none: with any), and the target.
const NEEDS: [(&str, &str, &str); 31] = [
    ("wgmma", "", "sm_90a"),
    ("setmaxnreg", "", "sm_90a"),
    ("tensormap", "", "sm_90a"),
    ("mapa", "", "sm_90"),
    ("getctarank", "", "sm_90"),
    ("elect", "", "sm_90"),
    ("griddepcontrol", "", "sm_90"),
    ("stmatrix", "", "sm_90"),
    ("multimem", "", "sm_90"),
    ("barrier", "cluster", "sm_90"),
    ("cp", "bulk", "sm_90"),
    ("st", "async", "sm_90"),
    ("red", "async", "sm_90"),
    ("mbarrier", "try_wait", "sm_90"),
    ("mbarrier", "expect_tx", "sm_90"),
    ("mbarrier", "complete_tx", "sm_90"),
    ("fence", "mbarrier_init", "sm_90"),
    ("fence", "async", "sm_90"),
    ("fence", "cluster", "sm_90"),
    ("prefetch", "tensormap", "sm_90"),
    ("ld", "shared::cluster", "sm_90"),
    ("st", "shared::cluster", "sm_90"),
    ("atom", "shared::cluster", "sm_90"),
    ("atom", "b128", "sm_90"),
    ("fence", "tensormap::generic", "sm_90"),
    ("mma", "sp", "sm_80"),
    ("mma", "sp::ordered_metadata", "sm_80"),
    ("discard", "", "sm_80"),
    ("mbarrier", "", "sm_80"),
    ("cp", "async", "sm_80"),
    ("redux", "", "sm_80"),
];

/// Checks the instructions of a module against its target.
pub(super) fn check(module: &Module) -> Decoded<Target> {
    let Some(target) = Target::parse(&module.target) else {
        return Err(LoadError::new(1, format!("`.target {}` is not known", module.target)));
    };
    let bodies = module.functions.iter().filter_map(|function| function.body.as_deref());
    bodies
        .chain(module.entries.iter().map(|entry| entry.body.as_slice()))
        .try_for_each(|body| of_body(body, target))?;
    match module.entries.iter().find(|entry| entry.cluster.is_some()) {
        Some(entry) if target.number < 90 => {
            let what =
                format!("kernel `{}` has clusters, which need sm_90; the module is for {target}", entry.name);
            Err(LoadError::new(1, what))
        }
        _ => Ok(target),
    }
}

fn of_body(body: &[Statement], target: Target) -> Decoded<()> {
    for statement in body {
        if let Statement::Instruction(instruction) = statement
            && let Some(needed) = needed(&instruction.opcode, target)
        {
            let what = format!("{} needs {needed}; the module is for {target}", instruction.opcode);
            return Err(LoadError::new(instruction.line, what));
        }
    }
    Ok(())
}

/// The target that an instruction needs, unless this one will do.
fn needed(opcode: &str, target: Target) -> Option<&'static str> {
    let (name, modifiers) = opcode.split_once('.').unwrap_or((opcode, ""));
    let with = |modifier: &str| modifier.is_empty() || modifiers.split('.').any(|other| other == modifier);
    let lacks = |name: &str| match Target::parse(name) {
        Some(Target { number, feature: None }) => target.number < number,
        needed => needed != Some(target),
    };
    let (.., needed) =
        NEEDS.iter().find(|(of, modifier, needed)| *of == name && with(modifier) && lacks(needed))?;
    Some(needed)
}
