//! Does bad input cause one clear line, the right exit status, and no output?

mod common;
use common::{Folder, Run, command, program};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const GOOD: &str = "a b c\na b c d\nb c d\n";

/// Runs a join of `input` with `-o pairs.tsv`; it must fail with one line that contains `parts`
/// and leave the folder as it was.
fn refuses(folder: &Folder, command: &str, parts: &[&str]) {
    let before = folder.names();
    folder.run(&format!("{command} --jaccard 0.5 -o pairs.tsv")).fails(1, parts);
    assert_eq!(folder.names(), before, "{command}");
}

#[test]
fn missing_files_are_refused() {
    refuses(&Folder::new(), "sets nowhere.txt", &["nowhere.txt", "No such file"]);
    let folder = Folder::new();
    refuses(folder.file("a.txt", GOOD), "sets a.txt nowhere.txt", &["nowhere.txt"]);
}

#[test]
fn directories_are_refused() {
    let folder = Folder::new();
    std::fs::create_dir(folder.join("d")).unwrap();
    refuses(&folder, "sets d", &["d: ", "directory"]);
}

#[test]
fn unreadable_files_are_refused() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD);
    std::fs::set_permissions(folder.join("a.txt"), PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let command = |program: &std::path::Path| {
        let mut command = command(program, folder.path());
        command.args(["sets", "a.txt", "--jaccard", "0.5"]);
        command
    };
    let output = if std::fs::read(folder.join("a.txt")).is_ok() {
        // The administrator can read everything, so another user runs the program.
        let copy = folder.join("simjoin");
        // A program that is open for writing cannot be run, and another test that has just forked may hold it open. So
        // another process copies it.
        assert!(Command::new("cp").args([program().as_ref(), &*copy]).status().unwrap().success());
        command(&copy).uid(65534).output().unwrap()
    } else {
        command(program().as_ref()).output().unwrap()
    };
    Run::new(output).fails(1, &["a.txt", "ermission denied"]);
}

#[test]
fn invalid_utf8() {
    let folder = Folder::new();
    folder.file("a.txt", b"a b\nc \xff d\n");
    refuses(&folder, "sets a.txt", &["a.txt", "line 2", "UTF-8"]);
    refuses(&folder, "text a.txt", &["a.txt", "line 2", "UTF-8"]);
    folder.file("a.csv", b"t\na\n\xff\n");
    refuses(&folder, "text a.csv", &["a.csv", "line 3", "UTF-8"]);
}

#[test]
fn ragged_csv_is_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "id,t\n1,a\n2,b,c\n");
    refuses(
        &folder,
        "text a.csv --column t",
        &["a.csv", "line 3", "3 fields found", "the header has 2"],
    );
}

#[test]
fn missing_columns_are_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "id,t\n1,a\n").file("a.jsonl", "{\"t\":\"a\"}\n{\"u\":\"a\"}\n");
    refuses(
        &folder,
        "text a.csv --column title",
        &["a.csv", "`title`", "the columns are `id`, `t`"],
    );
    refuses(&folder, "text a.csv --column t --id key", &["a.csv", "`key`", "`id`, `t`"]);
    refuses(&folder, "text a.csv", &["a.csv", "--column", "`id`, `t`"]);
    refuses(&folder, "text a.jsonl --column t", &["a.jsonl", "line 2", "`t`"]);
}

#[test]
fn columns_of_wrong_types_are_refused() {
    let folder = Folder::new();
    folder.file("a.jsonl", "{\"t\":\"a\"}\n{\"t\":5}\n").file("l.jsonl", "{\"t\":[\"a\"]}\n");
    refuses(&folder, "text a.jsonl --column t", &["a.jsonl", "line 2", "expected"]);
    refuses(&folder, "text l.jsonl --column t", &["l.jsonl", "line 1", "expected"]);
    // An output of simjoin is a Parquet file with a column of numbers.
    folder.file("a.txt", GOOD).run("sets a.txt --jaccard 0.5 -o out.parquet").ok();
    refuses(&folder, "text out.parquet --column overlap", &["out.parquet", "overlap", "expected"]);
}

