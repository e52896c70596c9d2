//! How does inline PTX become C++?
//!
//! A statement of inline PTX is a text with numbered registers. [`statement`] splits it into instructions and
//! writes a call for each one. An instruction that is unknown, or that the architecture lacks, is an error
//! that names it, as with `ptxas`.

use std::fmt::Write as _;

/// An architecture such as `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Architecture {
    /// The major and minor version in one number, such as 90.
    pub number: u32,
    /// Whether code is for this exact architecture (`a`).
    pub specific: bool,
}

impl Architecture {
    /// Returns the architecture of a name such as `sm_90a` or `compute_80`, and whether it is virtual.
    pub fn parse(name: &str) -> Option<(Self, bool)> {
        let (rest, is_virtual) = match name.strip_prefix("sm_") {
            Some(rest) => (rest, false),
            None => (name.strip_prefix("compute_")?, true),
        };
        let (digits, specific) = match rest.strip_suffix('a') {
            Some(digits) => (digits, true),
            None => (rest, false),
        };
        let number = digits.parse().ok()?;
        Some((Architecture { number, specific }, is_virtual))
    }

    /// Returns its name without `sm_` or `compute_`.
    pub fn suffix(self) -> String {
        format!("{}{}", self.number, if self.specific { "a" } else { "" })
    }
}

/// A supported form of an instruction.
struct Form {
    /// The name, without operands.
    opcode: &'static str,
    /// The first architecture that has it; a negative number stands for exactly that architecture.
    since: i32,
    write: fn(&mut Statement<'_>, &[Operand]) -> Option<String>,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Register(usize),
    Number(i64),
    /// A register and an offset, in brackets.
    Address(Box<Operand>, i64),
    List(Vec<Operand>),
    Name(String),
}

/// A statement that is being translated.
struct Statement<'a> {
    registers: &'a [String],
    /// The predicates with their C++ expressions.
    predicates: Vec<(String, String)>,
}

