//! Debian packages: which version the lists offer, and installing it.

use std::fmt;

use super::machine::Machine;
use crate::shell::{Done, say};

/// A major and a minor version.
pub type Version = (u32, u32);

/// Packages that are installed together.
pub struct Packages<'a> {
    /// Their names.
    pub names: &'a [&'a str],
    /// The oldest version that will do; any, if there is none.
    pub oldest: Option<Version>,
}

/// Why packages were not installed.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What the lists offer will not do.
    Offer {
        /// What will not do.
        offer: Offer,
        /// Why the lists could not be refreshed, if they could not.
        not_refreshed: Option<String>,
    },
    /// The package manager failed.
    Failed(String),
}

/// What the lists offer of a package: `name` in `version`, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    name: String,
    version: Option<String>,
}

impl Packages<'_> {
    /// Installs the packages, or upgrades to the version that the lists offer. Lists that offer too old a version, or none,
    /// are refreshed first: those of a machine that was just installed are as old as its image.
    pub fn install(&self, machine: &dyn Machine) -> Result<(), Refusal> {
        let mut refreshed = None;
        if let Some(offer) = self.lacking(machine) {
            say(&format!("the package lists have {offer}: refreshing them"));
            let outcome = refresh(machine);
            let not_refreshed = outcome.as_ref().err().cloned();
            if let Some(offer) = self.lacking(machine) {
                return Err(Refusal::Offer { offer, not_refreshed });
            }
            refreshed = Some(outcome);
        }
        let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
        arguments.extend(self.names);
        let install = || machine.apt_get(&arguments);
        // Lists may also be too old to name files that are still there.
        let again = |error| match refreshed {
            Some(_) => Err(error),
            None => refresh(machine).and_then(|()| install()),
        };
        install().or_else(again).map_err(Refusal::Failed)
    }

    /// The first package that the lists do not offer in a version that will do.
    fn lacking(&self, machine: &dyn Machine) -> Option<Offer> {
        let offers = self.names.iter().map(|&name| {
            let version = candidate(&machine.policy(name)).map(str::to_owned);
            Offer { name: name.to_owned(), version }
        });
        offers.into_iter().find(|offer| match (&offer.version, self.oldest) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(version), Some(oldest)) => number(version) < oldest,
        })
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{} {version}", self.name),
            None => write!(f, "no {}", self.name),
        }
    }
}

fn refresh(machine: &dyn Machine) -> Done {
    // Without the option a server that is out of reach is a warning.
    machine.apt_get(&["update", "-qq", "-o", "APT::Update::Error-Mode=any"])
}

/// The version that would be installed, in what `apt-cache policy` prints.
fn candidate(policy: &str) -> Option<&str> {
    let version = policy.lines().find_map(|line| line.trim().strip_prefix("Candidate:"))?.trim();
    (version != "(none)").then_some(version)
}

/// `1.96.0+dfsg1-1~deb12u2`, with or without an epoch before a colon.
fn number(version: &str) -> Version {
    let upstream = version.split_once(':').map_or(version, |(_, upstream)| upstream);
    let mut numbers = upstream.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_is_read() {
        let policy = "\
rustc-web:
  Installed: 1.85.0+dfsg3-1~deb12u3
  Candidate: 1.96.0+dfsg1-1~deb12u2
  Version table:
     1.96.0+dfsg1-1~deb12u2 500
        500 http://deb.debian.org/debian-security bookworm-security/main amd64 Packages
 *** 1.85.0+dfsg3-1~deb12u3 500
        100 /var/lib/dpkg/status
";
        assert_eq!(candidate(policy), Some("1.96.0+dfsg1-1~deb12u2"));
        assert_eq!(candidate("rustc-web:\n  Installed: (none)\n  Candidate: (none)\n"), None);
        assert_eq!(candidate(""), None);
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(number("1.96.0+dfsg1-1~deb12u2"), (1, 96));
        assert_eq!(number("2:1.100~beta"), (1, 100));
        assert_eq!(number("20.3.4+dfsg-1"), (20, 3));
        assert_eq!(number("unversioned"), (0, 0));
    }
}
