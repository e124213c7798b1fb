//! `cargo xtask ptx` and `cargo xtask sass`: what a kernel was compiled to.

pub mod builds;
mod sass;

use std::io::Write;
use std::path::{Path, PathBuf};

use tilewright_builder::{Arch, Built, Kernel, Ptxas, setup};

use crate::shell::{Done, root, target};

/// What is printed of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Ptx,
    Sass,
}

/// How to call it.
const USAGE: &str = "\
cargo xtask ptx|sass [--manifest-path PATH] [--arch sm_80|sm_90a] [NAME] [-- ARGUMENTS OF cargo build]

Builds a package in release, and prints the code of the one kernel among those of the package and all that it depends on
whose name is NAME or has it as a part. Of several, or without NAME, it prints what each takes, of the architecture alone where
one is given. PATH is a package's folder
or its Cargo.toml; left out, it is tilewright's own, with its operators: `-- -p tilewright-gemm` builds those of one.";

/// What the user asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request<'a> {
    manifest: Option<&'a str>,
    arch: Option<Arch>,
    name: Option<&'a str>,
    /// More arguments for cargo.
    cargo: &'a [&'a str],
}

/// Builds, and prints the code of the kernel.
pub fn show(form: Form, arguments: &[&str]) -> Done {
    let request = Request::parse(arguments)?;
    let manifest = match request.manifest {
        None => root().join("Cargo.toml"),
        Some(path) if Path::new(path).is_dir() => Path::new(path).join("Cargo.toml"),
        Some(path) => PathBuf::from(path),
    };
    let folders = builds::folders(&manifest, request.cargo)?;
    let builds = folders.into_iter().map(Built::read).collect::<Result<Vec<_>, _>>();
    let builds = builds.map_err(|error| error.to_string())?;
    let kernels: Vec<_> =
        builds.iter().flat_map(|built| built.kernels.iter().map(move |k| (built, k))).collect();
    let (built, kernel) = match find(&kernels, &request) {
        Found::One(found) => found,
        Found::Listed(kernels) => {
            let lines: Vec<_> = kernels.iter().map(|(_, kernel)| kernel.to_string()).collect();
            return print(&lines.join("\n"));
        }
        Found::None(why) => return Err(why),
    };
    let ptx = built.ptx(kernel).map_err(|error| error.to_string())?;
    let ptxas = setup::ptxas(&target()?.join("xtask")).map_err(|error| error.to_string())?;
    match form {
        Form::Ptx => {
            let kernel = with_resources(kernel, &ptx, ptxas.as_ref())?;
            print(&format!("// {kernel}\n{ptx}"))
        }
        Form::Sass => {
            let ptxas = ptxas
                .ok_or("there is no ptxas to assemble the kernel with: `cargo xtask setup` fetches it")?;
            let (kernel, text) = sass::disassembled(kernel, &ptx, &ptxas)?;
            print(&format!("// {kernel}\n// by ptxas {}\n{text}", ptxas.version))
        }
    }
}

/// What it takes too, where its own build had no `ptxas` to ask.
fn with_resources(kernel: &Kernel, ptx: &str, ptxas: Option<&Ptxas>) -> Result<Kernel, String> {
    match ptxas {
        Some(ptxas) if kernel.registers.is_none() => {
            let assembled = ptxas.assemble(kernel.arch, ptx).map_err(|error| error.to_string())?;
            Ok(Kernel { registers: assembled.registers, spilled: assembled.spilled, ..kernel.clone() })
        }
        _ => Ok(kernel.clone()),
    }
}

/// Prints to where a pager may have closed the other end.
fn print(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("printing: {error}")),
        _ => Ok(()),
    }
}

impl<'a> Request<'a> {
    fn parse(arguments: &'a [&'a str]) -> Result<Self, String> {
        let mut request = Self::default();
        let mut rest = arguments;
        loop {
            rest = match rest {
                [] => return Ok(request),
                ["--", cargo @ ..] => {
                    request.cargo = cargo;
                    return Ok(request);
                }
                ["--manifest-path", path, rest @ ..] => {
                    request.manifest = Some(path);
                    rest
                }
                ["--arch", name, rest @ ..] => {
                    let known = [Arch::Sm80, Arch::Sm90a];
                    let arch = known.into_iter().find(|arch| arch.target() == *name);
                    request.arch = Some(arch.ok_or_else(|| format!("no kernels are for `{name}`\n{USAGE}"))?);
                    rest
                }
                [name, rest @ ..] if !name.starts_with('-') && request.name.is_none() => {
                    request.name = Some(name);
                    rest
                }
                _ => return Err(USAGE.to_owned()),
            }
        }
    }
}