#[test]
fn null_rows_match_nothing_and_null_elements_are_refused() {
    let folder = Folder::new();
    let rows = ["null", "\"a\"", "null", "\"a\""].map(|text| format!("{{\"t\":{text}}}\n"));
    folder.file("a.jsonl", rows.concat()).file("b.jsonl", "{\"t\":[\"a\",null]}\n");
    let out = folder.run("text a.jsonl --column t --jaccard 0.5").ok();
    assert_eq!(out, "left\tright\toverlap\tsimilarity\n1\t3\t1\t1\n");
    refuses(&folder, "sets b.jsonl --column t", &["b.jsonl", "line 1", "null"]);
}

#[test]
fn truncated_gzip_and_zstd_are_refused() {
    let folder = Folder::new();
    // The first bytes of a gzip member and of a zstd frame, which should continue.
    folder.file("a.txt.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1, 200, 0, 55, 255, b'a']);
    refuses(&folder, "sets a.txt.gz", &["a.txt.gz"]);
    folder.file("a.txt.zst", [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x41, 0x00, 0x00, b'a']);
    refuses(&folder, "sets a.txt.zst", &["a.txt.zst"]);
}

#[test]
fn truncated_parquet_and_arrow_are_refused() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD);
    for name in ["out.parquet", "out.arrow"] {
        folder.run(&format!("sets a.txt --jaccard 0.5 -o {name}")).ok();
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let cut = format!("cut_{name}");
        for length in [0, 3, 8, bytes.len() / 2, bytes.len() - 1] {
            folder.file(&cut, &bytes[..length]);
            refuses(&folder, &format!("sets {cut} --column left"), &[&cut]);
        }
    }
}

#[test]
fn files_without_tokens_are_refused() {
    let folder = Folder::new();
    folder.file("empty.txt", "").file("blank.txt", "\n \n\t\n").file("header.csv", "t\n");
    refuses(&folder, "sets empty.txt", &["empty.txt", "no records"]);
    refuses(&folder, "sets blank.txt", &["blank.txt", "no tokens", "every record"]);
    refuses(&folder, "text header.csv", &["header.csv", "no records"]);
    folder.file("a.txt", GOOD);
    refuses(&folder, "sets a.txt blank.txt", &["blank.txt"]);
}

#[test]
fn duplicate_ids_are_refused() {
    let folder = Folder::new();
    folder.file("a.csv", "id,t\n7,a\n8,b\n7,c\n");
    refuses(&folder, "text a.csv --column t --id id", &["a.csv", "line 4", "`7`", "line 2"]);
}

#[test]
fn lines_that_are_not_json_are_refused() {
    let folder = Folder::new();
    folder.file("a.jsonl", "{\"t\":\"a\"}\n{\"t\":\n");
    refuses(&folder, "text a.jsonl --column t", &["a.jsonl", "line 2"]);
}

#[test]
fn missing_output_folders_are_refused() {
    let folder = Folder::new();
    let run = folder.file("a.txt", GOOD).run("sets a.txt --jaccard 0.5 -o no/where/pairs.tsv");
    run.fails(1, &["no/where/pairs.tsv", "the folder no/where does not exist"]);
    let run = folder.run("sets a.txt --jaccard 0.5 --groups -o no/where/groups.tsv");
    run.fails(1, &["no/where/groups.tsv"]);
    let run = folder.run("sets a.txt --jaccard 0.5 -o pairs.tsv --stats no/where/stats.json");
    run.fails(1, &["no/where/stats.json"]);
    assert_eq!(folder.names(), ["a.txt"]);
}

/// Returns sets with a million similar pairs, more than any buffer holds.
fn many_pairs() -> String {
    (0..1500).map(|row| format!("a b c d e f {row}\n")).collect()
}

