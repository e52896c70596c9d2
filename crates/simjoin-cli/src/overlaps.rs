//! How does `simjoin overlaps` differ from joins with a threshold?
//!
//! Sets are read and prepared as for a join. There is no threshold, so there are no groups and no report page.

use crate::flags::{AnswerFlags, HowFlags, InputFlags, OverlapsFlags};
use crate::report::Shown;
use crate::run::{Input, JoinCommand};
use crate::sets;
use crate::settings::{CommonFlags, JoinSettings};
use serde_json::{Map, Value};
use simjoin::engine::{Glimpse, Overlaps, Report, Result, WantedOverlaps};
use simjoin_io::{Ids, PairWriter, ReadOptions, ReadSets, Tokenizer, read_sets};
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;

pub fn of(flags: OverlapsFlags) -> Result<JoinSettings<Overlaps>> {
    let wanted = match flags.top {
        Some(top) => WantedOverlaps::Top(top),
        None if flags.positive => WantedOverlaps::Positive,
        None => WantedOverlaps::All,
    };
    let answer = AnswerFlags {
        output: flags.output,
        count: flags.count,
        groups: false,
        explain: flags.explain,
        stats: flags.stats,
        report: None,
        trace: flags.trace,
        quiet: flags.quiet,
    };
    let (engine, threads, limits) = (flags.engine, flags.threads, flags.limits);
    let how = HowFlags { engine, split: None, threads, limits };
    let (command, files, technique) = ("overlaps", (flags.left, flags.right), flags.technique);
    let common = CommonFlags { command, files, with_itself: false, answer, how, technique };
    let (input, id) = (flags.input, flags.id);
    let tokenizer = flags.tokens.unwrap_or(Tokenizer::Whitespace);
    JoinSettings::resolve(common, simjoin::engine::overlaps(wanted), |threads| {
        let InputFlags { multiset, format, column } = input;
        Ok(ReadOptions { tokenizer, multiset, format, column, id, threads })
    })
}

impl JoinCommand for Overlaps {
    type Read = ReadOptions;
    type Raw = ReadSets;
    /// There is no report page.
    type Kept = Infallible;

    fn read(settings: &JoinSettings<Self>, bytes: &AtomicU64) -> Result<ReadSets> {
        read_sets(settings.left.as_path(), settings.right.as_deref(), &settings.read, bytes)
    }

    fn keep(_: &mut ReadSets) -> Option<Infallible> {
        None
    }

    fn prepare(read: ReadSets) -> Result<Input<Self>> {
        sets::prepared(read)
    }

    fn glimpse(kept: &Infallible, _: WantedOverlaps, _: &Input<Self>) -> Glimpse {
        match *kept {}
    }

    fn writer<'a>(
        settings: &JoinSettings<Self>,
        left: Option<&'a Ids>,
        right: Option<&'a Ids>,
    ) -> Result<PairWriter<'a>> {
        PairWriter::create_overlaps(settings.output.as_deref(), left, right)
    }

    fn facts(input: &Input<Self>) -> Map<String, Value> {
        let mut facts = sets::facts_of(input);
        // The figures of the report replace these, if anything was counted.
        facts.insert("bits".into(), 0.into());
        facts.insert("passes".into(), 0.into());
        facts
    }

    fn page(
        _: &JoinSettings<Self>,
        _: &Input<Self>,
        kept: &Infallible,
        _: &Report,
        _: &Glimpse,
    ) -> Shown {
        match *kept {}
    }
}
