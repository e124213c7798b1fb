//! What is measured, what is known, and what becomes of files.

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use super::*;
use crate::Arch;
use crate::backend::fake;

/// A folder of a test's own, which is gone behind it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("tilewright-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
    fn file(&self) -> PathBuf {
        self.0.join("inner/tuned.json")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kernel(name: &'static str, code: &'static [u8]) -> &'static KernelEntry {
    Box::leak(Box::new(KernelEntry {
        name,
        arch: Arch::Sm80,
        threads: 128,
        min_ctas: 1,
        cluster: [1, 1, 1],
        shared_bytes: 0,
        registers: None,
        spilled: None,
        summary: "",
        ptx_bytes: code.len(),
        ptx: code,
    }))
}

/// What is chosen, and the kernels that ran.
fn chosen(tuner: &Tuner, call: &str, kernels: &[&'static KernelEntry]) -> (&'static str, Vec<&'static str>) {
    let (device, _) = fake::h200();
    let ran = RefCell::new(Vec::new());
    let run = |_: &Stream, kernel: &'static KernelEntry| {
        if !ran.borrow().contains(&kernel.name) {
            ran.borrow_mut().push(kernel.name);
        }
        Ok(())
    };
    let kernel = tuner.choose(&device.default_stream(), call, kernels, run).unwrap();
    (kernel.name, ran.into_inner())
}

/// The fastest of kernels that take so many milliseconds, and how often each was measured with more than three runs.
fn fastest(ms: &[f32]) -> (usize, Vec<usize>) {
    let mut often = vec![0; ms.len()];
    let mut drift = 1.0;
    let time = |kernel: usize, times: usize| {
        often[kernel] += usize::from(times > 3);
        // A clock that falls by half.
        drift *= 1.003;
        Ok(ms[kernel] * drift)
    };
    let mut told = 0;
    let (kernel, _) = measure::fastest(ms.len(), time, |_, _| told += 1).unwrap();
    assert_eq!(told, ms.len());
    (kernel, often)
}

#[test]
fn the_fastest_wins_though_the_clock_falls_and_hopeless_ones_run_little() {
    assert_eq!(fastest(&[0.011, 0.010, 0.0105, 0.02]), (1, vec![11, 11, 11, 0]));
    assert_eq!(fastest(&[0.010]).0, 0);
}

#[test]
fn the_first_stays_unless_another_is_clearly_faster() {
    assert_eq!(fastest(&[0.0100, 0.00995]).0, 0);
    assert_eq!(fastest(&[0.0100, 0.00980]).0, 1);
    // A kernel that takes no time that could be measured is not asked for endlessly many runs.
    assert_eq!(fastest(&[0.0, 0.0]).0, 0);
}

