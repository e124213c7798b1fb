//! The crates that can be published, in an order in which each comes after what it depends on.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shell::{cargo, line};

/// A crate that can be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    pub name: String,
    pub version: String,
    pub description: String,
    pub rust_version: String,
    /// Where its `Cargo.toml` is.
    pub folder: PathBuf,
    /// The crates that must be published before it.
    needs: Vec<String>,
}

/// The crates of the workspace in this folder that may be published.
pub fn publishable(workspace: &Path) -> Result<Vec<Crate>, String> {
    let mut command = cargo(&["metadata", "--format-version=1", "--no-deps", "--manifest-path"]);
    command.arg(workspace.join("Cargo.toml"));
    let line = line(&command);
    let output = command.output().map_err(|error| format!("cannot run `{line}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{line}` failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    in_order(read(&String::from_utf8_lossy(&output.stdout))?)
}

/// The crates that cargo's description of a workspace has, with what a registry wants to know of each.
fn read(metadata: &str) -> Result<Vec<Crate>, String> {
    let metadata: Value =
        serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut crates = Vec::new();
    for package in list(&metadata["packages"]) {
        // `publish = false` is an empty list of registries.
        if package["publish"].is_array() {
            continue;
        }
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        if let Some(missing) =
            ["description", "license", "rust_version"].iter().find(|key| text(key).is_empty())
        {
            return Err(format!("{name} has no {missing}"));
        }
        // Tests need what they name by a version; what they name by its path alone is left out of the archive.
        let is_needed = |needed: &Value| needed["kind"] != "dev" || needed["req"] != "*";
        let needs = list(&package["dependencies"]).into_iter().filter(is_needed);
        let needs = needs.filter_map(|needed| needed["name"].as_str().map(str::to_owned)).collect();
        let manifest = PathBuf::from(text("manifest_path"));
        crates.push(Crate {
            name,
            version: text("version"),
            description: text("description"),
            rust_version: text("rust_version"),
            folder: manifest.parent().map(Path::to_owned).unwrap_or_default(),
            needs,
        });
    }
    Ok(crates)
}

fn in_order(mut crates: Vec<Crate>) -> Result<Vec<Crate>, String> {
    let mut ordered: Vec<Crate> = Vec::new();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    while !crates.is_empty() {
        let waits =
            |one: &Crate| one.needs.iter().any(|needed| crates.iter().any(|other| other.name == *needed));
        let Some(next) = crates.iter().position(|one| !waits(one)) else {
            let names: Vec<_> = crates.iter().map(|one| one.name.as_str()).collect();
            return Err(format!("these crates depend on each other: {}", names.join(", ")));
        };
        ordered.push(crates.remove(next));
    }
    Ok(ordered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, extra: &str) -> String {
        format!(
            r#"{{"name": "{name}", "version": "1.0.0", "description": "d", "license": "MIT", "rust_version": "1.90",
                 "manifest_path": "/w/{name}/Cargo.toml", {extra}}}"#
        )
    }

    #[test]
    fn what_is_needed_comes_first() {
        let packages = [
            package(
                "a",
                r#""publish": null, "dependencies": [{"name": "b", "kind": null}, {"name": "serde", "kind": null}]"#,
            ),
            package(
                "b",
                r#""publish": null, "dependencies": [{"name": "c", "kind": "build"}, {"name": "a", "kind": "dev", "req": "*"}]"#,
            ),
            package("c", r#""publish": null, "dependencies": []"#),
            package("own", r#""publish": [], "dependencies": []"#),
        ];
        let crates = read(&format!(r#"{{"packages": [{}]}}"#, packages.join(","))).unwrap();
        let names: Vec<_> = in_order(crates).unwrap().into_iter().map(|one| (one.name, one.folder)).collect();
        let expected = ["c", "b", "a"].map(|name| (name.to_owned(), Path::new("/w").join(name)));
        assert_eq!(names, expected);
    }

    #[test]
    fn what_a_registry_asks_for_is_missed() {
        let one = package("a", r#""publish": null, "dependencies": []"#).replace(r#""license": "MIT", "#, "");
        assert_eq!(read(&format!(r#"{{"packages": [{one}]}}"#)).unwrap_err(), "a has no license");
    }
}
