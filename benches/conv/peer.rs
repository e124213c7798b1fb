//! cuDNN, in a process of PyTorch's.

use tilewright_support::Result;

use crate::case::{Case, Pass};
use crate::python::Python;

/// A running `cudnn.py`.
pub struct Peer(Python);

impl Peer {
    /// Starts it; an error where there is no Python, or none with PyTorch.
    pub fn start() -> Result<Self> {
        Python::start(include_str!("cudnn.py")).map(Peer)
    }

    /// What is compared with, and of which version.
    pub fn versions(&self) -> &str {
        self.0.versions()
    }

    /// Makes inputs of a case, so many sets of them, and lets cuDNN choose.
    pub fn prepare(&self, case: &Case, sets: usize) -> Result<()> {
        let Case { dtype, images, planes, size, channels, outputs, filter, stride, groups, pass } = case;
        let pass = match pass {
            Pass::Outputs => "y",
            Pass::Images => "dx",
            Pass::Filters => "dw",
        };
        // Images have no planes.
        let planes = planes.unwrap_or(0);
        self.0.ask(&format!(
            "case {dtype} {images} {planes} {size} {channels} {outputs} {filter} {stride} {groups} {pass} {sets}"
        ))?;
        Ok(())
    }

    /// Measures the case once on the device; gives the milliseconds of a launch.
    pub fn turn(&self) -> Result<f64> {
        Ok(self.0.ask("turn")?.parse()?)
    }
}
