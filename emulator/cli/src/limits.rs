//! `--limits instructions=N,time=T,memory=M`.

use tilewright_emulator::Limits;

use crate::words::{bytes, time};

/// The limits of a command; what it does not name is as the emulator has it.
pub fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let wrong = |allowed: &str| format!("`{name}` was `{value}`; it must be {allowed}");
        match name {
            "instructions" => {
                limits.instructions = value.parse().map_err(|_| wrong("a number of instructions"))?;
            }
            "time" => {
                limits.time = time(value).ok_or_else(|| wrong("a time such as 90s, 500ms, 10m or 2h"))?
            }
            "memory" => {
                limits.memory =
                    bytes(value).ok_or_else(|| wrong("a size such as 512MiB, 4GiB or 1000000"))?;
            }
            _ => return Err(format!("`{name}` is no limit; there are instructions, time and memory")),
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::limits;
    use std::time::Duration;
    use tilewright_emulator::Limits;

    #[test]
    fn what_is_not_named_stays() {
        assert_eq!(limits("time=90s"), Ok(Limits { time: Duration::from_secs(90), ..Limits::default() }));
        assert_eq!(
            limits("memory=1GiB,instructions=5"),
            Ok(Limits { memory: 1 << 30, instructions: 5, ..Limits::default() })
        );
        assert_eq!(
            limits("tmie=1").unwrap_err(),
            "`tmie` is no limit; there are instructions, time and memory"
        );
        assert_eq!(
            limits("time=soon").unwrap_err(),
            "`time` was `soon`; it must be a time such as 90s, 500ms, 10m or 2h"
        );
    }
}
