//! The compiler of the kernels.

use tilewright_builder::BuildError;
use tilewright_builder::setup::{OLDEST, RUSTUP_COMMAND};

use super::machine::Machine;
use super::packages::{Packages, Refusal};
use crate::shell::{Done, say};

/// Debian's rustc with the sources of its library.
const RUSTC: Packages<'static> = Packages { names: &["rustc-web", "rust-web-src"], oldest: Some(OLDEST) };

/// Installs a compiler where there is none that will do: what rustup's stable lacks, or else Debian's.
pub fn install(machine: &dyn Machine) -> Done {
    let Err(error) = machine.toolchain() else { return announce(machine) };
    let mut missing = reasons(error);
    let (major, minor) = OLDEST;
    let needed =
        format!("kernels take rustc {major}.{minor} or later together with the sources of its library");
    let rustup = format!("rustup has one:\n  {RUSTUP_COMMAND}\nThen run this again.");
    if machine.compiler_is_chosen() {
        return Err(format!("{needed}.{missing}\nUnset TILEWRIGHT_RUSTC, or let it name another. {rustup}"));
    }
    if let Some(toolchain) = machine.lacks_sources() {
        say(&format!(
            "no compiler that will do for the kernels yet: adding its library's sources to {toolchain}"
        ));
        if let Err(why) = machine.add_sources(&toolchain) {
            say(&format!("rustup does not add them: {why}"));
        }
        let Err(error) = machine.toolchain() else { return announce(machine) };
        missing = reasons(error);
    }
    if !machine.is_debian() {
        return Err(format!("{needed}, and this is no machine to install Debian's on.{missing}\n{rustup}"));
    }
    say("no compiler that will do for the kernels yet: installing Debian's");
    RUSTC.install(machine).map_err(|refusal| match refusal {
        Refusal::Offer { offer, not_refreshed: None } => {
            format!(
                "{needed}. The newest that Debian's package lists have, just refreshed, is {offer}. {rustup}"
            )
        }
        Refusal::Offer { offer, not_refreshed: Some(why) } => format!(
            "{needed}. Debian's package lists have {offer}, and could not be refreshed:\n  {why}\n\
             Run this again when `apt-get update` succeeds. Or else {rustup}"
        ),
        Refusal::Failed(why) => format!(
            "{why}\nInstall these yourself, then run this again:\n  apt-get install {}",
            RUSTC.names.join(" ")
        ),
    })?;
    announce(machine).map_err(|error| {
        format!("{} are installed, and still {needed}.{error}\n{rustup}", RUSTC.names.join(" and "))
    })
}

/// Says which compiler is taken, or why none is.
fn announce(machine: &dyn Machine) -> Done {
    let found = machine.toolchain().map_err(reasons)?;
    say(&format!("kernels are compiled by rustc {} ({})", found.version, found.rustc.display()));
    Ok(())
}

/// Where a compiler was looked for, and why none will do; without the builder's advice, which the setup follows itself.
fn reasons(error: BuildError) -> String {
    match error {
        BuildError::NoToolchain { tried } => {
            let places = tried.iter().map(|place| format!("\n  - {place}"));
            format!(" Tried, in this order:{}", places.collect::<String>())
        }
        other => format!("\n{other}"),
    }
}