#[test]
fn what_was_measured_is_known_until_something_differs() {
    let folder = Folder::new("known");
    let (one, two) = (kernel("one", b"1"), kernel("two", b"2"));
    let told = std::sync::Arc::new(Mutex::new(Vec::new()));
    let tell = std::sync::Arc::clone(&told);
    let tuner = Tuner::open(folder.file(), Tuning::Write).on_progress(move |m| {
        tell.lock().unwrap().push((m.call.to_owned(), m.kernel, m.done, m.of));
    });
    assert_eq!(tuner.ignored(), None);
    // Of kernels that take as long, the first.
    assert_eq!(chosen(&tuner, "call", &[one, two]), ("one", vec!["one", "two"]));
    let expected = [("call".to_owned(), "one", 1, 2), ("call".to_owned(), "two", 2, 2)];
    assert_eq!(*told.lock().unwrap(), expected);

    let again = Tuner::open(folder.file(), Tuning::Write);
    assert_eq!(chosen(&again, "call", &[one, two]), ("one", vec![]));
    assert_eq!(chosen(&again, "another call", &[one, two]).1, ["one", "two"]);
    assert_eq!(chosen(&again, "call", &[kernel("one", b"1, mended"), two]).1, ["one", "two"]);
    // Nothing is left beside the file.
    assert_eq!(fs::read_dir(folder.file().parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_known_choice_is_taken_where_it_is_not_the_first() {
    let (one, two) = (kernel("one", b"1"), kernel("two", b"2"));
    let (device, _) = fake::h200();
    let folder = Folder::new("second");
    let tuner = Tuner::open(folder.file(), Tuning::Write);
    let call = Call::new(&device, "call", hash(&[one, two]));
    tuner.keep(call, Choice { kernel: "two".to_owned(), ms: 0.25 }).unwrap();
    assert_eq!(chosen(&Tuner::open(folder.file(), Tuning::Read), "call", &[one, two]), ("two", vec![]));
    assert_eq!(chosen(&Tuner::open(folder.file(), Tuning::Off), "call", &[one, two]), ("one", vec![]));
}

#[test]
fn two_tuners_of_one_file_keep_both_choices() {
    let folder = Folder::new("both");
    let (one, two) = (kernel("one", b"1"), kernel("two", b"2"));
    let tuners = [(); 2].map(|()| Tuner::open(folder.file(), Tuning::Write));
    for (tuner, call) in tuners.iter().zip(["a", "b"]) {
        assert_eq!(chosen(tuner, call, &[one, two]).1, ["one", "two"]);
    }
    let read = Tuner::open(folder.file(), Tuning::Write);
    assert_eq!(
        [chosen(&read, "a", &[one, two]).1, chosen(&read, "b", &[one, two]).1],
        [const { Vec::<&str>::new() }; 2]
    );
}

#[test]
fn nothing_is_measured_that_was_not_asked_for() {
    let (one, two) = (kernel("one", b"1"), kernel("two", b"2"));
    let folder = Folder::new("read");
    let read = Tuner::open(folder.file(), Tuning::Read);
    assert_eq!(chosen(&read, "call", &[one, two]), ("one", vec![]));
    assert!(!folder.file().exists());
    let alone = Tuner::in_memory();
    assert_eq!(chosen(&alone, "call", &[two]), ("two", vec![]));
    assert_eq!(chosen(&alone, "call", &[two, one]).1, ["two", "one"]);
    assert_eq!(chosen(&alone, "call", &[two, one]).1, [""; 0]);
    let (device, _) = fake::h200();
    let error = alone.choose(&device.default_stream(), "call", &[], |_, _| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "`kernels` was empty; it must be at least one kernel");
}

#[test]
fn files_that_hold_something_else_are_ignored_with_the_reason_and_replaced() {
    let folder = Folder::new("corrupt");
    fs::create_dir_all(folder.file().parent().unwrap()).unwrap();
    for (text, why) in [
        ("{\"format\": 1, \"choi", "EOF while parsing a string at line 1 column 19"),
        ("[]", "it has no number of a format"),
        ("{\"format\": 2, \"choices\": []}", "its format is 2, not 1"),
        ("{\"format\": 1}", "it has no list of choices"),
        ("{\"format\": 1, \"choices\": [{\"call\": 3}]}", "choice 0 lacks something"),
    ] {
        fs::write(folder.file(), text).unwrap();
        let tuner = Tuner::open(folder.file(), Tuning::Write);
        assert_eq!(tuner.ignored().unwrap(), format!("{}: {why}", folder.file().display()));
        let kernels = [kernel("one", b"1"), kernel("two", b"2")];
        assert_eq!(chosen(&tuner, "call", &kernels).1, ["one", "two"]);
        let read = Tuner::open(folder.file(), Tuning::Read);
        assert_eq!((read.ignored(), chosen(&read, "call", &kernels).1.len()), (None, 0));
    }
}

#[test]
fn runs_that_fail_and_files_that_cannot_be_written_are_errors() {
    let folder = Folder::new("failing");
    fs::write(folder.0.join("inner"), "a file where a folder is wanted").unwrap();
    let (device, journal) = fake::h200();
    let tuner = Tuner::open(folder.file(), Tuning::Write);
    let kernels = [kernel("one", b"1"), kernel("two", b"2")];
    let failing = |_: &Stream, _| Err(Error::argument("x", "a", "b"));
    let error = tuner.choose(&device.default_stream(), "call", &kernels, failing).unwrap_err();
    assert_eq!(error, Error::argument("x", "a", "b"));
    let error = tuner.choose(&device.default_stream(), "call", &kernels, |_, _| Ok(())).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("`file` was ") && text.ends_with("it must be a path that can be written"),
        "{text}"
    );
    assert_eq!(journal.captures.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn the_environment_names_what_is_done() {
    assert_eq!(
        ["off", "read", "write"].map(Tuning::named),
        [Some(Tuning::Off), Some(Tuning::Read), Some(Tuning::Write)]
    );
    assert_eq!(["", "Write", "on"].map(Tuning::named), [None; 3]);
}
