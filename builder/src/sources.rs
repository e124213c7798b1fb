//! The device crate as cargo sees it: its library, and the files that its kernels depend on.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::BuildError;
use crate::compile::TARGET;
use crate::environment::{clean, without_wrappers};
use crate::files::{make_folder, while_doing};
use crate::toolchain::Toolchain;

/// The device crate.
#[derive(Debug)]
pub(crate) struct DeviceCrate {
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The package's name.
    pub package: String,
    /// The library's name in Rust.
    pub library: String,
    /// The package and all that it depends on, each with its version, source and features.
    pub packages: Vec<(String, Vec<String>)>,
    /// Their `Cargo.toml`s, where they are not from a registry.
    pub manifests: Vec<PathBuf>,
    /// The `Cargo.toml` of the workspace.
    pub workspace: PathBuf,
    /// Files and folders whose change makes the kernels change.
    pub watched: BTreeSet<PathBuf>,
    /// Those of them that are sources of what the package depends on.
    pub depended: BTreeSet<PathBuf>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Option<Resolve>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    source: Option<String>,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    features: Vec<String>,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    kind: Option<String>,
}

impl DeviceCrate {
    /// Asks cargo about the crate in this folder, with the features that these arguments choose.
    ///
    /// What cargo learns of rustc it remembers in the folder `shared`.
    pub fn read(
        toolchain: &Toolchain,
        folder: &Path,
        features: &[String],
        shared: &Path,
    ) -> Result<Self, BuildError> {
        let problem = |problem: String| BuildError::DeviceCrate { path: folder.to_owned(), problem };
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(problem("there is no Cargo.toml".into()));
        }
        let mut command = Command::new(&toolchain.cargo);
        clean(&mut command);
        without_wrappers(&mut command, folder);
        let build = shared.join("build");
        make_folder(&build)?;
        command.env("CARGO_TARGET_DIR", build);
        command.env("RUSTC", &toolchain.rustc).env("RUSTC_BOOTSTRAP", "1");
        command.args(["metadata", "--format-version=1", "--filter-platform", TARGET, "--manifest-path"]);
        command.arg(&manifest).args(features).current_dir(folder);
        let output = command.output().map_err(while_doing("running", &toolchain.cargo))?;
        if !output.status.success() {
            return Err(problem(format!("cargo refuses it:\n{}", String::from_utf8_lossy(&output.stderr))));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| problem(format!("cargo describes it in a form that is not known: {error}")))?;
        Self::from_metadata(&manifest, &metadata).map_err(problem)
    }

    fn from_metadata(manifest: &Path, metadata: &Metadata) -> Result<Self, String> {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let root = metadata
            .packages
            .iter()
            .find(|package| real(&package.manifest_path) == real(manifest))
            .ok_or("its Cargo.toml describes a workspace, not a package")?;
        let library = root
            .targets
            .iter()
            .find(|target| {
                target.kind.iter().any(|kind| matches!(kind.as_str(), "lib" | "rlib" | "cdylib" | "dylib"))
            })
            .ok_or("it has no library: kernels are functions of one")?;
        let workspace = metadata.workspace_root.join("Cargo.toml");
        let mut watched = BTreeSet::from([workspace.clone()]);
        let lock = metadata.workspace_root.join("Cargo.lock");
        watched.extend(Some(lock).filter(|lock| lock.is_file()));
        let mut depended = BTreeSet::new();
        let used = used(metadata, &root.id);
        let local = || used.iter().filter(|package| package.source.is_none());
        for package in local() {
            watched.insert(package.manifest_path.clone());
            let home = package.manifest_path.parent().unwrap_or(Path::new("."));
            for target in &package.targets {
                if target
                    .kind
                    .iter()
                    .any(|kind| kind.contains("lib") || kind == "proc-macro" || kind == "custom-build")
                {
                    // A folder of sources is watched whole; the package's own folder holds much else.
                    let folder = target.src_path.parent().filter(|folder| *folder != home);
                    let folder = folder.unwrap_or(&target.src_path).to_owned();
                    if package.id != root.id {
                        depended.insert(folder.clone());
                    }
                    watched.insert(folder);
                }
            }
        }
        let features = |id: &str| {
            let mut nodes = metadata.resolve.iter().flat_map(|resolve| &resolve.nodes);
            nodes.find(|node| node.id == id).map_or_else(Vec::new, |node| node.features.clone())
        };
        Ok(Self {
            manifest: manifest.to_owned(),
            package: root.name.clone(),
            library: library.name.replace('-', "_"),
            packages: used.iter().map(|package| (package.id.clone(), features(&package.id))).collect(),
            manifests: local().map(|package| package.manifest_path.clone()).collect(),
            workspace,
            watched,
            depended,
        })
    }
}

