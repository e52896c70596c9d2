//! What are techniques called?
//!
//! The only list of their names. A user names a technique as `name` or `name:variant`, as in `bitmap:256` or
//! `gpu-verify:ppjoin:b`; where CPU and devices share a join, one for each may be joined by `+`, as in
//! `ppjoin+gpu-bitmap`.

use crate::processor::{PerProcessor, Processor};
use crate::report::Engine;
use simjoin_core::{Error, Parameter, Result};

/// What a technique is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Joins of sets.
    Sets,
    /// Joins of vectors.
    Vectors,
    /// Overlaps of all pairs of sets.
    Overlaps,
    /// The intersection of two large sets.
    Intersections,
}

/// The name that lets the planner choose the technique.
pub const AUTO: &str = "auto";

/// The plain nested loop that tests compare other techniques with; `auto` never chooses it.
pub(crate) const NAIVE: &str = "naive";

/// The technique in which the CPU filters and a device verifies.
pub(crate) const GPU_VERIFY: &str = "gpu-verify";

/// The technique that a device counts overlaps with; the others serve comparisons.
pub(crate) const COMBINED: &str = "combined";

const WIDE: [&str; 6] = ["64", "128", "256", "512", "1024", "2048"];

/// Returns the name of every technique of a processor.
pub fn names(subject: Subject, processor: Processor) -> impl Iterator<Item = &'static str> {
    use Processor::{Cpu, Device};
    use Subject::{Intersections, Overlaps, Sets, Vectors};
    let names: &[&str] = match (subject, processor) {
        (Sets, Cpu) => &[
            "prefix-bitmap",
            "bitmap",
            "dense",
            "ppjoin",
            "group-join",
            "skip-join",
            "all-pairs",
            "mmjoin",
            "lcjoin",
            NAIVE,
        ],
        (Sets, Device) => &["gpu-bitmap", "gpu-prefix", GPU_VERIFY, "gpu-mmjoin"],
        (Vectors, Cpu) => &["quantile", "grid", "nested-loop"],
        (Vectors, Device) => &["gpu-quantile", "gpu-tensor", "gpu-grid", "gpu-nested-loop"],
        (Overlaps, Cpu) => &["index", "bitmap", "product"],
        (Overlaps, Device) => {
            &[COMBINED, "dense", "bitmap", "index", "bitmap-dynamic", "binary-search", "hash"]
        }
        (Intersections, Cpu) => &["blocks", "merge", "gallop", "bitmap"],
        (Intersections, Device) => &["ip", "ip-obs", "ip-hash", "bitmap"],
    };
    names.iter().copied()
}

