//! Do intersections report what was found, and how?

use simjoin::engine::{AUTO, Engine, Error, Intersect, Processor, Subject, intersect, names};
use std::ops::ControlFlow;

#[test]
fn reports_tell_what_was_found_and_how() {
    let a: Vec<u32> = (0..1000).collect();
    let b: Vec<u32> = (500..2500).collect();
    for name in names(Subject::Intersections, Processor::Cpu).chain([AUTO]) {
        let report = intersect().technique(name).threads(2).size(&a, &b).unwrap();
        assert_eq!((report.size, report.sets, report.threads), (500, (1000, 2000), 2));
        assert_eq!(report.containment(), 0.5);
        assert!(name == "auto" || report.technique == name);
        assert!(intersect().technique(name).explain(&a, &b).is_ok());
    }
    let nothing = intersect().size(&a, &[]).unwrap();
    assert_eq!((nothing.size, nothing.containment()), (0, 0.0));
    let error = intersect().technique("magic").size(&a, &b).unwrap_err();
    assert!(matches!(error, Error::Config(text) if text.contains("gallop")));
    let on_gpu = |name: &str| intersect().engine(Engine::Gpu).technique(name).check();
    assert!(names(Subject::Intersections, Processor::Device).all(|name| on_gpu(name).is_ok()));
    assert!(on_gpu("gallop").is_err());
    assert!(intersect().engine(Engine::Cpu).technique("ip").check().is_err());
    assert!(intersect().technique("ip").check().is_ok());
    assert!(intersect().engine(Engine::Hybrid).check().is_err());
}

#[test]
#[ignore = "needs a GPU"]
fn a_gpu_finds_the_same() {
    let numbers = |step: u32, from: u32| (0..300_000u32).map(|at| from + at * step).collect();
    let sets: [Vec<u32>; 4] = [numbers(2, 0), numbers(3, 500), vec![], vec![600]];
    for a in &sets {
        for b in &sets {
            let elements = |intersect: &Intersect| {
                let mut found = Vec::new();
                let report = intersect.elements(a, b, |some| {
                    found.extend_from_slice(some);
                    ControlFlow::Continue(())
                });
                assert_eq!(report.unwrap().size, found.len() as u64);
                found
            };
            let expected = elements(&intersect());
            for name in names(Subject::Intersections, Processor::Device).chain([AUTO]) {
                let intersect = intersect().engine(Engine::Gpu).technique(name);
                assert_eq!(elements(&intersect), expected, "{name}");
                let report = intersect.size(a, b).unwrap();
                assert_eq!(report.size, expected.len() as u64);
                assert_eq!(report.engine, Engine::Gpu);
            }
        }
    }
}