/// The package and all that it depends on, its tests' dependencies left out.
fn used<'a>(metadata: &'a Metadata, root: &str) -> Vec<&'a Package> {
    let packages: HashMap<&str, &Package> = metadata.packages.iter().map(|p| (p.id.as_str(), p)).collect();
    let nodes: HashMap<&str, &Node> =
        metadata.resolve.iter().flat_map(|r| &r.nodes).map(|n| (n.id.as_str(), n)).collect();
    let mut found = BTreeSet::new();
    let mut to_visit = vec![root];
    while let Some(id) = to_visit.pop() {
        let Some((&id, node)) = nodes.get_key_value(id) else { continue };
        if found.insert(id) {
            let normal = |d: &&Dependency| d.dep_kinds.iter().any(|k| k.kind.as_deref() != Some("dev"));
            to_visit.extend(node.deps.iter().filter(normal).map(|d| d.pkg.as_str()));
        }
    }
    found.iter().filter_map(|id| packages.get(id).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w",
        "packages": [
            {"id": "k", "name": "my-kernels", "source": null, "manifest_path": "/w/k/Cargo.toml",
             "targets": [{"name": "my-kernels", "kind": ["lib"], "src_path": "/w/k/src/lib.rs"},
                         {"name": "t", "kind": ["test"], "src_path": "/w/k/tests/t.rs"},
                         {"name": "build-script-build", "kind": ["custom-build"], "src_path": "/w/k/build.rs"}]},
            {"id": "m", "name": "m", "source": null, "manifest_path": "/w/m/Cargo.toml",
             "targets": [{"name": "m", "kind": ["proc-macro"], "src_path": "/w/m/src/lib.rs"}]},
            {"id": "h", "name": "h", "source": "registry", "manifest_path": "/r/h/Cargo.toml",
             "targets": [{"name": "h", "kind": ["lib"], "src_path": "/r/h/src/lib.rs"}]},
            {"id": "dev", "name": "dev", "source": null, "manifest_path": "/w/dev/Cargo.toml",
             "targets": [{"name": "dev", "kind": ["lib"], "src_path": "/w/dev/src/lib.rs"}]}
        ],
        "resolve": {"nodes": [
            {"id": "k", "features": ["fast"], "deps": [{"pkg": "m", "dep_kinds": [{"kind": null}]}, {"pkg": "h", "dep_kinds": [{"kind": null}]},
                                 {"pkg": "dev", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "m", "features": [], "deps": []}, {"id": "h", "features": [], "deps": []},
            {"id": "dev", "features": [], "deps": []}
        ]}
    }"#;

    #[test]
    fn path_dependencies_are_watched() {
        let metadata: Metadata = serde_json::from_str(METADATA).unwrap();
        let found = DeviceCrate::from_metadata(Path::new("/w/k/Cargo.toml"), &metadata).unwrap();
        assert_eq!((found.package.as_str(), found.library.as_str()), ("my-kernels", "my_kernels"));
        let packages = [("h", vec![]), ("k", vec!["fast"]), ("m", vec![])];
        let packages =
            packages.map(|(id, features)| (id.to_owned(), features.into_iter().map(str::to_owned).collect()));
        assert_eq!(found.packages, packages);
        assert_eq!(found.manifests, [Path::new("/w/k/Cargo.toml"), Path::new("/w/m/Cargo.toml")]);
        let watched: Vec<_> = found.watched.iter().map(|path| path.to_str().unwrap()).collect();
        let expected =
            ["/w/Cargo.toml", "/w/k/Cargo.toml", "/w/k/build.rs", "/w/k/src", "/w/m/Cargo.toml", "/w/m/src"];
        assert_eq!(watched, expected);
        assert_eq!(found.depended, BTreeSet::from([PathBuf::from("/w/m/src")]));
    }

    #[test]
    fn a_package_without_library_is_refused() {
        let metadata: Metadata = serde_json::from_str(&METADATA.replacen("\"lib\"", "\"bin\"", 1)).unwrap();
        let error = DeviceCrate::from_metadata(Path::new("/w/k/Cargo.toml"), &metadata).unwrap_err();
        assert!(error.contains("it has no library"), "{error}");
        let error = DeviceCrate::from_metadata(Path::new("/w/Cargo.toml"), &metadata).unwrap_err();
        assert!(error.contains("describes a workspace"), "{error}");
    }
}
