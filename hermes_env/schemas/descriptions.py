"""What a model is told of each tool. The only place for these texts; types and defaults come from the functions.

The descriptions say when to use which tool, and what comes back. None is longer than what OpenAI takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

OPENAI_LIMIT = 1024
"""Characters that OpenAI takes as the description of a function."""


@dataclass(frozen=True, slots=True)
class Description:
    """The text of one tool."""

    text: str
    parameters: Mapping[str, str]
    """A text for each parameter of the function that a model may give."""
    in_scripts: tuple[str, ...] = ()
    """Parameters that a script may give, or nothing for a tool that scripts have not."""
    returns: tuple[str, ...] = ()
    """The keys that a script finds in the result, the most useful first."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Sentences for a model that has these tools too."""
    script_note: str = ""
    """What the author of a script has to know besides."""

    def for_model(self, names: Collection[str]) -> str:
        """Return the text for a model that has the tools of these names."""
        return " ".join([self.text, *(text for name, text in self.beside.items() if name in names)])


_TERMINAL = Description(
    "Run a shell command in a session that keeps its working directory, exports and functions from call to call: "
    "builds, tests, git, packages, programs.\n"
    "Returns output (standard error merged in, at most 50 KB: of more, the beginning and the end), exit_code, and "
    "error: null, or why the command was ended or not run. note, if there, says what the exit code means, such "
    "as that grep found nothing.\n"
    "Commands get no input, so pass flags such as --yes and --no-pager.",
    {
        "command": "Shell text; several lines are fine.",
        "timeout": "Seconds until the command and all it started is ended. Leave it out for the usual limit; give more "
        "for long builds and tests. It does not hold in the background.",
        "workdir": "Directory for this command alone. Leave it out to stay where the session is.",
        "background": "Start the command beside the session and return at once, with a process_id.",
        "pty": "Give the command a terminal, for programs that want one (REPLs, progress bars). It runs beside the "
        "session.",
        "notify_on_exit": "With background: tell of its end with the next result of terminal or process, in notices.",
        "watch": "With background: tell in the same way when a line of the output holds one of these texts, or matches "
        "one of these regular expressions. For example ['listening on', 'Traceback'].",
    },
    in_scripts=("command", "timeout", "workdir"),
    returns=("output", "exit_code", "error"),
    beside={
        "process": "Start what does not end by itself (servers, watchers), or takes long, with background=true, never "
        "with &, nohup or setsid; process then reads it, waits for it and ends it.",
        "read_file": "Read files with read_file, not cat.",
        "search_files": "Search with search_files, not grep or find.",
        "patch": "Change files with patch, not sed.",
        "write_file": "Write them with write_file, not echo or here-documents.",
    },
    script_note="terminal runs in the session, in the foreground. A command that fails has an exit_code and no error.",
)
_PROCESS = Description(
    "See to commands that terminal started with background=true. What has ended is still there for 30 minutes, with "
    "the last 200 KB of its output.\n"
    "list: all of them, as processes. poll: the status, and what was printed since last time. wait: the same at its "
    "end, or after timeout seconds. log: lines of the whole output, again and again. write: data to its input as it "
    "is. submit: data and a line end. kill: end it and all it started.\n"
    "Returns status (running, exited, killed or lost), exit_code (null while it runs) and output, at most 50 KB; or "
    "error. notices tell what happened in the background meanwhile.",
    {
        "action": "What to do. All but list need process_id; write and submit need data.",
        "process_id": "The process_id that terminal returned.",
        "data": "Text for the process's input.",
        "timeout": "With wait: seconds to wait at most; the process goes on after that.",
        "offset": "With log: the first line, counted from 0; a negative number counts from the end, as -50 for the "
        "last 50 lines.",
        "limit": "With log: most lines to return.",
    },
)
_READ_FILE = Description(
    "Read lines of a text file. Use it instead of cat, head, tail and sed -n.\n"
    "Returns content (each line as its number, '|' and the text; lines over 2,000 characters are cut), total_lines, "
    "file_size, and truncated: whether lines follow; hint then says with which offset to go on. A missing or binary "
    "file gives error, with the names that are close.",
    {
        "path": "The file; absolute, relative to the session's working directory, or below ~.",
        "offset": "First line, counted from 1.",
        "limit": "Most lines to return.",
        "numbered": "False returns the text as it is, without numbers and without cutting long lines.",
    },
    in_scripts=("path", "offset", "limit", "numbered"),
    returns=("content", "total_lines", "truncated"),
    script_note="read_file numbers its lines ('     1|text'); read_file(path, numbered=False) gives the text alone.",
)
_WRITE_FILE = Description(
    "Write a text file, whole: what was there is replaced. Use it for new files and complete rewrites. "
    "Missing parent directories are made; mode and line endings of an existing file are kept.\n"
    "Returns bytes_written and created, or error.",
    {
        "path": "The file; absolute, relative to the session's working directory, or below ~.",
        "content": "The complete new text, as it is to stand in the file, without line numbers.",
    },
    in_scripts=("path", "content"),
    returns=("bytes_written", "created"),
    beside={"patch": "To change a part of a file, use patch."},
)
_SEARCH_FILES = Description(
    "Search for text in files, or for files by name. Use it instead of grep, rg, find and ls. Hidden and ignored files "
    "are searched too; .git and binary files are not.\n"
    "Returns matches sorted by path and line (path, line and content each), total_count, and truncated: whether there "
    "are more than limit; narrow the search then, or go on with offset. engine is ripgrep or grep. A wrong pattern or "
    "path gives error.",
    {
        "pattern": "With target=content a regular expression of ripgrep, or of grep -E where there is no ripgrep, "
        "matched line by line; escape ( [ . and the like to mean themselves. With target=files a glob: '*.py' for "
        "names, 'src/**/*.py' for paths.",
        "target": "content for lines in files, files for file names.",
        "path": "Directory or file to search.",
        "file_glob": "With target=content: search only files that this glob matches, such as '*.py' or '*.{yaml,yml}'.",
        "limit": "Most matches to return.",
        "offset": "Matches to leave out first, to go on after a truncated result.",
        "output_mode": "With target=content: content for the lines, files_only for the files that have any, count for "
        "the number of lines in each file.",
        "context": "Lines to return before and after each matching line.",
    },
    in_scripts=("pattern", "target", "path", "file_glob", "limit", "offset", "output_mode", "context"),
    returns=("matches", "total_count", "truncated"),
    script_note="Each of search_files' matches has path, line and content; with target='files' or "
    "output_mode='files_only' path alone.",
)
_PATCH = Description(
    "Change parts of text files. Use it instead of sed. With "
    "mode=replace (the default) old_string becomes new_string in one file: old_string must be exactly what the file "
    "has, indentation included and without the line numbers of read_file, and there only once, unless replace_all. "
    "With mode=patch a V4A patch changes, adds, moves and deletes several files, all or nothing.\n"
    "Returns diff and counts. If text is missing or ambiguous: error, which names the lines, and no file is changed; "
    "read the file again before another try.",
    {
        "path": "With mode=replace: the file.",
        "old_string": "With mode=replace: the text to replace, with as many lines around it as make it unique.",
        "new_string": "With mode=replace: the text to put there; empty to delete.",
        "replace_all": "With mode=replace: replace every occurrence.",
        "mode": "replace takes path, old_string, new_string and replace_all; patch takes patch alone.",
        "patch": "With mode=patch: '*** Begin Patch', then for each file '*** Update File: PATH' with hunks of ' ', "
        "'-' and '+' lines below optional '@@ LINE ABOVE' hints, '*** Add File: PATH' with '+' lines, "
        "'*** Delete File: PATH' or '*** Move File: OLD -> NEW', then '*** End Patch'.",
    },
    in_scripts=("path", "old_string", "new_string", "replace_all", "mode", "patch"),
    returns=("diff", "replacements", "files_changed"),
)
_WEB_SEARCH = Description(
    "Search the web. Returns data.web: a list of title, url, description and position, the best first; or error.",
    {
        "query": "What to look for, as one would type it into a search engine.",
        "limit": "Most results to return.",
    },
    in_scripts=("query", "limit"),
    returns=("data",),
    beside={"web_extract": "Read the pages that look right with web_extract."},
    script_note="web_search's data['web'] is a list of dicts with title, url, description and position.",
)
_WEB_EXTRACT = Description(
    "Read web pages and PDFs whose addresses you know, at most 5 at once: their main text, without menus and scripts.\n"
    "Returns results: url, title, content and error for each address. Addresses of private networks are refused.",
    {
        "urls": "Addresses, each with http:// or https://.",
        "format": "markdown or text for the main part of a page, with or without links; html for its source.",
    },
    in_scripts=("urls", "format"),
    returns=("results",),
    script_note="web_extract's results are dicts with url, title, content and error, one for each address.",
)

DESCRIPTIONS: Mapping[str, Description] = {
    "terminal": _TERMINAL,
    "process": _PROCESS,
    "read_file": _READ_FILE,
    "write_file": _WRITE_FILE,
    "search_files": _SEARCH_FILES,
    "patch": _PATCH,
    "web_search": _WEB_SEARCH,
    "web_extract": _WEB_EXTRACT,
}
"""The tools of `hermes_tools.model_tools`, in the order in which a model is told of them."""
