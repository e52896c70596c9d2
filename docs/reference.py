"""How does the reference get into the book?

From what it describes, so that it cannot say anything else. Three lines of a page become text:

    {commands}               the help of every command, as `simjoin` prints it
    {python: PACKAGE}        what a package offers: signatures and docstrings, read from its source
    {rust: FILE}             the documentation of a crate, and the names that it offers

A hook of mkdocs: it ends the build where one of them finds nothing.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target" / "release" / "simjoin"
LINE = re.compile(r"^\{(commands|python|rust)(?:: *([\w./-]+))?\}$", re.MULTILINE)
PARAMETER = re.compile(r"^:param (\w+): (.*)$")
ROLE = re.compile(r":\w+:`([^`]*)`")
LISTED = re.compile(r"^  (\w+)  ", re.MULTILINE)
RUST_LINK = re.compile(r"\[(`[^`]+`)\](?!\()")
RUST_USE = re.compile(r"^pub use (?:[\w:]+::)?(?:\{([^}]*)\}|(\w+)(?: as (\w+))?);", re.MULTILINE)

Definition = ast.FunctionDef | ast.ClassDef


def usage(*words: str) -> str:
    """What a command prints when asked for help."""
    try:
        done = subprocess.run([BINARY, *words, "--help"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ValueError(f"{BINARY.relative_to(ROOT)}: {error.strerror}; cargo build --release makes it") from None
    if done.returncode != 0:
        raise ValueError(f"simjoin {' '.join(words)} --help: {done.stderr.strip()}")
    return "\n".join(line.rstrip() for line in done.stdout.splitlines())


def commands(*words: str) -> Iterator[str]:
    """The help of a command, then of each command below it."""
    text = usage(*words)
    level = "#" * (2 + max(0, len(words) - 1))
    yield f"{level} {' '.join(('simjoin', *words))}\n\n```text\n{text}\n```"
    _, found, below = text.partition("\nCommands:\n")
    for name in LISTED.findall(below.split("\n\n")[0]) if found else []:
        yield from commands(*words, name)


def described(docstring: str | None) -> str:
    """A docstring as Markdown: examples become code, parameters a list."""
    lines: list[str] = []
    kind = ""
    for line in (docstring or "").splitlines():
        parameter = PARAMETER.match(line)
        if line.startswith((">>>", "...")) or (kind == "example" and line.strip()):
            now = "example"
        elif parameter or (kind == "parameter" and line.strip()):
            now = "parameter"
        else:
            now = ""
        if now != kind:
            lines += ["```"] if kind == "example" else []
            lines += ["", "```python"] if now == "example" else []
            lines += [""] if now == "parameter" else []
        if parameter:
            line = f"* `{parameter[1]}`: {parameter[2]}"
        lines.append(line if now == "example" else ROLE.sub(r"`\1`", line).replace("``", "`"))
        kind = now
    return "\n".join([*lines, *(["```"] if kind == "example" else [])]).strip()


def signature(name: str, function: ast.FunctionDef) -> str:
    """How a function is called: on one line where it fits, else an argument on each."""
    given = function.args
    positional = given.posonlyargs + given.args
    values: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    shown = [argument(*both) for both in zip(positional, values + given.defaults)]
    if given.posonlyargs:
        shown.insert(len(given.posonlyargs), "/")
    if given.vararg:
        shown.append(f"*{argument(given.vararg, None)}")
    elif given.kwonlyargs:
        shown.append("*")
    shown += [argument(*both) for both in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        shown.append(f"**{argument(given.kwarg, None)}")
    shown = [one for one in shown if one not in ("self", "cls")]
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    line = f"{name}({', '.join(shown)}){result}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){result}"


def argument(one: ast.arg, default: ast.expr | None) -> str:
    """An argument with its type and default."""
    text = one.arg + (f": {ast.unparse(one.annotation)}" if one.annotation else "")
    return text if default is None else f"{text} = {ast.unparse(default)}"


def decorated(definition: Definition, name: str) -> bool:
    """Whether a definition has a decorator."""
    return any(isinstance(one, ast.Name) and one.id == name for one in definition.decorator_list)


def definitions(folder: Path) -> dict[str, Definition]:
    """What the files of a package define, by name; of overloads the definition itself."""
    found: dict[str, Definition] = {}
    for path in sorted([*folder.glob("*.py"), *folder.glob("*.pyi")]):
        for one in ast.parse(path.read_text(encoding="utf-8")).body:
            public = isinstance(one, ast.FunctionDef | ast.ClassDef) and not decorated(one, "overload")
            # What is said in Python comes before the native half's stubs.
            if public and (path.suffix == ".py" or one.name not in found):
                found[one.name] = one
    return found


def aliases(folder: Path) -> dict[str, tuple[str, str]]:
    """The types that a package gives names to: what each stands for, and what is said of it."""
    found: dict[str, tuple[str, str]] = {}
    for path in sorted(folder.glob("*.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for one, after in zip(body, body[1:]):
            said = after.value if isinstance(after, ast.Expr) else None
            if isinstance(one, ast.Assign) and isinstance(said, ast.Constant) and isinstance(said.value, str):
                found[ast.unparse(one.targets[0])] = ast.unparse(one.value), described(said.value)
    return found


def members(of: ast.ClassDef) -> Iterator[str]:
    """The public attributes, properties and methods of a class."""
    for one in of.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id[0] != "_":
            yield f"{one.target.id}: {ast.unparse(one.annotation)}"
        elif isinstance(one, ast.FunctionDef) and not one.name.startswith("_"):
            call = signature(one.name, one)
            if decorated(one, "property"):
                call = call.replace("() ->", ":")
            paragraph = " ".join((ast.get_docstring(one) or "").partition("\n\n")[0].split())
            summary = ROLE.sub(r"\1", paragraph).replace("``", "")
            yield (f"# {summary}\n" if summary else "") + call


def class_code(one: ast.ClassDef) -> str:
    """A class with its bases and members."""
    bases = ", ".join(ast.unparse(base) for base in one.bases)
    body = (f"    {member}".replace("\n", "\n    ") for member in members(one))
    return "\n".join([f"class {one.name}{f'({bases})' if bases else ''}", *body])


def python(package: str) -> str:
    """What a package offers."""
    folder = ROOT / "python" / package.replace(".", "/")
    module = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    offered = next(
        ast.literal_eval(one.value) for one in module.body
        if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__"
    )
    known = definitions(folder)
    parts = [described(ast.get_docstring(module))]
    order: dict[type[Definition], int] = {ast.FunctionDef: 0, ast.ClassDef: 1}
    found = [known[name] for name in offered if name in known]
    missing = [name for name in offered if name not in known and name not in ("__version__", "spark")]
    if missing or not found:
        raise ValueError(f"{package}: nothing defines {', '.join(missing) or 'anything'}")
    found.sort(key=lambda one: order[type(one)])
    # Options that a signature only names.
    for one in found:
        named = set(re.findall(r"Unpack\[(\w+)\]", ast.unparse(one)))
        if isinstance(one, ast.ClassDef):
            named |= {ast.unparse(base) for base in one.bases}
        found += [known[name] for name in sorted(named) if name in known and known[name] not in found]
    shown = ""
    for one in found:
        code = signature(one.name, one) if isinstance(one, ast.FunctionDef) else class_code(one)
        shown += code
        parts += [f"### {one.name}", f"```python\n{code}\n```", described(ast.get_docstring(one))]
    named = {name: both for name, both in aliases(folder).items() if re.search(rf"\b{name}\b", shown)}
    if named:
        parts += ["### Types", "\n".join(f"* `{name}` is `{of}`. {said}" for name, (of, said) in named.items())]
    return "\n\n".join(part for part in parts if part)


def rust(file: str) -> str:
    """The documentation of a crate, and the names that it offers."""
    text = (ROOT / file).read_text(encoding="utf-8")
    about = [line[3:].removeprefix(" ") for line in text.splitlines() if line.startswith("//!")]
    names = sorted({
        (name.rpartition(" as ")[2]).strip()
        for several, one, renamed in RUST_USE.findall(text)
        for name in (several.split(",") if several else [renamed or one]) if name.strip()
    })
    if not about or not names:
        raise ValueError(f"{file}: no documentation, or nothing is public")
    # Lines of an example that the documentation hides.
    shown = "\n".join(line for line in about if not line.startswith("# Ok::<"))
    shown = RUST_LINK.sub(r"\1", shown.replace("```\nuse ", "```rust\nuse ", 1))
    return f"{shown}\n\nThe crate offers {', '.join(f'`{name}`' for name in names)}."


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by mkdocs for each page."""
    def replaced(match: re.Match[str]) -> str:
        if match[1] == "commands":
            return "\n\n".join(commands())
        return inspect.cleandoc(python(match[2]) if match[1] == "python" else rust(match[2]))

    return LINE.sub(replaced, markdown)
