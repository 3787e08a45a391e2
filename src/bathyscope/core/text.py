"""Text from outside, such as prompt ids, labels and tokens, as text that can be shown: nothing in it acts."""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from bathyscope.errors import BathyscopeError, legible

_LONGEST: Final = 14
_ACTING: Final = re.compile(r"[\\`*{}\[\]#|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
"""What Markdown acts on; inside of a word an underscore is one."""
_ACTING_IN_JSON: Final = re.compile(r"[<>&`*{}\[\]#|~$]")
"""What it and HTML act on in a text that JSON has written, which holds backslashes of its own."""
_HYPHEN_AS_SIGN: Final = re.compile(r"(?<![\w)\]-])-(?=[\d.])")
_ENTITIES: Final = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"})
_VISIBLE: Final = {" ": "␣", "\n": "⏎", "\t": "⇥"}
# Of texts of others, so that no pattern may look through the same letters again from each place where it could begin:
# what has no end is followed by what it cannot hold, or begins where nothing of its kind is before it.
# an absolute path: from the root, a home or a drive; not what follows a letter, a colon or a slash, as in https://a/b
_WEB: Final = r"(?P<web>\b(?i:https?|ftp|hf|git|s3|gs)://[^\s'\"<>]*)"
_HOMES: Final = r"/(?:home|Users|root|mnt|media)/(?=[^\s/])"
_REST: Final = r"""[^\s'",;:)\]}>|]*"""
_PLACE: Final = re.compile(
    _WEB
    # in quotes, with a quote inside as a shell writes it
    + r"""|(?P<quote>['"])(?:~[\w.-]*/|/(?=[^/])|[A-Za-z]:[/\\](?![/\\])|\\\\)"""
    + r"""(?:'"'"'|(?!(?P=quote)).)*(?=(?P=quote))"""
    # addresses that are no web's: of files, of programs on this machine, of machines
    + r"""|(?i:file):/+[^\s'",;)\]}>|]*|\b[A-Za-z][\w+.-]{0,30}://[^\s'",;)\]}>|]*/[^\s'",;)\]}>|]*"""
    # the blanks of Windows' folders, as long as more folders follow
    + r"""|(?<!\w)(?:[A-Za-z]:|%\w+%)\\(?!\\)[^\s'",;:)\]}>|]*(?:\ [^\s'",;:)\]}>|\\]+\\[^\s'",;:)\]}>|]*)*"""
    + r"""|(?:(?<=[\s'"]-[A-Za-z])|(?<=\A-[A-Za-z])|(?<=\w\.)|(?<=\.\.\.)|(?<=<))/(?=[^\s/>]+/)"""
    + _REST
    + r"""|(?:(?<![\w<./\\~-])|(?<=-)(?=~))"""
    + r"""(?:~[\w.-]*/|(?:\.\.?/)+|[A-Za-z]:[/\\](?![/\\])|\\\\|/(?=[^/\s>])|\$\{?\w+\}?/|(?<!:)//+(?=[^\s/]))"""
    + _REST
    + "|"
    + _HOMES
    + _REST
)
_LEFT_OVER: Final = re.compile(
    rf"{_WEB}|(?i:[/\\]|%2f|&#47;|\\x2f)(?i:home|users|root)(?i:[/\\]|%2f|&#47;|\\x2f)+[\w.-]"
    r"|%(?i:userprofile|home\w*)%"
)
# Letters of these kinds leave no mark, or change the letters around them: controls, formats, separators, unassigned.
_INVISIBLE: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")


def elided(content: object, letters: int) -> str:
    """The text as :func:`shown`, or its first letters and an ellipsis where it then has more than ``letters``."""
    text = legible(content)
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def level_text(level: float) -> str:
    """Return the coverage of an interval in per cent, with all of its digits: 99.9% and 97.5% are not 100% and 98%."""
    return f"{100 * level:g}%"


def require_text(text: str, where: str, error: type[BathyscopeError]) -> None:
    """Refuse half of a surrogate pair, which is no character: neither tokenizers, files nor figures can hold it.

    Raises:
        BathyscopeError: of the given kind, with its place.
    """
    half = re.search("[\ud800-\udfff]", text)
    if half is not None:
        raise error(
            f"{where} holds the lone surrogate {half[0]!a} at character {half.start()}, which is no text; take "
            "it out, or decode the text again."
        )


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 survey`` or ``2,000 surveys``.

    Args:
        plural: of nouns that do not end in a further s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def written_out(items: Sequence[object]) -> str:
    """Return a list as a clause has it: ``2, 16 and 32``."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def shape_text(shape: Sequence[int] | None) -> str:
    """Return an array's shape as ``4×16``; ``absent`` without an array, ``a number`` for one without dimensions."""
    return "absent" if shape is None else "×".join(map(str, shape)) or "a number"


def as_words(text: str) -> str:
    """Return a text with each run of white space as one blank."""
    return " ".join(text.split())


def capitalised(text: str) -> str:
    """Return a text that begins a sentence; ``str.capitalize`` would take the capitals from its names."""
    return text[:1].upper() + text[1:]


def literal_markdown(text: object) -> str:
    r"""Return a text in which nothing acts as Markdown or HTML, in a sentence or in a cell of a table.

    Example:
        >>> literal_markdown("a|b <script>")
        'a\\|b &lt;script&gt;'
    """
    escaped = _ACTING.sub(lambda match: f"\\{match[0]}", legible(text))
    return escaped.translate(_ENTITIES)


def json_in_markdown(text: str) -> str:
    r"""Return a text as JSON, and as YAML reads it, in which nothing acts where it is taken for Markdown or HTML.

    Example:
        >>> json_in_markdown("a|b <script>")
        '"a\\u007cb \\u003cscript\\u003e"'
    """
    return _ACTING_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text))


