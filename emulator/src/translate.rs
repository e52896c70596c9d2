//! How does CUDA C++ become C++?
//!
//! The preprocessor has run, so little of CUDA's own syntax remains. `__shared__` variables become references
//! to places in the block's shared memory, dynamic arrays become pointers to it, inline PTX becomes calls
//! ([`crate::ptx`]), and kernels are listed for the module's table. `device/cuda.h` defines everything else.
//! Line numbers stay the same, so that messages can name them.

use crate::ptx::{self, Architecture};
use std::fmt::Write as _;

/// A kernel of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The largest number of threads in a block, as an expression of the source.
    pub max_threads: String,
}

/// A translated source.
#[derive(Debug)]
pub struct Translated {
    /// The C++ code, without its prelude.
    pub code: String,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The forms of PTX in the source, in the order of their counters.
    pub forms: Vec<&'static str>,
}

/// Translates a preprocessed source. An error names the unknown syntax and its line.
pub fn translate(source: &str, architecture: Architecture) -> Result<Translated, String> {
    let mut translator = Translator {
        source,
        at: 0,
        architecture,
        out: String::with_capacity(source.len() * 2),
        kernels: Vec::new(),
        forms: Vec::new(),
        variables: 0,
    };
    match translator.run() {
        Ok(()) => Ok(Translated {
            code: translator.out,
            kernels: translator.kernels,
            forms: translator.forms,
        }),
        Err(why) => {
            let (file, line) = place(&source[..translator.at]);
            Err(format!("{file}({line}): error: {why}"))
        }
    }
}

/// Returns the file and line at the end of a text with line markers.
fn place(text: &str) -> (String, usize) {
    let (mut file, mut line) = ("source".to_string(), 1);
    for each in text.split_inclusive('\n') {
        let mut words = each.strip_prefix("# ").unwrap_or("").split_whitespace();
        match (words.next().and_then(|word| word.parse::<usize>().ok()), words.next()) {
            (Some(number), Some(name)) => {
                line = number;
                file = name.trim_matches('"').into();
            }
            _ if each.ends_with('\n') => line += 1,
            _ => {}
        }
    }
    (file, line)
}

struct Translator<'a> {
    source: &'a str,
    at: usize,
    architecture: Architecture,
    out: String,
    kernels: Vec<Kernel>,
    forms: Vec<&'static str>,
    variables: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the end of a string or character literal that begins at a place.
