//! Runs a kernel of a PTX file on the CPU, and says what it does wrong: `tilewright-emulator run FILE.ptx --kernel K …`.
//!
//! `docs/emulator.md`, "From other projects' CI", shows what it is for. The exit code is 0 if all is well, 1 if the kernel did
//! something wrong or its results are not the expected ones, and 2 if the command or a file that it names cannot be used.

mod argument;
mod block;
mod compare;
mod element;
mod fill;
mod list;
mod npy;
mod options;
mod report;
mod result;
mod run;

mod words;
mod wrong;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use options::{Command, Options};
use wrong::{Usage, Wrong};

fn main() -> ExitCode {
    match done(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Wrong(what)) => {
            eprintln!("error: {what}");
            ExitCode::from(2)
        }
    }
}

/// Does what was asked for and prints the report: whether all is well.
fn done(options: Options) -> Usage<bool> {
    let (report, well) = match options.command {
        Command::Run(options) => {
            let plan = run::Plan::new(&options)?;
            let runs = plan.run()?;
            let report = if options.json { report::json(&plan, &runs) } else { report::text(&plan, &runs) };
            (report, runs.iter().all(run::Run::is_well))
        }
        Command::List { file, json } => (list::list(&file, json)?, true),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(report.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Wrong(format!("the report could not be printed: {error}")))?;
    Ok(well)
}