const FORMS: &[Form] = &[
    Form {
        opcode: "cp.async.cg.shared.global",
        since: 80,
        write: |s, o| match o {
            [Operand::Address(to, at), Operand::Address(from, of), Operand::Number(16)] => {
                let (to, from) = (s.value(to)?, s.value(from)?);
                Some(format!(
                    "emulator::copy_async(SITE, (uint32_t)({to}) + {at}, (const char*)({from}) + {of})"
                ))
            }
            _ => None,
        },
    },
    Form {
        opcode: "cp.async.commit_group",
        since: 80,
        write: |_, o| o.is_empty().then(|| "emulator::copy_async_commit(SITE)".into()),
    },
    Form {
        opcode: "cp.async.wait_group",
        since: 80,
        write: |s, o| match o {
            [left] => Some(format!("emulator::copy_async_wait(SITE, {})", s.value(left)?)),
            _ => None,
        },
    },
    Form {
        opcode: "st.shared.v4.u32",
        since: 0,
        write: |s, o| match o {
            [Operand::Address(to, at), Operand::List(words)] if words.len() == 4 => {
                let to = s.value(to)?;
                let words = s.values(words)?.join(", ");
                Some(format!("emulator::store_shared_4(SITE, (uint32_t)({to}) + {at}, {words})"))
            }
            _ => None,
        },
    },
    Form {
        opcode: "ld.shared.u32",
        since: 0,
        write: |s, o| match o {
            [to, Operand::Address(from, at)] => {
                let (to, from) = (s.value(to)?, s.value(from)?);
                Some(format!("{to} = emulator::load_shared(SITE, (uint32_t)({from}) + {at})"))
            }
            _ => None,
        },
    },
    Form {
        opcode: "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        since: 75,
        write: |s, o| match o {
            [Operand::List(to), Operand::Address(from, at)] if to.len() == 4 => {
                let (to, from) = (s.values(to)?, s.value(from)?);
                let mut text = format!(
                    "emulator::LoadMatrices m = {{(uint32_t)({from}) + {at}, {{}}}}; emulator::load_matrices(SITE, m);"
                );
                for (k, to) in to.iter().enumerate() {
                    let _ = write!(text, " emulator::set_word({to}, m.to[{k}]);");
                }
                Some(text)
            }
            _ => None,
        },
    },
    Form {
        opcode: "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        since: 80,
        write: |s, o| s.multiply("BITS", o),
    },
    Form {
        opcode: "mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32",
        since: 80,
        write: |s, o| s.multiply("BYTES", o),
    },
    Form {
        opcode: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        since: 80,
        write: |s, o| s.multiply("HALVES", o),
    },
    Form {
        opcode: "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8",
        since: -90,
        write: |s, o| match o {
            [Operand::List(sums), a, b, add] => s.multiply_async("BYTES", sums, [a, b, add]),
            _ => None,
        },
    },
    Form {
        opcode: "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
        since: -90,
        write: |s, o| match o {
            // Neither matrix is negated or transposed.
            [Operand::List(sums), a, b, add, rest @ ..]
                if *rest == [1, 1, 0, 0].map(Operand::Number) =>
            {
                s.multiply_async("HALVES", sums, [a, b, add])
            }
            _ => None,
        },
    },
    Form {
        opcode: "wgmma.fence.sync.aligned",
        since: -90,
        write: |_, o| o.is_empty().then(|| "emulator::multiply_async_fence(SITE)".into()),
    },
    Form {
        opcode: "wgmma.commit_group.sync.aligned",
        since: -90,
        write: |_, o| o.is_empty().then(|| "emulator::multiply_async_commit(SITE)".into()),
    },
    Form {
        opcode: "wgmma.wait_group.sync.aligned",
        since: -90,
        write: |s, o| match o {
            [left] => Some(format!("emulator::multiply_async_wait(SITE, {})", s.value(left)?)),
            _ => None,
        },
    },
    Form {
        opcode: "fence.proxy.async.shared::cta",
        since: 90,
        write: |_, o| o.is_empty().then(|| "emulator::fence_proxy_async(SITE)".into()),
    },
    Form {
        opcode: "cvt.rn.f16.f32",
        since: 0,
        write: |s, o| match o {
            [to, from] => Some(format!("{} = emulator::half_of({})", s.value(to)?, s.value(from)?)),
            _ => None,
        },
    },
    Form {
        opcode: "cvt.f32.f16",
        since: 0,
        write: |s, o| match o {
            [to, from] => {
                Some(format!("{} = emulator::float_of({})", s.value(to)?, s.value(from)?))
            }
            _ => None,
        },
    },
    Form {
        opcode: "add.u64",
        since: 0,
        write: |s, o| match o {
            [to, a, b] => {
                let (to, a, b) = (s.value(to)?, s.value(a)?, s.value(b)?);
                Some(format!("{to} = (decltype({to} + 0))((uint64_t)({a}) + (uint64_t)({b}))"))
            }
            _ => None,
        },
    },
    Form {
        opcode: "setp.ne.b32",
        since: 0,
        write: |s, o| match o {
            [Operand::Name(name), a, b] => {
                let value = format!("((uint32_t)({}) != (uint32_t)({}))", s.value(a)?, s.value(b)?);
                s.predicates.push((name.clone(), value));
                Some(String::new())
            }
            _ => None,
        },
    },
];

/// Returns the names of all forms.
pub fn forms() -> impl Iterator<Item = &'static str> {
    FORMS.iter().map(|form| form.opcode)
}