/// What a request comes to.
enum Found<'a> {
    One((&'a Built, &'a Kernel)),
    /// No name was given: all kernels, or those of the architecture.
    Listed(Vec<(&'a Built, &'a Kernel)>),
    None(String),
}

/// The kernel of the name, or the only one with the name as a part.
fn find<'a>(kernels: &[(&'a Built, &'a Kernel)], request: &Request) -> Found<'a> {
    let of_arch = || {
        let wanted = |kernel: &Kernel| request.arch.is_none_or(|arch| arch == kernel.arch);
        kernels.iter().filter(move |(_, kernel)| wanted(kernel)).copied()
    };
    let Some(name) = request.name else { return Found::Listed(of_arch().collect()) };
    let exact: Vec<_> = of_arch().filter(|(_, kernel)| kernel.entry == name).collect();
    let found = if exact.is_empty() {
        of_arch().filter(|(_, kernel)| kernel.entry.contains(name)).collect()
    } else {
        exact
    };
    let list = |found: &[(&Built, &Kernel)]| {
        found.iter().map(|(_, kernel)| format!("\n  {kernel}")).collect::<String>()
    };
    match found.as_slice() {
        [one] => Found::One(*one),
        [] => Found::None(format!(
            "no kernel is called `{name}`. There are {}:{}",
            kernels.len(),
            list(kernels)
        )),
        several => Found::None(format!(
            "`{name}` may be {} kernels; give more of the name, or --arch:{}",
            several.len(),
            list(several)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(kernels: &[(&str, Arch)]) -> Built {
        let kernel = |&(entry, arch): &(&str, Arch)| Kernel {
            entry: entry.to_owned(),
            arch,
            threads: 128,
            min_ctas: 1,
            cluster: [1, 1, 1],
            shared_bytes: 4096,
            registers: Some(40),
            spilled: Some([0, 0]),
            ptx_bytes: 1,
            compressed_bytes: 1,
        };
        let kernels = kernels.iter().map(kernel).collect();
        let (out, compiler) = (PathBuf::new(), String::new());
        Built { kernels, compiler, ptxas: None, out, warnings: Vec::new(), arguments: Vec::new() }
    }

    fn answer(kernels: &[(&str, Arch)], arguments: &[&str]) -> String {
        let built = built(kernels);
        let all: Vec<_> = built.kernels.iter().map(|kernel| (&built, kernel)).collect();
        match find(&all, &Request::parse(arguments).unwrap()) {
            Found::One((_, kernel)) => format!("{} {}", kernel.arch.target(), kernel.entry),
            Found::Listed(listed) => {
                listed.iter().map(|(_, kernel)| kernel.entry.as_str()).collect::<Vec<_>>().join(" ")
            }
            Found::None(why) => why,
        }
    }

    #[test]
    fn a_kernel_is_found_by_a_part_of_its_name() {
        let kernels = [
            ("gemm_f16", Arch::Sm80),
            ("gemm_f16_relu", Arch::Sm80),
            ("gemm_f16", Arch::Sm90a),
            ("rope", Arch::Sm80),
        ];
        assert_eq!(answer(&kernels, &["rop"]), "sm_80 rope");
        assert_eq!(answer(&kernels, &[]), "gemm_f16 gemm_f16_relu gemm_f16 rope");
        assert_eq!(answer(&kernels, &["--arch", "sm_80"]), "gemm_f16 gemm_f16_relu rope");
        assert_eq!(answer(&kernels, &["gemm_f16", "--arch", "sm_80"]), "sm_80 gemm_f16");
        assert_eq!(answer(&kernels, &["--arch", "sm_90a", "gemm"]), "sm_90a gemm_f16");
        let several = answer(&kernels, &["gemm_f16"]);
        let line = "gemm_f16 (sm_80): 128 threads, at least 1 CTA an SM, 4096 bytes of dynamic shared memory, 40 registers a thread, no spills";
        assert!(several.starts_with("`gemm_f16` may be 2 kernels") && several.contains(line), "{several}");
        let none = answer(&kernels, &["conv"]);
        assert!(none.starts_with("no kernel is called `conv`. There are 4:\n  gemm_f16 (sm_80)"), "{none}");
    }

    #[test]
    fn arguments_are_read() {
        let request = Request::parse(&["--manifest-path", "a", "name", "--", "-p", "b"]).unwrap();
        let expected = Request { manifest: Some("a"), arch: None, name: Some("name"), cargo: &["-p", "b"] };
        assert_eq!(request, expected);
        assert!(Request::parse(&["--arch", "sm_70"]).unwrap_err().contains("sm_70"));
        assert_eq!(Request::parse(&["a", "b"]).unwrap_err(), USAGE);
        assert_eq!(Request::parse(&["--arch"]).unwrap_err(), USAGE);
    }
}
