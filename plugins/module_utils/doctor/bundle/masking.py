# SPDX-License-Identifier: Apache-2.0
"""Replace what identifies machines and people by tokens, the same token for the same value in everything masked.

A token keeps the format that readers of the file require: a UUID stays a UUID, a serial number of digits stays digits
of the same length. So a masked answer is judged like the original. Values without a fixed format, such as a host's
name, must be given with `learn`; `learn_from` first finds such names in texts, so that they are masked everywhere.
"""

import re
from functools import partial
from typing import Any, Dict, Iterable, List, Match, Optional, Pattern, Tuple

from ...host.written.told import STATES, is_secret, replaced
from . import masking_patterns as forms

# A name that is also a word of the tools is masked only where a name is expected: else every "gpu" would be masked.
TOKEN = re.compile(r"(?:login|secret)-[0-9]+")
NUMBERED = re.compile(r"(?:node|gpu|cpu|nvidia|card|numa|slot|port|rank|eth|eno|ib|sd[a-z]|nvme|mlx5_|cuda|host)[0-9]*")
# Names that are ours, or on every system.
NOBODY = ("root", "trainer", "localhost", "localhost.localdomain", "nobody", "none", "unknown", "n/a", "")
SHORTEST_WORD = 3
SHORTEST_DIGITS = 8
# A shorter reason, such as "ok", is masked only where a message gives a reason.
SHORTEST_SENTENCE = 12
USER_PLACES = (
    r"(?<=/home/){}(?![A-Za-z0-9_-])",
    r"(?<=/users/){}(?![A-Za-z0-9_-])",
    r"(?<![A-Za-z0-9_.-]){}(?=@[A-Za-z0-9])",
    r"(?<=user=){}\b",
    r"(?<=user ){}\b",
    r'(?<=acct="){}\b',
    r"(?<=Z by ){}(?=: )",
)
HOST_PLACES = (r"(?<=@){}(?![A-Za-z0-9_-])", r"(?<=hostname=){}(?![A-Za-z0-9_-])", r"(?<=\] ){}(?= kernel: )")
PLACES = {"user": USER_PLACES, "host": HOST_PLACES}


