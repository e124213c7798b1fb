//! What cuDNN is asked for.

use crate::case::{Case, Pass};

/// The words that name a case to `cudnn.py`, of so many sets of inputs.
pub fn words(case: &Case, sets: usize) -> String {
    let Case { dtype, images, planes, size, channels, outputs, filter, stride, groups, pass } = case;
    let pass = match pass {
        Pass::Outputs => "y",
        Pass::Images => "dx",
        Pass::Filters => "dw",
    };
    // Images have no planes.
    let planes = planes.unwrap_or(0);
    format!("{dtype} {images} {planes} {size} {channels} {outputs} {filter} {stride} {groups} {pass} {sets}")
}
