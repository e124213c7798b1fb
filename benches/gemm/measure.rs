//! Criterion's measurements.

use criterion::Throughput;
use tilewright::Device;
use tilewright_support::Result;

use crate::case::{self, Case};
use crate::common::measure::{self, Work};
use crate::problem::{Matrices, forced};

/// Measures the cases that the program's arguments select; gives those, unless they were only listed or tried.
pub fn all(device: &Device) -> Result<Vec<Case>> {
    let cases = case::all();
    let matrices = Matrices::new(device, &cases);
    // An element is a multiplication or an addition.
    let throughput = |case: &Case| Throughput::Elements(case.flops() as u64);
    measure::all(device, "gemm", &cases, throughput, |case| {
        let problem = matrices.problem(case)?;
        let forced = forced(&*problem)?;
        problem.way(forced)?;
        Ok(Work::new(problem.sets(), move |stream, set| problem.launch(stream, set, forced, true)))
    })
}