impl Statement<'_> {
    /// Returns the C++ expression of an operand.
    fn value(&self, operand: &Operand) -> Option<String> {
        match operand {
            Operand::Register(number) => Some(format!("({})", self.registers.get(*number)?)),
            Operand::Number(number) => Some(number.to_string()),
            Operand::Name(name) => {
                let found = self.predicates.iter().rev().find(|(own, _)| own == name);
                found.map(|(_, value)| value.clone())
            }
            Operand::Address(..) | Operand::List(_) => None,
        }
    }

    fn values(&self, operands: &[Operand]) -> Option<Vec<String>> {
        operands.iter().map(|operand| self.value(operand)).collect()
    }

    /// Translates `mma.sync`: four registers, four, two, four.
    fn multiply(&self, elements: &str, operands: &[Operand]) -> Option<String> {
        let [Operand::List(d), Operand::List(a), Operand::List(b), Operand::List(c)] = operands
        else {
            return None;
        };
        if [d.len(), a.len(), b.len(), c.len()] != [4, 4, 2, 4] {
            return None;
        }
        let words = |list: &[Operand]| -> Option<String> {
            let words = self.values(list)?;
            let words = words.iter().map(|word| format!("emulator::word_of({word})"));
            Some(words.collect::<Vec<_>>().join(", "))
        };
        let mut text = format!(
            "emulator::Multiply m = {{{{{}}}, {{{}}}, {{{}}}, {{}}}}; \
             emulator::multiply(SITE, emulator::{elements}, m);",
            words(a)?,
            words(b)?,
            words(c)?
        );
        for (k, to) in self.values(d)?.iter().enumerate() {
            let _ = write!(text, " emulator::set_word({to}, m.d[{k}]);");
        }
        Some(text)
    }

    /// Translates `wgmma.mma_async`: 128 contiguous sums, two descriptors, and whether to add.
    fn multiply_async(
        &self,
        elements: &str,
        sums: &[Operand],
        [a, b, add]: [&Operand; 3],
    ) -> Option<String> {
        let sums = self.values(sums)?;
        if sums.len() != 128 {
            return None;
        }
        let (a, b, add) = (self.value(a)?, self.value(b)?, self.value(add)?);
        let first = &sums[0];
        let order: Vec<String> =
            (1..sums.len()).map(|k| format!("&{} == &{first} + {k}", sums[k])).collect();
        Some(format!(
            "if (!({})) emulator::die(\"wgmma: its sums are not contiguous\"); \
             emulator::multiply_async(SITE, emulator::{elements}, &{first}, (uint64_t){a}, (uint64_t){b}, {add} != 0)",
            order.join(" && ")
        ))
    }
}

/// Returns a statement of inline PTX in C++. `registers` are the C++ expressions of `%0`, `%1` and so on.
/// `count` gets the name of each form and returns its place in the module's table.
pub fn statement(
    text: &str,
    registers: &[String],
    architecture: Architecture,
    count: &mut dyn FnMut(&'static str) -> usize,
) -> Result<String, String> {
    let mut statement = Statement { registers, predicates: Vec::new() };
    let mut written = String::new();
    // Braces around instructions only limit the scope of names.
    let inner = text.trim();
    let inner = match inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(block) if !inner.starts_with("{%") => block,
        _ => inner,
    };
    for instruction in inner.split(';').map(str::trim).filter(|one| !one.is_empty()) {
        if instruction.starts_with(".reg .pred ") {
            continue;
        }
        let (opcode, rest) =
            instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
        let unknown = || format!("the PTX instruction `{instruction}` is not emulated");
        let form = FORMS.iter().find(|form| form.opcode == opcode).ok_or_else(unknown)?;
        let fits = match form.since {
            since if since < 0 => {
                architecture.specific && architecture.number == since.unsigned_abs()
            }
            since => architecture.number >= since.unsigned_abs(),
        };
        if !fits {
            let (since, a) = (form.since.unsigned_abs(), if form.since < 0 { "a" } else { "" });
            return Err(format!(
                "the PTX instruction `{opcode}` requires .target sm_{since}{a}{}, not sm_{}",
                if form.since < 0 { "" } else { " or higher" },
                architecture.suffix()
            ));
        }
        let operands = operands(rest).ok_or_else(unknown)?;
        let call = (form.write)(&mut statement, &operands).ok_or_else(unknown)?;
        let place = count(form.opcode);
        let call = call.replace("SITE", &format!("EMULATOR_SITE(\"{opcode}\")"));
        let _ = write!(written, "emulator::form_counts[{place}]++; {{ {call}; }} ");
    }
    Ok(format!("do {{ {written}}} while (0)"))
}

