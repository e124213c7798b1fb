//! The setup on machines with a made-up package manager.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use tilewright_builder::setup::OLDEST;
use tilewright_builder::{BuildError, Toolchain, Tried};

use super::machine::Machine;
use super::toolchain;
use crate::shell::Done;

const OLD: &str = "1.85.0+dfsg3-1~deb12u3";
const NEW: &str = "1.96.0+dfsg1-1~deb12u2";
const UPDATE: &str = "update";
const ADD: &str = "add to stable";
const INSTALL: &str = "install rustc-web rust-web-src";

/// A machine; versions are those of both packages.
struct Fake {
    debian: bool,
    chosen: bool,
    /// rustup's toolchain that runs this, if it lacks the sources, and whether rustup can fetch them.
    lacking: Option<bool>,
    /// What the lists offer.
    listed: Cell<Option<&'static str>>,
    /// What the archive has, unless it is out of reach.
    archive: Option<Option<&'static str>>,
    /// Files of older versions are gone from the archive.
    only_newest: bool,
    /// What is installed.
    installed: Cell<Option<&'static str>>,
    commands: RefCell<Vec<String>>,
}

/// A Debian whose lists are up to date.
fn debian() -> Fake {
    Fake {
        debian: true,
        chosen: false,
        lacking: None,
        listed: Cell::new(Some(NEW)),
        archive: Some(Some(NEW)),
        only_newest: false,
        installed: Cell::new(None),
        commands: RefCell::default(),
    }
}

impl Machine for Fake {
    fn toolchain(&self) -> Result<Toolchain, BuildError> {
        let refuse = |because: String| {
            Err(BuildError::NoToolchain {
                tried: vec![Tried { place: "the distribution's".into(), because }],
            })
        };
        if self.commands.borrow().iter().any(|command| command == ADD) && self.lacking == Some(true) {
            return Ok(Toolchain {
                rustc: PathBuf::from("stable/bin/rustc"),
                cargo: PathBuf::from("stable/bin/cargo"),
                version: "1.95.0".into(),
            });
        }
        match self.installed.get() {
            None => refuse("not there".into()),
            Some(NEW) => Ok(Toolchain {
                rustc: PathBuf::from("/usr/bin/rustc"),
                cargo: PathBuf::from("cargo"),
                version: NEW.into(),
            }),
            Some(old) => refuse(format!("rustc {old} is too old")),
        }
    }

    fn compiler_is_chosen(&self) -> bool {
        self.chosen
    }

    fn lacks_sources(&self) -> Option<String> {
        self.lacking.map(|_| "stable".to_owned())
    }

    fn add_sources(&self, toolchain: &str) -> Done {
        self.commands.borrow_mut().push(format!("add to {toolchain}"));
        self.lacking.filter(|there| *there).map(|_| ()).ok_or_else(|| "out of reach".to_owned())
    }

    fn is_debian(&self) -> bool {
        self.debian
    }

    fn policy(&self, package: &str) -> String {
        let Some(listed) = self.listed.get() else { return String::new() };
        let installed = self.installed.get().unwrap_or("(none)");
        format!("{package}:\n  Installed: {installed}\n  Candidate: {listed}\n  Version table:\n")
    }

    fn apt_get(&self, arguments: &[&str]) -> Done {
        let words = arguments.iter().filter(|word| !word.starts_with('-') && !word.contains('='));
        let command = words.copied().collect::<Vec<_>>().join(" ");
        self.commands.borrow_mut().push(command.clone());
        match (command.as_str(), self.archive) {
            (_, None) => Err("`apt-get` cannot reach the archive".into()),
            (UPDATE, Some(newest)) => {
                self.listed.set(newest);
                Ok(())
            }
            (INSTALL, Some(newest)) if self.only_newest && newest != self.listed.get() => Err("404".into()),
            (INSTALL, Some(_)) => {
                self.installed.set(self.listed.get());
                self.listed.get().map(|_| ()).ok_or_else(|| "unable to locate package".into())
            }
            _ => Err(format!("unknown command `{command}`")),
        }
    }
}

/// What the setup comes to, and the commands that it ran.
fn run(machine: &Fake) -> (Done, Vec<String>) {
    (toolchain::install(machine), machine.commands.take())
}

fn refused(machine: &Fake) -> (String, Vec<String>) {
    let (done, commands) = run(machine);
    (done.unwrap_err(), commands)
}

#[test]
fn the_versions_are_on_both_sides_of_the_builders_oldest() {
    assert!((1, 85) < OLDEST && OLDEST <= (1, 96), "{OLDEST:?}");
}

#[test]
fn lists_that_are_up_to_date_stay() {
    let machine = debian();
    assert_eq!(run(&machine), (Ok(()), vec![INSTALL.to_owned()]));
    assert_eq!(run(&machine), (Ok(()), vec![]), "there is nothing left to do");
}