fn end_of_quoted(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != bytes[from] {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// Returns the place after the bracket that closes the one at `from`.
fn end_of_group(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = from;
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'\'' => {
                at = end_of_quoted(bytes, at);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the parts of a text between separators outside of brackets and strings.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut parts, mut last, mut at, mut depth) = (Vec::new(), 0, 0, 0i32);
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'\'' => {
                at = end_of_quoted(bytes, at);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            byte if byte == separator && depth == 0 => {
                parts.push(&text[last..at]);
                last = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&text[last..]);
    parts
}

/// Returns the string literals of a text, concatenated, without their quotes.
fn strings(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut all, mut at) = (String::new(), 0);
    while at < bytes.len() {
        if bytes[at] == b'"' {
            let end = end_of_quoted(bytes, at);
            all.push_str(&text[at + 1..end - 1]);
            at = end;
        } else {
            at += 1;
        }
    }
    all.replace("\\n", "\n").replace("\\t", "\t")
}

impl<'a> Translator<'a> {
    fn run(&mut self) -> Result<(), String> {
        let bytes = self.source.as_bytes();
        let mut copied = 0;
        while self.at < bytes.len() {
            let byte = bytes[self.at];
            if byte == b'"' || (byte == b'\'' && (self.at == 0 || !is_word(bytes[self.at - 1]))) {
                self.at = end_of_quoted(bytes, self.at);
                continue;
            }
            if !is_word(byte) {
                self.at += 1;
                continue;
            }
            let begin = self.at;
            let word = self.word_at(begin);
            let written = match word {
                "asm" | "__asm__" => self.assembly(begin)?,
                "extern" => self.external(begin)?,
                "__shared__" => Some(self.shared(begin, begin + word.len())?),
                "__global__" => {
                    self.kernel(begin + word.len())?;
                    None
                }
                _ => None,
            };
            match written {
                None => self.at = begin + word.len(),
                Some((text, end)) => {
                    self.out.push_str(&self.source[copied..begin]);
                    self.out.push_str(&text);
                    // Keep the line numbers.
                    let lines = self.source[begin..end].matches('\n').count();
                    self.out.extend(std::iter::repeat_n('\n', lines));
                    self.at = end;
                    copied = end;
                }
            }
        }
        self.out.push_str(&self.source[copied..]);
        Ok(())
    }

    /// Returns the identifier at a place, or an empty text.
    fn word_at(&self, at: usize) -> &'a str {
        let rest = &self.source.as_bytes()[at..];
        let length = rest.iter().position(|&byte| !is_word(byte)).unwrap_or(rest.len());
        &self.source[at..at + length]
    }

    /// Returns the first place that is not a space.
    fn skip_space(&self, at: usize) -> usize {
        let rest = &self.source.as_bytes()[at..];
        at + rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len())
    }

    /// Returns the place after the brackets at a place, and the text between them.
    fn group(&self, at: usize, what: &str) -> Result<(usize, &'a str), String> {
        let end = end_of_group(self.source, at).ok_or_else(|| format!("{what} has no end"))?;
        Ok((end, &self.source[at + 1..end - 1]))
    }

    /// Translates `asm volatile("..." : outputs : inputs : clobbers)`.
    fn assembly(&mut self, begin: usize) -> Result<Option<(String, usize)>, String> {
        let mut at = self.skip_space(begin + self.word_at(begin).len());
        while matches!(self.word_at(at), "volatile" | "__volatile__") {
            at = self.skip_space(at + self.word_at(at).len());
        }
        if self.source.as_bytes().get(at) != Some(&b'(') {
            return Ok(None);
        }
        let (end, body) = self.group(at, "inline PTX")?;
        let sections = split(body, b':');
        let text = strings(sections[0]);
        let mut registers = Vec::new();
        for section in sections.iter().skip(1).take(2) {
            for operand in split(section, b',').iter().map(|one| one.trim()) {
                if operand.is_empty() {
                    continue;
                }
                let open = operand.find('(').ok_or("an operand of inline PTX has no brackets")?;
                let close = end_of_group(operand, open).ok_or("an operand has no end")?;
                registers.push(operand[open + 1..close - 1].trim().to_string());
            }
        }
        let forms = &mut self.forms;
        let mut count = |form: &'static str| {
            forms.iter().position(|&known| known == form).unwrap_or_else(|| {
                forms.push(form);
                forms.len() - 1
            })
        };
        let written = ptx::statement(&text, &registers, self.architecture, &mut count)?;
        Ok(Some((written, end)))
    }

    /// Translates `extern "C" __global__`, or `extern __shared__`.
    fn external(&mut self, begin: usize) -> Result<Option<(String, usize)>, String> {
        let at = self.skip_space(begin + "extern".len());
        if self.source[at..].starts_with("\"C\"") {
            let next = self.skip_space(at + 3);
            // Kernels are found in the module's table, so their names need not be exported.
            let is_kernel = self.word_at(next) == "__global__";
            return Ok(is_kernel.then(|| (String::new(), next)));
        }
        if self.word_at(at) != "__shared__" {
            return Ok(None);
        }
        let (_, declaration, end) = self.declaration(at + "__shared__".len())?;
        let name = declaration.trim_end().strip_suffix(']').map(str::trim_end);
        let name = name.and_then(|rest| rest.strip_suffix('[')).map(str::trim_end);
        let Some((kind, name)) = name.and_then(split_name) else {
            return Err(format!(
                "`extern __shared__ {declaration}` is not an array without a size"
            ));
        };
        Ok(Some((format!("{kind}* const {name} = ({kind}*)emulator::dynamic_memory;"), end)))
    }

    /// Parses `[__align__(n)] declaration;` and returns the alignment, the declaration and its end.
    fn declaration(&self, from: usize) -> Result<(String, &'a str, usize), String> {
        let mut at = self.skip_space(from);
        let mut align = "0".to_string();
        if self.word_at(at) == "__align__" {
            let open = self.skip_space(at + "__align__".len());
            let (end, inner) = self.group(open, "__align__")?;
            align = inner.trim().to_string();
            at = self.skip_space(end);
        }
        let rest = &self.source[at..];
        let declaration = split(rest, b';')[0];
        Ok((align, declaration, at + declaration.len() + 1))
    }

    /// Translates `__shared__ [__align__(n)] type name[sizes], name;`.
    fn shared(&mut self, begin: usize, from: usize) -> Result<(String, usize), String> {
        let (align, declaration, end) = self.declaration(from)?;
        let (mut written, mut kind) = (String::new(), "");
        let mut number = self.variables;
        for (place, one) in split(declaration, b',').into_iter().enumerate() {
            let sizes_at = one.find('[').unwrap_or(one.len());
            let (head, sizes) = (one[..sizes_at].trim(), one[sizes_at..].trim());
            let unsupported = || format!("`{}` is not supported", &self.source[begin..end]);
            let name = if place == 0 {
                let (first, name) = split_name(head).ok_or_else(unsupported)?;
                kind = first;
                name
            } else {
                head
            };
            if name.is_empty() || !name.bytes().all(is_word) || one.contains('=') {
                return Err(unsupported());
            }
            // Static, so that lambdas that capture by value do not copy it.
            let _ = write!(
                written,
                "static emulator::Variable {name}_{number} = {{\"{name}\", sizeof({kind}{sizes}), {align}, __LINE__, 0, nullptr}}; \
                 static {kind} (&{name}){sizes} = *({kind}(*){sizes})emulator::settle({name}_{number}); \
                 emulator::use({name}_{number}); "
            );
            number += 1;
        }
        self.variables = number;
        Ok((written, end))
    }

    /// Parses `__global__ void [__launch_bounds__(n)] name(`.
    fn kernel(&mut self, from: usize) -> Result<(), String> {
        let mut at = self.skip_space(from);
        let mut max_threads = "1024".to_string();
        loop {
            let word = self.word_at(at);
            let after_word = self.skip_space(at + word.len());
            match word {
                "" => return Err("a kernel has no name".into()),
                "void" => at = after_word,
                "__launch_bounds__" => {
                    let (end, inner) = self.group(after_word, "__launch_bounds__")?;
                    max_threads = split(inner, b',')[0].trim().to_string();
                    at = self.skip_space(end);
                }
                name => {
                    if self.source.as_bytes().get(after_word) != Some(&b'(') {
                        return Err(format!("the kernel `{name}` has no parameters"));
                    }
                    let name = name.to_string();
                    // A declaration and its definition are one kernel.
                    if !self.kernels.iter().any(|kernel| kernel.name == name) {
                        self.kernels.push(Kernel { name, max_threads });
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// Returns a type and the name after it.
fn split_name(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let length = text.bytes().rev().take_while(|&byte| is_word(byte)).count();
    let (kind, name) = text.split_at(text.len() - length);
    (!name.is_empty() && !kind.trim().is_empty()).then(|| (kind.trim(), name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SM_80: Architecture = Architecture { number: 80, specific: false };

    fn code(source: &str) -> String {
        translate(source, SM_80).unwrap().code
    }

    #[test]
    fn shared_variables_become_references() {
        let written = code("__shared__ __align__(16) float left[CHUNK][SIDE];");
        assert!(written.contains("sizeof(float[CHUNK][SIDE]), 16,"), "{written}");
        assert!(written.contains("static float (&left)[CHUNK][SIDE] = *(float(*)[CHUNK][SIDE])"));
        let two = code("__shared__ u32 count, base;");
        assert!(two.contains("static u32 (&count) =") && two.contains("static u32 (&base) ="));
        let all = code("__shared__ u64 sums[2][32];\n__shared__ u32 sums[4];");
        assert!(all.contains("sums_0") && all.contains("sums_1"), "{all}");
    }

    #[test]
    fn dynamic_arrays_become_pointers() {
        let written = code("extern __shared__ __align__(128) char memory[];");
        assert_eq!(written, "char* const memory = (char*)emulator::dynamic_memory;");
        assert!(translate("extern __shared__ int x;", SM_80).is_err());
    }

    #[test]
    fn kernels_are_listed_with_their_bounds() {
        let source = "extern \"C\" __global__ void __launch_bounds__(256, 1) a(int x) {}\n\
                      extern \"C\" __global__ void b(const int* x, u32 n) {}\n\
                      extern \"C\" int c();";
        let translated = translate(source, SM_80).unwrap();
        let kernel =
            |name: &str, most: &str| Kernel { name: name.into(), max_threads: most.into() };
        assert_eq!(translated.kernels, [kernel("a", "256"), kernel("b", "1024")]);
        assert!(translated.code.starts_with("__global__ void __launch_bounds__(256, 1) a(int x)"));
        assert!(translated.code.contains("extern \"C\" int c();"));
    }

    #[test]
    fn assembly_is_translated_and_keeps_line_numbers() {
        let source = "a();\nasm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\"\n  ::\"r\"(to),\n\
                      \"l\"(p + (q, 4)) : \"memory\");\nb();";
        let translated = translate(source, SM_80).unwrap();
        assert_eq!(translated.code.lines().count(), 5);
        assert!(translated.code.lines().nth(4).unwrap().contains("b();"), "{}", translated.code);
        assert!(translated.code.contains("(p + (q, 4))"), "{}", translated.code);
        assert_eq!(translated.forms, ["cp.async.cg.shared.global"]);
        assert_eq!(code("asm volatile(\"\" : \"+f\"(x) :: \"memory\");"), "do { } while (0);");
    }

    #[test]
    fn keywords_in_strings_and_names_stay_unchanged() {
        let source =
            "const char* a = \"asm(x) __shared__\"; int asmx = '\\''; int my__shared__ = 1;";
        assert_eq!(code(source), source);
    }

    #[test]
    fn errors_name_file_and_line() {
        let source = "# 10 \"simjoin.cu\"\nint a;\nasm(\"nanosleep.u32 5;\");";
        let error = translate(source, SM_80).unwrap_err();
        assert_eq!(
            error,
            "simjoin.cu(11): error: the PTX instruction `nanosleep.u32 5` is not emulated"
        );
    }
}
