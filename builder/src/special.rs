//! What one who works on kernels asks for, by the build script or the environment: kernels that print, name their lines, or are
//! compiled alone.

use crate::environment::Environment;

/// The environment variable that says whether kernels name their source lines.
const DEBUG_LINES: &str = "TILEWRIGHT_DEBUG_LINES";
/// The environment variable that says which crates' kernels print and assert.
const DEBUG: &str = "TILEWRIGHT_DEBUG";
/// The environment variable that says whether every lane arrives at mbarriers where one could for all.
const SANITIZE: &str = "TILEWRIGHT_SANITIZE";
/// The environment variable that says which kernels of which crates are compiled.
const KERNELS: &str = "TILEWRIGHT_KERNELS";

/// Environment variables that decide it.
pub(crate) const VARIABLES: [&str; 4] = [DEBUG_LINES, DEBUG, SANITIZE, KERNELS];

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Special {
    /// Whether kernels print and assert.
    pub debug: bool,
    /// Whether the PTX names source lines.
    pub debug_lines: bool,
    /// Whether every lane arrives at mbarriers.
    pub sanitize: bool,
    /// The kernels to compile, if not all.
    pub only: Vec<String>,
}

impl Special {
    /// What the environment asks of the kernels of this package, and where it does not say, the build script.
    pub fn asked(&self, machine: &dyn Environment, package: &str) -> Self {
        let text = |name| machine.variable(name).map(|value| value.to_string_lossy().into_owned());
        let debug = text(DEBUG).map_or(self.debug, |value| is_named(&value, package));
        let only = text(KERNELS).map(|value| kernels_of(&value, package)).filter(|names| !names.is_empty());
        Self {
            debug,
            debug_lines: debug || text(DEBUG_LINES).map_or(self.debug_lines, |value| value != "0"),
            sanitize: text(SANITIZE).is_some_and(|value| value != "0"),
            only: only.unwrap_or_else(|| self.only.clone()),
        }
    }

    /// The name of what is asked for that kernels compiled for everyone do not have.
    pub fn name(&self) -> Option<&'static str> {
        let Self { debug, debug_lines, sanitize, only } = self;
        let asked = [
            (*debug, DEBUG),
            (*debug_lines, DEBUG_LINES),
            (*sanitize, SANITIZE),
            (!only.is_empty(), KERNELS),
        ];
        asked.into_iter().find_map(|(asked, name)| asked.then_some(name))
    }
}

/// The kernels of this package that the value of [`KERNELS`] names.
fn kernels_of(value: &str, package: &str) -> Vec<String> {
    let names = value.split(',').filter_map(|name| name.trim().split_once("::"));
    names.filter(|(of, _)| *of == package).map(|(_, kernel)| kernel.to_owned()).collect()
}

/// Whether the value of [`DEBUG`] is for this package.
fn is_named(value: &str, package: &str) -> bool {
    match value {
        "0" => false,
        "1" => true,
        names => names.split(',').any(|name| name.trim() == package),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debugging_is_for_all_crates_or_by_their_names() {
        let named = |value| is_named(value, "my-kernels");
        assert!(named("1") && named("my-kernels") && named("other, my-kernels"));
        assert!(!named("0") && !named("kernels") && !named("other"));
    }

    #[test]
    fn kernels_are_named_by_their_package() {
        let value = "my-kernels::fill, other::fill,my-kernels::scale,fill";
        assert_eq!(kernels_of(value, "my-kernels"), ["fill", "scale"]);
        assert_eq!(kernels_of(value, "mine"), [""; 0]);
    }

    #[test]
    fn what_is_asked_for_has_a_name() {
        assert_eq!(Special::default().name(), None);
        assert_eq!(Special { sanitize: true, ..Special::default() }.name(), Some(SANITIZE));
        assert_eq!(Special { only: vec!["fill".into()], ..Special::default() }.name(), Some(KERNELS));
    }
}
