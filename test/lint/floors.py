#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a program can check. Prints one line per breach; exit status 1 when there is one.

    test/lint/floors.py [--root DIR] [--build DIR] [includes|objects|text ...]

includes  who may include whom, which file may use which library; unit tests include no header that a room keeps to itself
objects   the decisions (PURE) reach no clock, file, socket, thread, environment or locale and keep no state;
          nobody calls what is banned, or what lies in a room that it may not include (what was compiled counts:
          `nm` on the objects of the release build)
text      leftovers, paths of somebody's machine, trailing blanks, missing licence lines
"""
import argparse
import os
import re
import subprocess
import sys

DESIGN = "docs/design.md"
ROW = re.compile(r"^\| `([\w/]+)` \| ([^|]+) \| ([^|]*)\|$")


def rooms_of(design):
    """{room: (what it holds, [whom it may include])}, as the table "| Room | Holds | May include |" of the text tells, in its order.
    `base/*` stands for base and all rooms in it but this one."""
    table = design[design.index("| Room | Holds | May include |\n"):].split("\n\n", 1)[0]
    rows = [ROW.match(line) for line in table.splitlines()[2:]]
    rooms = [row[1] for row in rows]

    def meant(room, named):
        if not named.endswith("/*"):
            return [named]
        return [r for r in rooms if r != room and (r == named[:-2] or r.startswith(named[:-1]))]
    return {row[1]: (row[2].strip(), [r for named in re.findall(r"`([\w/*]+)`", row[3]) for r in meant(row[1], named)]) for row in rows}


def of_house():
    with open(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), DESIGN), encoding="utf-8") as file:
        return rooms_of(file.read())


# A file includes its own room and these.
FLOORS = {room: may for room, (_, may) in of_house().items()}

# The sources that decide and nothing else, without their ending.
PURE = re.compile(r"(webhook/core/[\w/]+|kube/(kube_answer|kube_object|kube_review|lease_record|reflector|watch_reader)|net/peers|deviceplugin/gpu_count|gate/(bearer|frame|picture|server_profile|server_profile_use))\.\w+$")

UNIT_TESTS = "test/unit"

# Each library has one place; a pattern is matched against the header, the places against the file.
LIBRARIES = [
    (r"microhttpd\.h$", r"net/http_server\w*\.[ch]$"),
    (r"gnutls/", r"net/\w+\.[ch]$"),
    (r"openssl/", r"certs/\w+\.[ch]$"),
    (r"yaml\.h$", r"base/yaml/\w+\.[ch]$"),
    (r"curl/", r"net/http_client\w*\.[ch]$"),
    (r"dlfcn\.h$", r"(net/http_client\w*|probe/runtime/rt_dlopen|gate/process/take|probe/runtime/nvml\w*)\.[ch]$"),
    (r"cuda_runtime_api\.h$", r"probe/runtime/rt_linked\.c$"),
    (r"nvrtc\.h$", r"probe/kernels/compile\.c$"),
    (r"nghttp2/", r"(deviceplugin/grpc_\w+|gate/session)\.[ch]$"),
    (r"protobuf-c/|\w+\.pb-c\.h$", r"deviceplugin/\w+\.[ch]$"),
]

# What those may take from the C library: memory, strings, sorting, formatting into memory.
PURE_HEADERS = set("""assert.h inttypes.h limits.h search.h stdarg.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h
    stdalign.h stdnoreturn.h float.h""".split())
SYSTEM_HEADERS = PURE_HEADERS | set("""arpa/inet.h ctype.h dirent.h endian.h errno.h fcntl.h fnmatch.h ftw.h getopt.h grp.h linux/sockios.h locale.h math.h
    netdb.h net/if.h netinet/in.h netinet/ip.h netinet/tcp.h poll.h pthread.h pwd.h regex.h sched.h semaphore.h signal.h
    spawn.h stdatomic.h stdio_ext.h strings.h sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h sys/ioctl.h sys/mman.h
    sys/fsuid.h sys/prctl.h sys/random.h sys/resource.h sys/select.h sys/signalfd.h sys/socket.h sys/stat.h sys/syscall.h
    sys/time.h sys/timerfd.h sys/types.h sys/uio.h sys/un.h sys/utsname.h sys/wait.h termios.h threads.h time.h
    unistd.h emmintrin.h tmmintrin.h immintrin.h malloc.h execinfo.h sanitizer/asan_interface.h""".split())

PURE_SYMBOLS = set("""memcpy memmove memset memcmp memchr memrchr memmem mempcpy explicit_bzero
    strlen strnlen strcmp strncmp strchr strrchr strchrnul strstr strspn strcspn strpbrk strdup strndup
    malloc calloc realloc reallocarray free qsort bsearch tsearch tfind tdelete tdestroy twalk_r snprintf vsnprintf
    abort __assert_fail __stack_chk_fail _GLOBAL_OFFSET_TABLE_""".split())
# What a file of base may call besides and still be fit for those: number parsing (the program never calls setlocale)
# and the libraries that it wraps, which work on memory only.
PURE_BASE_SYMBOLS = PURE_SYMBOLS | {"__errno_location", "strtod", "strtof", "strtol", "strtoul", "strtoll",
                                    "strtoull", "inet_pton"}
PURE_BASE_PATTERN = re.compile(r"(cJSON|yaml)_\w+$")
# Arithmetic of the compiler's own library: 128 bits, population counts.
COMPILER_PATTERN = re.compile(r"__(u?div|u?mod|u?divmod|mul|mulo|popcount|clz|ctz)[sdt]i[234]$")
# Exceptions, file by file.
PURE_EXCEPTIONS = {
    # The seed of the key hashes must not be guessed; no answer depends on it.
    "base/json/json_keys.o": {"getrandom", "clock_gettime", "pthread_once"},
    # Which instructions this CPU has: base64 and the JSON reader are faster with some, and the same with all.
    "base/buf.o": {"__cpu_model"},
    "base/json/json_index.o": {"__cpu_model"},
}

BANNED = {
    "strcpy": "snprintf or base/buf", "stpcpy": "snprintf or base/buf", "strcat": "base/buf",
    "strncat": "base/buf", "sprintf": "snprintf or base/buf", "vsprintf": "vsnprintf", "gets": "getline",
    "strtok": "base/slice", "atoi": "base/text", "atol": "base/text", "atoll": "base/text", "atof": "base/text",
    "gmtime": "gmtime_r", "localtime": "gmtime_r: times are UTC", "localtime_r": "gmtime_r: times are UTC",
    "asctime": "strftime", "ctime": "strftime", "setlocale": "nothing: the locale stays C",
    "rand": "getrandom", "srand": "getrandom", "random": "getrandom", "drand48": "getrandom",
    "system": "no shell", "popen": "no shell", "tmpnam": "mkstemp", "mktemp": "mkstemp", "tempnam": "mkstemp",
    "signal": "sigaction",
}

# Written in pieces: this file is checked too.
LEFTOVERS = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK"]) + r")\b")
INSTALLED = ("/etc/", "/usr/", "/var/lib/", "/opt/", "/run/")
PLAIN_PARENTS = {"/", "/tmp", "/home", "/root", "/opt", "/srv", "/src", "/mnt", "/var/tmp", "/builds"}
OWN_TEXT = re.compile(r"(^|/)(Makefile|[^/]+\.(c|h|mk|py|sh|md|1|5|8))$|^(manifests|docs|tools|\.ci|mk|share)/|"
                      r"^test/[^/]+/[^/.]+$")
NOT_OURS = re.compile(r"^test/(fuzz/(?:corpus|grown)|golden/\w+/.*|integration/data)/")


# What several objects define, of which each program is linked with one.
ONE_OF_SEVERAL = {"main", "rt_default"}


def floor_of(path):
    """The floor that a file of ours stands on, "" for the rest (tests, tools)."""
    folder = os.path.dirname(path)
    return folder if folder in FLOORS else ""


def files_of(root):
    """What git tracks, or every file where there is no repository; build/ never."""
    if os.path.exists(os.path.join(root, ".git")):
        done = subprocess.run(["git", "-C", root, "ls-files", "-z"], stdout=subprocess.PIPE, check=True)
        names = done.stdout.decode().split("\0")
        # Staged and then removed from disk: not there to be read.
        return sorted(n for n in names if n and os.path.isfile(os.path.join(root, n)))
    found = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [s for s in subfolders if s not in ("build", ".git", "__pycache__")]
        found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), "rb") as file:
        return file.read()


def sources_of(root):
    """Every C file on disk, tracked or not, so that a new file is checked before it is added."""
    found = []
    for floor in FLOORS:
        folder = os.path.join(root, floor)
        if os.path.isdir(folder):
            found += [f"{floor}/{n}" for n in os.listdir(folder) if n.endswith((".c", ".h"))]
    return sorted(found)


def unit_tests_of(root):
    """Unit tests and their helpers."""
    folder = os.path.join(root, UNIT_TESTS)
    return sorted(f"{UNIT_TESTS}/{n}" for n in os.listdir(folder) if n.endswith((".c", ".h"))) if os.path.isdir(folder) else []


def check_unit_tests(root):
    """A test that knows what a room keeps to itself fails when that is done in another way, and not only when it is done wrong."""
    breaches = []
    for path in unit_tests_of(root):
        for number, line in enumerate(read(root, path).decode("utf-8", "replace").splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if include and include.group(1).endswith("_impl.h") and floor_of(include.group(1)):
                header = include.group(1)
                breaches.append(f'{path}:{number}: "{header}": for {floor_of(header)} alone; a unit test asks by public headers')
    return breaches


def check_includes(root):
    breaches = check_unit_tests(root)
    for path in sources_of(root):
        floor = floor_of(path)
        for number, line in enumerate(read(root, path).decode("utf-8", "replace").splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not include:
                if re.match(r"\s*#\s*include\b", line):
                    breaches.append(f"{path}:{number}: an include that is not a plain name")
                continue
            kind, header = include.groups()
            problem = problem_of_own(root, floor, header) if kind == '"' else problem_of_foreign(path, header)
            if problem:
                breaches.append(f"{path}:{number}: {problem}")
    return breaches


def problem_of_own(root, floor, header):
    target = floor_of(header)
    if not target:
        return f'"{header}": write it from the root, as in "base/buf.h"'
    if target != floor and target not in FLOORS[floor]:
        return f'"{header}": {floor} may include {", ".join([floor] + FLOORS[floor])}, not {target}'
    if header.endswith("_impl.h") and target != floor:
        return f'"{header}": for {target} alone; what others need belongs in a header of its own'
    if not os.path.isfile(os.path.join(root, header)):
        return f'"{header}": no such file'
    return None


def problem_of_foreign(path, header):
    for library, place in LIBRARIES:
        if re.match(library, header):
            return None if re.match(place, path) else f"<{header}> belongs in {place} alone"
    if header not in SYSTEM_HEADERS:
        return f"<{header}> is not among the known headers (SYSTEM_HEADERS and LIBRARIES in test/lint/floors.py)"
    if PURE.match(path) and header not in PURE_HEADERS:
        return f"<{header}> in a source that decides: no I/O, clock, threads or environment"
    return None


def objects_of(root, build):
    """What was compiled, less what is left of sources that are gone."""
    found = []
    for floor in FLOORS:
        folder = os.path.join(build, floor)
        if os.path.isdir(folder):
            found += [os.path.join(folder, n) for n in os.listdir(folder)
                      if n.endswith(".o") and os.path.exists(os.path.join(root, floor, n[:-2] + ".c"))]
    return sorted(found)


def plain(symbol):
    """The function behind a fortified or C99 spelling: __memcpy_chk, __isoc99_sscanf."""
    fortified = re.match(r"__(\w+)_chk$", symbol)
    if fortified:
        return fortified.group(1)
    return re.sub(r"^__isoc\d+_", "", symbol)


def symbols_of(build, objects):
    """{object: (what it needs, what it defines for others)}, objects named from the build folder."""
    table = {os.path.relpath(o, build): (set(), set()) for o in objects}
    if not objects:
        return table
    done = subprocess.run(["nm", "-A", "-P", *objects], stdout=subprocess.PIPE, check=True, text=True)
    for line in done.stdout.splitlines():
        path, rest = line.split(": ", 1)
        name, kind = rest.split()[:2]
        needs, gives = table[os.path.relpath(path, build)]
        if kind in "Uwv":
            needs.add(plain(name))
        elif kind.isupper():
            gives.add(name)
    return table


def check_objects(root, build):
    objects = objects_of(root, build)
    pure = [o for o in objects if PURE.match(os.path.relpath(o, build))]
    if not objects:
        return [f"{build}: no objects; build first"]
    table = symbols_of(build, objects)
    return check_banned(table) + check_twice(table) + check_names(table) + check_purity(table) + check_state(build, pure)


def check_banned(table):
    breaches = []
    for path, (needs, _) in table.items():
        for symbol in sorted(needs & set(BANNED)):
            breaches.append(f"{path}: calls {symbol}; use {BANNED[symbol]}")
        breaches += [f"{path}: calls {s}; cJSON is for tests alone" for s in sorted(needs) if s.startswith("cJSON_")]
    return breaches


def check_twice(table):
    """Archives hide a name that two objects define; the shared library of `make mutants` cannot be linked then."""
    homes = {}
    for path, (_, gives) in sorted(table.items()):
        for symbol in gives - ONE_OF_SEVERAL:
            homes.setdefault(symbol, []).append(path)
    return [f"{paths[1]}: defines {symbol}, as {paths[0]} does" for symbol, paths in sorted(homes.items()) if len(paths) > 1]


def check_names(table):
    """Whoever declares a function: it is called from rooms alone that may include its own."""
    home = {symbol: floor_of(path) for path, (_, gives) in table.items() for symbol in gives - ONE_OF_SEVERAL}
    return [f"{path}: calls {symbol} of {home[symbol]}, which {floor_of(path)} may not include"
            for path, (needs, _) in sorted(table.items()) for symbol in sorted(needs)
            if home.get(symbol, floor_of(path)) not in [floor_of(path)] + FLOORS[floor_of(path)]]


def check_purity(table):
    """A pure object may call PURE_SYMBOLS, its like, and those files of base that are pure all the way down."""
    given = set().union(*(gives for path, (_, gives) in table.items() if PURE.match(path)))
    base = {path: symbols for path, symbols in table.items() if path.startswith("base/")}
    home = {symbol: path for path, (_, gives) in base.items() for symbol in gives}
    impure = {}
    changed = True
    while changed:
        changed = False
        for path, (needs, _) in base.items():
            if path in impure:
                continue
            for symbol in sorted(needs):
                if home.get(symbol) in impure:
                    impure[path] = f"{symbol}, which calls {impure[home[symbol]]}"
                elif (symbol not in home and symbol not in PURE_BASE_SYMBOLS
                      and symbol not in PURE_EXCEPTIONS.get(path, ()) and not PURE_BASE_PATTERN.match(symbol)
                      and not COMPILER_PATTERN.match(symbol)):
                    impure[path] = symbol
                if path in impure:
                    changed = True
                    break
    breaches = []
    for path, (needs, _) in table.items():
        if not PURE.match(path):
            continue
        told = set()
        for symbol in sorted(needs - given - PURE_SYMBOLS):
            if COMPILER_PATTERN.match(symbol):
                continue
            if symbol not in home:
                breaches.append(f"{path}: calls {symbol}; what decides does not reach out")
            elif home[symbol] in impure and home[symbol] not in told:
                told.add(home[symbol])
                breaches.append(f"{path}: calls {symbol} of {home[symbol]}, which calls {impure[home[symbol]]}")
    return breaches


def check_state(build, pure):
    """Variables that can be written: tables that only need relocation (.data.rel.ro) are constants."""
    if not pure:
        return []
    done = subprocess.run(["objdump", "-t", *pure], stdout=subprocess.PIPE, check=True, text=True)
    breaches = []
    path = ""
    for line in done.stdout.splitlines():
        header = re.match(r"(\S+):\s+file format", line)
        if header:
            path = os.path.relpath(header.group(1), build)
            continue
        symbol = re.match(r"[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+\s+(?:\.hidden )?(\S+)", line)
        if not symbol or symbol.group(1)[5] in "df":
            continue
        section, name = symbol.group(2), symbol.group(3)
        if re.match(r"(\.data|\.bss|\.tdata|\.tbss|\*COM\*)", section) and not section.startswith(".data.rel.ro"):
            breaches.append(f"{path}: {name} can be written; what decides keeps no state")
    return breaches


def check_text(root):
    own = os.path.abspath(root)
    parent = os.path.dirname(own)
    # The folder of this very checkout, and the one it lies in, unless they are common ones that texts may well name.
    machine = []
    if not own.startswith(INSTALLED) and parent != "/":
        machine.append(own)
    if not own.startswith(INSTALLED) and parent not in PLAIN_PARENTS:
        machine.append(parent + "/")
    machine.append("/Use" "rs/")
    breaches = []
    for path in files_of(root):
        raw = read(root, path)
        if b"\0" in raw or NOT_OURS.match(path):
            continue
        lines = raw.decode("utf-8", "replace").split("\n")
        for number, line in enumerate(lines, 1):
            if LEFTOVERS.search(line):
                breaches.append(f"{path}:{number}: a leftover: {LEFTOVERS.search(line).group()}")
            if path != "LICENSE" and any(m in line for m in machine):
                breaches.append(f"{path}:{number}: a path of one machine")
            if OWN_TEXT.search(path) and line != line.rstrip():
                breaches.append(f"{path}:{number}: blanks at the end of the line")
        if raw and not raw.endswith(b"\n") and OWN_TEXT.search(path):
            breaches.append(f"{path}: no newline at the end")
        script = raw and (raw.startswith(b"#!") or path.endswith((".c", ".h", ".py", ".mk")))
        if script and not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            breaches.append(f"{path}: no SPDX line at the top")
    return breaches


def main():
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description="check the house rules")
    parser.add_argument("--root", default=here)
    parser.add_argument("--build", default="build/release", help="the release build, from the root")
    parser.add_argument("checks", nargs="*", metavar="includes|objects|text")
    args = parser.parse_args()
    checks = {
        "includes": lambda: check_includes(args.root),
        "objects": lambda: check_objects(args.root, os.path.join(args.root, args.build)),
        "text": lambda: check_text(args.root),
    }
    breaches = [b for name in (args.checks or checks) for b in checks[name]()]
    print("\n".join(breaches) if breaches else "floors: kept")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
