"""Pages for operators name only commands and metrics that there are."""

import re

from . import binary, catalogue, rules
from .paths import BINARY, ROOT

OPERATE = ROOT / "docs" / "operate"
CODE = re.compile(r"```.*?```|`[^`]+`", re.DOTALL)
COMMAND = re.compile(r"(?:^|[`$(] ?)mailrail ([a-z]+(?:-[a-z]+)*)((?: [^`\n]*)?)", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]+)")
# Targets of log lines begin with the name of a crate.
CRATES = {f"mailrail_{path.name.replace('-', '_')}" for path in (ROOT / "crates").iterdir()}
METRIC = re.compile(r"\bmailrail[_:][a-z0-9_:]+\b")


def check(report):
    pages = sorted(OPERATE.rglob("*.md"))
    known, recorded = catalogue.series(), rules.recorded()
    families = {name.removesuffix("_bucket").removesuffix("_total") for name in known}
    for path in pages:
        text, where = path.read_text(), path.relative_to(ROOT)
        for metric in sorted(set(METRIC.findall(text))):
            if metric.split("::")[0] in CRATES:
                continue
            report.check(metric in known or metric in families or metric in recorded, f"{where}: there is no {metric}")
        if BINARY.exists():
            for command, rest in sorted(set(COMMAND.findall("\n".join(CODE.findall(text))))):
                check_command(report, where, command, rest)


def check_command(report, where, command, rest):
    words = [command]
    # A subcommand of a subcommand, as `endpoints pause`.
    if found := re.match(r" ([a-z]+)\b", rest):
        words.append(found[1])
    answer = binary.run(*words, "--help")
    if answer.returncode != 0 and len(words) == 2:
        answer = binary.run(command, "--help")
    if report.check(answer.returncode == 0, f"{where}: there is no command `mailrail {' '.join(words)}`"):
        for option in OPTION.findall(rest):
            report.check(option in answer.stdout, f"{where}: `mailrail {' '.join(words)}` has no {option}")
