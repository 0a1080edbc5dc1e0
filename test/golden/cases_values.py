# SPDX-License-Identifier: Apache-2.0
"""Golden cases: amounts, percents, memory, filters, commands and variables."""
from cases import invalid, mutate
from lib.pods import ask, container, pod

A, P, M = "gpu-amount", "gpu-percent", "gpu-memory"
KEY = "bitfusion.io/gpu-amount"


def both(limits, requests):
    return {"limits": limits, "requests": requests}


def one(name, about, resources, expect=None, config=None, **kw):
    mutate(name, about, pod(container(resources=resources), **kw), expect=expect, oracle=True, config=config)


def amounts():
    for label, value in (("1e0", "1e0"), ("2", "2"), ("2.0", "2.0"), ("1000m", "1000m"), ("1k", "1k"), ("8", "8")):
        one(f"amount-{label}", "whole numbers in any spelling", ask(value))
    for label, value in (("0", "0"), ("0.5", "0.5"), ("minus-1", "-1"), ("1Ei", "1Ei"), ("12500m", "12500m"),
                         ("1e5", "1e5"), ("words", "one"), ("empty", ""), ("blank", " 1"), ("500m", "500m")):
        one(f"amount-{label}", "not a whole number of GPUs that a container can mean", ask(value),
            invalid(A))
    one("num-alone", "gpu-num is another name for gpu-amount", ask(None, num="2"))
    one("num-equal", "both names, one value", ask("2", num="2"))
    one("num-conflict", "both names, two values", ask("2", num="1"), invalid("gpu-num", "gpu-amount"))
    one("percent-without-amount", "percent alone says not of how many GPUs", ask(None, percent="50"),
        invalid(A))
    one("limits-requests-differ", "limits and requests must say the same", both({KEY: "2"}, {KEY: "1"}),
        invalid("gpu-amount"))
    one("limits-requests-spelled-apart", "the same number in two spellings", both({KEY: "1"}, {KEY: "1000m"}))
    one("units-alone", "bitfusion.io/gpu by itself asks for nothing", {"limits": {"bitfusion.io/gpu": "50"}})
    one("amount-int", "an offline manifest's plain number", ask(1))


def percents():
    for value in ("1", "50", "100", "12500m", "12.5", "99.1", "0.5", "1e2", "5e1"):
        one(f"percent-{value}", "fractions round up", ask(percent=value))
    for label, value in (("0", "0"), ("101", "101"), ("minus-1", "-1"), ("1e3", "1e3"), ("100001m", "100001m"),
                         ("1Ei", "1Ei"), ("words", "50%")):
        one(f"percent-{label}", "beyond 1..100", ask(percent=value), invalid(P))
    one("percent-of-three", "units are percent times amount", ask("3", percent="25"))


def memories():
    for label, amount, value in (("8000M", 1, "8000M"), ("8Gi", 1, "8Gi"), ("3x5000M", 3, "5000M"),
                                 ("2x4000M", 2, "4000M"), ("1M", 1, "1M"), ("1999999", 1, "1999999"),
                                 ("1e9", 1, "1e9"), ("total", 1, "16000M"), ("16G", 1, "16G")):
        one(f"memory-{label}", "MB are truncated, units round up", ask(amount, memory=value))
    for label, value in (("above-total", "16001M"), ("999999", "999999"), ("12500m", "12500m"), ("0", "0"),
                         ("minus-1", "-1G"), ("1Ei", "1Ei"), ("words", "4GB")):
        one(f"memory-{label}", "no share of one GPU", ask(memory=value), invalid(M))
    one("memory-and-percent", "memory wins, with a warning", ask(percent="50", memory="4G"))
    one("memory-and-bad-percent", "the percent is checked all the same", ask(percent="101", memory="4G"),
        invalid(P))
    one("memory-total-unset", "memory needs the setting, which is named", ask(memory="4G"),
        invalid("TOTAL_GPU_MEMORY"), config="no-total")
    one("percent-total-unset", "percent does not need it", ask(percent="50"), config="no-total")


def filters():
    for label, text in (("one", "server.name=gpu-01"), ("two", "server.name=gpu-01 gpu.model=V100-PCIE-16GB"),
                        ("blanks", "  server.name=gpu-01\t zone=lab \n"), ("twice", "zone=lab zone=lab"),
                        ("unknown-key", "driver.version=470"), ("no-equals", "anything"),
                        ("dollar", "zone=$(HOME) a$$b=c $"), ("quotes", "zone='a\"b'"),
                        ("value-with-blanks", 'zone=lab gpu.model="Tesla V100"')):
        mutate(f"filter-{label}", "each token is one word behind --filter", pod(filter=text))
    mutate("filter-quote-open", "a quoted value has an end", pod(filter='gpu.model="Tesla V100'), expect=invalid("quotes"))
    mutate("filter-memory", "filters beside memory", pod(container(resources=ask(memory="4G")), filter="zone=lab"))
    mutate("filter-blank-only", "no token at all", pod(filter=" \t "))


