//! Tells the tests which sources they were built from.

#[path = "source_hash.rs"]
mod source_hash;

fn main() -> std::io::Result<()> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let hash = source_hash::source_hash(folder.as_ref())?;
    println!("cargo::rustc-env=SIMJOIN_GPU_SOURCES={hash}");
    for part in ["Cargo.toml", "build.rs", "source_hash.rs", "src", "tests"] {
        println!("cargo::rerun-if-changed={part}");
    }
    Ok(())
}
