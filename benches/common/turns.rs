//! A peer in a process of PyTorch's, which takes turns with this one.

use tilewright_support::Result;

use crate::python::Python;

/// A running script that follows `turns.py`.
pub struct Peer(Python);

impl Peer {
    /// Starts it; an error where there is no Python, or not what the script needs.
    pub fn start(script: &str) -> Result<Self> {
        Python::start(&[include_str!("turns.py"), script].concat()).map(Peer)
    }

    /// What is compared with, and of which version.
    pub fn versions(&self) -> &str {
        self.0.versions()
    }

    /// Makes inputs of the case that the words name, and chooses kernels for it.
    pub fn prepare(&self, words: &str) -> Result<()> {
        self.0.ask(&format!("case {words}"))?;
        Ok(())
    }

    /// Measures the case once on the device; gives the milliseconds of a launch.
    pub fn turn(&self) -> Result<f64> {
        Ok(self.0.ask("turn")?.parse()?)
    }
}