#[test]
fn rustups_toolchain_gets_its_sources_before_debian_is_asked() {
    for machine in
        [Fake { lacking: Some(true), ..debian() }, Fake { lacking: Some(true), debian: false, ..debian() }]
    {
        assert_eq!(run(&machine), (Ok(()), vec![ADD.to_owned()]));
    }
    let machine = Fake { lacking: Some(false), ..debian() };
    assert_eq!(run(&machine), (Ok(()), vec![ADD.to_owned(), INSTALL.to_owned()]));
    let machine = Fake { lacking: Some(false), debian: false, ..debian() };
    let (message, commands) = refused(&machine);
    assert_eq!(commands, [ADD], "{message}");
    assert!(message.contains("rustup toolchain install stable"), "{message}");
    let machine = Fake { lacking: Some(true), chosen: true, ..debian() };
    assert_eq!(refused(&machine).1, [""; 0], "who chose a compiler gets no other");
}

#[test]
fn old_lists_are_refreshed_before_anything_is_installed() {
    let machine = Fake { listed: Cell::new(Some(OLD)), ..debian() };
    assert_eq!(run(&machine), (Ok(()), vec![UPDATE.to_owned(), INSTALL.to_owned()]));
    assert_eq!(machine.installed.get(), Some(NEW));
}

#[test]
fn unknown_packages_are_looked_for_in_fresh_lists() {
    for unknown in [None, Some("(none)")] {
        let machine = Fake { listed: Cell::new(unknown), ..debian() };
        assert_eq!(run(&machine), (Ok(()), vec![UPDATE.to_owned(), INSTALL.to_owned()]));
    }
}

#[test]
fn an_installed_compiler_that_is_too_old_is_upgraded() {
    let machine = Fake { installed: Cell::new(Some(OLD)), ..debian() };
    assert_eq!(run(&machine), (Ok(()), vec![INSTALL.to_owned()]));
    assert_eq!(machine.installed.get(), Some(NEW));
    let machine = Fake { installed: Cell::new(Some(OLD)), listed: Cell::new(Some(OLD)), ..debian() };
    assert_eq!(run(&machine), (Ok(()), vec![UPDATE.to_owned(), INSTALL.to_owned()]));
    assert_eq!(machine.installed.get(), Some(NEW));
}

#[test]
fn an_archive_without_a_newer_one_is_no_reason_to_install_the_old_one() {
    for installed in [None, Some(OLD)] {
        let machine = Fake {
            installed: Cell::new(installed),
            listed: Cell::new(Some(OLD)),
            archive: Some(Some(OLD)),
            ..debian()
        };
        let (message, commands) = refused(&machine);
        assert_eq!(commands, [UPDATE], "{message}");
        assert!(message.contains(&format!("{}.{} or later", OLDEST.0, OLDEST.1)), "{message}");
        assert!(message.contains(&format!("just refreshed, is rustc-web {OLD}")), "{message}");
        assert!(message.contains("rustup toolchain install stable"), "{message}");
        assert!(!message.contains("apt-get"), "{message}");
    }
    let machine = Fake { listed: Cell::new(None), archive: Some(None), ..debian() };
    let (message, _) = refused(&machine);
    assert!(message.contains("is no rustc-web") && message.contains("rustup toolchain install"), "{message}");
}

#[test]
fn an_archive_out_of_reach_is_said_to_be() {
    let machine = Fake { listed: Cell::new(Some(OLD)), archive: None, ..debian() };
    let (message, commands) = refused(&machine);
    assert_eq!(commands, [UPDATE], "nothing that is too old is installed");
    assert!(message.contains("could not be refreshed:\n  `apt-get` cannot reach the archive"), "{message}");
    assert!(message.contains("rustup toolchain install stable"), "{message}");
    assert!(!message.contains("apt-get install"), "{message}");
    // The lists would do, the files cannot be had.
    let machine = Fake { archive: None, ..debian() };
    let (message, commands) = refused(&machine);
    assert_eq!(commands, [INSTALL, UPDATE]);
    assert!(message.contains("cannot reach the archive"), "{message}");
}

#[test]
fn lists_that_name_files_which_are_gone_are_refreshed() {
    let machine = Fake { listed: Cell::new(Some("1.96.0+dfsg1-1~deb12u1")), only_newest: true, ..debian() };
    assert_eq!(run(&machine), (Ok(()), vec![INSTALL.to_owned(), UPDATE.to_owned(), INSTALL.to_owned()]));
}

#[test]
fn a_compiler_that_is_installed_and_will_not_do_is_not_installed_again() {
    // As when another one lies in its place: it says that it is too old, whatever the packages are.
    let machine = Fake { listed: Cell::new(Some("1.97.0-1")), ..debian() };
    let (message, commands) = refused(&machine);
    assert_eq!(commands, [INSTALL]);
    assert!(message.contains("the distribution's: rustc 1.97.0-1 is too old"), "{message}");
    assert!(message.contains("rustup toolchain install stable"), "{message}");
    assert!(!message.contains("apt-get"), "{message}");
}

#[test]
fn other_machines_and_choices_are_left_alone() {
    for machine in [Fake { debian: false, ..debian() }, Fake { chosen: true, ..debian() }] {
        let (message, commands) = refused(&machine);
        assert_eq!(commands, [""; 0], "{message}");
        assert!(message.contains("rustup toolchain install stable"), "{message}");
        assert!(!message.contains("apt-get"), "{message}");
        assert_eq!(message.contains("TILEWRIGHT_RUSTC"), machine.chosen, "{message}");
    }
}
