//! A kernel as the GPU runs it, by NVIDIA's assembler and disassembler.

use std::fs;
use std::process::Command;

use tilewright_builder::{Kernel, Ptxas};

use crate::setup::disassembler;
use crate::shell::line;

/// The kernel with what `ptxas` says that it takes, and its machine code.
pub fn disassembled(kernel: &Kernel, ptx: &str, ptxas: &Ptxas) -> Result<(Kernel, String), String> {
    let nvdisasm = disassembler()?;
    let assembled = ptxas.assemble(kernel.arch, ptx).map_err(|error| error.to_string())?;
    let kernel = Kernel { registers: assembled.registers, spilled: assembled.spilled, ..kernel.clone() };
    let cubin = std::env::temp_dir().join(format!("xtask-sass-{}.cubin", std::process::id()));
    fs::write(&cubin, &assembled.cubin).map_err(|error| format!("writing {}: {error}", cubin.display()))?;
    let mut command = Command::new(nvdisasm);
    command.arg("--print-code").arg(&cubin);
    let output = command.output();
    let _ = fs::remove_file(&cubin);
    let output = output.map_err(|error| format!("cannot run `{}`: {error}", line(&command)))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", line(&command), String::from_utf8_lossy(&output.stderr)));
    }
    Ok((kernel, String::from_utf8_lossy(&output.stdout).into_owned()))
}
