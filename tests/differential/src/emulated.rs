//! Cases on the emulator.

use tilewright_emulator::{Arch, Emulator, Module, Schedule};

use crate::case::{Case, Group};

/// What a launch left in its memories, one after the other, or why it failed.
pub type Outcome = Result<Vec<u8>, String>;

/// Runs the cases of a group.
pub fn run(group: &Group) -> Vec<Outcome> {
    run_in(group, Schedule::Fixed)
}

/// Runs the cases of a group, their warps in this order.
pub fn run_in(group: &Group, schedule: Schedule) -> Vec<Outcome> {
    match Module::load(&group.ptx) {
        Ok(module) => group.cases.iter().map(|case| launch(&module, case, schedule)).collect(),
        Err(error) => group.cases.iter().map(|_| Err(error.to_string())).collect(),
    }
}

fn launch(module: &Module, case: &Case, schedule: Schedule) -> Outcome {
    let kernel = module.kernel(&case.kernel).ok_or_else(|| format!("no kernel `{}`", case.kernel))?;
    let emulator = Emulator::new(Arch::Sm90a).with_schedule(schedule);
    let mut addresses = Vec::new();
    for bytes in case.memories() {
        let address = emulator.allocate(bytes.len() as u64).map_err(|error| error.to_string())?;
        emulator.write(address, bytes).map_err(|error| error.to_string())?;
        addresses.push(address);
    }
    let block = case.parameters(&addresses, |map| map.encode().map_err(|error| error.to_string()))?;
    emulator.launch(&kernel, &case.launch, &block).map_err(|fault| fault.to_string())?;
    let mut result = Vec::new();
    for (bytes, address) in case.memories().zip(addresses) {
        let start = result.len();
        result.resize(start + bytes.len(), 0);
        emulator.read(address, &mut result[start..]).map_err(|error| error.to_string())?;
    }
    Ok(result)
}
