//! The project's own commands.

mod book;
mod check;
mod code;
mod example;
mod guide;
mod package;
mod programs;
mod ptx_diff;
mod record;
mod setup;
mod shell;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  setup                    installs what compiling and checking kernels takes
  run EXAMPLE [-- ARGS…]   setup, then builds and runs an example
  test                     setup, then every test
  guide                    builds and runs the kernel that docs/write-a-kernel.md writes
  book                     renders docs/ as a book, and checks the links of all pages
  ci                       formatting, lints, documentation, the book, another machine, test, then package with one operator
  package [OPERATOR…]      the crates as they would be published, with the kernels of these operators or of all, and a project built of them
  record                   writes down what ptxas says of the operators' kernels: builds assemble no kernel again whose PTX is as it was
  ptx NAME                 builds, and prints a kernel's PTX, registers, shared memory and spills; without NAME lists all kernels
  sass NAME                the same with the GPU's own code
  ptx-diff OLD NEW         whether two builds have the same kernels";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["setup"] => setup::setup(),
        ["run", name, rest @ ..] => example::run(name, rest),
        ["run"] => Err(format!("which example? {}", example::list())),
        ["test"] => test::test(),
        ["guide"] => guide::follow(),
        ["book"] => book::book(),
        ["ci"] => check::ci(),
        ["record"] => record::record(),
        ["package", rest @ ..] => package::package(rest),
        ["ptx", rest @ ..] => code::show(code::Form::Ptx, rest),
        ["sass", rest @ ..] => code::show(code::Form::Sass, rest),
        ["ptx-diff", rest @ ..] => ptx_diff::ptx_diff(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
