//! What examples do, besides succeeding and handling each item of their input.

/// What to expect of the examples that contain `part`.
pub(super) struct Example {
    pub(super) part: &'static str,
    /// A program that may be missing, and without which it is skipped.
    pub(super) needs: &'static str,
    /// Extra input files.
    pub(super) inputs: &'static [(&'static str, &'static str)],
    /// Commands to run before it.
    pub(super) before: &'static str,
    /// A part to replace, to save time, and its replacement.
    pub(super) changed: (&'static str, &'static str),
    /// Whether some items of its input are left out.
    pub(super) loses_items: bool,
    pub(super) shows: &'static [Shows],
}

/// What a run shows.
pub(super) enum Shows {
    /// All of standard output.
    Output(&'static str),
    /// Part of standard output.
    InOutput(&'static str),
    /// Part of standard error, which is empty otherwise.
    Error(&'static str),
    /// All commands that were run, in any order.
    Calls(&'static str),
    /// The name of a file, and part of its content.
    File(&'static str, &'static str),
}

impl Example {
    pub(super) const PLAIN: Example = Example {
        part: "",
        needs: "",
        inputs: &[],
        before: ":",
        changed: ("", ""),
        loses_items: false,
        shows: &[],
    };
}

const FETCHED: Shows = Shows::Calls("curl -fsSO https://a.example/1\ncurl -fsSO https://b.example/2\n");

const TWO_A_SECOND: Shows = Shows::Output(
    "0.000000000\t1\n0.000000000\t2\n1.000000000\t3\n1.000000000\t4\n2.000000000\t5\n2.000000000\t6\n",
);

/// Stands in for `requests`. The server throttles the first request of all.
const REQUESTS: &str = "
class Answer:
    def __init__(self, url, status):
        self.status_code, self.ok, self.content = status, status < 400, url
        self.headers = {'Retry-After': '0.1'}

class Session:
    def get(self, url):
        try:
            open('throttled', 'x').write(url)
            return Answer(url, 429)
        except FileExistsError:
            return Answer(url, 200)
";

/// Stands in for `fetch`.
const FETCH: &str = "globalThis.fetch = async url => ({ ok: true, text: async () => url });";

pub(super) const EXPECTED: &[Example] = &[
    Example {
        part: "my-tool | throttle -n 10 -p 59s --audit --arrivals now >out",
        shows: &[
            Shows::File("out", "one\ntwo\n"),
            Shows::Error("limit 10/59s,algo=sliding: 0 of 2 items too early"),
        ],
        ..Example::PLAIN
    },
    Example {
        part: "-- python3 -u ask.py",
        needs: "python3",
        inputs: &[("ask.py", "import sys\nfor line in sys.stdin: print(line.strip())")],
        ..Example::PLAIN
    },
    Example {
        part: "-- python3 -uc",
        needs: "python3",
        inputs: &[("requests.py", REQUESTS)],
        loses_items: true,
        shows: &[Shows::Output("19\n19\n"), Shows::File("throttled", "https://")],
        ..Example::PLAIN
    },
    Example {
        part: "-- node",
        needs: "node",
        inputs: &[("fetch.js", FETCH)],
        changed: ("-- node", "-- node --require ./fetch.js"),
        loses_items: true,
        shows: &[Shows::Output("19\n19\n")],
        ..Example::PLAIN
    },
    Example {
        part: "while IFS= read -r x",
        shows: &[Shows::Output(""), Shows::Calls("call 1 GET /user\ncall 5 POST /repos/o/r/issues\n")],
        ..Example::PLAIN
    },
    Example {
        part: "throttle -v -r 1..100/s",
        shows: &[Shows::Error("learned no limit: 2 requests, none throttled")],
        ..Example::PLAIN
    },
    Example { part: "-r 2/running,key=host -r 10/s", shows: &[FETCHED], ..Example::PLAIN },
    Example {
        part: "throttle -s api --status",
        shows: &[Shows::InOutput("2 used, 498 free, next slot now\n")],
        ..Example::PLAIN
    },
    Example {
        part: "--jitter 5s -j 8",
        inputs: &[("urls", "https://a.example/1\nhttps://b.example/2\nhttps://a.example/3\n")],
        changed: ("--jitter 5s", "--dry-run --jitter 5s,seed=2"),
        shows: &[Shows::Output(
            "0.776107755\tcurl -fsSO https://b.example/2\n3.581411725\tcurl -fsSO https://a.example/1\n\
             16.401601622\tcurl -fsSO https://a.example/3\n",
        )],
        ..Example::PLAIN
    },
    Example { part: "--until 9h --max-wait 1h", shows: &[FETCHED], ..Example::PLAIN },
    Example { part: "throttle -n 10 -p 1m -- curl", shows: &[FETCHED], ..Example::PLAIN },
    Example {
        // A Friday at noon.
        part: "during=Mon-Fri@09:00-17:00 -- ./call",
        changed: ("throttle", "TZ=UTC throttle --dry-run --at 2026-11-20T12:00Z"),
        loses_items: true,
        shows: &[Shows::InOutput("18000.000000000\t./call '1 GET /user'\n")],
        ..Example::PLAIN
    },
    Example {
        part: "while read -r call",
        shows: &[
            Shows::Calls("call 1 GET /user\ncall 5 POST /repos/o/r/issues\n"),
            Shows::File(".local/state/throttle/api", ""),
        ],
        ..Example::PLAIN
    },
    Example {
        part: "--once -s api",
        shows: &[Shows::Calls("curl -fsS https://api.example.org/users\n")],
        ..Example::PLAIN
    },
    Example {
        part: "throttle -A interval -r 10/m -- curl",
        changed: ("throttle", "throttle --dry-run"),
        shows: &[Shows::Output(
            "0.000000000\tcurl -fsSO https://a.example/1\n6.000000000\tcurl -fsSO https://b.example/2\n",
        )],
        ..Example::PLAIN
    },
    Example {
        part: "seq 6 | cargo run --",
        changed: ("cargo run --", "throttle --dry-run"),
        shows: &[TWO_A_SECOND],
        ..Example::PLAIN
    },
    Example {
        part: "seq 5 | throttle -r 3/s,algo=interval --dry-run",
        shows: &[Shows::Output(
            "0.000000000\t1\n0.333333334\t2\n0.666666668\t3\n1.000000002\t4\n1.333333336\t5\n",
        )],
        ..Example::PLAIN
    },
    Example {
        part: "--audit --arrivals col:4",
        loses_items: true,
        shows: &[Shows::InOutput("0 of 2 items too early")],
        ..Example::PLAIN
    },
    Example {
        part: "--on-limit drop",
        inputs: &[("log", "a 1\na 2\na 3\na 4\na 5\na 6\nb 7\n")],
        shows: &[Shows::Output("a 1\na 2\na 3\na 4\na 5\nb 7\n")],
        ..Example::PLAIN
    },
    Example {
        part: "--on-limit latest",
        shows: &[Shows::Calls("inotifywait -mr src\nmake \n")],
        ..Example::PLAIN
    },
    Example {
        part: "| nc host 514",
        shows: &[Shows::Calls("tail -F log\nnc host 514\napp 0.5 one\napp 9 two\n")],
        ..Example::PLAIN
    },
    Example {
        part: "--pipe",
        shows: &[Shows::Calls("curl -fsS --data-binary @- http://localhost/lines\napp 0.5 one\napp 9 two\n")],
        ..Example::PLAIN
    },
    Example { part: "-B 1000,1s", shows: &[Shows::Calls("inotifywait -mr src\nmake \n")], ..Example::PLAIN },
    Example { part: "IFS=,", shows: &[Shows::Calls("call ids=4711,4712\n")], ..Example::PLAIN },
    // One item instead of any number.
    Example {
        part: "yes http://localhost/ready",
        changed: ("yes", "echo"),
        shows: &[Shows::Calls(
            "curl -fsS http://localhost/ready\ncurl -fsS -o /dev/null http://localhost/\n\
             curl -fsSO https://example.org/big.iso\n",
        )],
        ..Example::PLAIN
    },
    Example { part: "gzip -k", shows: &[Shows::File("access.log.gz", "")], ..Example::PLAIN },
    Example {
        part: "mail.prom",
        shows: &[Shows::File("node_exporter/mail.prom", "throttle_released_total")],
        ..Example::PLAIN
    },
    // Items in the log are not run again.
    Example {
        part: "--resume",
        before: "head -n 1 urls | throttle -r 10/s --log jobs.log -- curl -fsSO",
        shows: &[FETCHED],
        ..Example::PLAIN
    },
    Example {
        part: "only=search",
        inputs: &[("calls", "search foo\nlist bar\n")],
        shows: &[Shows::Calls("call search foo\ncall list bar\n")],
        ..Example::PLAIN
    },
    // Users type this while it runs. The last line pauses it, so it is given a rate again to let it end. There is a
    // message if the file is read while it is empty.
    Example {
        part: "echo 20/s >rate\necho 0/s >rate",
        changed: (
            "echo 20/s >rate\necho 0/s >rate",
            "until [ -s $CALLS ]; do sleep 0.01; done; echo 20/s >rate; echo 0/s >rate; echo 20/s >rate; wait $!",
        ),
        shows: &[Shows::Calls("call 1 GET /user\ncall 5 POST /repos/o/r/issues\n"), Shows::Error("")],
        ..Example::PLAIN
    },
    Example {
        part: "{.id}.json",
        inputs: &[("users.jsonl", "{\"id\":4711,\"name\":\"Ada\"}\n{\"id\":4712,\"name\":\"Bob\"}\n")],
        loses_items: true,
        shows: &[Shows::Calls(
            "curl -fsS -o 4711.json https://api.example.org/users/4711\n\
             curl -fsS -o 4712.json https://api.example.org/users/4712\n",
        )],
        ..Example::PLAIN
    },
    Example {
        part: "--once -s github",
        shows: &[
            Shows::Calls("curl -fsS https://api.github.com/rate_limit\ncall 5 POST /graphql\nsend report\n"),
            Shows::File(".local/state/throttle/report", ""),
        ],
        ..Example::PLAIN
    },
    Example {
        part: "mails.csv",
        inputs: &[("mails.csv", "subject,mail\nHello,a@a.example\n\"Bye, all\",b@b.example\n")],
        loses_items: true,
        shows: &[Shows::Calls(
            "call --to a@a.example --subject no. 1: Hello\ncall --to b@b.example --subject no. 2: Bye, all\n",
        )],
        ..Example::PLAIN
    },
    Example {
        part: "-s api -n 500 -p 1h",
        shows: &[Shows::File(".local/state/throttle/api", "")],
        ..Example::PLAIN
    },
];
