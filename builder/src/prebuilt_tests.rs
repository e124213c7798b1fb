use std::collections::HashMap;
use std::ffi::OsString;

use super::*;
use crate::environment::Rustc;
use crate::output::write_ptx;

/// A machine of these variables alone.
struct Variables(HashMap<&'static str, &'static str>);

impl Environment for Variables {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }
    fn rustc(&self, _: &Path) -> Result<Rustc, String> {
        Err("there is none".into())
    }
    fn ptxas(&self, _: &Path) -> Result<String, String> {
        Err("there is none".into())
    }
    fn system_rustc(&self) -> PathBuf {
        PathBuf::from("/nowhere")
    }
    fn memory(&self) -> Option<u64> {
        None
    }
}

fn machine(build: Option<&'static str>) -> Variables {
    Variables(build.map(|value| (BUILD, value)).into_iter().collect())
}

/// A package and the output folder of its build, in a folder of this name.
struct Package {
    root: PathBuf,
}

impl Package {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("tilewright-prebuilt-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let package = Self { root };
        for (path, text) in [("build.rs", "fn main() {}"), ("src/lib.rs", "mod a;"), ("src/a/mod.rs", "")] {
            let path = package.root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        package
    }

    /// The manifest and the output folder of a build of one kernel for each architecture.
    fn build(&self) -> (Manifest, PathBuf) {
        let out = self.root.join("out");
        let kernels = [Arch::Sm80, Arch::Sm90a].map(|arch| {
            fs::create_dir_all(out.join(arch.target())).unwrap();
            let (major, minor) = arch.ptx_version();
            let ptx = format!(".version {major}.{minor}\n.target {}\n", arch.target());
            let compressed_bytes = write_ptx(&out, arch, "fill", &ptx).unwrap();
            Kernel {
                entry: "fill".into(),
                arch,
                threads: 128,
                min_ctas: 1,
                cluster: [1, 1, 1],
                shared_bytes: 64,
                registers: Some(32),
                spilled: Some([0, 0]),
                ptx_bytes: ptx.len(),
                compressed_bytes,
            }
        });
        let manifest = Manifest {
            compiler: "rustc 1".into(),
            ptxas: Some("release 13".into()),
            arguments: vec!["--no-default-features".into()],
            kernels: kernels.into(),
        };
        write_manifest(&out, &manifest).unwrap();
        (manifest, out)
    }

    fn wanted<'a>(&'a self, archs: &'a BTreeSet<Arch>, arguments: &'a [String]) -> Wanted<'a> {
        Wanted { package: &self.root, archs, arguments, special: None }
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn what_is_packed_is_taken_as_it_was_built() {
    let package = Package::new("same");
    let (manifest, out) = package.build();
    pack(manifest.clone(), &out, &package.root).unwrap();
    let text = fs::read_to_string(package.root.join("prebuilt/manifest.json")).unwrap();
    for said in
        ["\"ptx_version\": \"8.0\"", "\"ptx_version\": \"8.1\"", "\"registers\": 32", "\"entry\": \"fill\""]
    {
        assert!(text.contains(said), "{said} in {text}");
    }
    let both = BTreeSet::from([Arch::Sm80, Arch::Sm90a]);
    let again = package.root.join("again");
    fs::create_dir_all(&again).unwrap();
    assert_eq!(package.wanted(&both, &manifest.arguments).take(&again).unwrap(), manifest);
    for file in ["manifest.json", "kernels.rs", "sm_80/fill.ptx.z", "sm_90a/fill.ptx.z"] {
        assert_eq!(fs::read(again.join(file)).unwrap(), fs::read(out.join(file)).unwrap(), "{file}");
    }
    // Of one architecture, that one's alone.
    let one = BTreeSet::from([Arch::Sm90a]);
    let taken = package.wanted(&one, &manifest.arguments).take(&again).unwrap();
    assert_eq!(taken.kernels, manifest.kernels[1..]);
    assert!(!fs::read_to_string(again.join("kernels.rs")).unwrap().contains("sm_80"));
}

#[test]
fn the_environment_chooses() {
    let package = Package::new("choice");
    let both = BTreeSet::from([Arch::Sm80, Arch::Sm90a]);
    let chosen = |build, special| {
        let wanted = Wanted { special, ..package.wanted(&both, &[]) };
        wanted.is_chosen(&machine(build)).map_err(|error| error.to_string())
    };
    assert_eq!((chosen(None, None), chosen(Some("source"), None)), (Ok(false), Ok(false)));
    let error = chosen(Some("prebuilt"), None).unwrap_err();
    assert!(error.contains("there are none") && error.contains("TILEWRIGHT_BUILD=source"), "{error}");

    let (manifest, out) = package.build();
    pack(manifest, &out, &package.root).unwrap();
    assert_eq!((chosen(None, None), chosen(Some("prebuilt"), None)), (Ok(true), Ok(true)));
    assert_eq!(chosen(Some("source"), None), Ok(false));
    assert_eq!(chosen(None, Some("TILEWRIGHT_DEBUG")), Ok(false));
    let error = chosen(Some("prebuilt"), Some("TILEWRIGHT_DEBUG")).unwrap_err();
    assert!(error.contains("TILEWRIGHT_DEBUG asks for"), "{error}");
    let expected = "TILEWRIGHT_BUILD was \"binary\"; it must be `source` or `prebuilt`, or not be set";
    assert_eq!(chosen(Some("binary"), None).unwrap_err(), expected);
}

#[test]
fn what_does_not_fit_is_refused() {
    let package = Package::new("refused");
    let (manifest, out) = package.build();
    pack(manifest.clone(), &out, &package.root).unwrap();
    let (one, both) = (BTreeSet::from([Arch::Sm80]), BTreeSet::from([Arch::Sm80, Arch::Sm90a]));
    let refused =
        |archs, arguments: &[String]| package.wanted(archs, arguments).take(&out).unwrap_err().to_string();
    let error = refused(&one, &["--features".into(), "fast".into()]);
    assert!(error.contains("--no-default-features") && error.contains("fast"), "{error}");

    let kernel = package.root.join("prebuilt/sm_90a/fill.ptx.z");
    let good = fs::read(&kernel).unwrap();
    fs::write(&kernel, b"damaged").unwrap();
    let error = refused(&both, &manifest.arguments);
    assert!(error.contains("sm_90a/fill.ptx.z is not what manifest.json says"), "{error}");
    assert!(package.wanted(&one, &manifest.arguments).take(&out).is_ok(), "the other one is whole");
    fs::write(&kernel, good).unwrap();

    fs::write(package.root.join("src/a/mod.rs"), "// changed").unwrap();
    let error = refused(&both, &manifest.arguments);
    assert!(error.contains("compiled from other sources"), "{error}");

    let mut old = package.build().0;
    old.kernels.truncate(1);
    pack(old, &out, &package.root).unwrap();
    let error = refused(&both, &manifest.arguments);
    assert!(error.contains("there are none for sm_90a"), "{error}");
}
