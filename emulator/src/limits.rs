//! What launches and memory are limited to.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a launch may take before it is ended, and the memory of an emulator.
///
/// No honest program comes near what [`Limits::default`] says: it is there so that a loop without an end, a grid without an end or a
/// size that went wrong is an error and not a process that hangs or dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions that all warps of a launch execute together: 2^40 unless said otherwise. It is looked at every few thousand.
    pub instructions: u64,
    /// How long a launch runs: 4 hours unless said otherwise.
    pub time: Duration,
    /// Bytes that are held at a time: 16 GiB unless said otherwise. What is allocated counts, the variables of modules, registers, local
    /// and shared memory of the CTAs that run, what the checks know of memory, and what kernels print.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instructions: 1 << 40, time: Duration::from_secs(4 * 60 * 60), memory: 16 << 30 }
    }
}

/// Why a text says no limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct LimitsError {
    /// What is wrong with it.
    pub what: String,
}

/// Units of time in nanoseconds; seconds where none is said.
const TIMES: [(&str, u64); 6] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1000),
    ("ns", 1),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// Units of memory in bytes.
const SIZES: [(&str, u64); 5] =
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// A whole number with one of these units behind it, or none for the first.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits)?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit || unit.is_empty())?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

/// `time=90s,memory=4GiB,instructions=1000000`: some of the three, each with a whole number. Times are in `s` (without a unit
/// too), `ms`, `us`, `ns`, `m` or `h`, sizes in `B` (without a unit too), `KiB`, `MiB`, `GiB` or `TiB`. What is not named is as by default.
impl FromStr for Limits {
    type Err = LimitsError;

    fn from_str(text: &str) -> Result<Self, LimitsError> {
        let mut limits = Self::default();
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let wrong =
                |allowed: &str| LimitsError { what: format!("`{name}` was `{value}`; it must be {allowed}") };
            match name {
                "instructions" => {
                    limits.instructions = value.parse().map_err(|_| wrong("a number of instructions"))?;
                }
                "time" => {
                    let time = with_unit(value, &TIMES);
                    limits.time = Duration::from_nanos(
                        time.ok_or_else(|| wrong("a time such as 90s, 500ms, 10m or 2h"))?,
                    );
                }
                "memory" => {
                    limits.memory = with_unit(value, &SIZES)
                        .ok_or_else(|| wrong("a size such as 512MiB, 4GiB or 1000000"))?;
                }
                _ => {
                    let what = format!("`{name}` is no limit; there are instructions, time and memory");
                    return Err(LimitsError { what });
                }
            }
        }
        Ok(limits)
    }
}

impl fmt::Display for Limits {
    /// As it is [read](Limits::from_str).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instructions, time, memory } = self;
        write!(f, "instructions={instructions},time=")?;
        match time.subsec_nanos() {
            0 => write!(f, "{}s", time.as_secs())?,
            nanos if nanos % 1_000_000 == 0 => write!(f, "{}ms", time.as_millis())?,
            _ => write!(f, "{}ns", time.as_nanos())?,
        }
        write!(f, ",memory={memory}")
    }
}

#[cfg(test)]
mod tests {
    use super::Limits;
    use std::time::Duration;

    fn read(text: &str) -> Result<Limits, String> {
        text.parse().map_err(|error: super::LimitsError| error.what)
    }

    #[test]
    fn what_is_not_named_stays() {
        let default = Limits::default();
        assert_eq!(read("time=90s"), Ok(Limits { time: Duration::from_secs(90), ..default }));
        assert_eq!(
            read("memory=1GiB,instructions=5"),
            Ok(Limits { memory: 1 << 30, instructions: 5, ..default })
        );
    }

    #[test]
    fn limits_are_read_as_they_are_shown() {
        for text in
            ["time=3h", "time=1500ms", "time=7us,memory=0", "instructions=18446744073709551615", "time=90"]
        {
            let limits = read(text).unwrap();
            assert_eq!(read(&limits.to_string()), Ok(limits), "{limits}");
        }
        let shown = "instructions=1099511627776,time=14400s,memory=17179869184";
        assert_eq!(Limits::default().to_string(), shown);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, what) in [
            ("tmie=1", "`tmie` is no limit; there are instructions, time and memory"),
            ("", "`` is no limit; there are instructions, time and memory"),
            ("time=soon", "`time` was `soon`; it must be a time such as 90s, 500ms, 10m or 2h"),
            ("time=1.5s", "`time` was `1.5s`; it must be a time such as 90s, 500ms, 10m or 2h"),
            (
                "time=99999999999h",
                "`time` was `99999999999h`; it must be a time such as 90s, 500ms, 10m or 2h",
            ),
            ("time=5 s", "`time` was `5 s`; it must be a time such as 90s, 500ms, 10m or 2h"),
            ("time", "`time` was ``; it must be a time such as 90s, 500ms, 10m or 2h"),
            ("memory=4GB", "`memory` was `4GB`; it must be a size such as 512MiB, 4GiB or 1000000"),
            ("instructions=-1", "`instructions` was `-1`; it must be a number of instructions"),
        ] {
            assert_eq!(read(text), Err(what.to_owned()));
        }
    }
}
