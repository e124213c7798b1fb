//! Cases beside plain Triton kernels.

use tilewright::{DType, Device, Stream};
use tilewright_support::Result;
use tilewright_support::timing::{Variant, compare};

use crate::case::{Case, Op};
use crate::common::{introduce, options};
use crate::problem::ByKernel;
use crate::turns::Peer;

/// Prints the table of those of the cases that Triton kernels are there for; they run where Python finds Triton.
pub fn tabulate<'d>(
    device: &Device,
    cases: &[Case],
    problem: impl Fn(Case) -> tilewright::Result<Box<dyn ByKernel + 'd>>,
) -> Result<()> {
    let peer = Peer::start(include_str!("triton.py"));
    let Some(peer) = introduce(device, peer, |peer| peer.versions().to_owned()) else {
        return Ok(());
    };
    println!(
        "\n| case | kernel | µs | GB/s | Triton, µs | of it |\n| --- | --- | ---: | ---: | ---: | ---: |"
    );
    for &case in cases {
        let Some(operator) = operator(&case) else { continue };
        let problem = problem(case)?;
        problem.check(&Stream::new(device)?)?;
        let Case { rows, cols, .. } = case;
        if let Err(reason) = peer.prepare(&format!("{operator} {rows} {cols} {}", problem.sets())) {
            println!("{case}: {reason}");
            continue;
        }
        let variants = [
            Variant::new("tilewright", |stream: &Stream, set| problem.launch(stream, set)),
            Variant::elsewhere("Triton", || peer.turn()),
        ];
        let timings = compare(device, &variants, &options(problem.sets()))?;
        let ms: Vec<_> = timings.iter().map(|timing| timing.median()).collect();
        let speed = problem.bytes() as f64 / ms[0] / 1e6;
        print!("| {case} | `{}` | {:.2} | {speed:.0} |", problem.kernel()?, ms[0] * 1e3);
        println!(" {:.2} | **{:.2}** |", ms[1] * 1e3, ms[1] / ms[0]);
    }
    Ok(())
}

/// Triton's name of a case.
fn operator(case: &Case) -> Option<&'static str> {
    match case.op {
        _ if case.dtype != DType::F16 => None,
        Op::Softmax => Some("softmax"),
        Op::RmsNorm => Some("rms_norm"),
        Op::LayerNorm => Some("layer_norm"),
        Op::CrossEntropy => Some("cross_entropy"),
        _ => None,
    }
}