class Masker:
    """Tokens for one set of files. `vocabulary`: words of the tools in lower case, not masked outside names."""

    def __init__(self, vocabulary: Iterable[str] = ()) -> None:
        self.vocabulary = set(vocabulary)
        self._tokens: Dict[str, Dict[str, str]] = {}
        self._words: Dict[str, str] = {}
        self._same: Dict[str, str] = {}
        self._sorted: List[str] = []
        self._compiled: Dict[tuple, list] = {}
        self._reasons: Dict[str, Pattern] = {}

    # -- tokens

    def token(self, kind: str, value: str) -> str:
        """The token of a value, such as "host-1"; case does not matter."""
        table = self._tokens.setdefault(kind, {})
        key = value.lower()
        if key not in table:
            table[key] = self._make(kind, value, len(table) + 1)
        return table[key]

    def counts(self) -> Dict[str, int]:
        """{kind: how many different values were masked}."""
        return {kind: len(table) for kind, table in sorted(self._tokens.items())}

    def _make(self, kind: str, value: str, number: int) -> str:
        if kind == "uuid":
            return f"00000000-0000-0000-0000-{number:012d}"
        if kind == "name":
            # Two names of one host differ only in the domain.
            short, _dot, domain = value.partition(".")
            return f"{self.token('host', short)}.{self.token('domain', domain)}"
        if kind in ("clique", "place"):
            return str(number)
        if kind == "home":
            return f"/home/home-{number}"
        if kind in ("serial", "guid") and re.fullmatch(r"0x[0-9A-Fa-f]+", value):
            return "0x{:0{}x}".format(number, len(value) - 2)
        if kind == "serial" and value.isdecimal():
            return str(number).zfill(len(value))
        return f"{kind}-{number}"

    # -- values without a fixed format

    def learn(self, kind: str, value: str) -> None:
        """From now on `value` (user, host, name, domain, serial, person, home) is masked wherever it is a word."""
        value = (value or "").strip()
        if value.lower() in NOBODY or kind == "serial" and (forms.NO_VALUE.fullmatch(value) or len(value) < 5):
            return
        if kind == "host" and "." in value:
            if forms.IPV4.fullmatch(value):
                return
            self.learn("host", value.partition(".")[0])
            self.learn("domain", value.partition(".")[2])
            kind = "name"
        if kind == "domain" and ("." not in value or forms.PUBLIC.search(value)):
            return
        self._words.setdefault(value.lower(), kind)
        if kind == "host" and "-" in value:
            # The device mapper doubles hyphens; names of volume groups and units have underscores.
            for other in (value.replace("-", "--"), value.replace("-", "_")):
                self._words.setdefault(other.lower(), kind)
                self._same[other.lower()] = value
        if kind == "domain":
            self._learn_parent(value)
        self._sorted, self._compiled = [], {}

    def learn_reason(self, value: str) -> None:
        """From now on, this sentence by a person is masked as a whole, since it may name anything and anybody."""
        if value.strip():
            lead = "" if len(value.strip()) >= SHORTEST_SENTENCE else forms.BEFORE_A_REASON
            self._reasons[value.strip()] = re.compile(f"({lead}){re.escape(value.strip())}")

    def _learn_parent(self, domain: str) -> None:
        parent = domain.partition(".")[2]
        # Not "co.uk" or "ac.jp": a short part before a country code belongs to everybody.
        if "." in parent and not re.fullmatch(r"[a-z]{2,3}\.[a-z]{2}", parent, re.IGNORECASE):
            self.learn("domain", parent)

    def learn_from(self, text: str) -> None:
        """Learn names and serial numbers from the places in which tools print them."""
        for match in forms.HOME.finditer(text):
            self.learn("user", match.group(1).rstrip("."))
        for pattern in (forms.LOG_HOST, forms.HOST_OPTION):
            for name in set(pattern.findall(text)):
                self.learn("host", name)
        for names in set(forms.FILE_SERVER.findall(text)):
            self.learn("host", next(name for name in names if name))
        for value in forms.SERIAL_WORDS.findall(text):
            self._learn_serial(value)
        fields = forms.XML_FIELD.findall(text)
        fields += [(match.group(2), match.group(4)) for match in forms.TEXT_FIELD.finditer(text)]
        for name, value in fields:
            kind = forms.field_kind(name)
            if kind == "serial":
                self._learn_serial(value.strip())
            elif kind == "host" and not forms.NO_VALUE.fullmatch(value.strip()):
                self.learn("host", value)

    def _learn_serial(self, value: str) -> None:
        if forms.SERIAL_FORM.fullmatch(value) and value.lower() not in self.vocabulary:
            self.learn("serial", value)

    # -- masking

    def value(self, value: Any, key: str = "") -> Any:
        """A copy of a record as json.loads gives it, with every text in it masked, including keys of records."""
        if isinstance(value, dict):
            return {self._key(name): self.value(member, str(name)) for name, member in value.items()}
        if isinstance(value, list):
            return [self.value(member, key) for member in value]
        if isinstance(value, bool) or value is None or isinstance(value, float):
            return value
        if is_secret(key) and isinstance(value, str) and value not in ("", *STATES):
            return self._secret("secret", value)
        kind = self._kind_of_key(key)
        if isinstance(value, str) and value.strip() in self._reasons:
            return self.token("reason", value.strip())
        if isinstance(value, int):
            return int(self.token(kind, str(value))) if kind in ("clique", "place") and value else value
        if kind and not forms.NO_VALUE.fullmatch(value) and value.lower() not in NOBODY:
            return self.token("name" if kind == "host" and "." in value else kind, value)
        is_version = re.search(r"version|library|header|build|vbios|firmware", key) and re.fullmatch(r"[0-9.]+", value)
        return value if is_version else self.text(value)

    @staticmethod
    def _kind_of_key(key: str) -> str:
        if key in ("hostname", "host", "node_name"):
            return "host"
        return "user" if key in ("users", "training_user", "user") else forms.field_kind(key)

    def _key(self, name: Any) -> Any:
        return self.text(name) if isinstance(name, str) and not re.fullmatch(r"[a-z_]+", name) else name

    def text(self, text: str) -> str:
        """The text with everything replaced that identifies a machine or a person."""
        # The longest first: one may be a prefix of another.
        for reason in sorted(self._reasons, key=len, reverse=True):
            if reason in text:
                found_in = self._reasons[reason]
                text = found_in.sub(partial(self._after, "reason", reason), text)
        text = replaced(text, self._secret)
        text = forms.XML_FIELD.sub(self._xml_field, text)
        text = forms.TEXT_FIELD.sub(self._text_field, text)
        text = forms.EMAIL.sub(self._email, text)
        text = forms.UUID.sub(lambda found: self._uuid(found.group()), text)
        text = forms.BARE_UUID.sub(lambda found: self._uuid(found.group()).replace("-", ""), text)
        text = forms.SHORT_UUID.sub(lambda found: found.group()[:4] + self.token("part", found.group()[4:]), text)
        disks = (forms.DISK, forms.DISK_LINK, forms.WORLD_WIDE)
        for kind, pattern in [("disk", pattern) for pattern in disks] + [("guid", forms.GUID_WORDS)]:
            text = pattern.sub(partial(self._after, kind, None), text)
        text = forms.INITIATOR.sub(lambda found: self.token("initiator", found.group()), text)
        for kind, pattern in (("mac", forms.OCTETS), ("mac", forms.NET_NAME), ("guid", forms.GUID)):
            text = pattern.sub(partial(self._whole, kind), text)
        text = forms.addresses_masked(text, self.token)
        for pattern, kind in self._patterns(text):
            text = pattern.sub(partial(self._word, kind), text)
        return forms.DOMAIN_NAME.sub(self._domain_name, text)

    def _secret(self, kind: str, value: str) -> str:
        """The token of a secret; of one that is a token already, itself."""
        return value if TOKEN.fullmatch(value) else self.token(kind, value)

    def _after(self, kind: str, value: Optional[str], found: Match[str]) -> str:
        """The first group, and a token: for `value`, or for the second group, which may already be one."""
        return found.group(1) + (self._keep(kind, found.group(2)) if value is None else self.token(kind, value))

    def _whole(self, kind: str, found: Match[str]) -> str:
        return self.token(kind, found.group())

    def _keep(self, kind: str, value: str) -> str:
        # Already a token: a UUID keeps its format.
        return value if re.search(r"00000000-0000-0000-0000-[0-9]{12}", value) else self.token(kind, value)

    def _uuid(self, value: str) -> str:
        plain = value.replace("-", "").lower()
        return value if set(plain) == {"0"} else self.token("uuid", plain)

    def _email(self, match: Match[str]) -> str:
        # The remains of a login in an address, and systemd's name@instance.service.
        if match.group(1).lower() in forms.UNIT_ENDINGS or re.match(r"login-[0-9]+@", match.group()):
            return match.group()
        return self.token("mail", match.group())

    def _domain_name(self, match: Match[str]) -> str:
        name = match.group()
        if forms.PUBLIC.search(name) or re.fullmatch(r"(?:host|domain)-[0-9]+\..*", name):
            return name
        return self.token("name", name)

    def _xml_field(self, match: Match[str]) -> str:
        name, value = match.groups()
        return f"<{name}>{self._field(name, value)}</"

    def _text_field(self, match: Match[str]) -> str:
        lead, name, colon, value, end = match.groups()
        return lead + name + colon + self._field(name, value) + end

    def _field(self, name: str, value: str) -> str:
        kind = forms.field_kind(name)
        plain = value.strip()
        if not kind or not plain or forms.NO_VALUE.fullmatch(plain):
            return value
        # A known number is replaced only once, as a word: its token may equal the number of another card.
        if kind == "serial" and plain.lower() in self._words and self._is_word(plain, "serial"):
            return value
        return self.token("name" if kind == "host" and "." in plain else kind, plain)

    def _is_word(self, value: str, kind: str) -> bool:
        if kind == "serial":
            return not value.isdecimal() or len(value) >= SHORTEST_DIGITS
        plain = value.lower()
        is_ours = plain in self.vocabulary or NUMBERED.fullmatch(plain) or plain.isdecimal()
        return len(value) >= SHORTEST_WORD and not is_ours

    def _word(self, kind: str, found: Match[str]) -> str:
        # Nothing but the domain identifies another host of a known domain.
        word = found.group()
        kind = self._words.get(word.lower(), kind or "name")
        return self.token(kind, self._same.get(word.lower(), word))

    def _patterns(self, text: str) -> List[Tuple[Pattern, str]]:
        """(pattern, kind or "") for the known words in the text, which are few: trying all takes too long."""
        if not self._sorted:
            # The longest first: a host's whole name before its first part.
            self._sorted = sorted(self._words, key=lambda word: (-len(word), word))
        small = text.lower()
        here = tuple(word for word in self._sorted if word in small)
        if here not in self._compiled:
            self._compiled[here] = self._compile(here)
        return self._compiled[here]

    def _form(self, word: str) -> str:
        return (r"(?:[A-Za-z0-9-]{1,63}\.){0,6}" if self._words[word] == "domain" else "") + re.escape(word)

    def _compile(self, words: Tuple[str, ...]) -> List[Tuple[Pattern, str]]:
        found = []
        free = [word for word in words if self._is_word(word, self._words[word])]
        # A number with a point next to it is part of another number, such as a time.
        numbers, names = [word for word in free if word.isdecimal()], [word for word in free if not word.isdecimal()]
        for chosen, form in ((names, "{}"), (numbers, r"(?<![0-9]\.){}(?!\.[0-9])")):
            if chosen:
                any_of = form.format(f"(?:{'|'.join(self._form(word) for word in chosen)})")
                pattern = f"(?<![A-Za-z0-9]){any_of}(?![A-Za-z0-9])"
                found.append((re.compile(pattern, re.IGNORECASE), ""))
        for word in words:
            for place in PLACES.get(self._words[word], ()) if word not in free else ():
                found.append((re.compile(place.format(re.escape(word)), re.IGNORECASE), self._words[word]))
        return found