def without_folders(name: str) -> str:
    """The last part of a place on a disk; a hub's ``owner/model`` stays as it is."""
    is_place = name.startswith(("/", ".", "~", "\\")) or name.count("/") > 1 or name[1:3] == ":\\"
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] or name if is_place else name


def without_places(text: str) -> str:
    """Return a text in which every absolute path of a disk is its last name; addresses of the web stay.

    Example:
        >>> without_places("survey /home/ada/models/tiny --prompts ~/texts/mine.jsonl:40")
        'survey tiny --prompts mine.jsonl:40'
    """
    return _PLACE.sub(_last_name, text)


def left_over_place(text: str) -> str:
    """Return the beginning of what still looks like a path in somebody's home; empty where nothing does."""
    leftover = next((match for match in _LEFT_OVER.finditer(text) if not match["web"]), None)
    return "" if leftover is None else text[leftover.start() : leftover.start() + 60]


def _last_name(place: re.Match[str]) -> str:
    if place["web"]:
        return place[0]
    quote = place["quote"] or ""
    path = place[0].removeprefix(quote).replace("'\"'\"'", "_")
    return quote + (re.split(r"[/\\]", path.rstrip("/\\"))[-1] or path)


def visible(piece: str) -> str:
    """Write a token so that a reader can see it, in at most 14 letters.

    ``" the"`` becomes ``␣the``, a line's end ``⏎``, and an empty token ``∅``. Other signs without a shape are written
    as their code point in brackets.
    """
    return elided("".join(_letter(letter) for letter in piece) or "∅", _LONGEST)


def code_point(letter: str) -> str:
    """``⟨1b⟩``: a letter by its code point in brackets."""
    return f"⟨{ord(letter):x}⟩"


def true_minus(text: str) -> str:
    """Write the signs of negative numbers in a text as minus signs, as pages do; hyphens within words stay.

    Example:
        >>> true_minus("top-1 by -0.5 (-1.25 to +0.25)")
        'top-1 by −0.5 (−1.25 to +0.25)'
    """
    return _HYPHEN_AS_SIGN.sub("−", text)


def signed(value: float, decimals: int = 1) -> str:
    """Return a number with its sign and so many decimals, or with the digit that tells it from 0.

    Example:
        >>> signed(-2.04), signed(-0.03), signed(0.0), signed(0.03, 3)
        ('-2.0', '-0.03', '+0.0', '+0.030')
    """
    return f"{value:+.1g}" if 0 < abs(value) < 0.5 * 10**-decimals else f"{value:+z.{decimals}f}"


def scaled(value: float) -> str:
    """Three digits and a prefix, ready for a unit: ``1.54 G``."""
    rounded = float(f"{value:.3g}")  # 999.7 M is 1 G
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rounded >= size:
            return f"{rounded / size:.3g} {prefix}"
    return f"{rounded:.3g} "


def in_bytes(value: int) -> str:
    """A size of memory: ``1.5 GiB``."""
    return f"{value / 2**30:.1f} GiB" if value >= 2**30 else f"{value / 2**20:.0f} MiB"


def duration(seconds: float) -> str:
    """A time in the unit that is read: ``8.1 s``, ``3 min``, ``2.5 h``."""
    if seconds < 120:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def _letter(letter: str) -> str:
    if letter in _VISIBLE:
        return _VISIBLE[letter]
    return code_point(letter) if unicodedata.category(letter) in _INVISIBLE else letter
