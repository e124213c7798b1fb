//! Peers in a process of Python's, which says in lines what it is asked in lines.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tilewright_support::Result;

/// A running program. The first of its lines says what it has; `error` begins its answer to what cannot be.
pub struct Python {
    process: Child,
    questions: RefCell<ChildStdin>,
    answers: RefCell<BufReader<ChildStdout>>,
    versions: String,
}

impl Python {
    /// Starts it; an error where there is no Python, or not what the program needs.
    pub fn start(program: &str) -> Result<Self> {
        let mut python = Command::new("python3");
        python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
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

    /// The answer to a question.
    pub fn ask(&self, question: &str) -> Result<String> {
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

impl Drop for Python {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
