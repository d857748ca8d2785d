"""Shell text cut into words and operators, as bash does it; sh differs in nothing that matters here.

Nothing is an error: what bash would refuse it does not run, and what follows it in the text is read on.
"""

from __future__ import annotations

import re

from environments.approvals.reading.arithmetic import end_of_arithmetic
from environments.approvals.reading.budget import Budget
from environments.approvals.reading.escapes import ansi_c
from environments.approvals.reading.here_documents import end_of_body
from environments.approvals.reading.names import names
from environments.approvals.reading.tokens import (
    OPENING,
    REDIRECTIONS,
    HereDocument,
    Literal,
    Operator,
    Part,
    RawWord,
    Substitution,
    Token,
    Variable,
)

_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT = re.compile(r"[^\n]*")
_PLAIN = re.compile(r"""[^ \t\n'"\\$`;&|()<>]+""")
_PLAIN_IN_BRACES = re.compile(r"""[^'"\\$`}<>]+""")
_PLAIN_IN_QUOTES = re.compile(r"""[^"\\$`]+""")
_PLAIN_IN_BODY = re.compile(r"[^\\$`]+")
_CONTINUED = r"(?:\\\n)*"
_OPERATORS = (*names("&>> <<< <<- ;;& && || ;; ;& |& &> << >> <& >& <> >|"), *";&|()<>\n")
_OPERATOR = re.compile("|".join(_CONTINUED.join(map(re.escape, operator)) for operator in _OPERATORS))
_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9]|[@*#?$!_-]")
_NAME_IN_BRACES = re.compile(r"[!#]?(?:[A-Za-z_][A-Za-z_0-9]*|[0-9]+|[@*#?$!_-])")
_INDEX = re.compile(r"\[([^\]\n]{0,64})\]")
_BRACE_OPERATOR = re.compile(r":?[-=+?]|:|##?|%%?|//?|\^\^?|,,?|@")
_DEFAULTING = frozenset({"", "-", "=", "?", "+"})
"""Operators behind which a single quote within double quotes is a plain character."""
_MAY_BE_COMMANDS = re.compile(r"[\n;`'\"]")
"""What no plain expression holds. Bash takes one for commands after all if its parentheses do not pair."""
_DESCRIPTOR = re.compile(r"[0-9]+|\{[A-Za-z_]\w*\}")
_FURTHER = frozenset({"-p", "fi", "done", "esac", "}"})
"""What reserved words may follow besides: `time -p`, and the end of a compound command."""
_WORD_ENDS = frozenset(" \t\n;&|()<>")


class Lexer:
    """Reads one text. Everything that is read is spent from the budget.

    Args:
        text: Shell text.
        budget: What it is spent from.
        posix: Whether a single quote in `"${x:-'}"` is a plain character, as it is to sh and not to bash.
    """

    def __init__(self, text: str, budget: Budget, *, posix: bool = False) -> None:
        budget.spend(len(text))
        self._text = text
        self._at = 0
        self._budget = budget
        self._posix = posix

    def tokens(self, *, nested: bool = False) -> list[Token]:
        """Read to the end of the text or, `nested`, behind the parenthesis that closes a substitution."""
        tokens: list[Token] = []
        opened: list[str] = []  # parentheses, and `case`, whose patterns end with a parenthesis that nothing has opened
        awaited: list[HereDocument] = []
        begins = True  # whether a reserved word may follow
        with self._budget.deeper():
            while True:
                start = self._at
                self._at = _end(_BLANKS, self._text, start)
                char = self._peek()
                if not char:
                    self._budget.unclosed |= nested
                    return tokens
                if char == "#":
                    self._at = _end(_COMMENT, self._text, self._at)
                elif char == ")" and nested and not opened:
                    self._at += 1
                    return tokens
                elif char in _WORD_ENDS and not self._at_process_substitution():
                    glued = self._at == start and bool(tokens) and isinstance(tokens[-1], RawWord)
                    self._operator(tokens, opened, awaited, glued)
                    last = tokens[-1]
                    begins = isinstance(last, Operator) and last.text not in REDIRECTIONS
                else:
                    begins = self._add_word(tokens, opened, begins)

    def _peek(self, ahead: int = 0) -> str:
        place = self._at + ahead
        return self._text[place] if place < len(self._text) else ""

    def _at_process_substitution(self) -> bool:
        return self._peek() in ("<", ">") and self._peek(1) == "("

    # Words.

    def _add_word(self, tokens: list[Token], opened: list[str], begins: bool) -> bool:
        """Read a word, and return whether a reserved word may follow it."""
        word = self._word()
        tokens.append(word)
        if begins and word.bare == "case":
            opened.append("case")
        elif begins and word.bare == "esac" and opened and opened[-1] == "case":
            opened.pop()
        return begins and word.bare in OPENING | _FURTHER

    def _word(self) -> RawWord:
        word = RawWord()
        while char := self._peek():
            if self._at_process_substitution():
                word.parts.append(self._process_substitution())
            elif char in _WORD_ENDS:
                break
            else:
                self._part(word, char, _PLAIN)
        return word

    def _process_substitution(self) -> Substitution:
        kind = self._peek()
        self._at += 2
        return Substitution(self.tokens(nested=True), quoted=True, kind=kind)

    def _part(self, word: RawWord, char: str, plain: re.Pattern[str]) -> None:
        """Read one part of a word that is not within quotes."""
        if char == "'":
            end = self._text.find("'", self._at + 1)
            self._budget.unclosed |= end < 0
            self._literal(word, end if end >= 0 else len(self._text), skip=1)
        elif char == '"':
            self._at += 1
            word.parts.append(Literal("", quoted=True))
            self._quoted(word)
        elif char == "\\":
            if self._peek(1) != "\n":
                word.parts.append(Literal(self._peek(1), quoted=True))
            self._at += 2
        elif char in "$`":
            word.parts += self._expansion(quoted=False)
        else:
            end = max(_end(plain, self._text, self._at), self._at + 1)
            last = word.parts[-1] if word.parts else None
            if isinstance(last, Literal) and not last.quoted:  # a line was continued in the middle of a word
                last.text += self._text[self._at : end]
            else:
                word.parts.append(Literal(self._text[self._at : end], quoted=False))
            self._at = end

    def _literal(self, word: RawWord, end: int, skip: int) -> None:
        word.parts.append(Literal(self._text[self._at + skip : end], quoted=True))
        self._at = end + 1

    def _quoted(self, word: RawWord, plain: re.Pattern[str] = _PLAIN_IN_QUOTES, closing: str = '"') -> None:
        """Read what is within double quotes, or the body of a here-document, which nothing closes."""
        while char := self._peek():
            if char == closing:
                self._at += 1
                return
            if char == "\\":
                escaped = self._peek(1)
                if escaped != "\n":
                    word.parts.append(Literal(escaped if escaped in '$`"\\' else "\\" + escaped, quoted=True))
                self._at += 2
            elif char in "$`":
                word.parts += self._expansion(quoted=True, in_quotes=closing == '"')
            else:
                end = _end(plain, self._text, self._at)
                word.parts.append(Literal(self._text[self._at : end], quoted=True))
                self._at = end
        self._budget.unclosed |= bool(closing)

    # What is expanded.

    def _expansion(self, *, quoted: bool, in_quotes: bool = False) -> list[Part]:
        if self._peek() == "`":
            return [self._backquotes(quoted, in_quotes)]
        while self._text.startswith("\\\n", self._at + 1):
            self._at += 2  # a line is continued behind the dollar sign
        following = self._peek(1)
        if following == "(":
            return self._parenthesised(quoted)
        if following == "{":
            self._at += 2
            return [self._braced(quoted)]
        if following == "'" and not quoted:
            return [self._ansi_c()]
        if following == '"' and not quoted:
            self._at += 1  # a text to be translated
            return []
        found = _NAME.match(self._text, self._at + 1)
        self._at = found.end() if found else self._at + 1
        return [Variable(found[0], quoted) if found else Literal("$", quoted)]

    def _parenthesised(self, quoted: bool) -> list[Part]:
        if self._peek(2) == "(" and (end := end_of_arithmetic(self._text, self._at + 3, self._budget)):
            return [self._arithmetic(self._at + 3, end, quoted)]
        self._at += 2
        return [Substitution(self.tokens(nested=True), quoted)]

    def _arithmetic(self, start: int, end: int, quoted: bool) -> Substitution:
        """Read an expression, of which only its substitutions matter."""
        inner = Lexer(self._text[start:end], self._budget, posix=self._posix)
        expression = RawWord()
        with self._budget.deeper():
            inner._quoted(expression, _PLAIN_IN_BODY, closing="")
        self._at = end + 2
        tokens: list[Token] = [expression]
        if _MAY_BE_COMMANDS.search(self._text, start, end):
            tokens.append(Operator("\n", glued=False))
            tokens += Lexer(self._text[start:end], self._budget, posix=self._posix).tokens()
        return Substitution(tokens, quoted, kind="1")

    def _backquotes(self, quoted: bool, in_quotes: bool) -> Substitution:
        start = self._at = self._at + 1
        while (char := self._peek()) and char != "`":
            self._at += 2 if char == "\\" else 1
        self._budget.unclosed |= not self._peek()
        escaped = r"\\([\\$`\"])" if in_quotes else r"\\([\\$`])"
        text = re.sub(escaped, r"\1", self._text[start : self._at])
        self._at += 1
        return Substitution(Lexer(text, self._budget, posix=self._posix).tokens(), quoted)

    def _ansi_c(self) -> Literal:
        start = self._at = self._at + 2
        while (char := self._peek()) and char != "'":
            self._at += 2 if char == "\\" else 1
        self._budget.unclosed |= not self._peek()
        text = ansi_c(self._text[start : self._at])
        self._at += 1
        return Literal(text, quoted=True)

    def _braced(self, quoted: bool) -> Variable:
        """Read `${...}` from behind its brace."""
        found = _NAME_IN_BRACES.match(self._text, self._at)
        name = found[0] if found else ""
        self._at += len(name)
        index = operator = ""
        if found := _INDEX.match(self._text, self._at):
            index, self._at = found[1], found.end()
        if found := _BRACE_OPERATOR.match(self._text, self._at):
            operator, self._at = found[0], found.end()
        operand = RawWord()
        with self._budget.deeper():
            while (char := self._peek()) and char != "}":
                differs = char == "'" and quoted and operator.lstrip(":") in _DEFAULTING
                self._budget.differs |= differs
                if differs and self._posix:
                    operand.parts.append(Literal("'", quoted=True))
                    self._at += 1
                elif not quoted and self._at_process_substitution():
                    operand.parts.append(self._process_substitution())
                else:
                    self._part(operand, char, _PLAIN_IN_BRACES)
        self._budget.unclosed |= not self._peek()
        self._at += 1
        return Variable(name, quoted, index, operator, operand)

    # Operators.

    def _operator(self, tokens: list[Token], opened: list[str], awaited: list[HereDocument], glued: bool) -> None:
        found = _OPERATOR.match(self._text, self._at)
        assert found  # every character that ends a word is, or begins, an operator
        text = found[0].replace("\\\n", "")
        if text == "(" and self._peek(1) == "(" and not glued:
            end = end_of_arithmetic(self._text, self._at + 2, self._budget)
            if end:
                tokens.append(RawWord([self._arithmetic(self._at + 2, end, quoted=True)]))
                return
        self._at = found.end()
        if text in REDIRECTIONS or text in ("<<", "<<-"):
            if glued and isinstance(tokens[-1], RawWord) and _DESCRIPTOR.fullmatch(tokens[-1].bare):
                tokens.pop()
            if text in ("<<", "<<-"):
                awaited.append(self._here_document(text == "<<-"))
                tokens.append(awaited[-1])
                return
        elif text == "(":
            opened.append("(")
        elif text == ")" and opened and opened[-1] == "(":
            opened.pop()
        elif text == "\n":
            for document in awaited:
                self._read_body(document)
            awaited.clear()
        tokens.append(Operator(text, glued))

    def _here_document(self, strips_tabs: bool) -> HereDocument:
        start = self._at = _end(_BLANKS, self._text, self._at)
        word = self._word()
        expands = not any(part.quoted for part in word.parts)
        delimiter = "".join(part.text for part in word.parts if isinstance(part, Literal))
        if not all(isinstance(part, Literal) for part in word.parts):  # nothing in it is expanded
            delimiter = re.sub(r"[\"'\\]", "", self._text[start : self._at])
        return HereDocument(delimiter, expands, strips_tabs)

    def _read_body(self, document: HereDocument) -> None:
        start = self._at
        end, self._at = end_of_body(self._text, start, document)
        document.body = self._body(self._text[start:end], document)

    def _body(self, text: str, document: HereDocument) -> RawWord:
        if document.strips_tabs:
            text = re.sub(r"(?m)^\t+", "", text)
        if not document.expands:
            return RawWord([Literal(text, quoted=True)])
        body = RawWord([Literal("", quoted=True)])
        with self._budget.deeper():
            Lexer(text, self._budget, posix=self._posix)._quoted(body, _PLAIN_IN_BODY, closing="")
        return body


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