#[test]
fn full_disks_are_reported() {
    let folder = Folder::new();
    folder.file("a.txt", many_pairs());
    // Writing directly to a device that is always full.
    if std::path::Path::new("/dev/full").exists() {
        folder
            .run("sets a.txt --jaccard 0.5 -o /dev/full")
            .fails(1, &["/dev/full", "No space left"]);
    }
    // A small file system, if the kernel allows mounting one.
    std::fs::create_dir(folder.join("small")).unwrap();
    for format in ["tsv", "parquet", "arrow", "jsonl", "csv"] {
        let script = format!(
            "mount -t tmpfs -o size=32k tmpfs small || exit 77; \
             {} sets a.txt --jaccard 0.5 -o small/pairs.{format} 2>err; echo $?; ls -A small | wc -l",
            program()
        );
        let output = command("unshare", folder.path())
            .args(["--mount", "--map-root-user", "sh", "-c", &script])
            .output();
        match output {
            Ok(output) if output.status.success() => {
                let out = String::from_utf8(output.stdout).unwrap();
                assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["1", "0"], "{format}");
                let err = std::fs::read_to_string(folder.join("err")).unwrap();
                assert!(err.contains(&format!("small/pairs.{format}: ")), "{err}");
                assert!(err.contains("No space left") && err.lines().count() == 1, "{err}");
            }
            _ => eprintln!("no file system can be mounted here: only /dev/full was tried"),
        }
    }
}

#[test]
fn the_run_ends_quietly_when_the_reader_of_standard_output_ends() {
    let folder = Folder::new();
    folder.file("a.txt", many_pairs());
    let named = "sets a.txt --jaccard 0.5 -o /dev/stdout";
    assert!(folder.leave_after_a_line(named).starts_with("left"));
    assert!(folder.leave_after_a_line("sets a.txt --jaccard 0.5").starts_with("left"));
}

