//! Do the examples run?

macro_rules! examples {
    ($($(#[$when:meta])* $name:ident = $path:literal;)*) => {
        $($(#[$when])*
        #[path = $path]
        mod $name;

        $(#[$when])*
        #[test]
        fn $name() {
            $name::main().unwrap();
        })*
    };
}

examples! {
    explain = "../examples/explain.rs";
    #[cfg(feature = "io")]
    files = "../examples/files.rs";
    groups = "../examples/groups.rs";
    integer_sets = "../examples/integer_sets.rs";
    near_duplicates = "../examples/near_duplicates.rs";
    nearby_vectors = "../examples/nearby_vectors.rs";
    stream = "../examples/stream.rs";
    two_tables = "../examples/two_tables.rs";
}
