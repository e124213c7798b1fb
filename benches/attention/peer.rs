//! The peers, in a process of PyTorch's.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tilewright_support::Result;

use crate::case::Case;

/// What the peers are called: PyTorch's attention by cuDNN, the same by its flash-attention 2, and flash-attention 3.
pub const NAMES: [&str; 3] = ["cuDNN", "flash", "FA3"];

/// A running `sdpa.py`, which says what it is asked.
pub struct Peer {
    process: Child,
    questions: RefCell<ChildStdin>,
    answers: RefCell<BufReader<ChildStdout>>,
    versions: String,
}

impl Peer {
    /// Starts it; an error where there is no Python, or none with PyTorch.
    pub fn start() -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", include_str!("sdpa.py")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = python.spawn().map_err(|error| format!("python3: {error}"))?;
        let questions = process.stdin.take().ok_or("its input is not a pipe")?;
        let answers = process.stdout.take().ok_or("its output is not a pipe")?;
        let (questions, answers) = (RefCell::new(questions), RefCell::new(BufReader::new(answers)));
        let mut peer = Self { process, questions, answers, versions: String::new() };
        peer.versions = peer.answer()?;
        Ok(peer)
    }

    /// What is compared with, and of which version.
    pub fn versions(&self) -> &str {
        &self.versions
    }

    /// Makes inputs of a case, so many sets of them; gives the names of those that can compute it.
    pub fn prepare(&self, case: &Case, sets: usize) -> Result<Vec<String>> {
        let Case { dtype, batch, heads, kv_heads, queries, keys, columns: [d, dv], causal, .. } = case;
        let causal = u8::from(*causal);
        let question =
            format!("case {dtype} {batch} {heads} {kv_heads} {queries} {keys} {d} {dv} {causal} {sets}");
        Ok(self.ask(&question)?.split_whitespace().map(str::to_owned).collect())
    }

    /// Measures one of them once on the device; gives the milliseconds of a launch.
    pub fn turn(&self, name: &str) -> Result<f64> {
        Ok(self.ask(&format!("turn {name}"))?.parse()?)
    }

    /// The host's microseconds of a call from Python.
    pub fn host_us(&self, name: &str) -> Result<f64> {
        Ok(self.ask(&format!("host {name}"))?.parse()?)
    }

    fn ask(&self, question: &str) -> Result<String> {
        writeln!(self.questions.borrow_mut(), "{question}")?;
        self.answer().map_err(|error| format!("{question}: {error}").into())
    }

    fn answer(&self) -> Result<String> {
        let mut line = String::new();
        self.answers.borrow_mut().read_line(&mut line)?;
        if line.is_empty() {
            return Err("python3 has ended".into());
        }
        match line.trim_end().strip_prefix("error ") {
            Some(reason) => Err(reason.into()),
            None => Ok(line.trim_end().to_owned()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