/// Parses operands between commas.
fn operands(text: &str) -> Option<Vec<Operand>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut depth = 0;
    let pieces = text.split(|c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    pieces.map(|piece| operand(piece.trim())).collect()
}

fn operand(text: &str) -> Option<Operand> {
    if let Some(inner) = text.strip_prefix('{') {
        return Some(Operand::List(operands(inner.strip_suffix('}')?)?));
    }
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        let (base, offset) = match inner.split_once('+') {
            Some((base, offset)) => (base.trim(), offset.trim().parse().ok()?),
            None => (inner.trim(), 0),
        };
        return Some(Operand::Address(Box::new(operand(base)?), offset));
    }
    if let Some(number) = text.strip_prefix('%') {
        return Some(Operand::Register(number.parse().ok()?));
    }
    if let Ok(number) = text.parse() {
        return Some(Operand::Number(number));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!text.is_empty() && text.chars().all(is_name)).then(|| Operand::Name(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SM_80: Architecture = Architecture { number: 80, specific: false };
    const SM_90A: Architecture = Architecture { number: 90, specific: true };

    fn write(text: &str, registers: &[&str], architecture: Architecture) -> Result<String, String> {
        let registers: Vec<String> = registers.iter().map(ToString::to_string).collect();
        statement(text, &registers, architecture, &mut |_| 7)
    }

    #[test]
    fn architectures_are_parsed() {
        let parsed = |name| Architecture::parse(name);
        assert_eq!(parsed("sm_80"), Some((SM_80, false)));
        assert_eq!(parsed("sm_90a"), Some((SM_90A, false)));
        assert_eq!(parsed("compute_80"), Some((SM_80, true)));
        assert_eq!(parsed("sm_"), None);
        assert_eq!(parsed("80"), None);
    }

    #[test]
    fn known_instructions_become_calls_and_are_counted() {
        let copy = "cp.async.cg.shared.global [%0], [%1+32], 16;";
        let written = write(copy, &["to", "from"], SM_80).unwrap();
        assert!(written.contains("form_counts[7]++"), "{written}");
        assert!(written.contains("(uint32_t)((to)) + 0, (const char*)((from)) + 32"), "{written}");
        let two = write("cp.async.commit_group;\ncp.async.wait_group 0;", &[], SM_80).unwrap();
        assert!(two.contains("copy_async_commit") && two.contains("copy_async_wait"), "{two}");
    }

    #[test]
    fn predicates_become_their_comparison() {
        let sums: Vec<String> = (0..128).map(|k| format!("%{k}")).collect();
        let text = format!(
            "{{ .reg .pred more; setp.ne.b32 more, %130, 0; \
             wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.u8 {{{}}}, %128, %129, more; }}",
            sums.join(",")
        );
        let mut registers: Vec<String> = (0..128).map(|k| format!("s[{k}]")).collect();
        registers.extend(["a", "b", "add"].map(String::from));
        let written = statement(&text, &registers, SM_90A, &mut |_| 0).unwrap();
        assert!(written.contains("((uint32_t)((add)) != (uint32_t)(0)) != 0"), "{written}");
        assert!(written.contains("&(s[127]) == &(s[0]) + 127"), "{written}");
    }

    #[test]
    fn unknown_or_too_new_instructions_are_named() {
        let unknown = write("bar.sync 0;", &[], SM_80).unwrap_err();
        assert!(unknown.contains("`bar.sync 0` is not emulated"), "{unknown}");
        let smaller = write("cp.async.cg.shared.global [%0], [%1], 8;", &["a", "b"], SM_80);
        assert!(smaller.unwrap_err().contains("is not emulated"));
        let new =
            write("cp.async.commit_group;", &[], Architecture { number: 75, specific: false });
        assert!(new.unwrap_err().contains("requires .target sm_80 or higher, not sm_75"));
        let exact = write("wgmma.fence.sync.aligned;", &[], SM_80).unwrap_err();
        assert!(exact.contains("requires .target sm_90a, not sm_80"), "{exact}");
    }
}