/// Returns the names of the variants of a technique.
fn variants_of(subject: Subject, name: &str) -> Vec<String> {
    let widths = |all: &[&str]| all.iter().map(|&width| width.into()).collect();
    match (subject, name) {
        (Subject::Sets, "prefix-bitmap") => widths(&WIDE[..3]),
        (Subject::Sets, "bitmap") => widths(&WIDE),
        (Subject::Sets, "gpu-bitmap") => widths(&WIDE[2..]),
        (Subject::Sets, GPU_VERIFY) => {
            let filters = ["all-pairs", "ppjoin", "group-join"].into_iter();
            filters
                .flat_map(|one| ["", ":a", ":b", ":c"].map(|way| format!("{one}{way}")))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the names with their variants, as `bitmap:256`.
pub fn variants(subject: Subject, processor: Processor) -> impl Iterator<Item = String> {
    names(subject, processor).flat_map(move |name| {
        variants_of(subject, name).into_iter().map(move |variant| format!("{name}:{variant}"))
    })
}

/// Returns the names in a sentence, `auto` first.
pub fn listed(subject: Subject, processors: &[Processor]) -> String {
    let names = processors.iter().flat_map(|&processor| names(subject, processor));
    std::iter::once(AUTO).chain(names).collect::<Vec<_>>().join(", ")
}

/// A technique that a user has named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: &'static str,
    /// The words of its variant; none for any variant.
    words: Vec<String>,
}

impl Named {
    /// Returns whether it is a technique of this name and variant: `256 bits` is `:256`, and `ppjoin B` is
    /// `:ppjoin:b`.
    pub(crate) fn is(&self, name: &str, variant: &str) -> bool {
        let variant = variant.to_lowercase();
        self.name == name && self.words.iter().all(|word| variant.split(' ').any(|one| one == word))
    }
}

/// The techniques that a user named; a processor without one may use any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    pub(crate) of: PerProcessor<Option<Named>>,
    /// Which processors may work.
    pub(crate) only: Option<Processor>,
}

impl Selection {
    /// Reads the technique that a user has named for an engine.
    pub(crate) fn parse(subject: Subject, text: &str, engine: Engine) -> Result<Self> {
        if engine == Engine::Hybrid && matches!(subject, Subject::Overlaps | Subject::Intersections)
        {
            let message = "one processor does this alone; expected engine auto, cpu or gpu";
            return Err(Error::Config(message.into()));
        }
        let mut selection = Selection {
            only: match engine {
                Engine::Cpu => Some(Processor::Cpu),
                Engine::Gpu => Some(Processor::Device),
                Engine::Auto | Engine::Hybrid => None,
            },
            ..Selection::default()
        };
        if text == AUTO {
            return Ok(selection);
        }
        let both = engine == Engine::Hybrid;
        for part in text.split('+') {
            let (processor, named) = Self::named(subject, part, selection.only)
                .ok_or_else(|| unknown(subject, part, engine))?;
            if selection.of[processor].is_some() || (!both && text.contains('+')) {
                let message = format!(
                    "{text:?} names several techniques; expected one, or with engine hybrid one for the CPU and one \
                     for the GPU, such as ppjoin+gpu-bitmap"
                );
                return Err(Error::parameter(Parameter::Technique, message));
            }
            selection.of[processor] = Some(named);
            if engine == Engine::Auto {
                selection.only = Some(processor);
            }
        }
        Ok(selection)
    }

    /// Finds a technique by its name; of a GPU, `gpu-` may be left out.
    fn named(subject: Subject, text: &str, only: Option<Processor>) -> Option<(Processor, Named)> {
        let (name, variant) = text.split_once(':').unwrap_or((text, ""));
        let short =
            |own: &str| only == Some(Processor::Device) && own.strip_prefix("gpu-") == Some(name);
        let processors =
            Processor::ALL.into_iter().filter(|one| only.is_none_or(|only| only == *one));
        let mut all = processors.flat_map(|one| names(subject, one).map(move |name| (one, name)));
        let (processor, name) = all.find(|&(_, own)| own == name || short(own))?;
        let known =
            variant.is_empty() || variants_of(subject, name).iter().any(|own| own == variant);
        let words = variant.split(':').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        known.then_some((processor, Named { name, words }))
    }
}

/// Finds the technique that a user named for work that one processor does alone; `None` if the planner chooses it,
/// and `auto` if only the processor is given.
pub fn chosen(
    subject: Subject,
    text: &str,
    engine: Engine,
) -> Result<Option<(Processor, &'static str)>> {
    let Selection { of, only } = Selection::parse(subject, text, engine)?;
    let name = of.cpu.or(of.device).map_or(AUTO, |named| named.name);
    Ok(only.map(|processor| (processor, name)))
}

/// Returns the error about an unknown name, with the names for an engine.
fn unknown(subject: Subject, text: &str, engine: Engine) -> Error {
    let all = [Processor::Cpu, Processor::Device];
    let (expected, place) = match engine {
        Engine::Gpu => (&all[1..], " on a GPU"),
        Engine::Cpu => (&all[..1], " on the CPU"),
        Engine::Auto | Engine::Hybrid => (&all[..], ""),
    };
    let name = text.split(':').next().unwrap_or(text);
    let elsewhere = |processor| names(subject, processor).any(|one| one == name);
    Error::Config(if engine == Engine::Cpu && elsewhere(Processor::Device) {
        format!(
            "technique {name} runs on a GPU; expected engine gpu, or one of {}",
            listed(subject, &all[..1])
        )
    } else {
        format!("unknown technique {text:?}{place}; expected one of {}", listed(subject, expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, engine: Engine) -> Result<(Option<&'static str>, Option<&'static str>)> {
        let Selection { of, .. } = Selection::parse(Subject::Sets, text, engine)?;
        Ok((of.cpu.map(|one| one.name), of.device.map(|one| one.name)))
    }

    #[test]
    fn technique_belongs_to_its_processor() {
        for (text, engine, expected) in [
            ("auto", Engine::Hybrid, (None, None)),
            ("bitmap:256", Engine::Auto, (Some("bitmap"), None)),
            ("bitmap", Engine::Gpu, (None, Some("gpu-bitmap"))),
            ("gpu-verify:ppjoin:b", Engine::Auto, (None, Some("gpu-verify"))),
            ("ppjoin", Engine::Hybrid, (Some("ppjoin"), None)),
            ("gpu-bitmap+ppjoin", Engine::Hybrid, (Some("ppjoin"), Some("gpu-bitmap"))),
        ] {
            assert_eq!(parse(text, engine).unwrap(), expected, "{text}");
        }
        for (text, engine) in [
            ("magic", Engine::Auto),
            ("gpu-bitmap", Engine::Cpu),
            ("ppjoin", Engine::Gpu),
            ("bitmap:7", Engine::Auto),
            ("ppjoin+gpu-bitmap", Engine::Auto),
            ("ppjoin+bitmap", Engine::Hybrid),
            ("", Engine::Auto),
        ] {
            let error = parse(text, engine).unwrap_err().to_string();
            assert!(error.contains("expected"), "{text}: {error}");
        }
    }

    #[test]
    fn named_variant_matches_its_words() {
        let named = |text| Selection::named(Subject::Sets, text, None).unwrap().1;
        assert!(named("bitmap:256").is("bitmap", "256 bits"));
        assert!(!named("bitmap:256").is("bitmap", "512 bits"));
        assert!(named("gpu-verify:ppjoin").is("gpu-verify", "ppjoin B"));
        assert!(!named("gpu-verify:ppjoin:b").is("gpu-verify", "ppjoin C"));
    }
}