#[test]
fn interrupts_leave_no_files() {
    // Writing billions of pairs takes any machine minutes. The interrupt comes first while different sets are joined,
    // then while rows that hold the same set are written.
    for different in [true, false] {
        let folder = Folder::new();
        let rows: String = (0..100_000)
            .map(|row| format!("a b c d e f g h i j {}\n", if different { row } else { 0 }))
            .collect();
        folder.file("a.txt", rows);
        let mut child = folder
            .command()
            .args(["sets", "a.txt", "--jaccard", "0.5", "-o", "pairs.jsonl", "--stats", "s.json"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Wait until there are temporary files to clean up.
        while folder.names().len() < 3 {
            assert!(child.try_wait().unwrap().is_none(), "the join ended too soon");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        Run::new(output).fails(130, &["interrupted"]);
        assert_eq!(folder.names(), ["a.txt"]);
    }
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD);
    for (arguments, part) in [
        ("sets a.txt", "--jaccard"),
        ("sets --jaccard 0.5", "LEFT"),
        ("sets a.txt --jaccard 0", "is zero"),
        ("sets a.txt --jaccard -0.5", "is negative"),
        ("sets a.txt --jaccard 1.5", "is above 1"),
        ("sets a.txt --cosine NaN", "is not a number"),
        ("sets a.txt --dice much", "is not a number"),
        ("sets a.txt --overlap 0", "whole number"),
        ("sets a.txt --overlap 2.5", "whole number"),
        ("sets a.txt --jaccard 0.5 --dice 0.5", "cannot be used with"),
        ("sets a.txt --jaccard 0.5 --count --groups", "cannot be used with"),
        ("sets a.txt --jaccard 0.5 --count -o x.tsv", "cannot be used with"),
        ("sets a.txt a.txt --jaccard 0.5 --groups", "cannot be used with"),
        ("sets a.txt a.txt --jaccard 0.5 --with-itself --groups", "cannot be used with"),
        ("sets a.txt --jaccard 0.5 --with-itself", "--with-itself needs two files"),
        ("text a.txt --jaccard 0.5 --with-itself --count", "RIGHT is missing"),
        ("sets a.txt --jaccard 0.5 --with-itself --groups", "--with-itself needs two files"),
        ("sets a.txt --jaccard 0.5 --technique magic", "ppjoin"),
        ("sets a.txt --jaccard 0.5 --engine tpu", "hybrid"),
        ("sets a.txt --jaccard 0.5 --threads 0", "--threads 0 does not fit"),
        ("overlaps a.txt --top 0", "--top \"0\" does not fit"),
        ("overlaps a.txt --memory lots", "--memory \"lots\" is not a size"),
        ("generate zipf --sets 0 --universe 1 --size 1", "--sets \"0\" is zero"),
        ("sets a.txt --jaccard 0.5 --threads -1", "--threads"),
        ("sets a.txt --jaccard 0.5 --memory -1", "--memory"),
        ("sets a.txt --jaccard 0.5 --memory lots", "512M"),
        ("sets a.txt --jaccard 0.5 --device-memory lots", "--device-memory"),
        ("sets a.txt --jaccard 0.5 --format xml", "parquet"),
        ("sets a.txt --jaccard 0.5 -o pairs.xyz", ".parquet"),
        ("text a.txt --jaccard 0.5 --tokens letters", "qgrams:"),
        ("text a.txt --jaccard 0.5 --tokens qgrams:0", "qgrams:"),
        ("sets a.txt --jaccard 0.5 --surprise", "--surprise"),
        ("sets a.txt --surprise", "simjoin sets --help"),
        ("fly a.txt", "fly"),
        ("fly a.txt", "'simjoin --help'"),
        ("sets - - --jaccard 0.5", "standard input"),
        ("sets a.txt --column x --jaccard 0.5", "--column"),
        ("sets a.txt --id x --jaccard 0.5", "--id"),
    ] {
        let run = folder.run(arguments);
        assert!(run.err.contains(part), "{arguments}: {run:?}");
        run.fails(2, &[]);
    }
    assert_eq!(folder.names(), ["a.txt"]);
}

#[test]
fn two_outputs_to_one_file_are_refused() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD).file("p.csv", "1,2\n3,4\n");
    for (arguments, parts) in [
        ("sets a.txt --jaccard 0.5 -o x.tsv --stats x.tsv", ["--output", "--stats"]),
        ("sets a.txt --jaccard 0.5 -o x.tsv --report ./x.tsv", ["--output", "--report"]),
        ("text a.txt --jaccard 0.5 --trace x --stats x", ["--stats", "--trace"]),
        ("vectors p.csv --within 1 --report x --stats x", ["--stats", "--report"]),
        ("overlaps a.txt -o x.tsv --stats x.tsv", ["--output", "--stats"]),
        ("intersect a.txt a.txt -o x --stats x", ["--output", "--stats"]),
    ] {
        folder.run(arguments).fails(2, &[parts[0], parts[1], "expected two different files"]);
    }
    assert_eq!(folder.names(), ["a.txt", "p.csv"]);
    // A device accepts any number of outputs.
    folder.run("sets a.txt --jaccard 0.5 -o /dev/null --stats /dev/null").ok();
}

