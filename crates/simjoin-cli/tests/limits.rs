//! What happens if the system refuses threads or memory?
//!
//! The tests need `prlimit` and other users, so they only run on Linux.
#![cfg(target_os = "linux")]

mod common;

use common::{Folder, Run, command, program};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Returns a command that runs the program in the folder within a limit of `prlimit`.
fn limited(folder: &Folder, limit: &str, arguments: &str) -> Command {
    let mut run = command("prlimit", folder.path());
    run.arg(limit).arg(folder.join("simjoin")).args(arguments.split_whitespace());
    run
}

/// Returns a folder that every user may use, with the program in it.
fn open_folder() -> Folder {
    let folder = Folder::new();
    std::fs::copy(program(), folder.join("simjoin")).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    folder
}

#[test]
fn answer_is_the_same_with_fewer_threads_than_wanted() {
    let folder = open_folder();
    let lines: String =
        (0..2000).map(|n| format!("a{} b{} c{}\n", n % 7, n % 11, n % 13)).collect();
    folder.file("a.txt", &lines).file("v.csv", "1,2\n1,2.5\n9,9\n");
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    for arguments in [
        "sets a.txt --jaccard 0.5 --count --threads 4",
        "text a.txt --tokens qgrams:3 --jaccard 0.9 --threads 4",
        "vectors v.csv --within 1 --count --threads 4",
        "overlaps a.txt --positive --count --threads 4",
        "intersect a.txt a.txt --threads 4",
        "bench a.txt --jaccard 0.9 --threads 4 --repeat 1 --technique ppjoin --json --limit 100",
    ] {
        let expected = folder.run(arguments).ok();
        for processes in 1..=5 {
            let mut run = limited(&folder, &format!("--nproc={processes}"), arguments);
            // The limit does not apply to root; another user has only this process.
            if is_root {
                run.uid(1_000_000_000 + std::process::id());
            }
            let found = Run::new(run.output().unwrap()).ok();
            match arguments.starts_with("bench") {
                true => assert!(found.contains("\"pairs\""), "{found}"),
                false => assert_eq!(found, expected, "{arguments}, {processes} processes"),
            }
        }
    }
}

#[test]
fn refused_memory_is_one_line_and_status_1() {
    let folder = open_folder();
    // One record is larger than the memory; the file is sparse, so it needs no space on the disk.
    folder.file("a.txt", "");
    let file = std::fs::File::options().write(true).open(folder.join("a.txt")).unwrap();
    file.set_len(4 << 30).unwrap();
    for command in ["sets", "text"] {
        let arguments = format!("{command} a.txt --jaccard 0.5 --count --threads 2");
        let run = limited(&folder, "--as=700000000", &arguments).output().unwrap();
        Run::new(run).fails(1, &["not enough memory: the system refused", "bytes"]);
    }
    // If a refused reservation is handled, the message names the data that is too large.
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000, 16), }";
    let npy = format!("\u{93}NUMPY\u{1}\u{0}\u{76}\u{0}{header:<117}\n");
    folder.file("v.npy", npy.chars().map(|c| c as u8).collect::<Vec<u8>>());
    let file = std::fs::File::options().write(true).open(folder.join("v.npy")).unwrap();
    file.set_len(128 + 6_400_000_000).unwrap();
    let vectors = "vectors v.npy --within 1 --count";
    let run = limited(&folder, "--as=700000000", vectors).output().unwrap();
    Run::new(run).fails(1, &["v.npy needs 6400000000 bytes of memory"]);
}
