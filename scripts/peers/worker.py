"""A process that does jobs for another one and may crash: it is started again, and goes on after the item that it crashed at.

A job is a line of JSON on its standard input. Its answers are lines on the standard output: lists, of which the first two entries are a name
and a status, "begun" before each item; `null` ends a job. `tried` of a job holds the names that are not to be tried again.
"""

import json
import queue
import resource
import subprocess
import sys
import threading


def serve(answers):
    """The loop of such a process: `answers` gives the lists for a job."""
    for line in sys.stdin:
        try:
            for answer in answers(json.loads(line)):
                print(json.dumps(answer), flush=True)
        except BaseException as error:
            print(json.dumps(["", "refused", [], brief(error)]), flush=True)
        print(json.dumps(None), flush=True)


def brief(error):
    """The line that says what is wrong, of the first cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    told += [line for line in lines if not line.startswith(("File ", "Stack", "---", "|", "-->"))]
    return f"{type(error).__name__}: {(told or [''])[0]}"[:160]


class Worker:
    """Such a process, started again after each crash; `memory` bounds its address space, in bytes."""

    def __init__(self, command, seconds, memory=None):
        self.command, self.seconds, self.memory = command, seconds, memory
        self.child, self.lines = None, None

    def run(self, job):
        """The answers on a job; an item that ended the process has the status "crashed", and last the reason."""
        found = []
        while True:
            done, why = self.answers({**job, "tried": [answer[0] for answer in found]})
            begun = [answer[0] for answer in done if answer[1] == "begun"]
            found += [answer for answer in done if answer[1] != "begun"]
            if why is None:
                return found
            crashed = begun[-1] if begun else ""
            # What comes before the first item would crash again.
            is_again = not begun or crashed in (answer[0] for answer in found)
            found.append([crashed, "crashed", [], why])
            if is_again:
                return found

    def answers(self, job):
        """The answers on items that were not tried, and what ended the process, if anything did."""
        if self.child is None or self.child.poll() is not None:
            self.start()
        self.child.stdin.write(json.dumps(job) + "\n")
        self.child.stdin.flush()
        found = []
        while True:
            try:
                line = self.lines.get(timeout=self.seconds)
            except queue.Empty:
                line = None
            if not line:
                if line is None:
                    self.child.kill()
                code = self.child.wait()
                return found, f"a crash ({code})" if line == "" else f"no answer in {self.seconds} s"
            if line == "null\n":
                return found, None
            # What the other system prints itself is none of ours.
            if line.startswith("["):
                found.append(json.loads(line))

    def close(self):
        """Ends the process; the next job starts a new one."""
        if self.child is not None and self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def start(self):
        """A new process, and a thread that passes on its lines."""
        limited = {"preexec_fn": self.limit} if self.memory else {}
        self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, bufsize=1, **limited)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.child.stdout, self.lines), daemon=True).start()

    def limit(self):
        resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    @staticmethod
    def read(stream, lines):
        """Passes on every line, and an empty one at the end."""
        for line in stream:
            lines.put(line)
        lines.put("")