#[test]
fn output_that_names_an_input_is_refused() {
    let folder = Folder::new();
    folder
        .file("a.tsv", GOOD)
        .file("b.tsv", GOOD)
        .file("p.csv", "1,2\n3,4\n")
        .file("n.txt", "1 2\n");
    std::os::unix::fs::symlink("a.tsv", folder.join("link.tsv")).unwrap();
    std::fs::hard_link(folder.join("a.tsv"), folder.join("hard.tsv")).unwrap();
    let before = folder.names();
    for (arguments, parts) in [
        ("sets a.tsv --format lines --jaccard 0.5 -o a.tsv", ["--output a.tsv", "the input a.tsv"]),
        ("sets a.tsv --format lines --jaccard 0.5 -o ./a.tsv", ["--output ./a.tsv", "a.tsv"]),
        ("sets a.tsv --format lines --jaccard 0.5 --stats a.tsv", ["--stats a.tsv", "a.tsv"]),
        ("text a.tsv --format lines --dice 0.5 --report link.tsv", ["--report link.tsv", "a.tsv"]),
        ("sets link.tsv --format lines --dice 0.5 --trace a.tsv", ["--trace a.tsv", "link.tsv"]),
        ("sets b.tsv a.tsv --format lines --dice 0.5 -o hard.tsv", ["--output hard.tsv", "a.tsv"]),
        ("sets none.tsv b.tsv --format lines --dice 0.5 -o b.tsv", ["--output b.tsv", "b.tsv"]),
        ("vectors p.csv --within 1 -o p.csv", ["--output p.csv", "the input p.csv"]),
        ("overlaps a.tsv --format lines -o link.tsv", ["--output link.tsv", "a.tsv"]),
        ("intersect n.txt a.tsv -o n.txt", ["--output n.txt", "the input n.txt"]),
    ] {
        folder
            .run(arguments)
            .fails(2, &[parts[0], parts[1], "same file", "expected two different files"]);
        assert_eq!(folder.names(), before, "{arguments}");
        assert_eq!(std::fs::read_to_string(folder.join("a.tsv")).unwrap(), GOOD, "{arguments}");
        assert_eq!(std::fs::read_to_string(folder.join("n.txt")).unwrap(), "1 2\n", "{arguments}");
    }
    // Redirected standard input and output are files as well.
    let open = |name: &str| {
        std::fs::OpenOptions::new().append(true).read(true).open(folder.join(name)).unwrap()
    };
    for (arguments, part) in [
        ("sets - --jaccard 0.5 -o a.tsv", "standard input"),
        ("sets b.tsv --format lines --jaccard 0.5 --stats n.txt", "standard output"),
    ] {
        let mut command = folder.command();
        command.args(arguments.split(' ')).stdin(open("a.tsv")).stdout(open("n.txt"));
        Run::new(command.output().unwrap()).fails(2, &[part, "same file"]);
    }
    assert_eq!(folder.names(), before);
}

#[test]
fn output_to_the_path_of_standard_output_is_appended() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD).file("out", "before\n");
    let open = || std::fs::OpenOptions::new().append(true).open(folder.join("out")).unwrap();
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        folder.file("out", "before\n");
        let mut command = folder.command();
        command.args(["sets", "a.txt", "--jaccard", "0.7", "-o", path]).stdout(open());
        Run::new(command.output().unwrap()).ok();
        let out = std::fs::read_to_string(folder.join("out")).unwrap();
        assert_eq!(out, "before\nleft\tright\toverlap\tsimilarity\n0\t1\t3\t0.75\n1\t2\t3\t0.75\n");
    }
    assert_eq!(folder.names(), ["a.txt", "out"]);
}

#[test]
fn paths_need_not_be_utf_8_and_control_characters_are_escaped() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = |bytes: &'static [u8]| std::ffi::OsStr::from_bytes(bytes);
    std::fs::write(folder.path().join(name(b"\xe9.txt")), GOOD).unwrap();
    let mut command = folder.command();
    command
        .arg("sets")
        .arg(name(b"\xe9.txt"))
        .args(["--jaccard", "0.5", "-o"])
        .arg(name(b"\xff.tsv"));
    Run::new(command.output().unwrap()).ok();
    assert!(folder.path().join(name(b"\xff.tsv")).exists());
    for arguments in [
        &["sets", "\x1b[2Jnone.txt", "--jaccard", "0.5"][..],
        &["sets", "\x1b[2J.csv.xz", "--jaccard", "0.5", "-o", "\x1b[2J"],
        &["vectors", "\x1b[2J", "--within", "1"],
        &["generate", "inflate", "\x1b[2Jnone.txt", "--times", "2"],
    ] {
        let mut command = folder.command();
        let run = Run::new(command.args(arguments).output().unwrap());
        assert!(run.err.contains("\\u{1b}[2J") && !run.err.contains('\x1b'), "{run:?}");
    }
}

