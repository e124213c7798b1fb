//! What is done with what a kernel leaves in memory: `--out` and `--expect`.

use std::path::{Path, PathBuf};

use crate::argument::{Argument, Buffer, Value, elements};
use crate::block::find;
use crate::element::Number;
use crate::npy;
use crate::options::Run;
use crate::wrong::{Usage, Wrong, wrong};

/// A buffer that is looked at when the kernel has ended.
pub struct Wanted {
    /// The number of its argument.
    pub argument: usize,
    /// Where it is written to.
    pub out: Option<PathBuf>,
    /// What it is compared with.
    pub expected: Option<Expected>,
}

/// What a buffer is compared with.
pub struct Expected {
    /// The file that it stands in.
    pub path: PathBuf,
    /// The numbers.
    pub numbers: Vec<Number>,
    /// By which part of the expected number each may differ.
    pub relative: f64,
    /// By how much besides.
    pub absolute: f64,
}

/// The buffers that the command names; all of them if it names none.
pub fn wanted(options: &Run, arguments: &[Argument]) -> Usage<Vec<Wanted>> {
    let mut all: Vec<Wanted> = Vec::new();
    let mut entry = |option: &str, text: &str| -> Usage<(usize, String)> {
        let Some((name, rest)) = text.split_once('=') else {
            return wrong(option, text, "NAME=PATH");
        };
        let (argument, _) =
            find(arguments, name).map_err(|what| Wrong(format!("{option} was `{text}`: {what}")))?;
        let at = all.iter().position(|wanted| wanted.argument == argument).unwrap_or_else(|| {
            all.push(Wanted { argument, out: None, expected: None });
            all.len() - 1
        });
        Ok((at, rest.to_owned()))
    };
    let outs = options.out.iter().map(|text| entry("--out", text)).collect::<Usage<Vec<_>>>()?;
    let expects = options.expect.iter().map(|text| entry("--expect", text)).collect::<Usage<Vec<_>>>()?;
    for (at, path) in outs {
        all[at].out = Some(path.into());
    }
    for (at, text) in expects {
        if let Value::Buffer(buffer) = &arguments[all[at].argument].value {
            all[at].expected = Some(expected(&text, buffer)?);
        }
    }
    if all.is_empty() {
        let buffers =
            arguments.iter().enumerate().filter(|(_, argument)| matches!(argument.value, Value::Buffer(_)));
        return Ok(buffers.map(|(argument, _)| Wanted { argument, out: None, expected: None }).collect());
    }
    Ok(all)
}

/// `PATH[:RTOL[:ATOL]]`.
fn expected(text: &str, buffer: &Buffer) -> Usage<Expected> {
    let mut path = text;
    let mut tolerances = Vec::new();
    while tolerances.len() < 2
        && let Some((before, last)) = path.rsplit_once(':')
        && let Ok(tolerance) = last.parse::<f64>()
    {
        if tolerance.is_nan() || tolerance < 0.0 {
            return wrong("a tolerance of --expect", last, "a number from 0");
        }
        tolerances.insert(0, tolerance);
        path = before;
    }
    let tolerance = |at: usize| tolerances.get(at).copied().unwrap_or(0.0);
    let path = PathBuf::from(path);
    let (element, shape, bytes) = elements(&path, buffer.element)?;
    let numbers: Vec<Number> =
        bytes.chunks_exact(element.bytes()).map(|bytes| element.decode(bytes)).collect();
    let count = buffer.bytes / buffer.element.bytes() as u64;
    if numbers.len() as u64 != count {
        let was = format!("of shape {shape:?}");
        return wrong(&path.display().to_string(), &was, &format!("of {count} elements, as the buffer"));
    }
    Ok(Expected { path, numbers, relative: tolerance(0), absolute: tolerance(1) })
}

/// Writes a buffer's bytes to a file.
pub fn write(path: &Path, buffer: &Buffer, bytes: &[u8]) -> Usage<()> {
    let npy = path.extension().is_some_and(|extension| extension == "npy");
    let written = match npy {
        true => std::fs::write(path, npy::encode(buffer.element, &buffer.shape, bytes)),
        false => std::fs::write(path, bytes),
    };
    written.map_err(|error| Wrong(format!("--out: {}: {error}", path.display())))
}
