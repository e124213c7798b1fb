//! Packages that hold both kernels and the code that launches them: two of them and a crate that both depend on, built
//! by cargo as a user's are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A workspace of such packages, in a folder that no other build shares.
struct Workspace {
    root: PathBuf,
}

impl Workspace {
    fn new() -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("both_sides");
        let _ = fs::remove_dir_all(&root);
        let workspace = Self { root };
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        workspace.copy(&source.join("tests/fixtures/helper"), "helper", |text| text);
        // The versions that the builder is tested with.
        let lock = fs::read_to_string(source.join("../Cargo.lock")).unwrap();
        workspace.write("packages/Cargo.lock", &lock);
        // The builder that the last of them compiles packs two kernels: it need not be fast, as the checkout says.
        let plain = ["tilewright-builder", "tilewright-ptx", "miniz_oxide"]
            .map(|package| format!("[profile.release.package.{package}]\nopt-level = 0\n"));
        workspace.write("packages/.cargo/config.toml", &plain.concat());
        workspace
    }

    /// Adds a package, changed like this.
    fn package(&self, name: &str, change: impl Fn(String) -> String) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"));
        self.copy(&source.join("tests/fixtures/both_sides"), &format!("packages/{name}"), |text| {
            change(text.replace("PACKAGE", name).replace("BUILDER", source.to_str().unwrap()))
        });
        let folders = self.root.join("packages").read_dir().unwrap().flatten();
        let mut members: Vec<_> = folders
            .filter(|entry| entry.path().join("Cargo.toml").is_file())
            .map(|entry| format!("{:?}", entry.file_name().to_str().unwrap()))
            .collect();
        members.sort();
        let text = format!("[workspace]\nresolver = \"3\"\nmembers = [{}]\n", members.join(", "));
        self.write("packages/Cargo.toml", &text);
    }

    fn copy(&self, from: &Path, to: &str, change: impl Fn(String) -> String + Copy) {
        for entry in from.read_dir().unwrap().flatten() {
            let to = format!("{to}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                self.copy(&entry.path(), &to, change);
            } else {
                self.write(&to, &change(fs::read_to_string(entry.path()).unwrap()));
            }
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.root.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        self.write(path, &text.replace(from, to));
    }

    fn target(&self) -> PathBuf {
        self.root.join("target")
    }

    /// Builds, and returns the packages whose kernels were compiled.
    fn build(&self) -> Vec<String> {
        let before = self.compiled();
        let mut command = Command::new(std::env::var_os("CARGO").unwrap());
        command.arg("build").arg("--target-dir").arg(self.target()).current_dir(self.root.join("packages"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let after = self.compiled();
        let changed = after.into_iter().filter(|(file, time)| before.get(file) != Some(time));
        changed.map(|(file, _)| file.split('-').next().unwrap().to_owned()).collect()
    }

    /// Files that rustc wrote, and when.
    fn compiled(&self) -> BTreeMap<String, SystemTime> {
        let entries = self.target().join("tilewright/ptx/sm_80").read_dir().into_iter().flatten().flatten();
        let time = |entry: &fs::DirEntry| entry.metadata().unwrap().modified().unwrap();
        entries.map(|entry| (entry.file_name().into_string().unwrap(), time(&entry))).collect()
    }

    /// The folders that rustc compiles in.
    fn builds(&self) -> BTreeMap<String, PathBuf> {
        let entries = self.target().join("tilewright/build/sm_80").read_dir().unwrap().flatten();
        let folders = entries.map(|entry| entry.path()).filter(|path| path.is_dir());
        let name =
            |path: &Path| path.file_name().unwrap().to_str().unwrap().split('-').next().unwrap().to_owned();
        folders.map(|path| (name(&path), path)).collect()
    }

    /// The kernels of a package, as the manifests in its output folders have them.
    fn kernels(&self, package: &str) -> Vec<String> {
        let builds = self.target().join("debug/build").read_dir().unwrap().flatten();
        let ours = builds.filter(|entry| {
            let name = entry.file_name().into_string().unwrap();
            name.strip_prefix(package).is_some_and(|rest| rest.starts_with('-'))
        });
        let manifests =
            ours.filter_map(|entry| fs::read_to_string(entry.path().join("out/manifest.json")).ok());
        let name = |kernel: &serde_json::Value| kernel["entry"].as_str().unwrap().to_owned();
        let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap()["kernels"].take();
        manifests
            .flat_map(|text| read(text).as_array().unwrap().iter().map(name).collect::<Vec<_>>())
            .collect()
    }
}

/// The file in `deps` that begins with this name.
fn library(build: &Path, name: &str) -> Option<PathBuf> {
    let files = build.join("nvptx64-nvidia-cuda/release/deps").read_dir().unwrap().flatten();
    let named = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_str().unwrap();
        file.starts_with(name) && file.ends_with(".rlib")
    };
    files.map(|entry| entry.path()).find(named)
}

#[test]
fn each_package_compiles_its_own_kernels() {
    let workspace = Workspace::new();
    workspace.package("one", |text| text);
    workspace.package("two", |text| text);
    assert_eq!(workspace.build(), ["one", "two"]);
    for package in ["one", "two"] {
        assert_eq!(workspace.kernels(package), [format!("{package}_fill")]);
    }

    // Each in a folder of its own, with dependencies that were compiled once, and without the builder.
    let builds = workspace.builds();
    assert_eq!(builds.keys().collect::<Vec<_>>(), ["dependencies", "one", "two"]);
    let time = |build: &Path, name| library(build, name).unwrap().metadata().unwrap().modified().unwrap();
    for dependency in ["libcore-", "libhelper-"] {
        let times: Vec<_> = builds.values().map(|build| time(build, dependency)).collect();
        assert!(times.iter().all(|time| *time == times[0]), "{dependency}: {times:?}");
    }
    for build in builds.values() {
        let for_host = build.join("release/deps").read_dir().into_iter().flatten().flatten();
        let files: Vec<_> = for_host.map(|entry| entry.file_name().into_string().unwrap()).collect();
        assert!(!files.iter().any(|file| file.contains("tilewright_builder")), "{files:?}");
    }

    assert_eq!(workspace.build(), [""; 0], "nothing changed");
    workspace.edit("packages/one/src/kernels.rs", "threads=128 min_ctas=1", "threads=128 min_ctas=2");
    assert_eq!(workspace.build(), ["one"]);
    workspace.edit("packages/one/src/host.rs", "//! What", "//! All that");
    assert_eq!(workspace.build(), [""; 0], "the kernels are made of other files");
    workspace.edit("helper/src/lib.rs", "2 * x", "x + x + 1");
    assert_eq!(workspace.build(), ["one", "two"]);

    // A package that does not say which part of it is for which side: the builder ends where it meets itself.
    workspace.package("plain", |text| {
        let text = text.replace(", optional = true", "").replace("default = [\"build\"]\n", "");
        let text = text.replace("build = [\"dep:tilewright-builder\"]", "");
        text.replace("    #[cfg(feature = \"build\")]\n", "").replace(
            "    #[cfg(not(feature = \"build\"))]\n    println!(\"cargo::rerun-if-changed=build.rs\");\n",
            "",
        )
    });
    assert_eq!(
        workspace.build(),
        ["plain"],
        "another member of the workspace changes nothing for the others"
    );
    assert_eq!(workspace.kernels("plain"), ["plain_fill"]);
}