COMMANDS = {
    "words": (["python", "train.py", "--lr", "0.1"], None), "one-word": (["python"], None),
    "one-word-args": (["python"], ["train.py", "--name", "a b"]), "one-string": (["python train.py --a=1"], None),
    "one-string-empty-args": (["python train.py"], []), "one-string-newline": (["python a.py\npython b.py"], None),
    "one-string-quotes": (["python -c 'print(\"a b\")' \"$(HOME)\" $$ $HOME"], None),
    "one-string-tab": (["python\ta.py"], None), "bash-c": (["/bin/bash", "-c", "cd /w && python t.py"], None),
    "sh-c-args": (["sh", "-c", "echo \"$0\" \"$@\"", "a b", "c"], ["d"]), "bash-lc": (["bash", "-lc", "python t.py"], None),
    "quotes": (["python", "a b", "it's", '"', "\\", "`id`", ";", "&&", "*"], None),
    "dollars": (["echo", "$(HOME)", "$$(HOME)", "$$", "$HOME", "$", "$()", "$(UNKNOWN)", "$$$"], ["$(HOME)$$"]),
    "dashes": (["tool", "--", "-n", "9", "-p", "0.1", "--"], ["--"]), "empties": (["tool", "", "", "x"], [""]),
    "newlines": (["tool", "a\nb", "\t", " "], ["\n"]), "utf8": (["tööl", "Grüße", "模型", "🙂"], ["naïve café"]),
    "one-empty-word": ([""], None), "not-the-launcher": (["mybitfusion", "run"], None),
    "launcher-later": (["echo", "bitfusion"], None),
}
OWN = {
    "own-name": ["bitfusion", "run", "-n", "1", "-p", "1.0", "--", "python", "t.py"],
    "own-path": ["/usr/bin/bitfusion", "run", "-n", "1", "--", "python", "t.py"],
    "own-in-script": ["/bin/bash", "-c", "bitfusion run -n 1 -p 1 -- python t.py"],
    "own-in-script-by-path": ["sh", "-c", "/opt/x/bitfusion run -n 1 -- python t.py"],
    "own-one-string": ["bitfusion run -n 1 -- python t.py"],
}


def commands():
    home = [{"name": "HOME", "value": "/root"}]
    for label, (command, args) in COMMANDS.items():
        more = {"args": args} if args is not None else {}
        mutate(f"command-{label}", "the program gets the argv it would have had",
               pod(container(command=command, env=home, **more)))
    mutate("command-one-string-bash", "the operator's choice of a shell", pod(container(
        command=["source env.sh && python train.py"])), config="bash")
    for label, command in OWN.items():
        loud = {"allowed": True, "patched": True, "warnings": ["the kernel cannot run it"]} if label == "own-one-string" else None
        mutate(f"command-{label}", "a command that starts the launcher itself is left alone", pod(container(command=command)),
               expect=loud, oracle=True)
    own = OWN["own-name"]
    for label, command, words in (
            ("amount", own[:3] + ["2"] + own[4:], ["2", "1"]), ("percent", own[:5] + ["0.25"] + own[6:], ["0.25", "100"]),
            ("memory", own[:4] + ["-m", "4000"] + own[6:], ["4000"]),
            ("script", ["sh", "-c", "bitfusion run -n 8 -- python t.py"], ["8", "1"])):
        mutate(f"command-own-other-{label}", "its own -n -p -m must agree with the request", pod(container(command=command)),
               expect=invalid(*words))
    mutate("command-own-memory", "its own -m agrees", pod(container(
        command=["bitfusion", "run", "-n", "1", "-m", "4000", "--", "x"], resources=ask(memory="4G"))))
    mutate("command-none", "no command: what to add is said", pod(container(command=None)), expect=invalid("command"))
    mutate("command-none-with-args", "args alone are no command", pod(container(command=None, args=["a"])),
           expect=invalid("command"))
    mutate("command-empty-list", "an empty command is none", pod(container(command=[])), expect=invalid("command"))
    mutate("command-one-string-with-args", "nobody can say what was meant", pod(container(
        command=["python train.py"], args=["--lr", "0.1"])), expect=invalid("command", "args"))


def variables():
    lib = "LD_LIBRARY_PATH"
    value_from = {"configMapKeyRef": {"name": "paths", "key": "lib"}}
    for label, env in {
            "own": [{"name": lib, "value": "/usr/local/cuda/lib64"}],
            "slash": [{"name": lib, "value": "/usr/local/cuda/extras/CUPTI/lib64/"}],
            "twice": [{"name": lib, "value": "/a"}, {"name": "X", "value": "1"}, {"name": lib, "value": "/b"}],
            "empty": [{"name": lib, "value": ""}], "no-value": [{"name": lib}],
            "empty-elements": [{"name": lib, "value": ":/a::/b:"}],
            "reference": [{"name": "CUDA", "value": "/cuda"}, {"name": lib, "value": "$(CUDA)/lib:$$x"}],
            "value-from": [{"name": "A", "value": "1"}, {"name": lib, "valueFrom": value_from}, {"name": "B", "value": "2"}],
            "value-from-then-value": [{"name": lib, "valueFrom": value_from}, {"name": lib, "value": "/b"}],
            "others": [{"name": "LD_LIBRARY_PATHS", "value": "x"}, {"name": "ld_library_path", "value": "y"}],
            "refers-later": [{"name": lib, "value": "/own"}, {"name": "LATER", "value": "$(PATH_OF_NOBODY)"}],
    }.items():
        loud = {"allowed": True, "patched": True, "warnings": ["empty elements of LD_LIBRARY_PATH"]} if label == "empty-elements" else None
        mutate(f"env-{label}", "ours in front, without empty elements", pod(container(env=env)), expect=loud, oracle=True)


def fill():
    amounts()
    percents()
    memories()
    filters()
    commands()
    variables()
