//! The project of the proof: a program that calls operators as a user's does, and checks what they compute.

/// Its modules, each for the operator of its name.
const PROGRAMS: [(&str, &str); 4] = [
    ("attention", include_str!("programs/attention.rs")),
    ("gemm", include_str!("programs/gemm.rs")),
    ("grouped_gemm", include_str!("programs/grouped_gemm.rs")),
    ("reduce", include_str!("programs/reduce.rs")),
];

/// The project's files, by their paths: it depends on tilewright of this version with these operators.
pub fn files(version: &str, operators: &[String]) -> Vec<(String, String)> {
    let quoted =
        |names: &[String]| names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let device = ["emulator", "sm_80", "sm_90a"].map(str::to_owned);
    let features = quoted(&[operators, &device[..]].concat());
    let manifest = format!(
        "[package]\nname = \"proof\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         tilewright = {{ version = \"{version}\", default-features = false, features = [{features}] }}\n"
    );
    let called: Vec<_> =
        PROGRAMS.iter().filter(|(name, _)| operators.iter().any(|one| one == name)).collect();
    let modules: String = called.iter().map(|(name, _)| format!("mod {name};\n")).collect();
    let calls: String = called.iter().map(|(name, _)| format!("    {name}::check(&device)?;\n")).collect();
    let main = format!(
        "{modules}\nfn main() -> tilewright::Result<()> {{\n    let device = tilewright::Device::default()?;\n    \
         println!(\"{{device:?}}\");\n{calls}    Ok(())\n}}\n"
    );
    let mut files = vec![("Cargo.toml".to_owned(), manifest), ("src/main.rs".to_owned(), main)];
    files.extend(called.iter().map(|(name, text)| (format!("src/{name}.rs"), (*text).to_owned())));
    files
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn the_project_calls_the_operators_that_it_takes() {
        let files = files("0.1.0", &["gemm".to_owned(), "mla".to_owned()]);
        let paths: Vec<_> = files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["Cargo.toml", "src/main.rs", "src/gemm.rs"]);
        assert!(
            files[0].1.contains(r#"features = ["gemm", "mla", "emulator", "sm_80", "sm_90a"]"#),
            "{}",
            files[0].1
        );
        assert!(
            files[1].1.contains("gemm::check(&device)?;") && !files[1].1.contains("mla"),
            "{}",
            files[1].1
        );
    }
}
