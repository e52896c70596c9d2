//! Does `simjoin text` find and write all pairs?

mod common;
use common::Folder;

#[test]
fn words_are_lower_cased_and_split_at_word_boundaries() {
    let folder = Folder::new();
    folder.file("t.txt", "The Quick, brown FOX!\nthe quick brown fox\nÉcole d'été\nécole d'été\n");
    let out = folder.run("text t.txt --tokens words --jaccard 1").ok();
    assert_eq!(out, "left\tright\toverlap\tsimilarity\n2\t3\t2\t1\n0\t1\t4\t1\n");
}

#[test]
fn qgrams_are_padded_and_may_count_repetitions() {
    let folder = Folder::new();
    // "aaaa" as 2-grams is $a aa a$; as a multiset aa counts three times.
    folder.file("t.txt", "aaaa\naaa\n");
    assert_eq!(folder.run("text t.txt --tokens qgrams:2 --jaccard 1 --count").ok(), "1\n");
    let multiset = "text t.txt --tokens qgrams:2 --multiset --jaccard";
    assert_eq!(folder.run(&format!("{multiset} 1 --count")).ok(), "0\n");
    assert_eq!(folder.run(&format!("{multiset} 0.8 --count")).ok(), "1\n");
    // Three characters make 3 + 3 - 1 padded 3-grams.
    folder.file("u.txt", "abc\nabc\n");
    let out = folder.run("text u.txt --tokens qgrams:3 --overlap 5").ok();
    assert!(out.ends_with("0\t1\t5\t5\n"), "{out}");
}

#[test]
fn the_sample_of_the_readme_is_correct() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/books.csv");
    let folder = Folder::new();
    let out = folder
        .run(&format!("text {sample} --column title --id id --tokens words --jaccard 0.7"))
        .ok();
    let pairs: Vec<&str> = out.lines().skip(1).collect();
    assert!(pairs.contains(&"b001\tb002\t5\t1"), "{out}");
    assert!(pairs.contains(&"b006\tb007\t7\t0.875"), "{out}");
    for technique in ["naive", "all-pairs", "group-join", "skip-join"] {
        let count = folder
            .run(&format!(
                "text {sample} --column title --jaccard 0.7 --count --technique {technique}"
            ))
            .ok();
        assert_eq!(count.trim().parse::<usize>().unwrap(), pairs.len());
    }
}

#[test]
fn tables_join_by_column_and_id() {
    let folder = Folder::new();
    folder
        .file("a.csv", "key,name\n1,\"Smith, John\"\n2,Doe Jane\n")
        .file("b.tsv", "key\tname\nx\tjohn smith\ny\tnobody\n");
    let out = folder.run("text a.csv b.tsv --column name --id key --jaccard 1").ok();
    assert_eq!(out, "left\tright\toverlap\tsimilarity\n1\tx\t2\t1\n");
}
