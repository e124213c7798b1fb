//! What was chosen, in memory and in a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, process};

use serde_json::{Value, json};

/// The version of the file's format.
const FORMAT: u64 = 1;

/// What a choice holds for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) device: String,
    pub(super) sms: u32,
    pub(super) driver: String,
    pub(super) kernels: String,
    pub(super) call: String,
}

/// A kernel, and the milliseconds that it took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) kernel: String,
    pub(super) ms: f32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Choices(BTreeMap<Call, Choice>);

impl Choices {
    pub(super) fn get(&self, call: &Call) -> Option<&Choice> {
        self.0.get(call)
    }
    pub(super) fn insert(&mut self, call: Call, choice: Choice) {
        self.0.insert(call, choice);
    }
    /// Takes those of `other`, also where there are such already.
    pub(super) fn extend(&mut self, other: Choices) {
        self.0.extend(other.0);
    }

    /// Those of a file: none if there is no file, or why it is not taken.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.to_string()),
        };
        let all: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match all["format"].as_u64() {
            Some(FORMAT) => {}
            Some(other) => return Err(format!("its format is {other}, not {FORMAT}")),
            None => return Err("it has no number of a format".to_owned()),
        }
        let choices = all["choices"].as_array().ok_or("it has no list of choices")?;
        let read = |(i, choice)| choice_of(choice).ok_or_else(|| format!("choice {i} lacks something"));
        choices.iter().enumerate().map(read).collect::<Result<_, _>>().map(Choices)
    }

    /// Writes them under another name first, so that readers find the one file or the other, whole.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let choices: Vec<_> = self.0.iter().map(json_of).collect();
        let text = serde_json::to_string_pretty(&json!({ "format": FORMAT, "choices": choices }))?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut new = file.as_os_str().to_owned();
        new.push(format!(".{}.{number}.new", process::id()));
        let written = fs::write(&new, text + "\n").and_then(|()| fs::rename(&new, file));
        if written.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_file(&new);
        }
        written
    }
}

fn json_of((call, choice): (&Call, &Choice)) -> Value {
    let Call { device, sms, driver, kernels, call } = call;
    let Choice { kernel, ms } = choice;
    json!({
        "device": device, "sms": sms, "driver": driver, "kernels": kernels, "call": call,
        "kernel": kernel, "ms": ms,
    })
}

fn choice_of(value: &Value) -> Option<(Call, Choice)> {
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    let call = Call {
        device: text("device")?,
        sms: value["sms"].as_u64()?.try_into().ok()?,
        driver: text("driver")?,
        kernels: text("kernels")?,
        call: text("call")?,
    };
    Some((call, Choice { kernel: text("kernel")?, ms: value["ms"].as_f64()? as f32 }))
}
