//! What kernels print.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Reason;
use crate::memory::budget::{Budget, Held};

/// Bytes that are kept, as many as the buffer has that CUDA gives kernels to print to.
const KEPT: usize = 1 << 20;

/// What memory is held for.
const WHAT: &str = "what a launch prints";

/// What a launch prints, by the number of the cluster: clusters run in parallel, and the text is to be the same every time.
#[derive(Debug)]
pub(crate) struct Printed(Mutex<(Vec<(u64, String)>, Held)>);

impl Printed {
    pub(crate) fn new(budget: &Arc<Budget>) -> Result<Self, Reason> {
        Ok(Self(Mutex::new((Vec::new(), budget.hold(0, WHAT)?))))
    }

    pub(crate) fn add(&self, cluster: u64, text: String) -> Result<(), Reason> {
        let (all, held) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.grow((text.len() + size_of::<(u64, String)>()) as u64, WHAT)?;
        all.push((cluster, text));
        Ok(())
    }

    fn text(self) -> String {
        let (mut all, _held) = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_by_key(|(cluster, _)| *cluster);
        all.into_iter().map(|(_, text)| text).collect()
    }
}

/// Where the text of all launches goes.
#[derive(Debug)]
pub(crate) struct Output {
    echoing: bool,
    kept: Mutex<String>,
}

impl Default for Output {
    fn default() -> Self {
        Self { echoing: true, kept: Mutex::default() }
    }
}

impl Output {
    pub(crate) fn echoing(self, echoing: bool) -> Self {
        Self { echoing, ..self }
    }

    pub(crate) fn add(&self, printed: Printed) {
        let text = printed.text();
        if self.echoing {
            eprint!("{text}");
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_str(&text);
        let beyond = kept.len().saturating_sub(KEPT);
        if beyond > 0 {
            let line = kept.bytes().skip(beyond).position(|byte| byte == b'\n');
            let end = line.map_or(kept.len(), |at| beyond + at + 1);
            kept.drain(..end);
        }
    }

    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_print_in_their_order_and_the_latest_lines_are_kept() {
        let output = Output::default().echoing(false);
        let launch = |lines: &[(u64, &str)]| {
            let printed = Printed::new(&Budget::new(1 << 30)).unwrap();
            lines.iter().for_each(|(cluster, line)| printed.add(*cluster, format!("{line}\n")).unwrap());
            output.add(printed);
        };
        launch(&[(2, "c"), (0, "a"), (2, "d"), (1, "b")]);
        launch(&[(0, "e")]);
        assert_eq!(output.take(), "a\nb\nc\nd\ne\n");
        assert_eq!(output.take(), "");
        launch(&[(0, "lost"), (1, &"x".repeat(KEPT - 2))]);
        assert_eq!(output.take(), format!("{}\n", "x".repeat(KEPT - 2)));
    }
}