#[test]
fn next_output_removes_temporary_files_of_killed_runs() {
    let folder = Folder::new();
    let rows: String = (0..100_000).map(|row| format!("a b c d e f g h i j {row}\n")).collect();
    folder.file("a.txt", rows).file("b.txt", GOOD);
    let mut child = folder
        .command()
        .args(["sets", "a.txt", "--jaccard", "0.5", "-o", "pairs.jsonl"])
        .spawn()
        .unwrap();
    while folder.names().len() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "the join ended too soon");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // The file of a live process is kept.
    folder.run("sets b.txt --jaccard 0.5 -o b.tsv").ok();
    assert_eq!(folder.names().len(), 4);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(folder.names().len(), 4);
    folder.run("sets b.txt --jaccard 0.5 -o b.tsv").ok();
    assert_eq!(folder.names(), ["a.txt", "b.tsv", "b.txt"]);
}

#[test]
fn closed_standard_error_does_not_end_a_join() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD).file("n.txt", "1 2 3\n").file("p.csv", "1,2\n3,4\n");
    for (arguments, answer) in [
        ("sets a.txt --jaccard 0.5 --count --explain", "3\n"),
        ("vectors p.csv --within 3 --count --explain", "1\n"),
        ("overlaps a.txt --positive --count --explain", "3\n"),
        ("intersect n.txt n.txt --explain", "3\n"),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = folder.command();
        command.args(arguments.split(' ')).stderr(full);
        let run = Run::new(command.output().unwrap());
        assert_eq!((run.status, run.out.as_str()), (0, answer), "{arguments}");
    }
}

#[test]
fn devices_prints_the_reason_and_succeeds_if_there_is_no_gpu() {
    // Hides the GPU if there is one.
    let run = Folder::new().run_in("devices", b"", &[("CUDA_VISIBLE_DEVICES", "-1")]);
    assert_eq!(run.status, 0, "{run:?}");
    assert_eq!(run.out, "device\tname\tmemory\tcapability\tdriver\ttechniques\n");
    let why = run.err.trim_end().strip_prefix("no GPU was found: ").unwrap_or_default();
    assert!(why.len() > 20 && !why.contains('\n'), "{run:?}");
}

#[test]
fn missing_engines_and_too_little_memory_are_refused() {
    let folder = Folder::new();
    folder.file("a.txt", GOOD);
    // This works if there is a GPU.
    for engine in ["gpu", "hybrid"] {
        let gpu = folder.run(&format!("sets a.txt --jaccard 0.5 --engine {engine} --count"));
        if !folder.run("devices").err.is_empty() {
            gpu.fails(1, &["NVIDIA driver"]);
        }
    }
    folder.run("sets a.txt --jaccard 0.5 --split 0.5").fails(2, &["--split", "hybrid"]);
    folder
        .run("sets a.txt --jaccard 0.5 --engine hybrid --split 2")
        .fails(2, &["--split", "from 0 to 1"]);
    folder
        .run("sets a.txt --jaccard 0.5 --engine cpu --technique gpu-bitmap")
        .fails(2, &["gpu-bitmap", "engine gpu"]);
    for (engine, technique, parts) in [
        ("gpu", "ppjoin", ["ppjoin", "on a GPU", "gpu-prefix"]),
        ("auto", "ppjoin+gpu-bitmap", ["ppjoin+gpu-bitmap", "expected one", "engine hybrid"]),
        ("hybrid", "ppjoin+bitmap", ["ppjoin+bitmap", "expected one", "for the GPU"]),
        ("hybrid", "ppjoin+magic", ["magic", "unknown", "gpu-prefix"]),
    ] {
        folder
            .run(&format!("sets a.txt --jaccard 0.5 --engine {engine} --technique {technique}"))
            .fails(2, &parts);
    }
    folder
        .run("overlaps a.txt --engine cpu --technique combined")
        .fails(2, &["combined", "engine gpu"]);
    folder.run("overlaps a.txt --engine gpu --technique product").fails(2, &["on a GPU", "index"]);
    folder
        .run("intersect a.txt a.txt --engine cpu --technique ip")
        .fails(2, &["technique ip", "engine gpu"]);
    folder.run("sets a.txt --jaccard 0.5 --memory 10").fails(1, &["memory", "limit is 10"]);
    folder.run("overlaps a.txt --memory 1K").fails(1, &["memory", "limit is 1024"]);
}
